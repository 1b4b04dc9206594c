//! Structured metadata as it is stored: valid names, sorted, unique.
//!
//! Rules: every run of characters outside `[a-zA-Z0-9_]` in a name becomes one
//! `_`; a leading digit gets the prefix `key_`; of equal names the last wins;
//! pairs with an empty value vanish; a byte of a value that is not UTF-8 becomes
//! a space; a name that is empty or has nothing but underscores is refused.

use crate::labels::is_valid_label_name;
use crate::push::{MetadataIter, MetadataRef};

/// Why metadata was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetadataError {
    /// A name is empty.
    #[error("label name is empty")]
    EmptyName,
    /// Nothing but underscores is left of a name.
    #[error("normalization for label name \"{name}\" resulted in invalid name \"{normalized}\"")]
    InvalidName {
        /// The name as sent; bytes that are not UTF-8 are shown as U+FFFD.
        name: String,
        /// What became of it.
        normalized: String,
    },
}

/// Normalises metadata. Keep one and reuse it: its buffers are the only
/// allocations, and metadata that is already normal passes through untouched.
#[derive(Default, Debug)]
pub struct MetadataNormalizer {
    text: Vec<u8>,
    /// Ends of name and value in `text`; a pair begins where the one before it
    /// in arrival order ends.
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    name_end: usize,
    value_end: usize,
}

impl Span {
    fn name<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start..self.name_end]
    }

    fn value<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.name_end..self.value_end]
    }
}

/// Metadata in normal form, by ascending name.
#[derive(Clone, Debug)]
pub struct NormalizedMetadata<'m>(Form<'m>);

#[derive(Clone, Debug)]
enum Form<'m> {
    AsSent(MetadataRef<'m>),
    Rewritten { text: &'m [u8], spans: &'m [Span] },
}

impl MetadataNormalizer {
    /// A normaliser with empty buffers.
    pub fn new() -> MetadataNormalizer {
        MetadataNormalizer::default()
    }

    /// Brings metadata into normal form.
    pub fn normalize<'m>(
        &'m mut self,
        metadata: MetadataRef<'m>,
    ) -> Result<NormalizedMetadata<'m>, MetadataError> {
        if is_normal(metadata.iter()) {
            return Ok(NormalizedMetadata(Form::AsSent(metadata)));
        }
        self.rewrite(metadata)?;
        Ok(NormalizedMetadata(Form::Rewritten { text: &self.text, spans: &self.spans }))
    }

    fn rewrite(&mut self, metadata: MetadataRef<'_>) -> Result<(), MetadataError> {
        let (text, spans) = (&mut self.text, &mut self.spans);
        text.clear();
        spans.clear();
        for (name, value) in metadata.iter() {
            let start = text.len();
            write_name(name, text)?;
            let name_end = text.len();
            write_value(value, text);
            spans.push(Span { start, name_end, value_end: text.len() });
        }
        // The sort is stable, so the last of equal names stands last.
        spans.sort_by(|a, b| a.name(text).cmp(b.name(text)));
        spans.dedup_by(|later, kept| {
            let equal = later.name(text) == kept.name(text);
            if equal {
                *kept = *later;
            }
            equal
        });
        spans.retain(|span| span.name_end < span.value_end);
        Ok(())
    }
}

fn is_normal(pairs: MetadataIter<'_>) -> bool {
    let mut previous: &[u8] = b"";
    for (name, value) in pairs {
        let valid = previous < name
            && is_valid_label_name(name)
            && !all_underscores(name)
            && !value.is_empty()
            && simdutf8::basic::from_utf8(value).is_ok();
        if !valid {
            return false;
        }
        previous = name;
    }
    true
}

fn all_underscores(name: &[u8]) -> bool {
    name.iter().all(|&byte| byte == b'_')
}

/// Appends a name in normal form.
pub fn write_name(name: &[u8], out: &mut Vec<u8>) -> Result<(), MetadataError> {
    if name.is_empty() {
        return Err(MetadataError::EmptyName);
    }
    let start = out.len();
    if name[0].is_ascii_digit() {
        out.extend_from_slice(b"key_");
    }
    let mut in_run = false;
    for &byte in name {
        if byte == b'_' || byte.is_ascii_alphanumeric() {
            out.push(byte);
            in_run = false;
        } else if !in_run {
            out.push(b'_');
            in_run = true;
        }
    }
    if all_underscores(&out[start..]) {
        return Err(MetadataError::InvalidName {
            name: String::from_utf8_lossy(name).into_owned(),
            normalized: String::from_utf8_lossy(&out[start..]).into_owned(),
        });
    }
    Ok(())
}

/// Appends a value with a space for each byte that is not UTF-8.
fn write_value(value: &[u8], out: &mut Vec<u8>) {
    for chunk in value.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        out.resize(out.len() + chunk.invalid().len(), b' ');
    }
}

impl<'m> NormalizedMetadata<'m> {
    /// Names and values, by ascending name; both are valid UTF-8.
    pub fn iter(&self) -> NormalizedIter<'m> {
        NormalizedIter(match self.0 {
            Form::AsSent(metadata) => IterForm::AsSent(metadata.iter()),
            Form::Rewritten { text, spans } => IterForm::Rewritten { text, spans: spans.iter() },
        })
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::AsSent(metadata) => metadata.is_empty(),
            Form::Rewritten { spans, .. } => spans.is_empty(),
        }
    }
}

/// Iterator over the pairs of [`NormalizedMetadata`].
#[derive(Clone, Debug)]
pub struct NormalizedIter<'m>(IterForm<'m>);

#[derive(Clone, Debug)]
enum IterForm<'m> {
    AsSent(MetadataIter<'m>),
    Rewritten { text: &'m [u8], spans: std::slice::Iter<'m, Span> },
}

impl<'m> Iterator for NormalizedIter<'m> {
    type Item = (&'m [u8], &'m [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::AsSent(pairs) => pairs.next(),
            IterForm::Rewritten { text, spans } => {
                let span = spans.next()?;
                Some((span.name(text), span.value(text)))
            }
        }
    }
}
