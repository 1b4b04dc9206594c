//! Structured metadata as it is stored: valid names, sorted, unique.
//!
//! Names: every run of characters outside `[a-zA-Z0-9]` becomes one `_`, except that a name
//! which begins and ends with `__` keeps these two pairs; a leading digit gets the prefix
//! `key_`; a name that is empty or has nothing but underscores is refused.
//!
//! Values: pairs with an empty value vanish; U+FFFD and every byte that is not UTF-8 become a
//! space.
//!
//! Of pairs whose names become equal one survives, as in Loki: the last pair whose name or value
//! had to be rewritten, and only without such a pair the last pair of all. A pair with an empty
//! value removes the pairs before it. If its name is in normal form, it also removes all pairs
//! whose names and values are in normal form. [`NormalizedMetadata::lost`] counts the pairs that
//! were lost this way.

mod names;

use std::num::NonZeroU64;

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
        /// The name after rewriting.
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
    /// Where the pairs are in `text`.
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    name_end: usize,
    value_end: usize,
    /// Whether name or value had to be rewritten.
    is_rewritten: bool,
}

/// Pairs that were dropped for other pairs of the same name and another value.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LostPairs {
    /// The number of pairs.
    pub count: u64,
    /// Bytes of their names and values in normal form.
    pub len_bytes: u64,
}

impl Span {
    fn name<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start..self.name_end]
    }

    fn value<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.name_end..self.value_end]
    }

    fn has_no_value(&self) -> bool {
        self.name_end == self.value_end
    }
}

/// Metadata in normal form, by ascending name.
#[derive(Clone, Debug)]
pub struct NormalizedMetadata<'m>(Form<'m>);

#[derive(Clone, Debug)]
enum Form<'m> {
    AsSent(MetadataRef<'m>),
    Ordered { pairs: &'m [(&'m [u8], &'m [u8])], positions: &'m [u8], names: NonZeroU64 },
    Rewritten { text: &'m [u8], spans: &'m [Span], lost: LostPairs },
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
            let (positions, names) = (self.known.positions(), self.known.number());
            return Ok(NormalizedMetadata(Form::Ordered { pairs, positions, names }));
        }
        if is_normal(metadata.iter()) {
            return Ok(NormalizedMetadata(Form::AsSent(metadata)));
        }
        let lost = self.rewrite(metadata)?;
        Ok(NormalizedMetadata(Form::Rewritten { text: &self.text, spans: &self.spans, lost }))
    }

    fn rewrite(&mut self, metadata: MetadataRef<'_>) -> Result<LostPairs, MetadataError> {
        let (text, spans) = (&mut self.text, &mut self.spans);
        text.clear();
        spans.clear();
        for (name, value) in metadata.iter() {
            let start = text.len();
            write_name(name, text)?;
            let name_end = text.len();
            let is_rewritten = text[start..] != *name || !has_no_replacement(value);
            write_value(value, text);
            spans.push(Span { start, name_end, value_end: text.len(), is_rewritten });
        }
        // The sort is stable, so pairs of equal names stay in their order.
        spans.sort_by(|a, b| a.name(text).cmp(b.name(text)));
        Ok(keep_survivors(spans, text))
    }
}

/// Keeps one pair of each name, if any survives. The pairs are sorted by name.
fn keep_survivors(spans: &mut Vec<Span>, text: &[u8]) -> LostPairs {
    let mut lost = LostPairs::default();
    let (mut next, mut kept) = (0, 0);
    while let Some(first) = spans.get(next) {
        let name = first.name(text);
        let same = spans[next..].iter().take_while(|span| span.name(text) == name).count();
        let group = &spans[next..next + same];
        let survivor = survivor(group);
        let value = survivor.map(|span| span.value(text));
        for span in group.iter().filter(|span| !span.has_no_value()) {
            if value != Some(span.value(text)) {
                lost.count += 1;
                lost.len_bytes += (span.value_end - span.start) as u64;
            }
        }
        next += same;
        if let Some(survivor) = survivor {
            spans[kept] = survivor;
            kept += 1;
        }
    }
    spans.truncate(kept);
    lost
}

/// Which of the pairs of one name survives.
fn survivor(group: &[Span]) -> Option<Span> {
    let (mut as_sent, mut rewritten) = (None, None);
    let mut as_sent_is_gone = false;
    for span in group {
        as_sent_is_gone |= span.has_no_value();
        match span.is_rewritten {
            true => rewritten = (!span.has_no_value()).then_some(*span),
            false => as_sent = Some(*span),
        }
    }
    rewritten.or(as_sent.filter(|_| !as_sent_is_gone))
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
    !value.is_empty() && (value.is_ascii() || has_no_replacement(value))
}

/// Whether a value is UTF-8 without U+FFFD.
fn has_no_replacement(value: &[u8]) -> bool {
    simdutf8::basic::from_utf8(value).is_ok() && memchr::memmem::find(value, REPLACEMENT).is_none()
}

/// U+FFFD in UTF-8.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Whether [`write_name`] would write the name as it is.
pub fn is_normal_name(name: &[u8]) -> bool {
    let inner = if is_reserved(name) { &name[2..name.len() - 2] } else { name };
    let mut after_underscore = false;
    let has_single_underscores = inner.iter().all(|&byte| {
        let doubled = byte == b'_' && after_underscore;
        after_underscore = byte == b'_';
        !doubled && (byte == b'_' || byte.is_ascii_alphanumeric())
    });
    has_single_underscores && !name.first().is_none_or(u8::is_ascii_digit) && !all_underscores(name)
}

/// Whether a name keeps the two underscores at both ends.
fn is_reserved(name: &[u8]) -> bool {
    name.len() >= 4 && name.starts_with(b"__") && name.ends_with(b"__")
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
    let (ends, inner): (&[u8], _) =
        if is_reserved(name) { (b"__", &name[2..name.len() - 2]) } else { (b"", name) };
    out.extend_from_slice(ends);
    let mut in_run = false;
    for &byte in inner {
        if byte.is_ascii_alphanumeric() {
            out.push(byte);
            in_run = false;
        } else if !in_run {
            out.push(b'_');
            in_run = true;
        }
    }
    out.extend_from_slice(ends);
    if all_underscores(&out[start..]) {
        let normalized = String::from_utf8_lossy(&out[start..]).into_owned();
        out.truncate(start);
        let name = String::from_utf8_lossy(name).into_owned();
        return Err(MetadataError::InvalidName { name, normalized });
    }
    Ok(())
}

/// Appends a value with a space for each U+FFFD and each byte that is not UTF-8.
fn write_value(value: &[u8], out: &mut Vec<u8>) {
    for chunk in value.utf8_chunks() {
        for (index, piece) in chunk.valid().split('\u{fffd}').enumerate() {
            out.extend_from_slice(if index > 0 { b" " } else { b"" });
            out.extend_from_slice(piece.as_bytes());
        }
        out.resize(out.len() + chunk.invalid().len(), b' ');
    }
}

impl<'m> NormalizedMetadata<'m> {
    /// Names and values, by ascending name; both are valid UTF-8.
    #[inline]
    pub fn iter(&self) -> NormalizedIter<'m> {
        NormalizedIter(match self.0 {
            Form::AsSent(metadata) => IterForm::AsSent(metadata.iter()),
            Form::Ordered { pairs, positions, .. } => {
                IterForm::Ordered { pairs, positions: positions.iter() }
            }
            Form::Rewritten { text, spans, .. } => {
                IterForm::Rewritten { text, spans: spans.iter() }
            }
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

    /// The pairs that gave way to other pairs of the same name.
    #[inline]
    pub fn lost(&self) -> LostPairs {
        match self.0 {
            Form::Rewritten { lost, .. } => lost,
            Form::AsSent(_) | Form::Ordered { .. } => LostPairs::default(),
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
    Ordered { pairs: &'m [(&'m [u8], &'m [u8])], positions: std::slice::Iter<'m, u8> },
    Rewritten { text: &'m [u8], spans: std::slice::Iter<'m, Span> },
}

impl<'m> Iterator for NormalizedIter<'m> {
    type Item = (&'m [u8], &'m [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::AsSent(pairs) => pairs.next(),
            IterForm::Ordered { pairs, positions } => {
                let &position = positions.next()?;
                Some(pairs[usize::from(position)])
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
        let cases: [(&[Pair<'_>], Result<&str, &str>); 19] = [
            (&[], Ok("")),
            (&[("a", "1"), ("b", "2")], Ok("a=1 b=2")),
            (&[("b", "2"), ("a", "1")], Ok("a=1 b=2")),
            (&[("a.b", "1"), ("c-d", "2"), ("9x", "3")], Ok("a_b=1 c_d=2 key_9x=3")),
            (&[("ünï", "3"), ("1st", "4"), ("a. b", "5")], Ok("_n_=3 a_b=5 key_1st=4")),
            (&[("a__b", "1"), ("a_.b", "2")], Ok("a_b=2")),
            (&[("x__y", "1"), ("___z", "2"), ("_q", "3")], Ok("_q=3 _z=2 x_y=1")),
            (&[("__name__", "1"), ("__x", "2"), ("x__", "3")], Ok("__name__=1 _x=2 x_=3")),
            (&[("__a__b__", "1"), ("____c__", "2")], Ok("___c__=2 __a_b__=1")),
            (&[("1__", "1"), ("__1__", "2"), ("a_-_b", "3")], Ok("__1__=2 a_b=3 key_1_=1")),
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
            (
                &[("日本", "x")],
                Err("normalization for label name \"日本\" resulted in invalid name \"_\""),
            ),
            (
                &[("____", "x")],
                Err("normalization for label name \"____\" resulted in invalid name \"____\""),
            ),
            (
                &[("ok", "1"), ("______", "x")],
                Err("normalization for label name \"______\" resulted in invalid name \"_____\""),
            ),
        ];
        for (pairs, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(normalized_texts(pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn of_names_that_become_one_the_rewritten_one_survives() {
        /// Pairs, the pairs that are left, and how many others were lost.
        type Case<'c> = (&'c [Pair<'c>], &'c str, u64);
        let cases: [Case<'_>; 14] = [
            (&[("a.b", "x"), ("a_b", "keep")], "a_b=x", 1),
            (&[("a_b", "keep"), ("a.b", "x")], "a_b=x", 1),
            (&[("a.b", "1"), ("a-b", "2"), ("a_b", "3")], "a_b=2", 2),
            (&[("a_b", "1"), ("a_b", "2")], "a_b=2", 1),
            (&[("a.b", "same"), ("a_b", "same")], "a_b=same", 0),
            // A value that is rewritten counts as a name that is.
            (&[("a_b", "p\u{fffd}"), ("a_b", "2")], "a_b=p ", 1),
            // An empty value takes away pairs in normal form.
            (&[("a_b", ""), ("a_b", "1")], "", 1),
            (&[("a_b", "1"), ("a_b", "")], "", 1),
            (&[("a_b", ""), ("a.b", "1")], "a_b=1", 0),
            (&[("a.b", "1"), ("a_b", "")], "a_b=1", 0),
            (&[("a.b", ""), ("a_b", "1")], "", 1),
            (&[("a.b", "1"), ("a-b", "")], "", 1),
            (&[("a.b", ""), ("a-b", "2"), ("a_b", "1")], "a_b=2", 1),
            (&[("9x", "1"), ("key_9x", "2"), ("y", "3")], "key_9x=1 y=3", 1),
        ];
        for (pairs, expected, lost) in cases {
            assert_eq!(normalized_texts(pairs), Ok(expected.to_owned()), "{pairs:?}");
            let bytes: Vec<_> = pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
            let mut normalizer = MetadataNormalizer::new();
            let normalized = normalizer.normalize(MetadataRef::from_slice(&bytes)).expect("valid");
            assert_eq!(normalized.lost().count, lost, "{pairs:?}");
            assert_eq!(normalized.lost().len_bytes > 0, lost > 0, "{pairs:?}");
        }
    }

    #[test]
    fn names_in_normal_form_are_those_that_stay() {
        let pieces = ["", "_", "__", "a", "9", ".", "é", "Z"];
        let mut normal = 0;
        for place in 0..pieces.len().pow(5) {
            let piece = |digit: u32| pieces[place / pieces.len().pow(digit) % pieces.len()];
            let name = [piece(0), piece(1), piece(2), piece(3), piece(4)].concat();
            let mut written = Vec::new();
            let stays = write_name(name.as_bytes(), &mut written).is_ok_and(|()| {
                let mut again = Vec::new();
                write_name(&written, &mut again).expect("it has been written");
                assert_eq!(again, written, "{name}");
                written == name.as_bytes()
            });
            assert_eq!(is_normal_name(name.as_bytes()), stays, "{name}");
            normal += usize::from(stays);
        }
        assert!(normal > 100, "{normal}");
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
        let replaced = "\u{fffd}é\u{fffd}\u{fffd}";
        assert_eq!(normalized(&[(b"a", replaced.as_bytes())]), Ok("a= é  ".to_owned()));
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
        // A pair that has to be rewritten changes its entry, and not the remembered names.
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
