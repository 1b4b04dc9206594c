//! Structured metadata as it is stored: valid names, sorted, unique.
//!
//! Rules: every run of characters outside `[a-zA-Z0-9_]` in a name becomes one
//! `_`; a leading digit gets the prefix `key_`; of equal names the last wins;
//! pairs with an empty value vanish; a byte of a value that is not UTF-8 becomes
//! a space; a name that is empty or has nothing but underscores is refused.

use std::cmp::Ordering;

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
    Ordered { pairs: &'m [(&'m [u8], &'m [u8])], order: Order },
    Rewritten { text: &'m [u8], spans: &'m [Span] },
}

/// Pairs that are in order.
const ORDERED_MAX: usize = 16;

/// The order of a few pairs that lack nothing else.
#[derive(Clone, Copy, Debug)]
struct Order {
    places: [u8; ORDERED_MAX],
    len: u8,
}

impl Order {
    /// `None` if the pairs are many, or not all normal by themselves.
    fn of(pairs: &[(&[u8], &[u8])]) -> Option<Order> {
        let mut order = Order { places: [0; ORDERED_MAX], len: 0 };
        for (&(name, value), place) in pairs.iter().zip(0_u8..) {
            let len = usize::from(order.len);
            if len == ORDERED_MAX || !is_normal_pair(name, value) {
                return None;
            }
            let mut at = len;
            while at > 0 {
                match pairs[usize::from(order.places[at - 1])].0.cmp(name) {
                    Ordering::Less => break,
                    Ordering::Equal => return None,
                    Ordering::Greater => order.places[at] = order.places[at - 1],
                }
                at -= 1;
            }
            order.places[at] = place;
            order.len += 1;
        }
        Some(order)
    }

    fn places(&self) -> &[u8] {
        &self.places[..usize::from(self.len)]
    }
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
        if let Some(pairs) = metadata.as_slice()
            && let Some(order) = Order::of(pairs)
        {
            return Ok(NormalizedMetadata(Form::Ordered { pairs, order }));
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
        if previous >= name || !is_normal_pair(name, value) {
            return false;
        }
        previous = name;
    }
    true
}

fn is_normal_pair(name: &[u8], value: &[u8]) -> bool {
    is_valid_label_name(name)
        && !all_underscores(name)
        && !value.is_empty()
        && (value.is_ascii() || simdutf8::basic::from_utf8(value).is_ok())
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
            Form::Ordered { pairs, order } => IterForm::Ordered { pairs, order, next: 0 },
            Form::Rewritten { text, spans } => IterForm::Rewritten { text, spans: spans.iter() },
        })
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
    Ordered { pairs: &'m [(&'m [u8], &'m [u8])], order: Order, next: u8 },
    Rewritten { text: &'m [u8], spans: std::slice::Iter<'m, Span> },
}

impl<'m> Iterator for NormalizedIter<'m> {
    type Item = (&'m [u8], &'m [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::AsSent(pairs) => pairs.next(),
            IterForm::Ordered { pairs, order, next } => {
                let &place = order.places().get(usize::from(*next))?;
                *next += 1;
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
