//! Writes groups with the layout of yaml.v3: four spaces for each level, two behind the dash of an
//! item.

use std::convert::Infallible;

use super::scalar::{Style, style_of, write_double_quoted, write_literal, write_single_quoted};
use crate::duration;
use crate::model::{Rule, RuleGroup, RuleKind};

/// Keys that are longer are written behind a question mark.
const KEY_MAX_BYTES: usize = 128;

/// A group alone, as the answer for one group and the store have it.
pub fn write_group(group: &RuleGroup) -> String {
    let mut writer = Writer { out: String::new(), is_behind_dash: false };
    writer.group(group, 0);
    writer.out
}

/// Namespaces with their groups, as lists have them.
pub fn write_namespaces<'g, G>(namespaces: impl IntoIterator<Item = (&'g str, G)>) -> String
where
    G: IntoIterator<Item = &'g RuleGroup>,
{
    let mut text = String::new();
    let Ok(()) = write_namespaces_in_pieces(namespaces, |piece| {
        text.push_str(piece);
        Ok::<(), Infallible>(())
    });
    text
}

/// [`write_namespaces`] in pieces, each as long as the text of a group. `take` gets them in turn.
///
/// # Errors
/// The first one of `take`, which gets no further piece.
pub fn write_namespaces_in_pieces<'g, G, E>(
    namespaces: impl IntoIterator<Item = (&'g str, G)>,
    mut take: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E>
where
    G: IntoIterator<Item = &'g RuleGroup>,
{
    let mut writer = Writer { out: String::new(), is_behind_dash: false };
    let mut is_empty = true;
    for (namespace, groups) in namespaces {
        is_empty = false;
        let is_long = writer.key(namespace, 0);
        let mut groups = groups.into_iter().peekable();
        writer.out.push_str(match (groups.peek(), is_long) {
            (None, _) => " []\n",
            // The first item stays in the line of the colon.
            (Some(_), true) => "   - ",
            (Some(_), false) => "\n",
        });
        writer.is_behind_dash = is_long && groups.peek().is_some();
        for group in groups {
            if !writer.is_behind_dash {
                writer.dash(next_indent(0));
            }
            writer.group(group, next_indent(0) + 2);
            take(&writer.out)?;
            writer.out.clear();
        }
    }
    if is_empty {
        writer.out.push_str("{}\n");
    }
    take(&writer.out)
}

/// The indentation one level below.
fn next_indent(indent: usize) -> usize {
    4 * ((indent + 4) / 4)
}

struct Writer {
    out: String,
    /// The next key stays in the line of the dash.
    is_behind_dash: bool,
}

impl Writer {
    fn group(&mut self, group: &RuleGroup, indent: usize) {
        self.pair("name", &group.name, indent);
        if let Some(interval) = group.interval {
            self.pair("interval", &duration::format(interval), indent);
        }
        if let Some(offset) = group.query_offset {
            self.pair("query_offset", &duration::format(offset), indent);
        }
        if group.limit > 0 {
            self.key("limit", indent);
            self.out.push_str(&format!(" {}\n", group.limit));
        }
        self.key("rules", indent);
        self.out.push_str(if group.rules.is_empty() { " []\n" } else { "\n" });
        for rule in &group.rules {
            self.dash(next_indent(indent));
            self.rule(rule, next_indent(indent) + 2);
        }
        self.pairs("labels", &group.labels, indent);
    }

    fn rule(&mut self, rule: &Rule, indent: usize) {
        let kind = match &rule.kind {
            RuleKind::Record { .. } => "record",
            RuleKind::Alert(_) => "alert",
        };
        self.pair(kind, rule.name(), indent);
        self.pair("expr", &rule.expr, indent);
        if let RuleKind::Alert(alert) = &rule.kind {
            for (key, value) in [("for", alert.hold), ("keep_firing_for", alert.keep_firing)] {
                if !value.is_zero() {
                    self.pair(key, &duration::format(value), indent);
                }
            }
        }
        self.pairs("labels", &rule.labels, indent);
        if let RuleKind::Alert(alert) = &rule.kind {
            self.pairs("annotations", &alert.annotations, indent);
        }
    }

    fn pairs(&mut self, key: &str, pairs: &[(String, String)], indent: usize) {
        if pairs.is_empty() {
            return;
        }
        self.key(key, indent);
        self.out.push('\n');
        for (name, value) in pairs {
            self.pair(name, value, next_indent(indent));
        }
    }

    fn pair(&mut self, key: &str, value: &str, indent: usize) {
        self.key(key, indent);
        self.out.push(' ');
        self.scalar(value, style_of(value, false), indent);
        self.out.push('\n');
    }

    /// Writes a key with its colon. True: it is behind a question mark, on lines of its own.
    fn key(&mut self, key: &str, indent: usize) -> bool {
        self.indent(indent);
        let is_long = key.len() > KEY_MAX_BYTES || key.contains('\n');
        if is_long {
            self.out.push_str("? ");
            let style = match style_of(key, false) {
                Style::Plain if key == "<<" => Style::DoubleQuoted,
                style => style,
            };
            self.scalar(key, style, indent);
            self.out.push('\n');
            self.indent(indent);
        } else {
            self.scalar(key, style_of(key, true), indent);
        }
        self.out.push(':');
        is_long
    }

    fn scalar(&mut self, text: &str, style: Style, indent: usize) {
        match style {
            Style::Plain => self.out.push_str(text),
            Style::SingleQuoted => write_single_quoted(text, &mut self.out),
            Style::DoubleQuoted => write_double_quoted(text, &mut self.out),
            Style::Literal => write_literal(text, indent, next_indent(indent), &mut self.out),
        }
    }

    fn dash(&mut self, indent: usize) {
        self.indent(indent);
        self.out.push_str("- ");
        self.is_behind_dash = true;
    }

    fn indent(&mut self, indent: usize) {
        if std::mem::take(&mut self.is_behind_dash) {
            return;
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}
