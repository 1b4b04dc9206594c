//! Statements with a body: branches, loops, definitions and calls of templates.

use super::{BranchKind, ListEnd, Parser, Scope};
use crate::engine::template::ast::{Branch, List, Node};
use crate::engine::template::token::{Kind, Token};
use logsvc_proto::go::quote::quoted_bytes;

impl<'t> Parser<'t, '_> {
    pub(super) fn definition(&mut self) -> Result<(), String> {
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

    pub(super) fn jump(&mut self, node: Node, text: &str) -> Result<Node, String> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return self.unexpected(&token, text);
        }
        if self.scope.open_ranges == 0 {
            return self.error(format!("{text} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    pub(super) fn template(&mut self) -> Result<Node, String> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = if self.peek_non_space() == Kind::RightDelim {
            self.next();
            None
        } else {
            Some(self.pipeline(CONTEXT, Kind::RightDelim)?)
        };
        Ok(Node::Template { position: token.position, quoted: quoted_bytes(&name), name, pipe })
    }

    pub(super) fn block(&mut self) -> Result<Node, String> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let list = self.own_scope(CONTEXT)?;
        self.add(&name, list)?;
        Ok(Node::Template {
            position: token.position,
            quoted: quoted_bytes(&name),
            name,
            pipe: Some(pipe),
        })
    }

    pub(super) fn branch(&mut self, kind: BranchKind) -> Result<Branch, String> {
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
}
