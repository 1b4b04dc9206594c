//! Lists the names of a tenant's labels, or the values of one of them.

use std::ops::Range;

use super::page::PageEntries;
use super::steps::{Pages, step_len};
use super::stored_rows::StoredRows;
use super::{LabelIndex, fail, key};
use crate::error::SegmentError;
use crate::reader::Decoder;

/// A list of names or values with the rows that have them, in order.
///
/// Read the ranges of [`Listing::next_reads`] and pass their bytes to [`Listing::supply`] until there
/// are no more, or stop at any time. Every text is visited once.
#[derive(Debug)]
pub struct Listing<'a> {
    index: &'a LabelIndex,
    /// What the keys of all texts begin with.
    beginning: Vec<u8>,
    rows: Range<u32>,
    /// Pages that were not visited yet.
    pages: Range<u32>,
    step: Vec<u32>,
    held: Pages,
}

impl LabelIndex {
    /// Lists the names of a tenant's labels.
    #[must_use]
    pub fn names(&self, tenant: &str) -> Listing<'_> {
        self.list(tenant, key::before_names)
    }

    /// Lists the values of a label of a tenant.
    #[must_use]
    pub fn values(&self, tenant: &str, name: &str) -> Listing<'_> {
        self.list(tenant, |tenant| key::before_values(tenant, name))
    }

    fn list(&self, tenant: &str, beginning: impl FnOnce(u32) -> Vec<u8>) -> Listing<'_> {
        let (mut rows, mut pages) = (0..0, 0..0);
        let beginning = self.find_tenant(tenant).map(|number| {
            rows = self.rows_of(number as usize);
            let beginning = beginning(number);
            pages = self.pages_of(&beginning);
            beginning
        });
        let beginning = beginning.unwrap_or_default();
        let (step, held) = (Vec::new(), Pages::default());
        Listing { index: self, beginning, rows, pages, step, held }
    }
}

impl Listing<'_> {
    /// The next ranges of the file to read, one per page, ascending; `None` if all texts were
    /// visited.
    pub fn next_reads(&mut self) -> Option<&[Range<u64>]> {
        if self.step.is_empty() && !self.pages.is_empty() {
            let len = step_len(self.index, self.pages.clone());
            self.step = self.pages.by_ref().take(len).collect();
            self.held.clear();
            self.held.ask(self.index, &self.step);
        }
        self.held.reads()
    }

    /// Takes the bytes of the ranges of the last [`Listing::next_reads`], in their order, and calls
    /// `each` with the texts that they have and their rows.
    ///
    /// # Errors
    /// If they are damaged. Nothing is listed from then on.
    pub fn supply<B: AsRef<[u8]>>(
        &mut self,
        decoder: &mut Decoder,
        pieces: &[B],
        each: impl FnMut(&str, StoredRows<'_>),
    ) -> Result<(), SegmentError> {
        let visited = self.held.supply(self.index, decoder, pieces).and_then(|()| self.visit(each));
        self.step.clear();
        if visited.is_err() {
            self.pages = 0..0;
        }
        visited
    }

    fn visit(&self, mut each: impl FnMut(&str, StoredRows<'_>)) -> Result<(), SegmentError> {
        for raw in self.held.raw(&self.step) {
            let mut entries = PageEntries::new(raw);
            while let Some((key, stored)) = entries.next().map_err(fail)? {
                let Some(text) = key.strip_prefix(&self.beginning[..]) else {
                    if key > &self.beginning[..] {
                        break;
                    }
                    continue;
                };
                let text = std::str::from_utf8(text).map_err(|_| fail("a text is not UTF-8"))?;
                let rows = StoredRows::parse(stored, self.rows.clone());
                each(text, rows.map_err(|_| fail("rows are not those of their tenant"))?);
            }
        }
        Ok(())
    }
}
