//! Functions of times.

use super::{Function, Param, text, time};
use crate::engine::template::execution::Execution;
use crate::engine::template::time::{Time, Zone, parse};
use crate::engine::template::value::{Text, Value};
use logsvc_proto::go::quote::quoted_bytes;

/// The work of looking up a zone and of reading a time, in bytes.
const READ_WORK_BYTES: usize = 2048;

/// Bytes of a message that shows a value, in lengths of the value.
const MESSAGE_FACTOR: usize = 10;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("__timestamp__", &[], |run, _| {
        Ok(Value::Time(Time::from_unix_ns(run.input.timestamp_ns)))
    }),
    Function::new("now", &[], |run, _| Ok(Value::Time(Time::from_unix_ns(run.input.now_ns)))),
    Function::new("date", &[Param::Text, Param::Any], |run, args| {
        let layout = text(args, 0)?;
        let time = match &args[1] {
            Value::Time(time) => time.in_zone(Zone::Utc),
            Value::Int(seconds) | Value::Int64(seconds) => Time::from_unix(*seconds),
            _ => Time::from_unix_ns(run.input.now_ns),
        };
        format(run, &time, layout.bytes())
    }),
    Function::new("toDate", &[Param::Text, Param::Text], |run, args| {
        let (layout, value) = (text(args, 0)?, text(args, 1)?);
        run.work(READ_WORK_BYTES)?;
        Ok(read(layout.bytes(), value.bytes(), Zone::Utc))
    }),
    Function::new("toDateInZone", &[Param::Text, Param::Text, Param::Text], |run, args| {
        let (layout, zone, value) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
        run.work(READ_WORK_BYTES)?;
        let zone = Zone::load(zone.bytes()).unwrap_or(Zone::Utc);
        Ok(read(layout.bytes(), value.bytes(), zone))
    }),
    Function::new("unixEpoch", &[Param::Time], |_, args| unix(args, 1)),
    Function::new("unixEpochMillis", &[Param::Time], |_, args| unix(args, 1_000)),
    Function::new("unixEpochNanos", &[Param::Time], |_, args| unix(args, 1_000_000_000)),
    Function::new("unixToTime", &[Param::Text], |run, args| {
        let value = text(args, 0)?;
        // A message shows it twice, in lists that double.
        let _message = run.hold(value.bytes().len().saturating_mul(MESSAGE_FACTOR))?;
        unix_to_time(&value)
    }),
];

/// Formats within the limits of a run.
pub(super) fn format<'v>(
    run: &Execution<'v>,
    time: &Time,
    layout: &[u8],
) -> Result<Value<'v>, String> {
    run.build(|out| time.write_format(layout, out)).map(Value::text)
}

/// A text that is no date gives Go's zero time.
fn read<'v>(layout: &[u8], text: &[u8], zone: Zone) -> Value<'v> {
    Value::Time(parse(layout, text, zone).unwrap_or_else(Time::zero))
}

fn unix<'v>(args: &mut [Value<'v>], units_per_second: i64) -> Result<Value<'v>, String> {
    Ok(Value::text(time(args, 0)?.unix_in(units_per_second).to_string()))
}

/// Reads a count of days, seconds or smaller units, told apart by its length.
fn unix_to_time<'v>(value: &Text<'v>) -> Result<Value<'v>, String> {
    let text = String::from_utf8_lossy(value.bytes());
    let unreadable = |why: &str| Err(format!("unable to parse time '{text}': {why}"));
    let count = match parse_decimal(&text) {
        Ok(count) => count,
        Err(what) => {
            let shown = quoted_bytes(value.bytes());
            return unreadable(&format!("strconv.ParseInt: parsing {shown}: {what}"));
        }
    };
    Ok(Value::Time(match value.bytes().len() {
        5 => Time::from_unix(count * 86_400),
        10 => Time::from_unix(count),
        13 => Time::from_unix_parts(count, 1_000),
        16 => Time::from_unix_parts(count, 1_000_000),
        19 => Time::from_unix_ns(count),
        // Loki formats an error that is not there.
        _ => return unreadable("%!w(<nil>)"),
    }))
}

/// Go's `strconv.ParseInt(text, 10, 64)`.
fn parse_decimal(text: &str) -> Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}
