//! Pipelines, commands and operands.

use super::Parser;
use crate::engine::template::ast::{Arg, ArgKind, Command, Ident, Number, Pipe};
use crate::engine::template::token::Kind;
use crate::engine::template::{lexed_text, number};
use logsvc_proto::go::quote::quoted_bytes;

impl Parser<'_, '_> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipe, String> {
        self.peek_non_space();
        let position = self.position();
        let mut pipe =
            Pipe { position, variables: Vec::new(), assigns: false, commands: Vec::new() };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.back(token);
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return self.unexpected(&token, context),
            }
        }
        self.check_pipeline(&pipe, context)?;
        Ok(pipe)
    }

    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Result<(), String> {
        while self.peek_non_space() == Kind::Variable {
            let variable = self.next();
            let after = self.next();
            let operator = if after.kind == Kind::Space {
                let token = self.next_non_space();
                let copy = token.clone();
                self.back(token);
                copy
            } else {
                after.clone()
            };
            let is_comma = operator.kind == Kind::Char && operator.text == b",";
            if !is_comma && !matches!(operator.kind, Kind::Assign | Kind::Declare) {
                // A variable that is used. A space behind it matters: it ends the
                // operand.
                self.back(after);
                self.back(variable);
                return Ok(());
            }
            if after.kind == Kind::Space {
                self.next_non_space();
            }
            let name: Box<str> = lexed_text(variable.text).into();
            pipe.variables.push(name.clone());
            self.scope.variables.push(name);
            if !is_comma {
                pipe.assigns = operator.kind == Kind::Assign;
                return Ok(());
            }
            if context != "range" || pipe.variables.len() >= 2 {
                return self.error(format!("too many declarations in {context}"));
            }
            match self.peek_non_space() {
                Kind::Variable | Kind::RightDelim | Kind::RightParen => {}
                _ => return self.error("range can only initialize variables"),
            }
        }
        Ok(())
    }

    fn check_pipeline(&self, pipe: &Pipe, context: &str) -> Result<(), String> {
        if pipe.commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (i, command) in pipe.commands.iter().enumerate().skip(1) {
            if matches!(
                command.args[0].kind,
                ArgKind::Bool(_)
                    | ArgKind::Dot
                    | ArgKind::Nil
                    | ArgKind::Number(_)
                    | ArgKind::Text { .. }
            ) {
                return self.error(format!("non executable command in pipeline stage {}", i + 1));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Result<Command, String> {
        self.peek_non_space();
        let position = self.position();
        let mut args = Vec::new();
        loop {
            self.peek_non_space();
            if let Some(arg) = self.operand()? {
                args.push(arg);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.back(token),
                Kind::Pipe => {}
                _ => return self.unexpected(&token, "operand"),
            }
            break;
        }
        if args.is_empty() {
            return self.error("empty command");
        }
        Ok(Command { position, args })
    }

    fn operand(&mut self) -> Result<Option<Arg>, String> {
        let Some(mut arg) = self.term()? else { return Ok(None) };
        if self.peek() != Kind::Field {
            return Ok(Some(arg));
        }
        let position = self.position();
        let mut more = Vec::new();
        while self.peek() == Kind::Field {
            let token = self.next();
            more.push(self.ident(token.text));
        }
        match &mut arg.kind {
            ArgKind::Field(fields) | ArgKind::Variable { fields, .. } => {
                fields.append(&mut more);
                arg.position = position;
            }
            ArgKind::Bool(_)
            | ArgKind::Text { .. }
            | ArgKind::Number(_)
            | ArgKind::Nil
            | ArgKind::Dot => {
                let term = quoted_bytes(arg.to_string().as_bytes());
                return self.error(format!("unexpected . after term {term}"));
            }
            ArgKind::Function(_) | ArgKind::Pipe(_) | ArgKind::Chain { .. } => {
                let kind = ArgKind::Chain { base: Box::new(arg), fields: more };
                arg = Arg { position, kind };
            }
        }
        Ok(Some(arg))
    }

    /// A name with the dot in front of it.
    fn ident(&mut self, text: &[u8]) -> Ident {
        Ident { text: lexed_text(&text[1..]).into(), name: (self.intern)(&text[1..]) }
    }

    fn term(&mut self) -> Result<Option<Arg>, String> {
        let token = self.next_non_space();
        let kind = match token.kind {
            Kind::Identifier => match (self.find)(token.text) {
                Some(function) => ArgKind::Function(function),
                None => {
                    let name = quoted_bytes(token.text);
                    return self.error(format!("function {name} not defined"));
                }
            },
            Kind::Dot => ArgKind::Dot,
            Kind::Nil => ArgKind::Nil,
            Kind::Variable => {
                let name: Box<str> = lexed_text(token.text).into();
                if !self.scope.variables.contains(&name) {
                    let name = quoted_bytes(token.text);
                    return self.error(format!("undefined variable {name}"));
                }
                ArgKind::Variable { name, fields: Vec::new() }
            }
            Kind::Field => ArgKind::Field(vec![self.ident(token.text)]),
            Kind::Bool => ArgKind::Bool(token.text == b"true"),
            Kind::CharConstant => self.number(number::character(token.text))?,
            Kind::Number => self.number(number::number(token.text))?,
            Kind::Complex => self.number(number::complex(token.text))?,
            Kind::LeftParen => {
                let pipe = self
                    .deeper(|parser| parser.pipeline("parenthesized pipeline", Kind::RightParen))?;
                ArgKind::Pipe(Box::new(pipe))
            }
            Kind::String | Kind::RawString => {
                let value = self.unquote(&token)?;
                ArgKind::Text { quoted: lexed_text(token.text).into_owned(), value }
            }
            _ => {
                self.back(token);
                return Ok(None);
            }
        };
        Ok(Some(Arg { position: token.position, kind }))
    }

    fn number(&self, number: Result<Number, String>) -> Result<ArgKind, String> {
        number.map(ArgKind::Number).or_else(|message| self.error(message))
    }
}
