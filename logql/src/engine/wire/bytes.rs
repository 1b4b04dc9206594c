//! Pieces of leaves and results: numbers, texts and labels.
//!
//! Counts, lengths and references are varints, all other numbers have their full width.

use logsvc_proto::Labels;
use logsvc_proto::varint::{self, VarintError};

use super::error::WireError;

/// Appends a count, a length or a reference.
pub(in crate::engine) fn put_count(out: &mut Vec<u8>, count: usize) {
    varint::write(out, count as u64);
}

/// Appends bytes behind their length.
pub(in crate::engine) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends labels, whose form in memory says where it ends.
pub(in crate::engine) fn put_labels(out: &mut Vec<u8>, labels: &Labels) {
    out.extend_from_slice(labels.as_bytes());
}

/// Reads from the front of some bytes.
pub(in crate::engine) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(in crate::engine) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(in crate::engine) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(*array)
    }

    pub(in crate::engine) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(|[byte]| byte)
    }

    pub(in crate::engine) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(in crate::engine) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(in crate::engine) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(in crate::engine) fn i64(&mut self) -> Result<i64, WireError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(in crate::engine) fn f64(&mut self) -> Result<f64, WireError> {
        self.array().map(f64::from_le_bytes)
    }

    /// 1 for true, or 0.
    pub(in crate::engine) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            kind => Err(WireError::Kind(kind)),
        }
    }

    /// A limit, in 8 bytes.
    pub(in crate::engine) fn size(&mut self) -> Result<usize, WireError> {
        usize::try_from(self.u64()?).map_err(|_| WireError::Number)
    }

    /// A number that is below `end`.
    pub(in crate::engine) fn reference(&mut self, end: usize) -> Result<u32, WireError> {
        let number = self.varint()?;
        if number >= end as u64 {
            return Err(WireError::Reference);
        }
        u32::try_from(number).map_err(|_| WireError::Reference)
    }

    /// How many items follow, each of which takes `min_bytes` at least, and not none. So many can
    /// be there, and a list may be made for them.
    pub(in crate::engine) fn count(&mut self, min_bytes: usize) -> Result<usize, WireError> {
        let count = usize::try_from(self.varint()?).map_err(|_| WireError::Short)?;
        if count > self.rest.len() / min_bytes { Err(WireError::Short) } else { Ok(count) }
    }

    /// So many items, each of which takes `min_bytes` at least.
    pub(in crate::engine) fn list<T>(
        &mut self,
        min_bytes: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.count(min_bytes)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Bytes behind their length.
    pub(in crate::engine) fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let len_bytes = self.count(1)?;
        let (bytes, rest) = self.rest.split_at_checked(len_bytes).ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(in crate::engine) fn text(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Text)
    }

    /// Labels as a query has made them: values may be empty, and names are any text.
    pub(in crate::engine) fn labels(&mut self) -> Result<Labels, WireError> {
        let pairs = self.list(2, |input| Ok((input.text()?, input.text()?)))?;
        if !pairs.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(WireError::Order);
        }
        Labels::from_result_pairs(pairs).map_err(|_| WireError::Order)
    }

    pub(in crate::engine) fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Long) }
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut position = 0;
        let number =
            varint::read_minimal(self.rest, &mut position).map_err(|error| match error {
                VarintError::Truncated => WireError::Short,
                VarintError::Invalid => WireError::Number,
            })?;
        self.rest = self.rest.get(position..).ok_or(WireError::Short)?;
        Ok(number)
    }
}
