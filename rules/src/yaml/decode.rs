//! From a document to rule groups.
//!
//! As yaml.v3 does it: texts, numbers and words of every kind are texts where a text is wanted; a
//! plain `null` or nothing leaves the default; a key that is there twice is an error; `<<` merges
//! mappings, whose own keys win. Labels and annotations come out sorted by name.

use std::collections::BTreeMap;
use std::time::Duration;

use super::TEXT_MAX_BYTES;
use super::document::{Document, Kind, Node, NodeId, YamlError};
use crate::duration;
use crate::model::{AlertRule, Rule, RuleGroup, RuleKind};

/// Aliases may multiply a text up to so many bytes.
const DECODED_MAX_BYTES: u64 = 4 * TEXT_MAX_BYTES as u64;
/// How often mappings may be merged into one another.
const MAX_MERGES: usize = 16;

/// Reads one group, as clients post it. An empty document is a group without a name.
///
/// # Errors
/// The text is no YAML, a duration or number cannot be read, or it is too large.
pub fn read_group(text: &str) -> Result<ReadGroup, YamlError> {
    let document = Document::parse(text)?;
    let mut decoder = Decoder { document: &document, decoded_bytes: 0 };
    match document.root {
        Some(root) => decoder.group(root),
        None => Ok(ReadGroup::default()),
    }
}

/// Reads a rule file: the key `groups` with a list of groups.
///
/// # Errors
/// As [`read_group`].
pub fn read_file(text: &str) -> Result<Vec<ReadGroup>, YamlError> {
    let document = Document::parse(text)?;
    let mut decoder = Decoder { document: &document, decoded_bytes: 0 };
    let Some(root) = document.root else { return Ok(Vec::new()) };
    let mut groups = Vec::new();
    for (key, value) in decoder.fields(root)? {
        if key == "groups" {
            for item in decoder.items(value)? {
                groups.push(decoder.group(item)?);
            }
        }
    }
    Ok(groups)
}

/// A group as it was read, before any check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadGroup {
    /// Name; empty if there is none.
    pub name: String,
    /// `None`: absent, or 0.
    pub interval: Option<Duration>,
    /// 0: absent, or not positive.
    pub limit: u64,
    /// `None`: absent.
    pub query_offset: Option<Duration>,
    /// Sorted by name.
    pub labels: Vec<(String, String)>,
    /// In their order.
    pub rules: Vec<ReadRule>,
}

/// A rule as it was read, before any check. Texts are empty if they are absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct ReadRule {
    pub record: String,
    pub alert: String,
    pub expr: String,
    pub hold: Duration,
    pub keep_firing: Duration,
    pub labels: Vec<(String, String)>,
    pub annotations: Vec<(String, String)>,
}

impl ReadGroup {
    /// The group, if each rule is an alert or a record. The caller has checked everything else.
    pub fn into_group(self) -> RuleGroup {
        RuleGroup {
            name: self.name,
            interval: self.interval,
            limit: self.limit,
            query_offset: self.query_offset,
            labels: self.labels,
            rules: self.rules.into_iter().map(ReadRule::into_rule).collect(),
        }
    }
}

impl ReadRule {
    fn into_rule(self) -> Rule {
        let kind = match self.record.is_empty() {
            true => RuleKind::Alert(AlertRule {
                alert: self.alert,
                hold: self.hold,
                keep_firing: self.keep_firing,
                annotations: self.annotations,
            }),
            false => RuleKind::Record { record: self.record },
        };
        Rule { kind, expr: self.expr, labels: self.labels }
    }
}

struct Decoder<'d> {
    document: &'d Document,
    decoded_bytes: u64,
}

type Fields<'d> = Vec<(&'d str, NodeId)>;

impl<'d> Decoder<'d> {
    fn group(&mut self, node: NodeId) -> Result<ReadGroup, YamlError> {
        let mut group = ReadGroup::default();
        for (key, value) in self.fields(node)? {
            match key {
                "name" => group.name = self.text(value)?,
                "interval" => {
                    group.interval = self.duration(value)?.filter(|interval| !interval.is_zero());
                }
                "limit" => group.limit = self.limit(value)?,
                "query_offset" => group.query_offset = self.duration(value)?,
                "labels" => group.labels = self.labels(value)?,
                "rules" => {
                    for item in self.items(value)? {
                        let rule = self.rule(item)?;
                        group.rules.push(rule);
                    }
                }
                _ => {}
            }
        }
        Ok(group)
    }

    fn rule(&mut self, node: NodeId) -> Result<ReadRule, YamlError> {
        let mut rule = ReadRule::default();
        self.count(size_of::<ReadRule>())?;
        for (key, value) in self.fields(node)? {
            match key {
                "record" => rule.record = self.text(value)?,
                "alert" => rule.alert = self.text(value)?,
                "expr" => rule.expr = self.text(value)?,
                "for" => rule.hold = self.duration(value)?.unwrap_or_default(),
                "keep_firing_for" => {
                    rule.keep_firing = self.duration(value)?.unwrap_or_default();
                }
                "labels" => rule.labels = self.labels(value)?,
                "annotations" => rule.annotations = self.labels(value)?,
                _ => {}
            }
        }
        Ok(rule)
    }

    fn labels(&mut self, node: NodeId) -> Result<Vec<(String, String)>, YamlError> {
        let mut labels = BTreeMap::new();
        for (key, value) in self.fields(node)? {
            self.count(key.len())?;
            labels.insert(key.to_owned(), self.text(value)?);
        }
        Ok(labels.into_iter().collect())
    }

    fn node(&self, id: NodeId) -> &'d Node {
        self.document.node(id)
    }

    /// Counts bytes that are about to be copied. A node costs some whatever its text.
    fn count(&mut self, len_bytes: usize) -> Result<(), YamlError> {
        self.decoded_bytes += len_bytes as u64 + 32;
        match self.decoded_bytes > DECODED_MAX_BYTES {
            true => Err(YamlError::TooLarge),
            false => Ok(()),
        }
    }

    /// The keys of a mapping with their values; none for null. Those that are merged come first,
    /// so that later ones win.
    fn fields(&mut self, node: NodeId) -> Result<Fields<'d>, YamlError> {
        let mut fields = Vec::new();
        self.gather(node, &mut fields, 0)?;
        Ok(fields)
    }

    fn gather(
        &mut self,
        id: NodeId,
        fields: &mut Fields<'d>,
        merges: usize,
    ) -> Result<(), YamlError> {
        let node = self.node(id);
        let Kind::Mapping(pairs) = &node.kind else {
            return if is_null(node) && merges == 0 {
                Ok(())
            } else {
                Err(wrong(node, "a mapping"))
            };
        };
        if merges > MAX_MERGES {
            return Err(YamlError::TooLarge);
        }
        let mut own: BTreeMap<&str, ()> = BTreeMap::new();
        let mut own_fields = Vec::with_capacity(pairs.len());
        for &(key, value) in pairs {
            self.count(0)?;
            let key_node = self.node(key);
            let Kind::Scalar { text, is_plain } = &key_node.kind else {
                // Keys of other kinds are unknown ones.
                continue;
            };
            if text == "<<" && *is_plain {
                match &self.node(value).kind {
                    // The first of several mappings wins.
                    Kind::Sequence(items) => {
                        for &item in items.iter().rev() {
                            self.gather(item, fields, merges + 1)?;
                        }
                    }
                    _ => self.gather(value, fields, merges + 1)?,
                }
            } else if own.insert(text, ()).is_some() {
                let text = format!("the key {text:?} is there twice");
                return Err(YamlError::Value { line: key_node.line, text });
            } else {
                own_fields.push((text.as_str(), value));
            }
        }
        fields.append(&mut own_fields);
        Ok(())
    }

    /// The items of a sequence; none for null.
    fn items(&mut self, id: NodeId) -> Result<Vec<NodeId>, YamlError> {
        let node = self.node(id);
        match &node.kind {
            Kind::Sequence(items) => Ok(items.clone()),
            _ if is_null(node) => Ok(Vec::new()),
            _ => Err(wrong(node, "a list")),
        }
    }

    /// The text of a value; empty for null.
    fn text(&mut self, id: NodeId) -> Result<String, YamlError> {
        let node = self.node(id);
        match &node.kind {
            _ if is_null(node) => Ok(String::new()),
            Kind::Scalar { text, .. } => {
                self.count(text.len())?;
                Ok(text.clone())
            }
            _ => Err(wrong(node, "a text")),
        }
    }

    /// A duration; `None` for null.
    fn duration(&mut self, id: NodeId) -> Result<Option<Duration>, YamlError> {
        let node = self.node(id);
        if is_null(node) {
            return Ok(None);
        }
        let text = self.text(id)?;
        duration::parse(&text).map(Some).ok_or_else(|| wrong(node, "a duration"))
    }

    /// A whole number. Those that are not positive mean that there is no limit.
    fn limit(&mut self, id: NodeId) -> Result<u64, YamlError> {
        let node = self.node(id);
        match &node.kind {
            _ if is_null(node) => Ok(0),
            Kind::Scalar { text, is_plain: true } => {
                let limit = whole_number(text).ok_or_else(|| wrong(node, "a whole number"))?;
                Ok(u64::try_from(limit).unwrap_or(0))
            }
            _ => Err(wrong(node, "a whole number")),
        }
    }
}

/// A whole number as YAML writes them: decimal, or with `0x`, `0o`, `0b`; also octal with a `0`
/// alone.
fn whole_number(text: &str) -> Option<i64> {
    let text = text.replace('_', "");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(&text)),
    };
    let prefixes = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)];
    let prefixed = prefixes
        .iter()
        .find_map(|(prefix, radix)| digits.strip_prefix(prefix).map(|digits| (digits, *radix)));
    let (digits, radix) = match prefixed {
        Some(prefixed) => prefixed,
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    i64::from_str_radix(digits, radix).ok().map(|number| sign * number)
}

fn is_null(node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar { text, is_plain: true } => {
            matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
        }
        _ => false,
    }
}

fn wrong(node: &Node, wanted: &str) -> YamlError {
    let found = match &node.kind {
        Kind::Scalar { text, .. } => {
            let text: String = text.chars().take(40).collect();
            format!("{text:?}")
        }
        Kind::Sequence(_) => "a list".to_owned(),
        Kind::Mapping(_) => "a mapping".to_owned(),
    };
    YamlError::Value { line: node.line, text: format!("{found} is not {wanted}") }
}
