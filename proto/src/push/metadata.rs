//! Structured metadata as it is stored: valid names, sorted, unique.
//!
//! Rules: every run of characters outside `[a-zA-Z0-9_]` in a name becomes one
//! `_`; a leading digit gets the prefix `key_`; of equal names the last wins;
//! pairs with an empty value vanish; a byte of a value that is not UTF-8 becomes
//! a space; a name that is empty or has nothing but underscores is refused.

mod names;

use std::num::NonZeroU64;

use crate::labels::is_valid_label_name;
use crate::push::{MetadataIter, MetadataRef};
use names::KnownNames;

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
/// allocations, metadata that is already normal passes through untouched, and names that
/// the last entry had, too, are not checked or sorted again.
#[derive(Default, Debug)]
pub struct MetadataNormalizer {
    known: KnownNames,
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
    Ordered { pairs: &'m [(&'m [u8], &'m [u8])], places: &'m [u8], names: NonZeroU64 },
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
        if let Some(pairs) = metadata.as_slice()
            && pairs.iter().all(|(_, value)| is_normal_value(value))
            && self.known.learn(pairs)
        {
            let (places, names) = (self.known.places(), self.known.number());
            return Ok(NormalizedMetadata(Form::Ordered { pairs, places, names }));
        }
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
        if previous >= name || !is_normal_name(name) || !is_normal_value(value) {
            return false;
        }
        previous = name;
    }
    true
}

#[inline]
fn is_normal_value(value: &[u8]) -> bool {
    !value.is_empty() && (value.is_ascii() || simdutf8::basic::from_utf8(value).is_ok())
}

fn is_normal_name(name: &[u8]) -> bool {
    is_valid_label_name(name) && !all_underscores(name)
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
    #[inline]
    pub fn iter(&self) -> NormalizedIter<'m> {
        NormalizedIter(match self.0 {
            Form::AsSent(metadata) => IterForm::AsSent(metadata.iter()),
            Form::Ordered { pairs, places, .. } => {
                IterForm::Ordered { pairs, places: places.iter() }
            }
            Form::Rewritten { text, spans } => IterForm::Rewritten { text, spans: spans.iter() },
        })
    }

    /// A number for the names: as long as a normaliser gives the same one, they are the same.
    /// `None` if they were not remembered.
    #[inline]
    pub fn names_number(&self) -> Option<NonZeroU64> {
        match self.0 {
            Form::Ordered { names, .. } => Some(names),
            Form::AsSent(_) | Form::Rewritten { .. } => None,
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::AsSent(metadata) => metadata.is_empty(),
            Form::Ordered { pairs, .. } => pairs.is_empty(),
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
    Ordered { pairs: &'m [(&'m [u8], &'m [u8])], places: std::slice::Iter<'m, u8> },
    Rewritten { text: &'m [u8], spans: std::slice::Iter<'m, Span> },
}

impl<'m> Iterator for NormalizedIter<'m> {
    type Item = (&'m [u8], &'m [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::AsSent(pairs) => pairs.next(),
            IterForm::Ordered { pairs, places } => {
                let &place = places.next()?;
                Some(pairs[usize::from(place)])
            }
            IterForm::Rewritten { text, spans } => {
                let span = spans.next()?;
                Some((span.name(text), span.value(text)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair<'a> = (&'a str, &'a str);

    fn normalized(pairs: &[(&[u8], &[u8])]) -> Result<String, String> {
        let mut normalizer = MetadataNormalizer::new();
        let normalized =
            normalizer.normalize(MetadataRef::from_slice(pairs)).map_err(|e| e.to_string())?;
        let printed: Vec<_> = normalized
            .iter()
            .map(|(name, value)| {
                let text = |bytes| std::str::from_utf8(bytes).expect("normal form is UTF-8");
                format!("{}={}", text(name), text(value))
            })
            .collect();
        assert_eq!(normalized.is_empty(), printed.is_empty());
        Ok(printed.join(" "))
    }

    fn normalized_texts(pairs: &[Pair<'_>]) -> Result<String, String> {
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        normalized(&pairs)
    }

    #[test]
    fn names_and_values_get_their_normal_form() {
        let cases: [(&[Pair<'_>], Result<&str, &str>); 12] = [
            (&[], Ok("")),
            (&[("a", "1"), ("b", "2")], Ok("a=1 b=2")),
            (&[("b", "2"), ("a", "1")], Ok("a=1 b=2")),
            (&[("a.b", "1"), ("c-d", "2"), ("9x", "3")], Ok("a_b=1 c_d=2 key_9x=3")),
            (&[("ünï", "3"), ("1st", "4"), ("a. b", "5")], Ok("_n_=3 a_b=5 key_1st=4")),
            (&[("a__b", "1"), ("a_.b", "2")], Ok("a__b=2")),
            (&[("a", "1"), ("z", "9"), ("a", "2")], Ok("a=2 z=9")),
            (&[("a.b", "1"), ("a_b", "2"), ("a-b", "3")], Ok("a_b=3")),
            (&[("a", ""), ("b", "2")], Ok("b=2")),
            (&[("", "x")], Err("label name is empty")),
            (
                &[("_", "x")],
                Err("normalization for label name \"_\" resulted in invalid name \"_\""),
            ),
            (
                &[("...", "x")],
                Err("normalization for label name \"...\" resulted in invalid name \"_\""),
            ),
        ];
        for (pairs, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(normalized_texts(pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn many_pairs_are_ordered_like_few() {
        for count in 1..40_usize {
            let names: Vec<String> =
                (0..count).map(|n| format!("n{:02}", n * 7 % count.next_power_of_two())).collect();
            let pairs: Vec<Pair<'_>> = names.iter().map(|name| (&**name, "v")).collect();
            let mut expected = names.clone();
            expected.sort();
            expected.dedup();
            let expected: Vec<String> = expected.iter().map(|name| format!("{name}=v")).collect();
            assert_eq!(normalized_texts(&pairs), Ok(expected.join(" ")), "{names:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_become_spaces() {
        assert_eq!(normalized(&[(b"a", b"x\xff\xfey")]), Ok("a=x  y".to_owned()));
        assert_eq!(normalized(&[(b"a\xffb", b"x")]), Ok("a_b=x".to_owned()));
    }

    #[test]
    fn names_have_one_number_as_long_as_they_stay() {
        let mut normalizer = MetadataNormalizer::new();
        let mut normalize = |pairs: &[(&[u8], &[u8])]| {
            let normalized = normalizer.normalize(MetadataRef::from_slice(pairs)).expect("valid");
            let printed: Vec<String> = normalized
                .iter()
                .map(|pair| String::from_utf8_lossy(&[pair.0, b"=", pair.1].concat()).into_owned())
                .collect();
            (normalized.names_number(), printed.join(" "))
        };
        let (first, printed) = normalize(&[(b"trace_id", b"1"), (b"span_id", b"2")]);
        assert_eq!(printed, "span_id=2 trace_id=1");
        let (again, printed) = normalize(&[(b"trace_id", b"3"), (b"span_id", b"\xc3\xa9")]);
        assert_eq!((again, &*printed), (first, "span_id=\u{e9} trace_id=3"));
        assert!(first.is_some());
        // What has to be rewritten changes nothing of what is known, but for the entry.
        assert_eq!(
            normalize(&[(b"trace_id", b""), (b"span_id", b"2")]),
            (None, "span_id=2".into())
        );
        assert_eq!(normalize(&[(b"a", b"1"), (b"a", b"2")]), (None, "a=2".into()));
        let unnamed: &[(&[u8], &[u8])] = &[(b"", b"1"), (b"span_id", b"2")];
        assert!(normalizer.normalize(MetadataRef::from_slice(unnamed)).is_err());
        let mut normalize = |pairs: &[(&[u8], &[u8])]| {
            let normalized = normalizer.normalize(MetadataRef::from_slice(pairs)).expect("valid");
            let names: Vec<_> = normalized.iter().map(|(name, _)| name.to_vec()).collect();
            (normalized.names_number(), names.concat())
        };
        let pairs: &[(&[u8], &[u8])] = &[(b"trace_id", b"1"), (b"span_id", b"2")];
        assert_eq!(normalize(pairs), (first, b"span_idtrace_id".to_vec()));
        // As long together, one longer than before, one more, the other way round.
        let mut last = first;
        for pairs in [
            &[(&b"trace_i"[..], &b"1"[..]), (b"dspan_id", b"2")][..],
            &[(b"trace_id", b"1"), (b"span_ie", b"2")],
            &[(b"trace_id", b"1"), (b"span_id", b"2"), (b"x", b"3")],
            &[(b"span_id", b"2"), (b"trace_id", b"1")],
            pairs,
        ] {
            let (number, names) = normalize(pairs);
            let mut expected: Vec<_> = pairs.iter().map(|(name, _)| *name).collect();
            expected.sort_unstable();
            assert_eq!(names, expected.concat());
            assert!(number.is_some() && number != last, "{pairs:?}");
            last = number;
        }
    }

    #[test]
    fn buffers_are_reused_between_entries() {
        let mut normalizer = MetadataNormalizer::new();
        for value in [&b"1"[..], b"2"] {
            let pairs = [(&b"z"[..], value), (b"a.b", b"x")];
            let normalized = normalizer.normalize(MetadataRef::from_slice(&pairs)).expect("valid");
            let kept: Vec<_> = normalized.iter().collect();
            assert_eq!(kept, [(&b"a_b"[..], &b"x"[..]), (b"z", value)]);
        }
    }
}
