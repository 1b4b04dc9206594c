//! Sparse bytes of a file, in shared pages.
//!
//! A missing page reads as zeros. Cloning shares all pages; a write copies the
//! pages that it touches if they are shared. So the durable and the visible
//! content of a file, and the unsynced writes between them, cost memory only
//! where they differ.

use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) const PAGE_BYTES: usize = 4096;
/// The unit that a disk writes as a whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;
const SECTORS_PER_PAGE: usize = PAGE_BYTES / SECTOR_BYTES;

pub(super) type Page = [u8; PAGE_BYTES];

/// Bytes of a file, of any length; the length itself is kept elsewhere.
#[derive(Clone, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Rc<Page>>,
}

/// The sectors of one page that a write has touched, with their content after the write.
#[derive(Clone)]
pub(super) struct DirtyPage {
    number: u64,
    page: Rc<Page>,
    /// One bit per sector.
    sectors: u8,
}

impl Content {
    /// Writes `bytes` and gives the touched sectors.
    pub(super) fn write(&mut self, bytes: &[u8], offset_bytes: u64) -> Vec<DirtyPage> {
        let mut dirty = Vec::with_capacity(bytes.len() / PAGE_BYTES + 2);
        for_each_page(offset_bytes, bytes.len(), |number, start, end, done| {
            let page = self.pages.entry(number).or_insert_with(|| Rc::new([0; PAGE_BYTES]));
            Rc::make_mut(page)[start..end].copy_from_slice(&bytes[done..done + (end - start)]);
            dirty.push(DirtyPage { number, page: Rc::clone(page), sectors: mask(start, end) });
        });
        dirty
    }

    /// Sets `start_bytes..end_bytes` to zero and gives the touched sectors of the
    /// pages that held anything.
    pub(super) fn clear(&mut self, start_bytes: u64, end_bytes: u64) -> Vec<DirtyPage> {
        let mut dirty = Vec::new();
        let pages = start_bytes / PAGE_BYTES as u64..=end_bytes / PAGE_BYTES as u64;
        for (&number, page) in self.pages.range_mut(pages) {
            let base = number * PAGE_BYTES as u64;
            let start = start_bytes.saturating_sub(base).min(PAGE_BYTES as u64) as usize;
            let end = end_bytes.saturating_sub(base).min(PAGE_BYTES as u64) as usize;
            if start < end {
                Rc::make_mut(page)[start..end].fill(0);
                dirty.push(DirtyPage { number, page: Rc::clone(page), sectors: mask(start, end) });
            }
        }
        dirty
    }

    /// Appends `count` bytes from `offset_bytes` on to `buffer`.
    pub(super) fn read(&self, buffer: &mut Vec<u8>, offset_bytes: u64, count: usize) {
        for_each_page(offset_bytes, count, |number, start, end, _| match self.pages.get(&number) {
            Some(page) => buffer.extend_from_slice(&page[start..end]),
            None => buffer.resize(buffer.len() + (end - start), 0),
        });
    }

    /// Takes over the sectors of `dirty` for which `survives` returns true.
    pub(super) fn apply(&mut self, dirty: &DirtyPage, mut survives: impl FnMut() -> bool) {
        let kept = (0..SECTORS_PER_PAGE)
            .filter(|sector| dirty.sectors & (1 << sector) != 0 && survives())
            .fold(0_u8, |kept, sector| kept | 1 << sector);
        if kept == u8::MAX {
            self.pages.insert(dirty.number, Rc::clone(&dirty.page));
        } else if kept != 0 {
            let page = self.pages.entry(dirty.number).or_insert_with(|| Rc::new([0; PAGE_BYTES]));
            let page = Rc::make_mut(page);
            for sector in (0..SECTORS_PER_PAGE).filter(|sector| kept & (1 << sector) != 0) {
                let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                page[range.clone()].copy_from_slice(&dirty.page[range]);
            }
        }
    }

    /// Flips the bits of `mask` in one byte.
    pub(super) fn flip(&mut self, offset_bytes: u64, mask: u8) {
        let number = offset_bytes / PAGE_BYTES as u64;
        let page = self.pages.entry(number).or_insert_with(|| Rc::new([0; PAGE_BYTES]));
        Rc::make_mut(page)[(offset_bytes % PAGE_BYTES as u64) as usize] ^= mask;
    }
}

/// Calls `visit(page, start, end, done)` for the part of each page within
/// `offset_bytes..offset_bytes + count`, where `done` bytes came before it.
fn for_each_page(offset_bytes: u64, count: usize, mut visit: impl FnMut(u64, usize, usize, usize)) {
    let mut done = 0;
    while done < count {
        let at = offset_bytes + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let end = PAGE_BYTES.min(start + (count - done));
        visit(at / PAGE_BYTES as u64, start, end, done);
        done += end - start;
    }
}

/// The sectors that `start..end` of a page touches; not empty.
fn mask(start: usize, end: usize) -> u8 {
    (start / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES).fold(0, |mask, sector| mask | 1 << sector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &Content, offset: u64, count: usize) -> Vec<u8> {
        let mut buffer = Vec::new();
        content.read(&mut buffer, offset, count);
        buffer
    }

    #[test]
    fn writes_cross_pages_and_leave_holes() {
        let mut content = Content::default();
        let written: Vec<u8> = (0..10_000_u32).map(|place| place as u8).collect();
        let dirty = content.write(&written, 4_000);
        assert_eq!(dirty.iter().map(|page| page.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(dirty[0].sectors, 0b1000_0000);
        assert_eq!(bytes(&content, 4_000, 10_000), written);
        assert_eq!(bytes(&content, 3_998, 3), [0, 0, 0]);
        assert_eq!(bytes(&content, 1 << 40, 2), [0, 0]);
        content.clear(4_001, 1 << 40);
        assert_eq!(bytes(&content, 4_000, 10_000)[..1], written[..1]);
        assert!(bytes(&content, 4_001, 9_999).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn clones_do_not_see_later_writes() {
        let mut content = Content::default();
        content.write(&[1; 100], 0);
        let earlier = content.clone();
        let dirty = content.write(&[2; 100], 50);
        content.flip(0, 0x80);
        assert_eq!(bytes(&earlier, 0, 150), [vec![1; 100], vec![0; 50]].concat());
        assert_eq!(content.pages[&0][0], 0x81);
        assert_eq!(dirty[0].page[0], 1);
    }

    #[test]
    fn sectors_survive_one_by_one() {
        let mut content = Content::default();
        let dirty = content.write(&[7; 2048], 512);
        let mut durable = Content::default();
        let mut number = 0;
        durable.apply(&dirty[0], || {
            number += 1;
            number % 2 == 0
        });
        assert_eq!(number, 4);
        let sectors: Vec<u8> = (0..8).map(|sector| bytes(&durable, sector * 512, 1)[0]).collect();
        assert_eq!(sectors, [0, 0, 7, 0, 7, 0, 0, 0]);
        durable.apply(&dirty[0], || true);
        assert_eq!(bytes(&durable, 0, 4096), bytes(&content, 0, 4096));
    }
}
