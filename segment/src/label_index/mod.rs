//! The label index of a segment: finds its streams by matchers, and lists names and values of
//! labels, from few pages and without directory and stream table.
//!
//! All of it is sans I/O. [`LabelIndex::open`] takes the root. A lookup ([`Select`], [`Listing`])
//! tells which pages it needs, as ranges of the file, and the caller supplies their bytes. Every
//! range is one whole page, so that pages may come from a cache.
//!
//! Guarantees: a lookup gives what the labels of the streams give, a missing label as the empty
//! value. The checksum of a page is checked before it is read. A step takes pages of at most
//! [`STEP_MAX_BYTES`] before compression, or one page. Arbitrary bytes give a [`SegmentError`],
//! never a panic.
//!
//! What can go wrong: a page is damaged. Then [`Select`] has found a superset of the rows, and the
//! caller looks at labels one by one.

mod beginnings;
mod condition;
pub(crate) mod key;
mod listing;
pub(crate) mod page;
pub(crate) mod root;
mod select;
mod steps;
pub(crate) mod stored_rows;

use std::ops::Range;

pub use listing::Listing;
pub use select::Select;
pub use steps::STEP_MAX_BYTES;
pub use stored_rows::StoredRows;

use crate::columns::compress::ColumnPlace;
use crate::error::{Part, SegmentError};
use crate::format::Footer;
use crate::row_set::RowSet;
use crate::version::UnknownPart;
use root::{Refused, Root};

/// The root of a segment's label index.
#[derive(Debug)]
pub struct LabelIndex {
    bytes: Vec<u8>,
    root: Root,
    rows: u32,
}

fn fail(what: &'static str) -> SegmentError {
    SegmentError::new(Part::LabelIndex, what)
}

impl LabelIndex {
    /// Opens the label index of the segment that has this footer. `bytes` are those of
    /// [`Footer::label_index_root_range`].
    ///
    /// # Errors
    /// If they are damaged or contradict the footer, or the segment has no label index.
    pub fn open(footer: &Footer, bytes: Vec<u8>) -> Result<LabelIndex, SegmentError> {
        let place = footer.label_index.ok_or(fail("there is none"))?;
        let range = footer.label_index_root_range().ok_or(fail("there is none"))?;
        if bytes.len() as u64 != range.end - range.start {
            return Err(fail("not all of its root was read"));
        }
        if crc32c::crc32c(&bytes) != place.root_crc {
            return Err(fail("the checksum of its root does not match"));
        }
        let rows = footer.totals.streams;
        let root = root::decode(&bytes, &(place.offset..range.start), rows);
        let root = root.map_err(|refused| match refused {
            Refused::Damaged(what) => fail(what),
            Refused::Unknown(part) => {
                SegmentError::other_version(Part::LabelIndex, UnknownPart::Part(part))
            }
        })?;
        Ok(LabelIndex { bytes, root, rows })
    }

    /// Bytes that the index occupies in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<LabelIndex>()
            + self.bytes.capacity()
            + self.root.tenants.capacity() * size_of::<root::Tenant>()
            + self.root.pages.capacity() * size_of::<root::Page>()
            + self.root.late.as_ref().map_or(0, RowSet::held_bytes)
    }

    /// How many streams the segment has.
    #[must_use]
    pub fn row_count(&self) -> u32 {
        self.rows
    }

    /// The streams that may repeat entries of earlier segments; `None` if they are not known: then
    /// any stream may.
    #[must_use]
    pub fn late_rows(&self) -> Option<&RowSet> {
        self.root.late.as_ref()
    }

    /// Names of the tenants and the rows of each, in order.
    pub fn tenants(&self) -> impl ExactSizeIterator<Item = (&str, Range<u32>)> {
        (0..self.root.tenants.len()).map(|number| (self.tenant_name(number), self.rows_of(number)))
    }

    /// The rows of a tenant; `None` if it has none.
    #[must_use]
    pub fn tenant_rows(&self, tenant: &str) -> Option<Range<u32>> {
        self.find_tenant(tenant).map(|number| self.rows_of(number as usize))
    }

    /// Length of all pages in the file.
    #[must_use]
    pub fn pages_len_bytes(&self) -> u64 {
        self.root.pages.iter().map(|page| u64::from(page.place.stored_len)).sum()
    }

    fn tenant_name(&self, number: usize) -> &str {
        // `open` has checked it.
        std::str::from_utf8(self.at(&self.root.tenants[number].name)).unwrap_or_default()
    }

    fn rows_of(&self, number: usize) -> Range<u32> {
        let tenants = &self.root.tenants;
        let end = tenants.get(number + 1).map_or(self.rows, |next| next.first_row);
        tenants[number].first_row..end
    }

    fn find_tenant(&self, name: &str) -> Option<u32> {
        let name_at = |tenant: &root::Tenant| self.at(&tenant.name);
        let found = self.root.tenants.binary_search_by(|held| name_at(held).cmp(name.as_bytes()));
        found.ok().map(|number| number as u32)
    }

    fn at(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }

    fn place(&self, page: u32) -> ColumnPlace {
        self.root.pages[page as usize].place
    }

    /// A lower bound of the keys of a page, above all keys of pages before it; `None` behind the
    /// last page.
    fn bound(&self, page: u32) -> Option<&[u8]> {
        self.root.pages.get(page as usize).map(|page| self.at(&page.bound))
    }

    /// The page that has a key, if any has.
    fn page_of(&self, key: &[u8]) -> Option<u32> {
        let above = self.root.pages.partition_point(|page| self.at(&page.bound) <= key);
        (above as u32).checked_sub(1)
    }

    /// The pages that may have keys with this beginning.
    fn pages_of(&self, beginning: &[u8]) -> Range<u32> {
        let Some(first) = self.page_of(beginning) else { return 0..0 };
        let behind = self.root.pages.partition_point(|page| {
            let bound = self.at(&page.bound);
            bound <= beginning || bound.starts_with(beginning)
        });
        first..behind as u32
    }
}
