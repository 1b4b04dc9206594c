//! Calls of functions and methods.

use super::Exec;
use crate::engine::meter::Reservation;
use crate::engine::template::ast::{Arg, ErrorNode};
use crate::engine::template::functions::{Body, Function, Method, Param, call_error};
use crate::engine::template::out::ENDED;
use crate::engine::template::value::Value;

/// Arguments of so many bytes are worth counting in messages, which are cut there.
const LONG_BYTES: usize = 4 << 10;

impl<'v> Exec<'v, '_> {
    pub(super) fn call_function(
        &mut self,
        dot: &Value<'v>,
        function: &'static Function,
        place: ErrorNode<'v>,
        args: &'v [Arg],
        last: Option<Value<'v>>,
    ) -> Result<Value<'v>, String> {
        self.step()?;
        self.check_count(
            function.name,
            function.params.len(),
            function.variadic.is_some(),
            args,
            last.as_ref(),
        )?;
        let run = match function.body {
            Body::And => return self.deciding(dot, args, last, false),
            Body::Or => return self.deciding(dot, args, last, true),
            Body::Call => None,
            Body::Plain(run) => Some(run),
        };
        let start = self.args.len();
        self.push_arguments(dot, function.params, function.variadic, args, last)?;
        let result = match run {
            Some(run) => {
                let beside = self.charged(start);
                beside.and_then(|_beside| run(self.run, &mut self.args[start..]))
            }
            None => {
                let callee = &self.args[start];
                let name = args.first().map_or_else(|| Self::text_of(callee), Arg::to_string);
                Err(call_error(&name, callee))
            }
        };
        self.args.truncate(start);
        self.finish(function.name, place, result)
    }

    pub(super) fn call_method(
        &mut self,
        dot: &Value<'v>,
        method: &'static Method,
        receiver: Value<'v>,
        place: ErrorNode<'v>,
        args: &'v [Arg],
        last: Option<Value<'v>>,
    ) -> Result<Value<'v>, String> {
        self.step()?;
        self.check_count(method.name, method.params.len(), false, args, last.as_ref())?;
        let start = self.args.len();
        self.push_argument(receiver)?;
        self.push_arguments(dot, method.params, None, args, last)?;
        let beside = self.charged(start);
        let result = beside.and_then(|_beside| (method.run)(self.run, &mut self.args[start..]));
        self.args.truncate(start);
        self.finish(method.name, place, result)
    }

    fn finish(
        &mut self,
        name: &str,
        place: ErrorNode<'v>,
        result: Result<Value<'v>, String>,
    ) -> Result<Value<'v>, String> {
        result.or_else(|mut message| {
            if message.len() > LONG_BYTES {
                message.truncate(message.floor_char_boundary(LONG_BYTES));
                message.push_str("...");
                message.shrink_to_fit();
            }
            self.place = Some(place);
            self.fail(format!("error calling {name}: {message}"))
        })
    }

    /// Counts the bytes that a call may read. Where they are many, it reserves the memory that an
    /// error message of the call may need, since the message shows these bytes.
    fn charged(&self, start: usize) -> Result<Option<Reservation<'v>>, String> {
        let bytes: usize = self.args[start..].iter().map(Value::len_bytes).sum();
        self.run.work(bytes)?;
        if bytes < LONG_BYTES { Ok(None) } else { self.run.hold(2 * bytes).map(Some) }
    }

    fn push_argument(&mut self, value: Value<'v>) -> Result<(), String> {
        let has_room = self.run.meter().push(&mut self.args, value);
        if has_room { Ok(()) } else { Err(ENDED.to_owned()) }
    }

    fn check_count(
        &self,
        name: &str,
        params: usize,
        is_variadic: bool,
        args: &[Arg],
        last: Option<&Value<'v>>,
    ) -> Result<(), String> {
        let count = args.len() + usize::from(last.is_some());
        if is_variadic && count < params {
            let got = args.len();
            return self.fail(format!(
                "wrong number of args for {name}: want at least {params} got {got}"
            ));
        }
        if !is_variadic && count != params {
            return self
                .fail(format!("wrong number of args for {name}: want {params} got {count}"));
        }
        Ok(())
    }

    /// Puts the arguments on the stack.
    fn push_arguments(
        &mut self,
        dot: &Value<'v>,
        params: &[Param],
        variadic: Option<Param>,
        args: &'v [Arg],
        last: Option<Value<'v>>,
    ) -> Result<(), String> {
        let param_at =
            |index: usize| params.get(index).copied().or(variadic).expect("the count was checked");
        for (i, arg) in args.iter().enumerate() {
            let value = self.argument(dot, param_at(i), arg)?;
            self.push_argument(value)?;
        }
        if let Some(last) = last {
            let value = self.checked(last, param_at(args.len()))?;
            self.push_argument(value)?;
        }
        Ok(())
    }

    /// `and` and `or`: the first argument whose truth is `wanted`, or the last one.
    fn deciding(
        &mut self,
        dot: &Value<'v>,
        args: &'v [Arg],
        last: Option<Value<'v>>,
        wanted: bool,
    ) -> Result<Value<'v>, String> {
        let mut value = Value::Nothing;
        for arg in args {
            value = self.argument(dot, Param::Reflect, arg)?;
            if value.is_true() == wanted {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }
}
