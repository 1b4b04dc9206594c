//! Visiting the entries of a stream.

use crate::push::json::{Cursor, Dialect, RawText};
use crate::push::listed::ListedEntries;
use crate::push::protobuf;

/// Where the entries of a stream are. Only made of bodies that were checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntrySource<'a> {
    /// The stream message.
    Protobuf(protobuf::Fields<'a>),
    /// The findings of the check of the message.
    Listed(ListedEntries<'a>),
    /// The JSON array, from its `[` on; `None` if there is none.
    Json(Option<Cursor<'a>>, Dialect),
}

/// A text that is in the body as it is, or unescaped in the scratch buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Text<'a> {
    Body(&'a [u8]),
    Scratch { start: usize, end: usize },
}

impl<'a> Text<'a> {
    pub(crate) fn get<'s>(self, scratch: &'s [u8]) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Text::Body(text) => text,
            Text::Scratch { start, end } => &scratch[start..end],
        }
    }
}

/// A cursor over entries. Not an [`Iterator`]: texts with JSON escapes are
/// unescaped into a buffer that the next entry reuses.
#[derive(Debug)]
pub struct Entries<'a> {
    source: EntrySource<'a>,
    started: bool,
    buffers: EntryBuffers<'a>,
}

/// The buffers of an entry that does not lie in the body as it is.
#[derive(Debug, Default)]
pub(super) struct EntryBuffers<'a> {
    /// Texts without their escapes.
    pub(super) scratch: Vec<u8>,
    /// Metadata of which a part is in `scratch`.
    pub(super) pairs: Vec<(Text<'a>, Text<'a>)>,
    /// Metadata that lies in the body, if it is not very much.
    pub(super) borrowed_pairs: Vec<(&'a [u8], &'a [u8])>,
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'e> {
    /// Nanoseconds since the Unix epoch. `None` is an entry without a timestamp:
    /// it counts as year 1, which is always too far behind.
    pub timestamp_ns: Option<i64>,
    /// The line, which need not be UTF-8.
    pub line: &'e [u8],
    /// The structured metadata as sent.
    pub metadata: MetadataRef<'e>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(source: EntrySource<'a>) -> Entries<'a> {
        Entries { source, started: false, buffers: EntryBuffers::default() }
    }

    /// The next entry; `None` after the last.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Option<EntryRef<'_>> {
        match &mut self.source {
            EntrySource::Listed(listed) => listed.next(&mut self.buffers),
            EntrySource::Protobuf(fields) => {
                protobuf::next_entry(fields, &mut self.buffers.borrowed_pairs)
            }
            EntrySource::Json(None, _) => None,
            EntrySource::Json(Some(_), _) => self.next_json(),
        }
    }

    fn next_json(&mut self) -> Option<EntryRef<'_>> {
        let EntrySource::Json(Some(cursor), dialect) = &mut self.source else { return None };
        let EntryBuffers { scratch, pairs, .. } = &mut self.buffers;
        scratch.clear();
        pairs.clear();
        let entry = cursor
            .next_entry(*dialect, &mut self.started, |name, value| {
                let name = unescaped(name, scratch);
                let value = unescaped(value, scratch);
                pairs.push((name, value));
            })
            .expect("the body was checked")?;
        let line = unescaped(entry.line, scratch);
        Some(EntryRef {
            timestamp_ns: entry.timestamp_ns,
            line: line.get(scratch),
            metadata: MetadataRef::from_mixed(pairs, &[], 0, scratch),
        })
    }
}

/// Unescapes a text into `scratch` if it has escapes.
pub(super) fn unescaped<'a>(text: RawText<'a>, scratch: &mut Vec<u8>) -> Text<'a> {
    if !text.has_escapes() {
        return Text::Body(text.raw());
    }
    let start = scratch.len();
    text.unescape_into(scratch);
    Text::Scratch { start, end: scratch.len() }
}

/// The structured metadata of an entry as sent: in any order, with repetitions,
/// not checked. See [`crate::push::metadata`] for the stored form.
#[derive(Clone, Copy, Debug)]
pub struct MetadataRef<'e>(Pairs<'e>);

#[derive(Clone, Copy, Debug)]
enum Pairs<'e> {
    Slice {
        pairs: &'e [(&'e [u8], &'e [u8])],
        len_bytes: usize,
    },
    /// The remaining fields of an entry message, from its first pair on.
    Protobuf(protobuf::Fields<'e>),
    /// Texts of a body, or made from it.
    Mixed {
        pairs: &'e [(Text<'e>, Text<'e>)],
        /// Pairs that come behind and that other entries have, too.
        shared: &'e [(Text<'e>, Text<'e>)],
        shared_len_bytes: usize,
        scratch: &'e [u8],
    },
}

impl<'e> MetadataRef<'e> {
    /// No metadata.
    pub const EMPTY: MetadataRef<'static> = MetadataRef(Pairs::Slice { pairs: &[], len_bytes: 0 });

    /// Metadata that a caller has put together.
    #[inline]
    pub fn from_slice(pairs: &'e [(&'e [u8], &'e [u8])]) -> MetadataRef<'e> {
        let len_bytes = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        MetadataRef(Pairs::Slice { pairs, len_bytes })
    }

    /// Pairs of an entry and pairs that it shares with others, of `shared_len_bytes` in
    /// all. Texts that are not in the body are in `scratch`.
    pub(crate) fn from_mixed(
        pairs: &'e [(Text<'e>, Text<'e>)],
        shared: &'e [(Text<'e>, Text<'e>)],
        shared_len_bytes: usize,
        scratch: &'e [u8],
    ) -> MetadataRef<'e> {
        MetadataRef(Pairs::Mixed { pairs, shared, shared_len_bytes, scratch })
    }

    pub(super) fn from_protobuf(fields: protobuf::Fields<'e>) -> MetadataRef<'e> {
        MetadataRef(Pairs::Protobuf(fields))
    }

    /// The pairs, if they lie in a list.
    #[inline]
    pub(super) fn as_slice(&self) -> Option<&'e [(&'e [u8], &'e [u8])]> {
        match self.0 {
            Pairs::Slice { pairs, .. } => Some(pairs),
            Pairs::Protobuf(_) | Pairs::Mixed { .. } => None,
        }
    }

    /// Whether there is no pair.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Pairs::Slice { pairs, .. } => pairs.is_empty(),
            Pairs::Protobuf(_) => false,
            Pairs::Mixed { pairs, shared, .. } => pairs.is_empty() && shared.is_empty(),
        }
    }

    /// Names and values as sent.
    pub fn iter(&self) -> MetadataIter<'e> {
        MetadataIter(self.0)
    }

    /// How many pairs. Shared ones are not walked over.
    #[inline]
    pub fn count(&self) -> usize {
        match &self.0 {
            Pairs::Slice { pairs, .. } => pairs.len(),
            Pairs::Protobuf(_) => self.iter().count(),
            Pairs::Mixed { pairs, shared, .. } => pairs.len() + shared.len(),
        }
    }

    /// Bytes of all names and values. Shared ones are not walked over.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        match self.0 {
            Pairs::Slice { len_bytes, .. } => len_bytes,
            Pairs::Protobuf(_) | Pairs::Mixed { .. } => self.count_bytes(),
        }
    }

    fn count_bytes(&self) -> usize {
        let own = match self.0 {
            Pairs::Mixed { pairs, scratch, .. } => {
                Pairs::Mixed { pairs, shared: &[], shared_len_bytes: 0, scratch }
            }
            other => other,
        };
        let shared_len_bytes = match self.0 {
            Pairs::Mixed { shared_len_bytes, .. } => shared_len_bytes,
            _ => 0,
        };
        let own = MetadataIter(own);
        shared_len_bytes + own.map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }
}

/// Iterator over the pairs of a [`MetadataRef`].
#[derive(Clone, Debug)]
pub struct MetadataIter<'e>(Pairs<'e>);

impl<'e> Iterator for MetadataIter<'e> {
    type Item = (&'e [u8], &'e [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Pairs::Slice { pairs, .. } => {
                let (first, rest) = pairs.split_first()?;
                *pairs = rest;
                Some(*first)
            }
            Pairs::Protobuf(fields) => protobuf::next_metadata(fields),
            Pairs::Mixed { pairs, shared, scratch, .. } => {
                let left = if pairs.is_empty() { shared } else { pairs };
                let (first, rest) = left.split_first()?;
                *left = rest;
                Some((first.0.get(scratch), first.1.get(scratch)))
            }
        }
    }
}
