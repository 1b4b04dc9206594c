//! Queries and their samples, and lists of arguments.

use std::rc::Rc;

use super::super::{Function, MISMATCH, Param, int, text};
use super::{alert, lines};
use crate::engine::template::alert::{AlertNeed, MAX_QUERIES};
use crate::engine::template::execution::Execution;
use crate::engine::template::value::{Arguments, Value};
use logsvc_proto::Labels;

/// How deep lists of `args` may hold one another.
const MAX_ARGUMENTS_DEPTH: usize = 20;

pub(in super::super) const FUNCTIONS: &[Function] = &[
    Function::new("query", &[Param::Text], query),
    Function::new("first", &[Param::Samples], |_, args| match &args[0] {
        Value::Samples(samples) => match samples.first() {
            Some(first) => Ok(Value::Sample(first)),
            None => Err("first() called on vector with no elements".to_owned()),
        },
        _ => Err(MISMATCH.to_owned()),
    }),
    Function::new("label", &[Param::Text, Param::Sample], |_, args| {
        let (name, (labels, _)) = (text(args, 0)?, sample(args, 1)?);
        Ok(Value::label(labels, &String::from_utf8_lossy(name.bytes())))
    }),
    Function::new("value", &[Param::Sample], |_, args| Ok(Value::Float(sample(args, 0)?.1))),
    Function::new("strvalue", &[Param::Sample], |_, args| {
        Ok(Value::label(&sample(args, 0)?.0, "__value__"))
    }),
    Function::new("sortByLabel", &[Param::Text, Param::Samples], |run, args| {
        let name = text(args, 0)?;
        let Some(Value::Samples(samples)) = args.get(1) else { return Err(MISMATCH.to_owned()) };
        run.work(samples.len() * SORT_WORK)?;
        run.keep_array(samples.len())?;
        let name = String::from_utf8_lossy(name.bytes());
        let mut sorted = samples.to_vec();
        sorted.sort_by_cached_key(|(labels, _)| labels.get(&name).unwrap_or(""));
        Ok(Value::Samples(sorted.into()))
    }),
    Function::variadic("args", &[], Param::Any, arguments),
    Function::new("logLines", &[Param::Int], |run, args| lines::log_lines(run, int(args, 0)?)),
];

/// The work of sorting a sample, see [`crate::engine::meter`].
const SORT_WORK: usize = 256;

fn sample<'v>(args: &[Value<'v>], index: usize) -> Result<&'v (Labels, f64), String> {
    match args.get(index) {
        Some(Value::Sample(sample)) => Ok(sample),
        _ => Err(MISMATCH.to_owned()),
    }
}

fn query<'v>(run: &Execution<'v>, args: &mut [Value<'v>]) -> Result<Value<'v>, String> {
    let alert = alert(run)?;
    let query = text(args, 0)?;
    let query = String::from_utf8_lossy(query.bytes());
    match alert.data.queries.get(&*query) {
        Some(Ok(samples)) => {
            run.work(size_of_val(samples.as_slice()))?;
            run.keep_array(samples.len())?;
            Ok(Value::Samples(samples.iter().collect()))
        }
        Some(Err(error)) => Err(error.clone()),
        None if alert.data.queries.len() >= MAX_QUERIES => {
            Err(format!("more than {MAX_QUERIES} queries"))
        }
        None => Err(alert.need(AlertNeed::Query(query.into_owned()))),
    }
}

fn arguments<'v>(run: &Execution<'v>, args: &mut [Value<'v>]) -> Result<Value<'v>, String> {
    let depth = 1 + args.iter().map(depth).max().unwrap_or(0);
    if depth > MAX_ARGUMENTS_DEPTH {
        return Err(format!("arguments are nested deeper than {MAX_ARGUMENTS_DEPTH}"));
    }
    run.work(size_of_val(args))?;
    let values = args.iter_mut().map(std::mem::take).collect();
    Ok(Value::Arguments(Rc::new(Arguments { values, depth })))
}

fn depth(value: &Value<'_>) -> usize {
    match value {
        Value::Arguments(args) => args.depth,
        _ => 0,
    }
}
