//! Pages of a label index: entries in order, each without what its key has in common with the one
//! before it.
//!
//! Guarantees: keys of a page that was read ascend strictly. To read a page takes time in its
//! length and in that of its keys, which the format bounds.

use logsvc_proto::varint;

use super::key::common_len;
use super::stored_rows::stored_len;
use crate::columns::compress::{Codec, ColumnPlace, Compressor};
use crate::error::WriteError;
use crate::format::{LABEL_PAGE_KEYS_MAX_BYTES, LABEL_PAGE_MAX_BYTES};

/// A page is closed before an entry with which it would have more raw bytes. A lookup of one value
/// reads one page.
const PAGE_TARGET_BYTES: usize = 8 << 10;

/// Writes entries to pages.
#[derive(Debug, Default)]
pub(crate) struct PageWriter {
    /// The open page.
    raw: Vec<u8>,
    keys_bytes: usize,
    last_key: Vec<u8>,
    bound: Vec<u8>,
    /// Closed pages.
    stored: Vec<u8>,
    /// Their rows in the root.
    rows: Vec<u8>,
    count: u32,
    is_too_large: bool,
}

/// The pages of a segment, and what the root says of them.
#[derive(Debug)]
pub(crate) struct WrittenPages {
    /// All pages.
    pub(crate) stored: Vec<u8>,
    /// Their rows in the root.
    pub(crate) rows: Vec<u8>,
    /// How many there are.
    pub(crate) count: u32,
}

impl PageWriter {
    /// Appends an entry. Its key is above all keys before it.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        rows: &[u8],
        compressor: &mut Compressor,
    ) -> Result<(), WriteError> {
        let common = common_len(&self.last_key, key);
        let (mut shared, mut rest) = (common, &key[common..]);
        // Lengths of texts take at most 8 bytes together.
        let more = rest.len() + rows.len() + 8;
        if self.raw.len() + more > PAGE_TARGET_BYTES
            || self.keys_bytes + key.len() > LABEL_PAGE_KEYS_MAX_BYTES
        {
            self.close(compressor)?;
        }
        if self.raw.is_empty() {
            (shared, rest) = (0, key);
            self.bound.clear();
            if self.count > 0 {
                self.bound.extend_from_slice(&key[..common + 1]);
            }
        }
        varint::write(&mut self.raw, shared as u64);
        varint::write(&mut self.raw, rest.len() as u64);
        self.raw.extend_from_slice(rest);
        self.raw.extend_from_slice(rows);
        self.keys_bytes += key.len();
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(&key[common..]);
        self.is_too_large |= self.raw.len() > LABEL_PAGE_MAX_BYTES;
        Ok(())
    }

    fn close(&mut self, compressor: &mut Compressor) -> Result<(), WriteError> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let place = compressor.store(&self.raw, &mut self.stored)?;
        let rows = &mut self.rows;
        varint::write(rows, self.bound.len() as u64);
        rows.extend_from_slice(&self.bound);
        varint::write(rows, u64::from(place.stored_len));
        varint::write(rows, u64::from(place.raw_len));
        rows.push(place.codec.to_byte());
        rows.extend_from_slice(&place.crc.to_le_bytes());
        self.count += 1;
        self.raw.clear();
        self.keys_bytes = 0;
        Ok(())
    }

    /// Closes the last page; `None` if a page is larger than the format allows.
    pub(crate) fn finish(
        mut self,
        compressor: &mut Compressor,
    ) -> Result<Option<WrittenPages>, WriteError> {
        self.close(compressor)?;
        let PageWriter { stored, rows, count, is_too_large, .. } = self;
        Ok((!is_too_large).then_some(WrittenPages { stored, rows, count }))
    }

    /// Bytes that the pages occupy.
    pub(crate) fn held_bytes(&self) -> usize {
        self.raw.capacity() + self.stored.capacity() + self.rows.capacity()
    }
}

/// Whether a page may have so many raw bytes, and this place otherwise.
pub(super) fn is_place_valid(place: &ColumnPlace) -> bool {
    let (stored, raw) = (place.stored_len, place.raw_len);
    raw as usize <= LABEL_PAGE_MAX_BYTES
        && match place.codec {
            Codec::Raw => stored == raw && raw > 0,
            Codec::Zstd => (1..raw).contains(&stored),
            Codec::Templates | Codec::TimedTemplates => false,
        }
}

/// The key of an entry, and its rows as they are stored.
type StoredEntry<'k, 'p> = (&'k [u8], &'p [u8]);

/// Reads the entries of a page.
#[derive(Debug)]
pub(crate) struct PageEntries<'p> {
    raw: &'p [u8],
    position: usize,
    key: Vec<u8>,
    keys_bytes: usize,
}

impl<'p> PageEntries<'p> {
    /// The entries of a page with these raw bytes.
    pub(crate) fn new(raw: &'p [u8]) -> PageEntries<'p> {
        PageEntries { raw, position: 0, key: Vec::new(), keys_bytes: 0 }
    }

    /// Key and stored rows of the next entry.
    pub(crate) fn next(&mut self) -> Result<Option<StoredEntry<'_, 'p>>, &'static str> {
        const SHORT: &str = "a page is cut short";
        let raw = self.raw;
        if self.position == raw.len() {
            return Ok(None);
        }
        let mut number = || {
            let number = varint::read(raw, &mut self.position).map_err(|_| SHORT)?;
            usize::try_from(number).map_err(|_| SHORT)
        };
        let (shared, len) = (number()?, number()?);
        let rest = raw[self.position..].get(..len).ok_or(SHORT)?;
        self.position += len;
        let ascends = match (self.key.get(shared), rest.first()) {
            (_, None) => false,
            (Some(before), Some(byte)) => before < byte,
            (None, Some(_)) => shared == self.key.len(),
        };
        if !ascends {
            return Err("keys of a page are not in order");
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        let is_first = self.keys_bytes == 0;
        self.keys_bytes += self.key.len();
        if !is_first && self.keys_bytes > LABEL_PAGE_KEYS_MAX_BYTES {
            return Err("keys of a page are too long");
        }
        let behind = &raw[self.position..];
        let len = stored_len(behind).map_err(|_| SHORT)?;
        self.position += len;
        Ok(Some((&self.key, &behind[..len])))
    }
}
