//! The root of a label index in the file, see `docs/format.md`.
//!
//! Guarantees: what was decoded fits the footer. Memory is in proportion to the length of the root.
//! Arbitrary bytes give an error or a root that the accessors of the index can rely on.

use std::ops::Range;

use logsvc_proto::varint;

use super::page::{WrittenPages, is_place_valid};
use super::stored_rows::{read_ranges, write_ranges};
use crate::batch::u32_at;
use crate::columns::compress::{Codec, ColumnPlace};
use crate::format::LABEL_ROOT_MAX_BYTES;
use crate::row_set::RowSet;

/// The version of the root.
const VERSION: u8 = 1;
/// Whether late rows are known.
const LATE_UNKNOWN: u8 = 0;
const LATE_KNOWN: u8 = 1;

/// A tenant and how many rows it has, for the root.
#[derive(Debug)]
pub(crate) struct TenantRows {
    /// The name.
    pub(crate) name: String,
    /// At least 1.
    pub(crate) rows: u32,
}

/// The bytes of a root; `None` if they are more than the format allows. `late` are the late rows if
/// they are known.
pub(crate) fn encode(
    late: Option<&RowSet>,
    tenants: &[TenantRows],
    pages: &WrittenPages,
) -> Option<Vec<u8>> {
    let mut root = vec![VERSION];
    match late {
        None => root.push(LATE_UNKNOWN),
        Some(rows) => {
            root.push(LATE_KNOWN);
            let mut ranges = Vec::new();
            write_ranges(rows.ranges().iter().cloned(), 0, &mut ranges);
            varint::write(&mut root, ranges.len() as u64);
            root.extend_from_slice(&ranges);
        }
    }
    varint::write(&mut root, tenants.len() as u64);
    for TenantRows { name, rows } in tenants {
        varint::write(&mut root, name.len() as u64);
        root.extend_from_slice(name.as_bytes());
        varint::write(&mut root, u64::from(*rows));
    }
    varint::write(&mut root, u64::from(pages.count));
    root.extend_from_slice(&pages.rows);
    (root.len() <= LABEL_ROOT_MAX_BYTES).then_some(root)
}

/// A tenant in a root.
#[derive(Debug)]
pub(super) struct Tenant {
    /// Where the name stands in the root. It is UTF-8.
    pub(super) name: Range<u32>,
    pub(super) first_row: u32,
}

/// A page in a root.
#[derive(Debug)]
pub(super) struct Page {
    /// Where the bound stands in the root.
    pub(super) bound: Range<u32>,
    pub(super) place: ColumnPlace,
}

/// What a root says.
#[derive(Debug, Default)]
pub(super) struct Root {
    pub(super) tenants: Vec<Tenant>,
    pub(super) pages: Vec<Page>,
    pub(super) late: Option<RowSet>,
}

/// Why a root is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is damaged.
    Damaged(&'static str),
    /// A later version has written this part of it.
    Unknown(&'static str),
}

impl From<&'static str> for Refused {
    fn from(what: &'static str) -> Refused {
        Refused::Damaged(what)
    }
}

const SHORT: Refused = Refused::Damaged("the root is cut short");

/// Reads numbers and texts of a root.
struct Input<'b> {
    bytes: &'b [u8],
    position: usize,
}

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, Refused> {
        let byte = *self.bytes.get(self.position).ok_or(SHORT)?;
        self.position += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u32, Refused> {
        let number = varint::read(self.bytes, &mut self.position).map_err(|_| SHORT)?;
        u32::try_from(number).map_err(|_| Refused::Damaged("a number of the root is too large"))
    }

    /// The range of so many next bytes.
    fn skip(&mut self, len: u32) -> Result<Range<u32>, Refused> {
        let end = self.position.checked_add(len as usize).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(SHORT)?;
        let range = self.position as u32..end as u32;
        self.position = end;
        Ok(range)
    }

    fn text(&mut self) -> Result<Range<u32>, Refused> {
        let len = self.number()?;
        self.skip(len)
    }

    fn at(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }
}

/// Reads a root, of at most [`LABEL_ROOT_MAX_BYTES`]. `pages` is the range of all pages in the
/// file, and `rows` how many streams the segment has.
pub(super) fn decode(bytes: &[u8], pages: &Range<u64>, rows: u32) -> Result<Root, Refused> {
    let mut input = Input { bytes, position: 0 };
    if input.byte()? != VERSION {
        return Err(Refused::Unknown("the label index"));
    }
    let late = match input.byte()? {
        LATE_UNKNOWN => None,
        LATE_KNOWN => {
            let ranges = input.text()?;
            let late = read_ranges(input.at(&ranges), 0..rows);
            Some(late.map_err(|_| "late rows are not those of the segment")?)
        }
        _ => return Err(Refused::Damaged("it is not known whether rows are late")),
    };
    let tenants = read_tenants(&mut input, rows)?;
    let pages = read_pages(&mut input, pages)?;
    if input.position != bytes.len() {
        return Err(Refused::Damaged("the root is followed by stray bytes"));
    }
    Ok(Root { tenants, pages, late })
}

fn read_tenants(input: &mut Input<'_>, rows: u32) -> Result<Vec<Tenant>, Refused> {
    let mut tenants: Vec<Tenant> = Vec::new();
    let mut first_row = 0u32;
    for _ in 0..input.number()? {
        let name = input.text()?;
        if std::str::from_utf8(input.at(&name)).is_err() {
            return Err(Refused::Damaged("a tenant has an invalid name"));
        }
        if tenants.last().is_some_and(|last| input.at(&last.name) >= input.at(&name)) {
            return Err(Refused::Damaged("tenants are not in order"));
        }
        tenants.push(Tenant { name, first_row });
        let count = input.number()?;
        first_row = first_row.checked_add(count).filter(|_| count > 0).ok_or("rows are missing")?;
    }
    match first_row == rows {
        true => Ok(tenants),
        false => Err(Refused::Damaged("tenants have not as many rows as the segment")),
    }
}

fn read_pages(input: &mut Input<'_>, range: &Range<u64>) -> Result<Vec<Page>, Refused> {
    let mut pages: Vec<Page> = Vec::new();
    let mut offset = range.start;
    for _ in 0..input.number()? {
        let bound = input.text()?;
        let ascends = match pages.last() {
            None => bound.is_empty(),
            Some(last) => input.at(&last.bound) < input.at(&bound),
        };
        if !ascends {
            return Err(Refused::Damaged("pages are not in order"));
        }
        let (stored_len, raw_len) = (input.number()?, input.number()?);
        let codec = Codec::from_byte(input.byte()?);
        let codec = codec.ok_or(Refused::Unknown("the codec of a page of the label index"))?;
        let crc = input.skip(4)?;
        let crc = u32_at(input.bytes, crc.start as usize);
        let place = ColumnPlace { offset, stored_len, raw_len, crc, codec };
        if !is_place_valid(&place) {
            return Err(Refused::Damaged("a page is too large"));
        }
        offset = place.range().end;
        if offset > range.end {
            return Err(Refused::Damaged("a page is not where pages may be"));
        }
        pages.push(Page { bound, place });
    }
    match offset == range.end {
        true => Ok(pages),
        false => Err(Refused::Damaged("pages do not fill the label index")),
    }
}
