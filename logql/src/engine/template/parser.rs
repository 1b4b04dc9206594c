//! Tokens to tree, with the rules and the messages of Go's `text/template/parse`.
//!
//! Bounds: parentheses and blocks nest at most [`MAX_DEPTH`] deep together.

use super::ast::{Action, Arg, ArgKind, Branch, Command, Ident, List, Node, Number, Pipe};
use super::functions;
use super::lexed_text;
use super::lexer::Lexer;
use super::number;
use super::token::{Kind, Token};
use crate::engine::pipeline::labels::NameId;
use crate::syntax::go_text::{quote, unescape};

/// Deepest nesting of parentheses and blocks.
const MAX_DEPTH: usize = 100;

/// A template and those it defines, by name.
pub(super) type Trees = Vec<(Box<[u8]>, List)>;

/// What ends a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ListEnd {
    End,
    Else,
}

impl ListEnd {
    fn describe(self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

/// A statement, or the end of the list it would stand in.
enum Item {
    Node(Node),
    End(ListEnd),
}

/// Which keyword a branch started with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BranchKind {
    If,
    With,
    Range,
}

impl BranchKind {
    fn context(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

/// What belongs to one definition: the variables in scope and the open loops.
struct Scope {
    variables: Vec<Box<str>>,
    open_ranges: usize,
}

impl Scope {
    fn new() -> Self {
        Self { variables: vec!["$".into()], open_ranges: 0 }
    }
}

struct Parser<'t, 'n> {
    name: &'t str,
    lexer: Lexer<'t>,
    /// Tokens read ahead, the next one last.
    ahead: Vec<Token<'t>>,
    /// Line of the token that was read from the text last.
    line: usize,
    /// Line of the action at hand, 0 outside of actions.
    action_line: usize,
    scope: Scope,
    depth: usize,
    trees: Trees,
    intern: &'n mut dyn FnMut(&[u8]) -> NameId,
}

/// Parses a template and the templates it defines. The one called `name` comes first.
///
/// # Errors
/// Go's message, `template: line:1: unclosed action` for instance.
pub(super) fn parse(
    name: &str,
    text: &[u8],
    intern: &mut dyn FnMut(&[u8]) -> NameId,
) -> Result<Trees, String> {
    let mut parser = Parser {
        name,
        lexer: Lexer::new(text),
        ahead: Vec::new(),
        line: 1,
        action_line: 0,
        scope: Scope::new(),
        depth: 0,
        trees: Vec::new(),
        intern,
    };
    let root = parser.root()?;
    parser.add(name.as_bytes(), root)?;
    let mut trees = parser.trees;
    let main = trees.iter().position(|(own, _)| **own == *name.as_bytes()).expect("added above");
    trees.swap(0, main);
    Ok(trees)
}

/// A list that outputs nothing may be defined again.
fn is_empty(list: &List) -> bool {
    list.iter()
        .all(|node| matches!(node, Node::Text(text) if text.iter().all(u8::is_ascii_whitespace)))
}

impl<'t> Parser<'t, '_> {
    fn error<T>(&self, message: impl AsRef<str>) -> Result<T, String> {
        Err(format!("template: {}:{}: {}", self.name, self.line, message.as_ref()))
    }

    fn unexpected<T>(&self, token: &Token<'t>, context: &str) -> Result<T, String> {
        if token.kind != Kind::Error {
            return self.error(format!("unexpected {} in {context}", token.describe()));
        }
        let mut message = token.message.clone();
        if self.action_line != 0 && self.action_line != token.line {
            let of_action = if message.ends_with(" action") { "" } else { " in action" };
            message = format!("{message}{of_action} started at {}:{}", self.name, self.action_line);
        }
        self.error(message)
    }

    fn next(&mut self) -> Token<'t> {
        match self.ahead.pop() {
            Some(token) => token,
            None => {
                let token = self.lexer.next();
                self.line = token.line;
                token
            }
        }
    }

    fn back(&mut self, token: Token<'t>) {
        self.ahead.push(token);
    }

    fn peek(&mut self) -> Kind {
        let token = self.next();
        let kind = token.kind;
        self.back(token);
        kind
    }

    fn next_non_space(&mut self) -> Token<'t> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    /// Drops spaces and looks at what follows.
    fn peek_non_space(&mut self) -> Kind {
        let token = self.next_non_space();
        let kind = token.kind;
        self.back(token);
        kind
    }

    fn position(&mut self) -> usize {
        let token = self.next();
        let position = token.position;
        self.back(token);
        position
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token<'t>, String> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { self.unexpected(&token, context) }
    }

    fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth >= MAX_DEPTH {
            return self.error("max expression depth exceeded");
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn add(&mut self, name: &[u8], list: List) -> Result<(), String> {
        match self.trees.iter_mut().find(|(own, _)| **own == *name) {
            Some((_, held)) if is_empty(held) => *held = list,
            Some(_) if is_empty(&list) => {}
            Some(_) => {
                let name = quote(name);
                return self.error(format!("template: multiple definition of template {name}"));
            }
            None => self.trees.push((name.into(), list)),
        }
        Ok(())
    }

    fn root(&mut self) -> Result<List, String> {
        let mut list = List::new();
        loop {
            let token = self.next();
            match token.kind {
                Kind::Eof => return Ok(list),
                Kind::LeftDelim => {
                    let first = self.next_non_space();
                    if first.kind == Kind::Define {
                        self.definition()?;
                        continue;
                    }
                    self.back(first);
                    self.back(token);
                }
                _ => self.back(token),
            }
            match self.text_or_action()? {
                Item::Node(node) => list.push(node),
                Item::End(end) => return self.error(format!("unexpected {}", end.describe())),
            }
        }
    }

    fn definition(&mut self) -> Result<(), String> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        let list = self.own_scope(CONTEXT)?;
        self.add(&name, list)
    }

    /// The body of a definition, which sees no variable from outside.
    fn own_scope(&mut self, context: &str) -> Result<List, String> {
        let outer = std::mem::replace(&mut self.scope, Scope::new());
        let (list, end) = self.deeper(Self::list)?;
        self.scope = outer;
        if end != ListEnd::End {
            return self.error(format!("unexpected {} in {context}", end.describe()));
        }
        Ok(list)
    }

    fn template_name(&mut self, token: &Token<'t>, context: &str) -> Result<Box<[u8]>, String> {
        match token.kind {
            Kind::String | Kind::RawString => self.unquote(token),
            _ => self.unexpected(token, context),
        }
    }

    fn unquote(&self, token: &Token<'t>) -> Result<Box<[u8]>, String> {
        let inside = &token.text[1..token.text.len() - 1];
        let value = if token.kind == Kind::RawString {
            Some(inside.iter().copied().filter(|b| *b != b'\r').collect())
        } else {
            unescape(&lexed_text(inside), '"')
        };
        match value {
            Some(value) => Ok(value.into()),
            None => self.error("invalid syntax"),
        }
    }

    fn list(&mut self) -> Result<(List, ListEnd), String> {
        let mut list = List::new();
        while self.peek_non_space() != Kind::Eof {
            match self.text_or_action()? {
                Item::Node(node) => list.push(node),
                Item::End(end) => return Ok((list, end)),
            }
        }
        self.error("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Result<Item, String> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.into()))),
            Kind::LeftDelim => {
                self.action_line = token.line;
                let item = self.action();
                self.action_line = 0;
                item
            }
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Result<Item, String> {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::End(ListEnd::End));
            }
            Kind::Else => {
                // `{{else if x}}` is `{{else}}{{if x}}`: the keyword stays pending.
                if !matches!(self.peek_non_space(), Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::End(ListEnd::Else));
            }
            Kind::If => Node::If(self.branch(BranchKind::If)?),
            Kind::With => Node::With(self.branch(BranchKind::With)?),
            Kind::Range => Node::Range(self.branch(BranchKind::Range)?),
            Kind::Break => self.jump(Node::Break, "{{break}}")?,
            Kind::Continue => self.jump(Node::Continue, "{{continue}}")?,
            Kind::Template => self.template()?,
            Kind::Block => self.block()?,
            _ => {
                self.back(token);
                let position = self.position();
                let pipe = self.pipeline("command", Kind::RightDelim)?;
                action_node(Action { position, pipe })
            }
        };
        Ok(Item::Node(node))
    }

    fn jump(&mut self, node: Node, text: &str) -> Result<Node, String> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return self.unexpected(&token, text);
        }
        if self.scope.open_ranges == 0 {
            return self.error(format!("{text} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    fn template(&mut self) -> Result<Node, String> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = if self.peek_non_space() == Kind::RightDelim {
            self.next();
            None
        } else {
            Some(self.pipeline(CONTEXT, Kind::RightDelim)?)
        };
        Ok(Node::Template { position: token.position, quoted: quote(&name), name, pipe })
    }

    fn block(&mut self) -> Result<Node, String> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let list = self.own_scope(CONTEXT)?;
        self.add(&name, list)?;
        Ok(Node::Template {
            position: token.position,
            quoted: quote(&name),
            name,
            pipe: Some(pipe),
        })
    }

    fn branch(&mut self, kind: BranchKind) -> Result<Branch, String> {
        let variables = self.scope.variables.len();
        let branch = self.deeper(|parser| parser.branch_body(kind))?;
        self.scope.variables.truncate(variables);
        Ok(branch)
    }

    fn branch_body(&mut self, kind: BranchKind) -> Result<Branch, String> {
        let pipe = self.pipeline(kind.context(), Kind::RightDelim)?;
        let loops = usize::from(kind == BranchKind::Range);
        self.scope.open_ranges += loops;
        let (list, end) = self.list()?;
        self.scope.open_ranges -= loops;
        if end == ListEnd::End {
            return Ok(Branch { pipe, list, else_list: None });
        }
        let else_list = match (kind, self.peek()) {
            (BranchKind::If, Kind::If) => {
                self.next();
                vec![Node::If(self.branch(kind)?)]
            }
            (BranchKind::With, Kind::With) => {
                self.next();
                vec![Node::With(self.branch(kind)?)]
            }
            _ => {
                let (list, end) = self.list()?;
                if end != ListEnd::End {
                    return self.error(format!("expected end; found {}", end.describe()));
                }
                list
            }
        };
        Ok(Branch { pipe, list, else_list: Some(else_list) })
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipe, String> {
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
                let term = quote(arg.to_string().as_bytes());
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
            Kind::Identifier => match functions::find(token.text) {
                Some(function) => ArgKind::Function(function),
                None => {
                    let name = quote(token.text);
                    return self.error(format!("function {name} not defined"));
                }
            },
            Kind::Dot => ArgKind::Dot,
            Kind::Nil => ArgKind::Nil,
            Kind::Variable => {
                let name: Box<str> = lexed_text(token.text).into();
                if !self.scope.variables.contains(&name) {
                    let name = quote(token.text);
                    return self.error(format!("undefined variable {name}"));
                }
                ArgKind::Variable { name, fields: Vec::new() }
            }
            Kind::Field => ArgKind::Field(vec![self.ident(token.text)]),
            Kind::Bool => ArgKind::Bool(token.text == b"true"),
            Kind::CharConstant => self.number(number::character(token.text))?,
            Kind::Number => self.number(number::number(token.text))?,
            Kind::Complex => {
                let text = quote(token.text);
                return self.error(format!("illegal number syntax: {text}"));
            }
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

/// Marks `{{.name}}`, so that it needs no evaluation.
fn action_node(action: Action) -> Node {
    if action.pipe.variables.is_empty()
        && let [command] = &action.pipe.commands[..]
        && let [Arg { kind: ArgKind::Field(fields), .. }] = &command.args[..]
        && let [field] = &fields[..]
    {
        return Node::Field { name: field.name, action };
    }
    Node::Action(action)
}
