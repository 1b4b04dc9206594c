//! Executing a template over an entry, with the semantics and the messages of
//! Go's `text/template/exec.go`.
//!
//! Bounds: [`Execution`] counts steps and bytes; statements, pipelines and calls of
//! templates nest at most [`MAX_DEPTH`] deep together.

mod call;
mod command;

use logsvc_proto::go::quote::quoted_bytes;
use std::rc::Rc;

use super::ast::{Action, Branch, ErrorNode, List, Node, Pipe};
use super::execution::Execution;
use super::out::{ENDED, Out};
use super::parsed::Parsed;
use super::print;
use super::value::{Text, Value};

/// Deepest nesting.
const MAX_DEPTH: usize = 200;

/// The control flow behind a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// One execution of a template and of the templates that it calls.
struct Exec<'v, 'o> {
    run: &'o Execution<'v>,
    template: &'v Parsed,
    out: Out<'o>,
    /// Name of the template at hand.
    name: &'v [u8],
    /// The node that an error points at: the last visited one.
    place: Option<ErrorNode<'v>>,
    /// The variable `$`: the argument of the template at hand.
    root: Value<'v>,
    variables: Vec<(&'v str, Value<'v>)>,
    /// Arguments of the calls at hand.
    args: Vec<Value<'v>>,
    depth: usize,
}

/// Executes a template over a value.
///
/// # Errors
/// Go's message.
pub(super) fn execute<'v>(
    template: &'v Parsed,
    dot: Value<'v>,
    run: &Execution<'v>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let max_len_bytes = out.len().saturating_add(run.max_output_bytes());
    let (name, root) = &template.trees[0];
    let mut exec = Exec {
        run,
        template,
        out: Out::new(out, max_len_bytes, run.meter()),
        name,
        place: None,
        root: dot.clone(),
        variables: Vec::new(),
        args: Vec::new(),
        depth: 0,
    };
    let result = exec.list(&dot, root);
    let args_bytes = exec.args.capacity() * size_of::<Value<'_>>();
    run.meter().release(args_bytes + variables_bytes(&exec.variables));
    result.map(|_| ())
}

fn variables_bytes(variables: &Vec<(&str, Value<'_>)>) -> usize {
    variables.capacity() * size_of::<(&str, Value<'_>)>()
}

impl<'v> Exec<'v, '_> {
    /// An error at the node at hand.
    fn fail<T>(&self, message: impl AsRef<str>) -> Result<T, String> {
        let (message, parse_name) = (message.as_ref(), &self.template.name);
        let name = quoted_bytes(self.name);
        let Some(place) = &self.place else {
            return Err(format!("template: {}: {message}", String::from_utf8_lossy(self.name)));
        };
        let before = &self.template.text[..place.position()];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        Err(format!(
            "template: {parse_name}:{line}:{column}: executing {name} at <{place}>: {message}"
        ))
    }

    fn step(&self) -> Result<(), String> {
        self.run.step().or_else(|message| self.fail(message))
    }

    fn deeper<T>(
        &mut self,
        evaluate: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth >= MAX_DEPTH {
            return self.fail(format!("exceeded maximum template depth ({MAX_DEPTH})"));
        }
        self.depth += 1;
        let result = evaluate(self);
        self.depth -= 1;
        result
    }

    fn list(&mut self, dot: &Value<'v>, list: &'v List) -> Result<Flow, String> {
        for node in list {
            match self.node(dot, node)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, dot: &Value<'v>, node: &'v Node) -> Result<Flow, String> {
        self.step()?;
        match node {
            Node::Text(text) => self.write(text)?,
            Node::Field { name, action } => match dot {
                Value::Labels(labels) => self.write(labels.get(*name))?,
                _ => self.action(dot, action)?,
            },
            Node::Action(action) => self.action(dot, action)?,
            Node::If(branch) => return self.deeper(|exec| exec.if_or_with(dot, branch, false)),
            Node::With(branch) => return self.deeper(|exec| exec.if_or_with(dot, branch, true)),
            Node::Range(branch) => return self.deeper(|exec| exec.range(dot, branch)),
            Node::Template { name, pipe, .. } => {
                self.place = Some(ErrorNode::Template(node));
                self.deeper(|exec| exec.call_template(dot, name, pipe.as_ref()))?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.out.push(bytes).or_else(|message| self.fail(message))
    }

    fn action(&mut self, dot: &Value<'v>, action: &'v Action) -> Result<(), String> {
        self.place = Some(ErrorNode::Action(action));
        let value = self.pipe(dot, &action.pipe)?;
        if !action.pipe.variables.is_empty() {
            return Ok(());
        }
        self.place = Some(ErrorNode::Action(action));
        match &value {
            Value::Nothing => self.write(b"<no value>"),
            value => print::print(&mut self.out, value).or_else(|message| self.fail(message)),
        }
    }

    fn if_or_with(
        &mut self,
        dot: &Value<'v>,
        branch: &'v Branch,
        with: bool,
    ) -> Result<Flow, String> {
        let mark = self.variables.len();
        let value = self.pipe(dot, &branch.pipe)?;
        let flow = if value.is_true() {
            self.list(if with { &value } else { dot }, &branch.list)
        } else {
            branch.else_list.as_ref().map_or(Ok(Flow::Next), |list| self.list(dot, list))
        };
        self.variables.truncate(mark);
        flow
    }

    fn range(&mut self, dot: &Value<'v>, branch: &'v Branch) -> Result<Flow, String> {
        let mark = self.variables.len();
        let value = self.pipe(dot, &branch.pipe)?;
        let is_empty = match value.unwrapped() {
            Value::Nothing => true,
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    let index = i64::try_from(i).expect("no array is that long");
                    let item = Value::Element(item.clone());
                    if self.iteration(branch, Value::Int(index), item)? == Flow::Break {
                        break;
                    }
                }
                items.is_empty()
            }
            Value::Object(fields) => {
                for (key, field) in fields.iter() {
                    let key = Value::Text(Text::Shared(Rc::clone(key)));
                    let field = Value::Element(field.clone());
                    if self.iteration(branch, key, field)? == Flow::Break {
                        break;
                    }
                }
                fields.is_empty()
            }
            Value::Labels(labels) => {
                for (name, value) in labels.pairs() {
                    let (name, value) = (Value::text(name), Value::text(value));
                    if self.iteration(branch, name, value)? == Flow::Break {
                        break;
                    }
                }
                labels.len() == 0
            }
            Value::Map(labels) => {
                for (name, value) in labels.iter() {
                    let (name, value) =
                        (Value::text(name.as_bytes()), Value::text(value.as_bytes()));
                    if self.iteration(branch, name, value)? == Flow::Break {
                        break;
                    }
                }
                labels.is_empty()
            }
            Value::Arguments(args) => {
                for (name, value) in Value::sorted_arguments(&args) {
                    if self.iteration(branch, Value::text(name), value)? == Flow::Break {
                        break;
                    }
                }
                args.values.is_empty()
            }
            Value::Samples(samples) => {
                for (i, sample) in samples.iter().enumerate() {
                    let index = i64::try_from(i).expect("no array is that long");
                    let sample = Value::Sample(sample);
                    if self.iteration(branch, Value::Int(index), sample)? == Flow::Break {
                        break;
                    }
                }
                samples.is_empty()
            }
            value => match value.as_int() {
                Some(_) if branch.pipe.variables.len() > 1 => {
                    let shown = self.shown(&value)?;
                    return self
                        .fail(format!("can't use {shown} to iterate over more than one variable"));
                }
                Some(end) => {
                    for i in 0..end {
                        if self.iteration(branch, Value::Nothing, integer_like(&value, i))?
                            == Flow::Break
                        {
                            break;
                        }
                    }
                    end <= 0
                }
                None => {
                    let shown = self.shown(&value)?;
                    return self.fail(format!("range can't iterate over {shown}"));
                }
            },
        };
        let flow = match &branch.else_list {
            Some(list) if is_empty => self.list(dot, list),
            _ => Ok(Flow::Next),
        };
        self.variables.truncate(mark);
        flow
    }

    /// A value in an error message.
    fn shown(&self, value: &Value<'_>) -> Result<String, String> {
        let bytes =
            self.run.build(|out| print::print(out, value)).or_else(|message| self.fail(message))?;
        Ok(String::from_utf8_lossy(bytes.bytes()).into_owned())
    }

    fn iteration(
        &mut self,
        branch: &'v Branch,
        index: Value<'v>,
        element: Value<'v>,
    ) -> Result<Flow, String> {
        self.step()?;
        let mark = self.variables.len();
        // With two variables the index comes first.
        match &branch.pipe.variables[..] {
            [] => {}
            [only] => self.loop_variable(branch, only, 1, element.clone())?,
            [first, second, ..] => {
                self.loop_variable(branch, first, 2, index)?;
                self.loop_variable(branch, second, 1, element.clone())?;
            }
        }
        let flow = self.list(&element, &branch.list)?;
        self.variables.truncate(mark);
        Ok(flow)
    }

    fn loop_variable(
        &mut self,
        branch: &'v Branch,
        name: &str,
        from_top: usize,
        value: Value<'v>,
    ) -> Result<(), String> {
        if branch.pipe.assigns {
            return self.assign(name, value);
        }
        let top = self.variables.len() - from_top;
        self.variables[top].1 = value;
        Ok(())
    }

    fn call_template(
        &mut self,
        dot: &Value<'v>,
        name: &[u8],
        pipe: Option<&'v Pipe>,
    ) -> Result<(), String> {
        let Some((name, list)) = self.template.trees.iter().find(|(own, _)| **own == *name) else {
            let name = quoted_bytes(name);
            return self.fail(format!("template {name} not defined"));
        };
        let dot = match pipe {
            Some(pipe) => self.pipe(dot, pipe)?,
            None => Value::Nothing,
        };
        // A called template sees no variables of its caller.
        let variables = std::mem::take(&mut self.variables);
        let root = std::mem::replace(&mut self.root, dot.clone());
        let outer = std::mem::replace(&mut self.name, name);
        let result = self.list(&dot, list);
        self.run.meter().release(variables_bytes(&self.variables));
        self.variables = variables;
        self.root = root;
        self.name = outer;
        result.map(|_| ())
    }

    /// The value of a pipeline, which also sets its variables.
    fn pipe(&mut self, dot: &Value<'v>, pipe: &'v Pipe) -> Result<Value<'v>, String> {
        self.place = Some(ErrorNode::Pipe(pipe));
        self.step()?;
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.deeper(|exec| exec.command(dot, command, value))?.unwrapped());
        }
        let value = value.unwrap_or_default();
        for name in &pipe.variables {
            if pipe.assigns {
                self.assign(name, value.clone())?;
            } else {
                if !self.run.meter().push(&mut self.variables, (name, value.clone())) {
                    return Err(ENDED.to_owned());
                }
            }
        }
        Ok(value)
    }

    fn assign(&mut self, name: &str, value: Value<'v>) -> Result<(), String> {
        match self.variables.iter_mut().rev().find(|(own, _)| *own == name) {
            Some((_, held)) => {
                *held = value;
                Ok(())
            }
            None if name == "$" => {
                self.root = value;
                Ok(())
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    fn variable(&self, name: &str) -> Result<Value<'v>, String> {
        match self.variables.iter().rev().find(|(own, _)| *own == name) {
            Some((_, value)) => Ok(value.clone()),
            None if name == "$" => Ok(self.root.clone()),
            None => self.fail(format!("undefined variable: {name}")),
        }
    }
}

/// An integer of the type of another.
fn integer_like<'v>(value: &Value<'v>, number: i64) -> Value<'v> {
    match value {
        Value::Int64(_) => Value::Int64(number),
        Value::Duration(_) => Value::Duration(number),
        Value::Byte(_) => Value::Byte(u8::try_from(number).unwrap_or(u8::MAX)),
        Value::Month(_) => Value::Month(u8::try_from(number).unwrap_or(u8::MAX)),
        Value::Weekday(_) => Value::Weekday(u8::try_from(number).unwrap_or(u8::MAX)),
        _ => Value::Int(number),
    }
}
