//! Label sets: sorted, unique names with their values.
//!
//! [`Labels`] is one boxed byte buffer in exactly the form that goes to the
//! write-ahead log and into the stream hash ([`encoding`] describes it byte by
//! byte), so that encoding is a copy and equality is a byte comparison.
//!
//! Guarantees of a [`Labels`] value: names strictly ascending bytewise, names and
//! values valid UTF-8. Values are not empty and names match
//! `[a-zA-Z_][a-zA-Z0-9_]*` unless the set was made by
//! [`Labels::from_result_pairs`].

mod builder;
pub mod encoding;
mod lexer;
mod parse;
mod unquote;

use std::cmp::Ordering;
use std::fmt;

use crate::go::quote::write_quoted;
pub use builder::LabelsBuilder;
pub use parse::{LabelParseError, MAX_LABEL_STRING_LEN_BYTES, parse_labels};

/// Why pairs do not form a label set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LabelError {
    /// A name occurs twice with a value that is not empty.
    #[error("duplicate label name: '{name}'")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name does not match `[a-zA-Z_][a-zA-Z0-9_]*`.
    #[error("invalid label name: '{name}'")]
    InvalidName {
        /// The name.
        name: String,
    },
}

/// An immutable label set. Cloning copies the buffer; share it behind `Arc` or
/// `Rc` where that matters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Labels {
    encoded: Box<[u8]>,
}

/// Whether `name` matches `[a-zA-Z_][a-zA-Z0-9_]*`.
pub fn is_valid_label_name(name: &[u8]) -> bool {
    let Some((&first, rest)) = name.split_first() else { return false };
    (first == b'_' || first.is_ascii_alphabetic())
        && rest.iter().all(|&byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

impl Labels {
    /// The empty set.
    pub fn empty() -> Labels {
        Labels { encoded: Box::new([0]) }
    }

    /// Builds the label set of a stream. Pairs may come in any order. Pairs with
    /// an empty value vanish, as an empty label is the same as an absent one.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Labels, LabelError>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut kept: Vec<(N, V)> =
            pairs.into_iter().filter(|(_, value)| !value.as_ref().is_empty()).collect();
        for (name, _) in &kept {
            if !is_valid_label_name(name.as_ref().as_bytes()) {
                return Err(LabelError::InvalidName { name: name.as_ref().to_owned() });
            }
        }
        Labels::sorted(&mut kept)
    }

    /// Builds the label set of a query result, where a label that was set to an
    /// empty value stays visible and names are whatever the query produced.
    pub fn from_result_pairs<N, V>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Labels, LabelError>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        Labels::sorted(&mut pairs.into_iter().collect::<Vec<_>>())
    }

    fn sorted<N: AsRef<str>, V: AsRef<str>>(pairs: &mut [(N, V)]) -> Result<Labels, LabelError> {
        if !pairs.is_sorted_by(|(a, _), (b, _)| a.as_ref() < b.as_ref()) {
            pairs.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
            for window in pairs.windows(2) {
                if window[0].0.as_ref() == window[1].0.as_ref() {
                    return Err(LabelError::Duplicate { name: window[0].0.as_ref().to_owned() });
                }
            }
        }
        let encoded = encoding::encode_sorted(
            pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref())),
        );
        Ok(Labels { encoded })
    }

    /// The pairs in name order.
    pub fn iter(&self) -> LabelsIter<'_> {
        let mut rest = &self.encoded[..];
        let left = encoding::take_number(&mut rest);
        LabelsIter { rest, left }
    }

    /// The value of `name`. Linear in the size of the set, which is small.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .take_while(|(found, _)| *found <= name)
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    /// How many pairs.
    pub fn len(&self) -> usize {
        encoding::take_number(&mut &self.encoded[..])
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.encoded[0] == 0
    }

    /// Bytes of all names and values together.
    pub fn text_len_bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The encoded form, see [`encoding`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.encoded
    }

    /// Reads a set back from its encoded form, which must fill `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Labels, encoding::LabelDecodeError> {
        encoding::check(bytes)?;
        Ok(Labels { encoded: bytes.into() })
    }

    /// Appends `{a="1", b="2"}`, the form of all messages and of result order.
    /// Values are quoted the way Go's `%q` does it.
    pub fn write_canonical(&self, out: &mut Vec<u8>) {
        write_pairs_canonical(self.iter(), out);
    }

    /// `{a="1", b="2"}` as an owned string.
    pub fn canonical(&self) -> String {
        let mut out = Vec::with_capacity(self.encoded.len() + 4 * self.len() + 2);
        self.write_canonical(&mut out);
        String::from_utf8(out).expect("names, values and quotes are UTF-8")
    }

    /// The order of metric results: name, then value, pair by pair; a set that is
    /// the beginning of another comes first. Differs from [`Ord`], which follows
    /// the canonical text.
    pub fn cmp_pairs(&self, other: &Labels) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

/// Appends `{a="1", b="2"}` for pairs that need not form a set.
pub fn write_pairs_canonical<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (index, (name, value)) in pairs.enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        write_quoted(value, out);
    }
    out.push(b'}');
}

impl Default for Labels {
    fn default() -> Self {
        Labels::empty()
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The bytewise order of the canonical texts, found without writing them.
impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut left, mut right) = (self.iter(), other.iter());
        loop {
            match (left.next(), right.next()) {
                (None, None) => return Ordering::Equal,
                // `}` is greater than the `,` or the name that continues the other.
                (None, Some(_)) => return Ordering::Greater,
                (Some(_), None) => return Ordering::Less,
                (Some(a), Some(b)) if a == b => {}
                // Printed pairs are never a prefix of one another: the closing
                // quote is the only bare one. So the first differing pair decides.
                (Some(a), Some(b)) => return cmp_printed(a, b),
            }
        }
    }
}

fn cmp_printed(a: (&str, &str), b: (&str, &str)) -> Ordering {
    if a.0 != b.0 {
        return a.0.bytes().chain([b'=']).cmp(b.0.bytes().chain([b'=']));
    }
    // Equal beginnings are printed alike. Where the first bytes that differ stand for
    // themselves, or for the closing quote, they decide.
    let same = a.1.bytes().zip(b.1.bytes()).take_while(|(a, b)| a == b).count();
    let printed = |value: &str| match value.as_bytes().get(same) {
        None => Some(b'"'),
        Some(b'"' | b'\\') => None,
        Some(byte) => (b' '..=b'~').contains(byte).then_some(*byte),
    };
    if let (Some(left), Some(right)) = (printed(a.1), printed(b.1)) {
        return left.cmp(&right);
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    write_quoted(a.1, &mut left);
    write_quoted(b.1, &mut right);
    left.cmp(&right)
}

/// Iterator over the pairs of a [`Labels`], in name order.
#[derive(Clone)]
pub struct LabelsIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for LabelsIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let name = encoding::take_text(&mut self.rest);
        let value = encoding::take_text(&mut self.rest);
        // SAFETY: every constructor of `Labels` writes names and values from `str`,
        // or has checked them with `encoding::check`, and the buffer is immutable.
        unsafe { Some((std::str::from_utf8_unchecked(name), std::str::from_utf8_unchecked(value))) }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for LabelsIter<'_> {}

impl<'a> IntoIterator for &'a Labels {
    type Item = (&'a str, &'a str);
    type IntoIter = LabelsIter<'a>;

    fn into_iter(self) -> LabelsIter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
