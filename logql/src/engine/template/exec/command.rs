//! Commands, operands and fields.

use super::Exec;
use crate::engine::template::ast::{Arg, ArgKind, Command, ErrorNode, Ident, Number};
use crate::engine::template::functions::{Param, find_method};
use crate::engine::template::json::Json;
use crate::engine::template::value::{Text, Value};

impl<'v> Exec<'v, '_> {
    /// The value of a command; `last` is the value of the command before it.
    pub(super) fn command(
        &mut self,
        dot: &Value<'v>,
        command: &'v Command,
        last: Option<Value<'v>>,
    ) -> Result<Value<'v>, String> {
        let first = &command.args[0];
        let args = &command.args[1..];
        match &first.kind {
            ArgKind::Field(fields) => {
                self.place = Some(ErrorNode::Arg(first));
                return self.fields(dot, dot.clone(), first, fields, args, last);
            }
            ArgKind::Chain { base, fields } => {
                return self.chain(dot, first, base, fields, args, last);
            }
            ArgKind::Function(function) => {
                self.place = Some(ErrorNode::Arg(first));
                return self.call_function(dot, function, ErrorNode::Command(command), args, last);
            }
            ArgKind::Pipe(pipe) => {
                self.not_a_function(first, args, last.as_ref())?;
                return self.pipe(dot, pipe);
            }
            ArgKind::Variable { name, fields } => {
                self.place = Some(ErrorNode::Arg(first));
                return self.variable_fields(dot, first, name, fields, args, last);
            }
            _ => {}
        }
        self.place = Some(ErrorNode::Arg(first));
        self.not_a_function(first, args, last.as_ref())?;
        match &first.kind {
            ArgKind::Bool(value) => Ok(Value::Bool(*value)),
            ArgKind::Dot => Ok(dot.clone()),
            ArgKind::Number(number) => self.constant(number),
            ArgKind::Text { value, .. } => Ok(Value::text(&**value)),
            _ => self.fail("nil is not a command"),
        }
    }

    fn not_a_function(
        &self,
        first: &Arg,
        args: &[Arg],
        last: Option<&Value<'v>>,
    ) -> Result<(), String> {
        if args.is_empty() && last.is_none() {
            return Ok(());
        }
        self.fail(format!("can't give argument to non-function {first}"))
    }

    fn constant(&self, number: &Number) -> Result<Value<'v>, String> {
        if let Some((real, imaginary)) = number.complex {
            return Ok(Value::Complex(real, imaginary));
        }
        match (number.is_float, number.float, number.int) {
            (true, Some(value), _) => Ok(Value::Float(value)),
            (_, _, Some(value)) => Ok(Value::Int(value)),
            _ => self.fail(format!("{} overflows int", number.text)),
        }
    }

    fn chain(
        &mut self,
        dot: &Value<'v>,
        node: &'v Arg,
        base: &'v Arg,
        fields: &'v [Ident],
        args: &'v [Arg],
        last: Option<Value<'v>>,
    ) -> Result<Value<'v>, String> {
        self.place = Some(ErrorNode::Arg(node));
        let receiver = self.deeper(|exec| exec.untyped(dot, base))?;
        self.fields(dot, receiver, node, fields, args, last)
    }

    fn variable_fields(
        &mut self,
        dot: &Value<'v>,
        node: &'v Arg,
        name: &str,
        fields: &'v [Ident],
        args: &'v [Arg],
        last: Option<Value<'v>>,
    ) -> Result<Value<'v>, String> {
        let value = self.variable(name)?;
        if fields.is_empty() {
            self.not_a_function(node, args, last.as_ref())?;
            return Ok(value);
        }
        self.fields(dot, value, node, fields, args, last)
    }

    /// A chain of fields; the last one may be a method with arguments.
    fn fields(
        &mut self,
        dot: &Value<'v>,
        mut receiver: Value<'v>,
        node: &'v Arg,
        fields: &'v [Ident],
        args: &'v [Arg],
        last: Option<Value<'v>>,
    ) -> Result<Value<'v>, String> {
        let Some((final_field, fields)) = fields.split_last() else { return Ok(receiver) };
        for field in fields {
            receiver = self.field(dot, receiver, node, field, &[], None)?;
        }
        self.field(dot, receiver, node, final_field, args, last)
    }

    fn field(
        &mut self,
        dot: &Value<'v>,
        receiver: Value<'v>,
        node: &'v Arg,
        field: &'v Ident,
        args: &'v [Arg],
        last: Option<Value<'v>>,
    ) -> Result<Value<'v>, String> {
        let type_name = receiver.type_name();
        let receiver = match receiver {
            Value::Nothing => return Ok(Value::Nothing),
            Value::Element(Json::Null) => {
                return self.fail(format!("nil pointer evaluating {type_name}.{}", field.text));
            }
            receiver => receiver.unwrapped(),
        };
        if let Some(method) = find_method(&receiver, &field.text) {
            return self.call_method(dot, method, receiver, ErrorNode::Arg(node), args, last);
        }
        let has_args = !args.is_empty() || last.is_some();
        if has_args && receiver.has_fields() {
            return self.fail(format!("{} is not a method but has arguments", field.text));
        }
        match receiver {
            Value::Labels(labels) => Ok(Value::text(labels.get(field.name))),
            Value::Object(fields) => {
                let found = Json::find(&fields, field.text.as_bytes());
                Ok(Value::Element(found.cloned().unwrap_or(Json::Null)))
            }
            Value::Map(labels) => Ok(Value::label(labels, &field.text)),
            Value::Arguments(args) => Ok(Value::argument(&args, &field.text)),
            Value::Alert(data) if let Some(value) = data.field(&field.text) => Ok(value),
            Value::Sample((labels, _)) if &*field.text == "Labels" => Ok(Value::Map(labels)),
            Value::Sample((_, value)) if &*field.text == "Value" => Ok(Value::Float(*value)),
            _ => self.fail(format!("can't evaluate field {} in type {type_name}", field.text)),
        }
    }

    /// The value of an operand that is not a literal, without regard to its type.
    /// `None` for literals.
    fn reference(&mut self, dot: &Value<'v>, arg: &'v Arg) -> Result<Option<Value<'v>>, String> {
        self.place = Some(ErrorNode::Arg(arg));
        Ok(Some(match &arg.kind {
            ArgKind::Dot => dot.clone(),
            ArgKind::Field(fields) => self.fields(dot, dot.clone(), arg, fields, &[], None)?,
            ArgKind::Variable { name, fields } => {
                self.variable_fields(dot, arg, name, fields, &[], None)?
            }
            ArgKind::Pipe(pipe) => self.deeper(|exec| exec.pipe(dot, pipe))?,
            ArgKind::Function(function) => {
                self.call_function(dot, function, ErrorNode::Arg(arg), &[], None)?
            }
            ArgKind::Chain { base, fields } => self.chain(dot, arg, base, fields, &[], None)?,
            ArgKind::Bool(_) | ArgKind::Nil | ArgKind::Number(_) | ArgKind::Text { .. } => {
                return Ok(None);
            }
        }))
    }

    /// The expression in front of the fields of a chain.
    fn untyped(&mut self, dot: &Value<'v>, arg: &'v Arg) -> Result<Value<'v>, String> {
        match self.reference(dot, arg)? {
            Some(value) => Ok(value),
            None => self.fail(format!("can't handle {arg} for arg of type <nil>")),
        }
    }

    /// The value of an argument for a parameter.
    pub(super) fn argument(
        &mut self,
        dot: &Value<'v>,
        param: Param,
        arg: &'v Arg,
    ) -> Result<Value<'v>, String> {
        if let Some(value) = self.reference(dot, arg)? {
            return self.checked(value, param);
        }
        let takes_anything = matches!(param, Param::Any | Param::Reflect);
        match (&arg.kind, param) {
            (ArgKind::Nil, _) if takes_anything => Ok(Value::Nothing),
            (ArgKind::Nil, _) => self.fail(format!("cannot assign nil to {}", param.type_name())),
            (ArgKind::Bool(value), _) if takes_anything => Ok(Value::Bool(*value)),
            (ArgKind::Number(number), _) if takes_anything => self.constant(number),
            (ArgKind::Text { value, .. }, Param::Text) => Ok(Value::text(&**value)),
            (ArgKind::Text { value, .. }, _) if takes_anything => Ok(Value::text(&**value)),
            (_, Param::Text) => self.fail(format!("expected string; found {arg}")),
            (ArgKind::Number(Number { int: Some(value), .. }), Param::Int) => {
                Ok(Value::Int(*value))
            }
            (ArgKind::Number(Number { int: Some(value), .. }), Param::Duration) => {
                Ok(Value::Duration(*value))
            }
            (_, Param::Int | Param::Duration) => {
                self.fail(format!("expected integer; found {arg}"))
            }
            (ArgKind::Number(Number { float: Some(value), .. }), Param::Float) => {
                Ok(Value::Float(*value))
            }
            (_, Param::Float) => self.fail(format!("expected float; found {arg}")),
            _ => {
                let wanted = param.type_name();
                self.fail(format!("can't handle {arg} for arg of type {wanted}"))
            }
        }
    }

    /// A value as an argument for a parameter.
    pub(super) fn checked(&self, value: Value<'v>, param: Param) -> Result<Value<'v>, String> {
        let is_null = matches!(value, Value::Element(Json::Null));
        let value = value.unwrapped();
        let fits = match param {
            Param::Any | Param::Reflect => true,
            Param::Text => matches!(value, Value::Text(_)),
            Param::Int => matches!(value, Value::Int(_)),
            Param::Float => matches!(value, Value::Float(_)),
            Param::Time => matches!(value, Value::Time(_)),
            Param::Duration => matches!(value, Value::Duration(_)),
            Param::Sample => matches!(value, Value::Sample(_)),
            Param::Samples => matches!(value, Value::Samples(_)),
        };
        if fits {
            return Ok(value);
        }
        let wanted = param.type_name();
        match value {
            Value::Nothing if !is_null => self.fail(format!("invalid value; expected {wanted}")),
            value => {
                let got = if is_null { "interface {}" } else { value.type_name() };
                self.fail(format!("wrong type for value; expected {wanted}; got {got}"))
            }
        }
    }

    /// The text of a value, for names.
    pub(super) fn text_of(value: &Value<'v>) -> String {
        match value {
            Value::Text(Text::Borrowed(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Text(text) => String::from_utf8_lossy(text.bytes()).into_owned(),
            other => format!("<{} Value>", other.type_name()),
        }
    }
}
