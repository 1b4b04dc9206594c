//! `| logfmt a="b"`: the listed keys.
//!
//! Two defects of Loki are not copied. Loki takes a pair for a label if its key equals the name of
//! the label, even where the source is another key; this stage leaves the pair alone. Loki ignores
//! a source that an earlier parser has extracted; this stage reads it.

use super::super::super::meter::Meter;
use super::super::json::label_of;
use super::super::{CompiledStage, Entry};
use super::decode::{Decoder, Pair, SyntaxError};
use super::{COUNTED_BYTES, sanitized, set_error, set_value, unescape};
use crate::engine::labels::{EntryLabels, NameId};
use crate::syntax::ast::LogfmtParser;

/// The work of a pair, see [`super::super::super::meter`].
const PAIR_WORK: usize = 32;
/// The work of comparing a key with a listed one, see [`super::super::super::meter`].
const LISTED_WORK: usize = 8;

#[derive(Debug)]
struct Listed {
    label: NameId,
    /// A sanitised key.
    source: Box<[u8]>,
}

/// `| logfmt` with expressions.
#[derive(Debug)]
pub(crate) struct LogfmtExpressions {
    is_strict: bool,
    list: Vec<Listed>,
    /// Scratch: a sanitised key.
    name: Vec<u8>,
    /// Scratch: a value without its escapes.
    value: Vec<u8>,
}

impl LogfmtExpressions {
    /// Compiles the list. Of several items with one label the last one counts.
    ///
    /// # Errors
    /// The detail of Loki's stage error.
    pub(crate) fn compile(parser: &LogfmtParser, labels: &mut EntryLabels) -> Result<Self, String> {
        let mut list: Vec<Listed> = Vec::with_capacity(parser.extractions.len());
        for item in &parser.extractions {
            let source = source_of(&item.source)?;
            let label = label_of(item, labels)?;
            list.retain(|listed| listed.label != label);
            list.push(Listed { label, source });
        }
        Ok(Self { is_strict: parser.strict, list, name: Vec::new(), value: Vec::new() })
    }

    fn pair(&mut self, pair: &Pair<'_>, labels: &mut EntryLabels) -> Result<(), SyntaxError> {
        if pair.has_escapes && self.is_strict {
            unescape(pair, &mut self.value, labels.meter())?;
        }
        let Some(name) = sanitized(pair.key, &mut self.name, labels.meter()) else {
            return Ok(());
        };
        for listed in &self.list {
            if *listed.source == *name {
                let target = labels.extraction_name(listed.label);
                set_value(pair, target, &mut self.value, labels)?;
            }
        }
        Ok(())
    }
}

impl CompiledStage for LogfmtExpressions {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let (line, labels) = entry.parts();
        if labels.has_all() && !self.list.iter().any(|l| labels.is_wanted(l.label)) {
            return;
        }
        for listed in &self.list {
            if !labels.is_taken(listed.label) {
                labels.set(listed.label, b"");
            }
        }
        let mut uncounted = 0;
        let mut decoder = Decoder::new(line);
        while let Some(pair) = decoder.next() {
            uncounted += PAIR_WORK + self.list.len() * LISTED_WORK;
            if uncounted >= COUNTED_BYTES {
                if !labels.meter().work(uncounted) {
                    return;
                }
                uncounted = 0;
            }
            if let Err(error) = pair.and_then(|pair| self.pair(&pair, labels))
                && self.is_strict
            {
                return set_error(labels, &error);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.name.capacity()
            + self.value.capacity()
            + self.list.capacity() * size_of::<Listed>()
            + self.list.iter().map(|listed| listed.source.len()).sum::<usize>()
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.name);
        meter.recycle(&mut self.value);
    }
}

/// Reads the expression of a source: a name, or a text in quotes.
fn source_of(expression: &[u8]) -> Result<Box<[u8]>, String> {
    parse_source(expression).map_err(|detail| {
        format!("cannot parse expression [{}]: {detail}", String::from_utf8_lossy(expression))
    })
}

fn parse_source(expression: &[u8]) -> Result<Box<[u8]>, String> {
    let (source, rest) =
        next_token(expression)?.ok_or("syntax error: unexpected $end, expecting STRING or KEY")?;
    match next_token(rest)? {
        None => Ok(source.text().into()),
        Some((Token::Key(_), _)) => Err("syntax error: unexpected KEY".to_owned()),
        Some((Token::Quoted(_), _)) => Err("syntax error: unexpected STRING".to_owned()),
    }
}

enum Token<'t> {
    Key(&'t [u8]),
    Quoted(&'t [u8]),
}

impl Token<'_> {
    fn text(&self) -> &[u8] {
        match self {
            Self::Key(text) | Self::Quoted(text) => text,
        }
    }
}

/// The token at the start of the text, and the text behind it.
fn next_token(text: &[u8]) -> Result<Option<(Token<'_>, &[u8])>, String> {
    let text = text.trim_ascii_start();
    let Some(&first) = text.first() else { return Ok(None) };
    if first == b'"' {
        let Some(len) = memchr::memchr(b'"', &text[1..]) else {
            return Err("syntax error: unexpected $end, expecting STRING or KEY".to_owned());
        };
        return Ok(Some((Token::Quoted(&text[1..=len]), &text[len + 2..])));
    }
    let is_part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    let len = text.iter().take_while(is_part).count();
    if len == 0 || first.is_ascii_digit() {
        let shown = String::from_utf8_lossy(text).chars().next().unwrap_or_default();
        return Err(format!("unexpected char {shown}"));
    }
    Ok(Some((Token::Key(&text[..len]), &text[len..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_single_names() {
        for (text, source) in [("a_1", "a_1"), (" b ", "b"), ("\"x-y\"", "x-y")] {
            let parsed = source_of(text.as_bytes()).expect("valid");
            assert_eq!(&*parsed, source.as_bytes(), "{text}");
        }
        for (text, detail) in [
            ("", "syntax error: unexpected $end, expecting STRING or KEY"),
            ("x-y", "unexpected char -"),
            ("1x", "unexpected char 1"),
            ("a b", "syntax error: unexpected KEY"),
            ("a \"b\"", "syntax error: unexpected STRING"),
            ("\"a", "syntax error: unexpected $end, expecting STRING or KEY"),
        ] {
            let wanted = format!("cannot parse expression [{text}]: {detail}");
            assert_eq!(source_of(text.as_bytes()).expect_err(text), wanted);
        }
    }
}
