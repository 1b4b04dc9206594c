//! A YAML document as a list of nodes.
//!
//! Aliases are numbers of nodes, so a document takes memory by the length of its text, whatever its
//! aliases say. A node comes behind all nodes below it, so there are no cycles. Nothing here or in
//! a drop follows the nesting by recursion.

use std::collections::BTreeMap;

use granit_parser::{Event, Options, Parser, ScalarStyle};

use super::TEXT_MAX_BYTES;

/// Deepest nesting. Groups need 7.
const MAX_DEPTH: usize = 64;
/// Most nodes of a document.
const MAX_NODES: usize = 400_000;

/// Why a text cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum YamlError {
    /// It is no YAML.
    #[error("{0}")]
    Syntax(String),
    /// It is too long, too deep, or has too many nodes.
    #[error("the YAML is too long or too deep")]
    TooLarge,
    /// A value has another form than its key needs.
    #[error("line {line}: {text}")]
    Value {
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        text: String,
    },
}

/// The number of a node.
pub(super) type NodeId = u32;

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    /// Where it begins, from 1.
    pub(super) line: usize,
    pub(super) kind: Kind,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Kind {
    Scalar {
        text: String,
        /// Neither quoted nor a block.
        is_plain: bool,
    },
    Sequence(Vec<NodeId>),
    /// Keys with their values.
    Mapping(Vec<(NodeId, NodeId)>),
}

/// The first document of a text.
#[derive(Debug)]
pub(super) struct Document {
    nodes: Vec<Node>,
    /// `None`: there is no document, or it is empty.
    pub(super) root: Option<NodeId>,
}

impl Document {
    /// A node of this document.
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Reads the first document.
    ///
    /// # Errors
    /// The text is no YAML, or too large.
    pub(super) fn parse(text: &str) -> Result<Document, YamlError> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(YamlError::TooLarge);
        }
        let mut builder = Builder::default();
        for event in Parser::new_from_str_with_options(text, Options::default()) {
            let (event, span) = event.map_err(|error| YamlError::Syntax(error.to_string()))?;
            if builder.take(event, span.start.line())? {
                break;
            }
        }
        Ok(Document { nodes: builder.nodes, root: builder.root })
    }
}

/// A collection that is not complete.
struct Open {
    line: usize,
    anchor: usize,
    is_mapping: bool,
    children: Vec<NodeId>,
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    root: Option<NodeId>,
    open: Vec<Open>,
    /// Complete nodes by the numbers of their anchors.
    anchors: BTreeMap<usize, NodeId>,
}

impl Builder {
    /// Takes an event. True: the document is complete.
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<bool, YamlError> {
        match event {
            Event::DocumentEnd => return Ok(true),
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let kind = Kind::Scalar { text: text.into_owned(), is_plain };
                self.add(line, anchor, kind)?;
            }
            Event::SequenceStart(_, anchor, _) => self.begin(line, anchor, false)?,
            Event::MappingStart(_, anchor, _) => self.begin(line, anchor, true)?,
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(anchor) => {
                let Some(&node) = self.anchors.get(&anchor) else {
                    let text = "an alias of a node that is not complete".to_owned();
                    return Err(YamlError::Value { line, text });
                };
                self.place(node);
            }
            _ => {}
        }
        Ok(false)
    }

    fn begin(&mut self, line: usize, anchor: usize, is_mapping: bool) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::TooLarge);
        }
        self.open.push(Open { line, anchor, is_mapping, children: Vec::new() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        let Some(Open { line, anchor, is_mapping, children }) = self.open.pop() else {
            return Err(YamlError::Syntax("an end without a beginning".to_owned()));
        };
        let kind = match is_mapping {
            false => Kind::Sequence(children),
            true => {
                Kind::Mapping(children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
            }
        };
        self.add(line, anchor, kind)
    }

    fn add(&mut self, line: usize, anchor: usize, kind: Kind) -> Result<(), YamlError> {
        if self.nodes.len() >= MAX_NODES {
            return Err(YamlError::TooLarge);
        }
        let node = self.nodes.len() as NodeId;
        self.nodes.push(Node { line, kind });
        if anchor != 0 {
            self.anchors.insert(anchor, node);
        }
        self.place(node);
        Ok(())
    }

    /// Puts a complete node where it belongs.
    fn place(&mut self, node: NodeId) {
        match self.open.last_mut() {
            Some(open) => open.children.push(node),
            None => self.root = Some(node),
        }
    }
}
