//! Block filters: they prove, without reading a block, that no line of it contains a text or
//! that no entry of it has a pair of structured metadata.
//!
//! Sans I/O. A [`BlockFilterBuilder`] makes the filter of a block from its lines and metadata.
//! A [`RegionWriter`] writes the filters of all blocks of a segment into one region of bytes,
//! and a small [`FilterIndex`] for the directory. A [`Probe`] tells a query which few ranges of
//! the region to read, and which blocks are left. `docs/format.md` has the bytes.
//!
//! # Guarantees
//!
//! - A block that contains a needle is always a candidate, wherever in a line the needle is,
//!   in any ASCII case, and for any bytes. Filters know single lines: a needle that matches only
//!   across the end of a line is in no line.
//! - Every byte that excludes a block was checked (CRC-32C). After an error of
//!   [`Probe::supply`] the damaged filters exclude no block.
//! - [`FilterIndex::decode`] reads arbitrary bytes without panic.
//!
//! # How it works
//!
//! The keys of a line are its grams: all sequences of five bytes, with ASCII letters in lower
//! case. The hash of a gram sets one bit of a bitmap. The bitmap is then folded until about half
//! of its bits are set. A needle of *n* bytes has *n* - 4 grams, and all of their bits must be
//! set. So twelve bytes from the middle of an id test eight bits, and about one block in fifty
//! passes by chance. With short keys a part of a word is found as cheaply as a whole word.
//!
//! If a block has so many distinct grams that its filter would get too large, the filter has
//! only a quarter of the mixed grams: grams with a byte that is neither a letter nor a digit nor
//! `-` nor `_`. They are in dates, in addresses and between words, and few needles consist of
//! them alone. The descriptor of the block has a flag for it.
//!
//! Bitmaps have [`SLICES`] slices of up to 64 bits, and the hash of a key gives the slice. The
//! region has slice 0 of all blocks, then slice 1 of all blocks, and so on. So one short,
//! contiguous read answers one key for all blocks.
//!
//! Structured metadata has a part of its own in the region. Its keys are names and pairs, by
//! their exact bytes.
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
mod bits;
mod block_set;
mod build;
mod bundle;
mod error;
mod grams;
mod index;
mod join;
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
pub use bundle::{BundleHead, BundledSegment};
pub use error::FilterError;
pub use index::FilterIndex;
pub use join::{DamagedInput, RegionJoiner};
pub use keys::{GRAM_LEN, SLICES};
pub use load::{RegionFilters, RegionLoader};
pub use needle::Needle;
pub use probe::Probe;
pub use region::{RegionEnd, RegionWriter};
