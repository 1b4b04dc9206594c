//! Tokens to tree, with the rules and the messages of Go's `text/template/parse`.
//!
//! Bounds: parentheses and blocks nest at most [`MAX_DEPTH`] deep together.

mod blocks;
mod pipeline;

use super::ast::{Action, Arg, ArgKind, List, Node};
use super::functions::Find;
use super::lexed_text;
use super::lexer::Lexer;
use super::token::{Kind, Token};
use crate::engine::labels::NameId;
use logsvc_proto::go::quote::quoted_bytes;
use logsvc_proto::go::unquote::unescape;

/// Deepest nesting of parentheses and blocks.
const MAX_DEPTH: usize = 100;

/// A template and the templates that it defines, by name.
pub(super) type Trees = Vec<(Box<[u8]>, List)>;

/// The end of a list.
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

/// The state of one definition: the variables in scope and the open loops.
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
    find: Find,
    intern: &'n mut dyn FnMut(&[u8]) -> NameId,
}

/// Parses a template and the templates it defines. The one called `name` comes first. Its
/// functions are those that `find` finds.
///
/// # Errors
/// Go's message, `template: line:1: unclosed action` for instance.
pub(super) fn parse(
    name: &str,
    text: &[u8],
    find: Find,
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
        find,
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

    /// Drops spaces and looks at the next token.
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
                let name = quoted_bytes(name);
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

    fn unquote(&self, token: &Token<'t>) -> Result<Box<[u8]>, String> {
        let inside = &token.text[1..token.text.len() - 1];
        let value = if token.kind == Kind::RawString {
            Some(inside.iter().copied().filter(|b| *b != b'\r').collect())
        } else {
            unescape(&lexed_text(inside), b'"').ok()
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
