//! The tree of a template, and its text in error messages.
//!
//! Every node knows the byte offset at which it starts; an execution error names
//! line, column and text of the node at hand.

use std::fmt::{self, Display, Formatter};

use super::super::labels::NameId;
use super::functions::Function;

/// A sequence of nodes.
pub(super) type List = Vec<Node>;

/// A statement.
#[derive(Debug)]
pub(super) enum Node {
    /// Copied to the output.
    Text(Box<[u8]>),
    /// `{{.name}}` where the label model gives the answer without evaluation, as
    /// long as the dot is the set of labels.
    Field {
        name: NameId,
        action: Action,
    },
    Action(Action),
    If(Branch),
    With(Branch),
    Range(Branch),
    /// `{{template "name" pipe}}`
    Template {
        position: usize,
        quoted: String,
        name: Box<[u8]>,
        pipe: Option<Pipe>,
    },
    Break,
    Continue,
}

/// `{{pipe}}`
#[derive(Debug)]
pub(super) struct Action {
    pub(super) position: usize,
    pub(super) pipe: Pipe,
}

/// `if`, `with` or `range` with its two lists.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) pipe: Pipe,
    pub(super) list: List,
    pub(super) else_list: Option<List>,
}

/// Commands connected by `|`, the last of which gives the value.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) position: usize,
    /// `$x` or `$i, $v` in front of `:=` or `=`.
    pub(super) variables: Vec<Box<str>>,
    pub(super) assigns: bool,
    /// Not empty.
    pub(super) commands: Vec<Command>,
}

/// A function or value with arguments.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) position: usize,
    /// Not empty; the first decides the kind of the command.
    pub(super) args: Vec<Arg>,
}

/// An operand.
#[derive(Debug)]
pub(super) struct Arg {
    pub(super) position: usize,
    pub(super) kind: ArgKind,
}

#[derive(Debug)]
pub(super) enum ArgKind {
    Bool(bool),
    Dot,
    Nil,
    Number(Number),
    Text {
        quoted: String,
        value: Box<[u8]>,
    },
    /// `.a.b`
    Field(Vec<Ident>),
    /// `$x.a.b`
    Variable {
        name: Box<str>,
        fields: Vec<Ident>,
    },
    Function(&'static Function),
    /// A parenthesised pipeline.
    Pipe(Box<Pipe>),
    /// Fields of anything else.
    Chain {
        base: Box<Arg>,
        fields: Vec<Ident>,
    },
}

/// A name behind a dot.
#[derive(Clone, Debug)]
pub(super) struct Ident {
    pub(super) text: Box<str>,
    pub(super) name: NameId,
}

/// A numeric constant.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) text: String,
    /// The value as an integer where it is one.
    pub(super) int: Option<i64>,
    /// The value as a float where it is one.
    pub(super) float: Option<f64>,
    /// The real and the imaginary part of `1i` and `1+2i`. Without an imaginary part
    /// it is an integer and a float as well where one of these is wanted.
    pub(super) complex: Option<(f64, f64)>,
    /// True when the constant by itself is a float: it has a point or an exponent.
    pub(super) is_float: bool,
}

/// A node that an execution error points at.
#[derive(Clone, Copy, Debug)]
pub(super) enum ErrorNode<'t> {
    Action(&'t Action),
    Pipe(&'t Pipe),
    Command(&'t Command),
    Arg(&'t Arg),
    Template(&'t Node),
}

impl ErrorNode<'_> {
    pub(super) fn position(&self) -> usize {
        match self {
            Self::Action(action) => action.position,
            Self::Pipe(pipe) => pipe.position,
            Self::Command(command) => command.position,
            Self::Arg(arg) => arg.position,
            Self::Template(Node::Template { position, .. }) => *position,
            Self::Template(_) => 0,
        }
    }
}

impl Display for ErrorNode<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(action) => write!(f, "{{{{{}}}}}", action.pipe),
            Self::Pipe(pipe) => pipe.fmt(f),
            Self::Command(command) => command.fmt(f),
            Self::Arg(arg) => arg.fmt(f),
            Self::Template(Node::Template { quoted, pipe, .. }) => {
                write!(f, "{{{{template {quoted}")?;
                if let Some(pipe) = pipe {
                    write!(f, " {pipe}")?;
                }
                f.write_str("}}")
            }
            Self::Template(_) => Ok(()),
        }
    }
}

impl Display for Pipe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let sign = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.variables.join(", "))?;
        }
        for (i, command) in self.commands.iter().enumerate() {
            write!(f, "{}{command}", if i > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            arg.fmt_operand(f)?;
        }
        Ok(())
    }
}

impl Arg {
    /// The operand as it stands among others: pipelines in parentheses.
    fn fmt_operand(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ArgKind::Pipe(pipe) => write!(f, "({pipe})"),
            _ => self.fmt(f),
        }
    }
}

impl Display for Arg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fields = match &self.kind {
            ArgKind::Bool(value) => return value.fmt(f),
            ArgKind::Dot => return f.write_str("."),
            ArgKind::Nil => return f.write_str("nil"),
            ArgKind::Number(number) => return f.write_str(&number.text),
            ArgKind::Text { quoted, .. } => return f.write_str(quoted),
            ArgKind::Function(function) => return f.write_str(function.name),
            ArgKind::Pipe(pipe) => return pipe.fmt(f),
            ArgKind::Field(fields) => fields,
            ArgKind::Variable { name, fields } => {
                f.write_str(name)?;
                fields
            }
            ArgKind::Chain { base, fields } => {
                base.fmt_operand(f)?;
                fields
            }
        };
        fields.iter().try_for_each(|field| write!(f, ".{}", field.text))
    }
}
