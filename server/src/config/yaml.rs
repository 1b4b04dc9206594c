//! YAML documents of the settings: read under limits, with the line of each key.
//!
//! Depth, nodes and the expansion of aliases have limits, so a document takes at most a few
//! times its length in memory and time. Duplicate keys are errors.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// Longer documents are not looked at.
pub(crate) const TEXT_MAX_BYTES: usize = 4 << 20;

/// Deepest nesting of sections.
const MAX_DEPTH: usize = 32;

/// Most keys, values, sections and lists; an alias counts with all nodes that it stands for.
const MAX_NODES: usize = 100_000;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Keys and their values.
    Section(Section),
    /// Nothing, a scalar, or a list. Never an object.
    Other(Value),
}

/// The keys of a section, in their order.
pub(super) type Section = Vec<Entry>;

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Where the key stands, counted from 1.
    pub(super) line: u64,
    pub(super) value: Node,
}

/// Reads the one document of a text. A document of nothing is an empty section.
///
/// # Errors
/// The text is no YAML, or its document is no section.
pub(super) fn parse(text: &str) -> Result<Section, String> {
    if text.len() > TEXT_MAX_BYTES {
        return Err(format!("longer than {TEXT_MAX_BYTES} bytes"));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 3 * MAX_NODES,
            max_documents: 1,
            max_recorded_anchor_events: MAX_NODES,
            max_recorded_anchor_bytes: TEXT_MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: 16,
        },
        emit_comments: false,
    };
    let document: Option<Node> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            // The other formatter speaks to programmers about options of the library.
            let error = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            format!("the file is not valid YAML: {}", error.trim_start_matches("error: "))
        })?;
    match document {
        None | Some(Node::Other(Value::Null)) => Ok(Section::new()),
        Some(Node::Section(section)) => Ok(section),
        Some(other) => {
            Err(format!("the file must consist of `key: value`, found {}", other.shape()))
        }
    }
}

/// Puts `later` over `earlier`: sections are joined, of other values the later one counts.
pub(super) fn merge(earlier: &mut Section, later: Section) {
    for entry in later {
        match earlier.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => match (&mut known.value, entry.value) {
                (Node::Section(known), Node::Section(more)) => merge(known, more),
                (_, value) => {
                    known.value = value;
                    known.line = entry.line;
                }
            },
            None => earlier.push(entry),
        }
    }
}

impl Node {
    /// The text of a single value.
    pub(super) fn scalar(&self) -> Option<String> {
        match self {
            Node::Other(Value::Bool(value)) => Some(value.to_string()),
            Node::Other(Value::Number(value)) => Some(value.to_string()),
            Node::Other(Value::String(value)) => Some(value.clone()),
            Node::Other(_) | Node::Section(_) => None,
        }
    }

    /// Whether it is no value at all.
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Node::Other(Value::Null))
    }

    /// The value without line numbers. It recurses as deep as documents may be.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Node::Other(value) => value.clone(),
            Node::Section(section) => {
                let fields = section.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                Value::Object(fields.collect::<Map<String, Value>>())
            }
        }
    }

    /// The kind of the node, for errors.
    pub(super) fn shape(&self) -> &'static str {
        match self {
            Node::Other(Value::Null) => "nothing",
            Node::Other(Value::Array(_)) => "a list",
            Node::Section(_) | Node::Other(Value::Object(_)) => "a section",
            Node::Other(Value::Bool(_) | Value::Number(_) | Value::String(_)) => "a single value",
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a section")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut section = Section::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Node>()? {
            section.push(Entry { key: key.value, line: key.referenced.line(), value });
        }
        Ok(Node::Section(section))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<Value>()? {
            values.push(value);
        }
        Ok(Node::Other(Value::Array(values)))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Other(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Other(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        // JSON has no infinite numbers; no setting takes one either, nor does the parser.
        let number = Number::from_f64(value);
        Ok(Node::Other(number.map_or_else(|| Value::String(value.to_string()), Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Other(Value::String(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Other(Value::String(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(section: &Section, prefix: &str, out: &mut Vec<(String, u64)>) {
        for entry in section {
            let path = format!("{prefix}{}", entry.key);
            if let Node::Section(inner) = &entry.value {
                lines(inner, &format!("{path}."), out);
            }
            out.push((path, entry.line));
        }
    }

    #[test]
    fn keys_have_lines() {
        let text = "# first\na:\n  b: 1\n  \"c\": {d: x, e: [1, {f: 2}]}\n\n12: null\n? g\n: h\n";
        let mut found = Vec::new();
        lines(&parse(text).expect("YAML"), "", &mut found);
        let expected =
            [("a.b", 3), ("a.c.d", 4), ("a.c.e", 4), ("a.c", 4), ("a", 2), ("12", 6), ("g", 7)];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn values_keep_their_shapes() {
        let text = "a: {b: [x, {y: 1}], c: {d: ~}}\ne: -7\nf: 1.5\nh: 'true'\ni: text";
        let json = Node::Section(parse(text).expect("YAML")).to_json();
        let expected =
            r#"{"a":{"b":["x",{"y":1}],"c":{"d":null}},"e":-7,"f":1.5,"h":"true","i":"text"}"#;
        assert_eq!(json.to_string(), expected);
    }

    #[test]
    fn later_sections_join_earlier_ones() {
        let mut first = parse("a: {b: 1, c: {d: 2}}\ne: {f: 3}").expect("YAML");
        merge(&mut first, parse("a: {c: {d: 4, g: 5}}\ne: 6\nh: 7").expect("YAML"));
        let json = Node::Section(first).to_json().to_string();
        assert_eq!(json, r#"{"a":{"b":1,"c":{"d":4,"g":5}},"e":6,"h":7}"#);
    }
}
