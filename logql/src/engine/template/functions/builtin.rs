//! The functions of Go's template engine that look into values and print them.

use super::{Body, Function, Param, part, text};
use crate::engine::template::execution::Execution;
use crate::engine::template::json::Json;
use crate::engine::template::print;
use crate::engine::template::value::{Text, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "and",
        params: &[Param::Reflect],
        variadic: Some(Param::Reflect),
        body: Body::And,
    },
    Function {
        name: "or",
        params: &[Param::Reflect],
        variadic: Some(Param::Reflect),
        body: Body::Or,
    },
    Function {
        name: "call",
        params: &[Param::Reflect],
        variadic: Some(Param::Reflect),
        body: Body::Call,
    },
    Function::new("not", &[Param::Reflect], |_, args| Ok(Value::Bool(!args[0].is_true()))),
    Function::new("len", &[Param::Reflect], |_, args| len(&args[0])),
    Function::variadic("index", &[Param::Reflect], Param::Reflect, index),
    Function::variadic("slice", &[Param::Reflect], Param::Reflect, slice),
    Function::variadic("print", &[], Param::Any, |run, args| {
        run.build(|out| print::sprint(out, args)).map(Value::text)
    }),
    Function::variadic("println", &[], Param::Any, |run, args| {
        run.build(|out| print::sprintln(out, args)).map(Value::text)
    }),
    Function::variadic("printf", &[Param::Text], Param::Any, |run, args| {
        let format = text(args, 0)?;
        run.build(|out| print::sprintf(out, format.bytes(), &args[1..])).map(Value::text)
    }),
];

/// A number of elements or bytes as Go's int.
fn int_of(len: usize) -> i64 {
    i64::try_from(len).expect("no collection is that long")
}

fn len<'v>(value: &Value<'v>) -> Result<Value<'v>, String> {
    let len = match value {
        Value::Text(text) => text.bytes().len(),
        Value::Labels(labels) => labels.len(),
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::Map(labels) => labels.len(),
        Value::Arguments(args) => args.values.len(),
        Value::Samples(samples) => samples.len(),
        Value::Nothing => {
            return Err("reflect: call of reflect.Value.Type on zero Value".to_owned());
        }
        other => return Err(format!("len of type {}", other.type_name())),
    };
    Ok(Value::Int(int_of(len)))
}

/// An index into something of `len` elements, at most `len`.
fn index_in(value: &Value<'_>, len: usize) -> Result<usize, String> {
    match value.as_int() {
        Some(index) => usize::try_from(index)
            .ok()
            .filter(|index| *index <= len)
            .ok_or_else(|| format!("index out of range: {index}")),
        None if matches!(value, Value::Nothing) => {
            Err("cannot index slice/array with nil".to_owned())
        }
        None => Err(format!("cannot index slice/array with type {}", value.type_name())),
    }
}

/// A key of a map, all of which have strings for keys.
fn key<'a>(value: &'a Value<'_>) -> Result<&'a [u8], String> {
    match value {
        Value::Text(text) => Ok(text.bytes()),
        Value::Nothing => Err("value is nil; should be of type string".to_owned()),
        other => Err(format!("value has type {}; should be string", other.type_name())),
    }
}

fn index<'v>(_: &Execution<'v>, args: &mut [Value<'v>]) -> Result<Value<'v>, String> {
    let mut item = std::mem::take(&mut args[0]).unwrapped();
    if matches!(item, Value::Nothing) {
        return Err("index of untyped nil".to_owned());
    }
    for by in &args[1..] {
        item = match item.unwrapped() {
            Value::Nothing => return Err("index of nil pointer".to_owned()),
            Value::Text(text) => {
                let index = index_in(by, text.bytes().len())?;
                let byte = text.bytes().get(index);
                Value::Byte(*byte.ok_or("reflect: string index out of range")?)
            }
            Value::Array(items) => {
                let index = index_in(by, items.len())?;
                let item = items.get(index).ok_or("reflect: slice index out of range")?;
                Value::Element(item.clone())
            }
            Value::Object(fields) => {
                Value::Element(Json::find(&fields, key(by)?).cloned().unwrap_or(Json::Null))
            }
            Value::Labels(labels) => Value::text(labels.find(key(by)?)),
            Value::Map(labels) => Value::label(labels, &String::from_utf8_lossy(key(by)?)),
            Value::Arguments(args) => Value::argument(&args, &String::from_utf8_lossy(key(by)?)),
            Value::Samples(samples) => {
                let index = index_in(by, samples.len())?;
                Value::Sample(samples.get(index).ok_or("reflect: slice index out of range")?)
            }
            other => return Err(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(item)
}

fn slice<'v>(run: &Execution<'v>, args: &mut [Value<'v>]) -> Result<Value<'v>, String> {
    let item = std::mem::take(&mut args[0]).unwrapped();
    let indexes = &args[1..];
    if matches!(item, Value::Nothing) {
        return Err("slice of untyped nil".to_owned());
    }
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let len = match &item {
        Value::Text(_) if indexes.len() == 3 => {
            return Err("cannot 3-index slice a string".to_owned());
        }
        Value::Text(text) => text.bytes().len(),
        Value::Array(items) => items.len(),
        Value::Samples(samples) => samples.len(),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, len, len];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = index_in(index, len)?;
    }
    let [start, end, capacity] = bounds;
    for (low, high) in [(start, end), (end, capacity)] {
        if low > high {
            return Err(format!("invalid slice index: {low} > {high}"));
        }
    }
    Ok(match item {
        Value::Text(text) => part(run, text, start..end)?,
        Value::Array(items) => {
            run.keep_array(end - start)?;
            Value::Array(items[start..end].into())
        }
        Value::Samples(samples) => {
            run.keep_array(end - start)?;
            Value::Samples(samples[start..end].into())
        }
        other => other,
    })
}

/// The error of `call`, since no value is a function.
pub(in super::super) fn call_error(name: &str, value: &Value<'_>) -> String {
    match value {
        Value::Nothing => "call of nil".to_owned(),
        other => format!("non-function {name} of type {}", other.type_name()),
    }
}

impl<'v> From<Text<'v>> for Value<'v> {
    fn from(text: Text<'v>) -> Self {
        Self::Text(text)
    }
}
