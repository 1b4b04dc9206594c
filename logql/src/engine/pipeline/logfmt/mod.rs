//! `| logfmt`: every pair of the line becomes a label, or with expressions the
//! listed ones.

mod decode;
mod expressions;

use super::Entry;
use super::key_cache::KeyCache;
use super::labels::{EntryLabels, NameId};
use super::text::{is_label_name, push_sanitized};
use crate::syntax::ast::LogfmtParser;
use decode::{BAD_QUOTED_VALUE, Decoder, Pair, SyntaxError, push_unescaped};
pub(crate) use expressions::LogfmtExpressions;

/// `| logfmt` without expressions.
#[derive(Debug)]
pub(crate) struct Logfmt {
    is_strict: bool,
    keeps_empty: bool,
    /// Scratch: a sanitised key.
    name: Vec<u8>,
    /// Scratch: a value without its escapes.
    value: Vec<u8>,
    known: KeyCache,
}

impl Logfmt {
    pub(crate) fn compile(parser: &LogfmtParser) -> Self {
        Self {
            is_strict: parser.strict,
            keeps_empty: parser.keep_empty,
            name: Vec::new(),
            value: Vec::new(),
            known: KeyCache::default(),
        }
    }

    pub(crate) fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        if labels.has_all() {
            return;
        }
        let mut decoder = Decoder::new(line);
        while let Some(pair) = decoder.next() {
            match pair.and_then(|pair| self.pair(&pair, labels)) {
                Ok(()) => {}
                Err(error) if self.is_strict => return set_error(labels, &error),
                Err(_) => {}
            }
            if labels.has_all() {
                return;
            }
        }
    }

    fn pair(&mut self, pair: &Pair<'_>, labels: &mut EntryLabels) -> Result<(), SyntaxError> {
        if pair.has_escapes && self.is_strict {
            unescape(pair, &mut self.value)?;
        }
        if pair.value.is_empty() && !self.keeps_empty {
            return Ok(());
        }
        let name = &mut self.name;
        let id = self.known.get(pair.key, |key| labels.field_id(sanitized(key, name)));
        let Some(target) = id.and_then(|id| labels.target_of(id)) else {
            return Ok(());
        };
        set_value(pair, target, &mut self.value, labels)
    }
}

/// The name of the label that a key stands for.
fn sanitized<'n>(key: &'n [u8], buffer: &'n mut Vec<u8>) -> &'n [u8] {
    if is_label_name(key) {
        return key;
    }
    buffer.clear();
    push_sanitized(buffer, key);
    buffer
}

fn unescape(pair: &Pair<'_>, value: &mut Vec<u8>) -> Result<(), SyntaxError> {
    value.clear();
    if push_unescaped(value, pair.value) {
        Ok(())
    } else {
        Err(SyntaxError { position: pair.end + 1, message: BAD_QUOTED_VALUE })
    }
}

fn set_value(
    pair: &Pair<'_>,
    target: NameId,
    buffer: &mut Vec<u8>,
    labels: &mut EntryLabels,
) -> Result<(), SyntaxError> {
    if pair.has_escapes {
        unescape(pair, buffer)?;
        labels.set_with(target, |arena| arena.extend_from_slice(buffer));
    } else {
        labels.set(target, pair.value);
    }
    Ok(())
}

fn set_error(labels: &mut EntryLabels, error: &SyntaxError) {
    labels.set_parser_error(b"LogfmtParserErr", error.to_string().as_bytes());
}
