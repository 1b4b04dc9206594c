//! Methods of Go's time types.

use super::{Param, dates, int, text, time};
use crate::engine::template::execution::Execution;
use crate::engine::template::time::{Time, Zone};
use crate::engine::template::value::Value;

/// A method. Its run gets the receiver as argument 0.
pub(in super::super) struct Method {
    pub(in super::super) name: &'static str,
    pub(in super::super) params: &'static [Param],
    pub(in super::super) run: super::Run1,
}

/// The method of a value.
pub(in super::super) fn find(receiver: &Value<'_>, name: &str) -> Option<&'static Method> {
    let methods: &'static [Method] = match receiver {
        Value::Time(_) => TIME,
        Value::Duration(_) => DURATION,
        Value::Month(_) | Value::Weekday(_) => NAMED,
        _ => return None,
    };
    methods.iter().find(|method| method.name == name)
}

const fn method(name: &'static str, params: &'static [Param], run: super::Run1) -> Method {
    Method { name, params, run }
}

const TIME: &[Method] = &[
    method("Format", &[Param::Text], |run, args| {
        let (time, layout) = (time(args, 0)?, text(args, 1)?);
        dates::format(run, &time, layout.bytes())
    }),
    method("String", &[], |run, args| {
        let time = time(args, 0)?;
        run.build(|out| time.write_string(out)).map(Value::text)
    }),
    method("Year", &[], |_, args| Ok(Value::Int(time(args, 0)?.year()))),
    method("Month", &[], |_, args| Ok(Value::Month(time(args, 0)?.month()))),
    method("Day", &[], |_, args| Ok(Value::Int(i64::from(time(args, 0)?.day())))),
    method("Hour", &[], |_, args| of_day(args, |second| second / 3600)),
    method("Minute", &[], |_, args| of_day(args, |second| second / 60 % 60)),
    method("Second", &[], |_, args| of_day(args, |second| second % 60)),
    method("Nanosecond", &[], |_, args| Ok(Value::Int(i64::from(time(args, 0)?.nanos())))),
    method("Weekday", &[], |_, args| Ok(Value::Weekday(time(args, 0)?.weekday()))),
    method("YearDay", &[], |_, args| Ok(Value::Int(i64::from(time(args, 0)?.day_of_year())))),
    method("Unix", &[], |_, args| Ok(Value::Int64(time(args, 0)?.unix()))),
    method("UnixMilli", &[], |_, args| Ok(Value::Int64(time(args, 0)?.unix_in(1_000)))),
    method("UnixMicro", &[], |_, args| Ok(Value::Int64(time(args, 0)?.unix_in(1_000_000)))),
    method("UnixNano", &[], |_, args| Ok(Value::Int64(time(args, 0)?.unix_in(1_000_000_000)))),
    method("UTC", &[], |_, args| Ok(Value::Time(time(args, 0)?.in_zone(Zone::Utc)))),
    method("Local", &[], |_, args| Ok(Value::Time(time(args, 0)?.in_zone(Zone::Utc)))),
    method("IsZero", &[], |_, args| Ok(Value::Bool(time(args, 0)?.is_zero()))),
    method("Add", &[Param::Duration], |_, args| {
        let duration_ns = int(args, 1)?;
        Ok(Value::Time(time(args, 0)?.plus(duration_ns)))
    }),
    method("AddDate", &[Param::Int, Param::Int, Param::Int], |_, args| {
        let (years, months, days) = (int(args, 1)?, int(args, 2)?, int(args, 3)?);
        Ok(Value::Time(time(args, 0)?.plus_date(years, months, days)))
    }),
    method("Sub", &[Param::Time], |_, args| {
        let (own, other) = (time(args, 0)?, time(args, 1)?);
        Ok(Value::Duration(own.since(&other)))
    }),
    method("Before", &[Param::Time], |_, args| compare(args, std::cmp::Ordering::is_lt)),
    method("After", &[Param::Time], |_, args| compare(args, std::cmp::Ordering::is_gt)),
    method("Equal", &[Param::Time], |_, args| compare(args, std::cmp::Ordering::is_eq)),
];

const DURATION: &[Method] = &[
    method("String", &[], |run, args| printed(run, args)),
    method("Seconds", &[], |_, args| Ok(Value::Float(int(args, 0)? as f64 / 1e9))),
    method("Minutes", &[], |_, args| Ok(Value::Float(int(args, 0)? as f64 / 60e9))),
    method("Hours", &[], |_, args| Ok(Value::Float(int(args, 0)? as f64 / 3600e9))),
    method("Milliseconds", &[], |_, args| Ok(Value::Int64(int(args, 0)? / 1_000_000))),
    method("Microseconds", &[], |_, args| Ok(Value::Int64(int(args, 0)? / 1_000))),
    method("Nanoseconds", &[], |_, args| Ok(Value::Int64(int(args, 0)?))),
];

const NAMED: &[Method] = &[method("String", &[], |run, args| printed(run, args))];

fn printed<'v>(run: &Execution<'v>, args: &[Value<'v>]) -> Result<Value<'v>, String> {
    run.build(|out| crate::engine::template::print::print(out, &args[0])).map(Value::text)
}

fn of_day<'v>(args: &mut [Value<'v>], part: fn(u32) -> u32) -> Result<Value<'v>, String> {
    Ok(Value::Int(i64::from(part(time(args, 0)?.second_of_day()))))
}

fn compare<'v>(
    args: &mut [Value<'v>],
    holds: fn(std::cmp::Ordering) -> bool,
) -> Result<Value<'v>, String> {
    let (own, other): (Time, Time) = (time(args, 0)?, time(args, 1)?);
    Ok(Value::Bool(holds(own.cmp_instant(&other))))
}
