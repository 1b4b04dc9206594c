//! `| logfmt`: every pair of the line becomes a label, or with expressions the
//! listed ones.

mod decode;
mod expressions;

use super::super::meter::Meter;
use super::{CompiledStage, Entry};
use crate::engine::labels::key_cache::KeyCache;
use crate::engine::labels::text::{is_label_name, push_sanitized};
use crate::engine::labels::{EntryLabels, NameId};
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

    fn pairs<const IS_COUNTED: bool>(&mut self, line: &[u8], labels: &mut EntryLabels) {
        let mut decoder = Decoder::new(line);
        let mut counted = 0;
        while let Some(pair) = decoder.next() {
            if IS_COUNTED && decoder.position() - counted >= COUNTED_BYTES {
                if !labels.meter().work(PAIR_FACTOR * (decoder.position() - counted)) {
                    return;
                }
                counted = decoder.position();
            }
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

    #[inline(always)]
    fn pair(&mut self, pair: &Pair<'_>, labels: &mut EntryLabels) -> Result<(), SyntaxError> {
        if pair.has_escapes && self.is_strict {
            unescape(pair, &mut self.value, labels.meter())?;
        }
        if pair.value.is_empty() && !self.keeps_empty {
            return Ok(());
        }
        let name = &mut self.name;
        let id = self.known.get(pair.key, |key| label_of(key, name, labels));
        let Some(target) = id.and_then(|id| labels.target_of(id)) else {
            return Ok(());
        };
        set_value(pair, target, &mut self.value, labels)
    }
}

impl CompiledStage for Logfmt {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        if labels.has_all() {
            return;
        }
        // A pair takes some nanoseconds, so a check at each pair would be measurable.
        if line.len() < COUNTED_BYTES {
            self.pairs::<false>(line, labels);
        } else {
            self.pairs::<true>(line, labels);
        }
    }

    fn held_bytes(&self) -> usize {
        self.name.capacity() + self.value.capacity() + KeyCache::BYTES
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.name);
        meter.recycle(&mut self.value);
    }
}

/// Bytes of pairs whose work is counted at once, see [`super::super::meter`].
const COUNTED_BYTES: usize = 16 << 10;
/// The work of a byte of pairs: there may be one pair in four bytes.
const PAIR_FACTOR: usize = 4;

/// The label that a key stands for, if the query reads it.
#[inline(never)]
fn label_of(key: &[u8], buffer: &mut Vec<u8>, labels: &mut EntryLabels) -> Option<NameId> {
    let name = sanitized(key, buffer, labels.meter())?;
    labels.field_id(name)
}

/// The name of the label that a key stands for; `None` if there is no memory for it.
fn sanitized<'n>(key: &'n [u8], buffer: &'n mut Vec<u8>, meter: &Meter) -> Option<&'n [u8]> {
    if is_label_name(key) {
        return Some(key);
    }
    buffer.clear();
    // An underscore may come to it.
    if !meter.make_room(buffer, key.len() + 1) {
        return None;
    }
    push_sanitized(buffer, key);
    Some(buffer)
}

fn unescape(pair: &Pair<'_>, value: &mut Vec<u8>, meter: &Meter) -> Result<(), SyntaxError> {
    value.clear();
    if !meter.make_room(value, pair.value.len()) {
        return Ok(());
    }
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
        unescape(pair, buffer, labels.meter())?;
        labels.set_with(target, buffer.len(), |arena| arena.extend_from_slice(buffer));
    } else {
        labels.set(target, pair.value);
    }
    Ok(())
}

fn set_error(labels: &mut EntryLabels, error: &SyntaxError) {
    labels.set_parser_error(b"LogfmtParserErr", error.to_string().as_bytes());
}
