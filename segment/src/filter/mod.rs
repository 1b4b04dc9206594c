//! Block filters: what proves, without reading a block, that no line of it contains a
//! text and that no entry of it has a pair of structured metadata.
//!
//! Sans I/O. A [`BlockFilterBuilder`] sees the lines and the metadata of a block, a
//! [`RegionWriter`] puts the filters of a segment's blocks into one region of bytes
//! together with a small [`FilterIndex`] for the directory, and a [`Probe`] says which
//! few ranges of the region a query needs and which blocks are left. `docs/format.md`
//! has the bytes, `ARCHITECTURE.md` the schemes that were measured.
//!
//! # What is guaranteed
//!
//! - A block that contains a needle is always a candidate: wherever the needle stands
//!   in a line, in whatever ASCII case, and for any bytes. Lines are looked at one by
//!   one, so a needle that would only match across a line end is no line's text.
//! - Every byte that decides about a block was checked (CRC-32C). Damage is an error of
//!   [`Probe::supply`], after which all blocks that were left before are candidates.
//! - [`FilterIndex::decode`] takes any bytes without panic.
//!
//! # How it works
//!
//! The keys of a line are its grams: all runs of five bytes, ASCII letters in lower
//! case. Each sets one bit, picked by its hash, in a bitmap that is then folded until
//! about half of its bits are set. A needle of *n* bytes has *n* - 4 grams, and all of
//! their bits must be set: twelve bytes from the middle of an id test eight bits, so
//! about one block in fifty passes by chance. Short keys with one bit each are what
//! makes texts in the middle of words cost no more than whole words.
//!
//! Where a block has so many different grams that its filter would get too large, only
//! a quarter of the mixed grams is kept, those with a byte that is neither a letter nor
//! a digit nor `-` nor `_`: dates, addresses and the joints of words, of which hardly
//! any needle consists. The block's descriptor says so.
//!
//! Bitmaps have [`SLICES`] slices of up to 64 bits. The hash names the slice, and the
//! region holds slice 0 of all blocks, then slice 1 of all blocks, and so on. So one
//! short, contiguous read answers one key for all blocks.
//!
//! Structured metadata has a part of its own with keys of its own, for exact bytes:
//! one for each name and one for each pair.
//!
//! ```
//! use logsvc_segment::filter::{BlockFilterBuilder, BlockSet, Needle, RegionWriter};
//!
//! let mut builder = BlockFilterBuilder::new();
//! let mut writer = RegionWriter::new();
//! for line in ["GET /orders/4711 id=9f86d081884c7d65", "GET /carts/12 id=9a0364b9e99bb480"] {
//!     builder.add_line(line.as_bytes());
//!     builder.add_metadata(b"pod", b"api-0");
//!     writer.push(builder.finish());
//! }
//! let (region, index) = writer.finish();
//!
//! // Both conditions must hold; each is a list of alternatives.
//! let conditions = vec![
//!     vec![Needle::substring(b"0364B9E99B").expect("long enough")],
//!     vec![Needle::metadata(b"pod", b"api-0"), Needle::metadata(b"pod", b"api-1")],
//! ];
//! let mut probe = index.probe(conditions, BlockSet::full(index.block_count()));
//! while let Some(reads) = probe.next_reads() {
//!     let read = |range: &std::ops::Range<u64>| &region[range.start as usize..range.end as usize];
//!     let pieces: Vec<&[u8]> = reads.iter().map(read).collect();
//!     probe.supply(&pieces)?;
//! }
//! assert_eq!(probe.into_candidates().iter().collect::<Vec<_>>(), [1]);
//! # Ok::<(), logsvc_segment::filter::FilterError>(())
//! ```

mod bitmap;
mod block_set;
mod build;
mod error;
mod grams;
mod index;
mod keys;
mod layout;
mod load;
mod metadata;
mod needle;
mod probe;
mod region;
mod slices;
#[cfg(test)]
mod tests;

pub use block_set::BlockSet;
pub use build::{BlockFilter, BlockFilterBuilder};
pub use error::FilterError;
pub use index::FilterIndex;
pub use keys::{GRAM_LEN, SLICES};
pub use load::{RegionFilters, RegionLoader};
pub use needle::Needle;
pub use probe::Probe;
pub use region::{RegionEnd, RegionWriter};
