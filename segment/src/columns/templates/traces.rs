//! Finds the fragments that may have a part of a text that lies across a number.
//!
//! On both sides of each number the text begins in a fragment, ends in it, or covers it. One
//! side alone excludes little: half of all fragments begin with the last letter of some word. So
//! a first pass over the fragments notes which parts of the text can be before the numbers of a
//! column, and which can be after them. A second pass selects the fragments whose part fits a
//! part on the other side.
//!
//! A text may also lie within a time. Then all lines with a time of that form are in doubt, and
//! the fragments before such times are selected.
//!
//! Guarantee: for each occurrence of the text at least one of its fragments is selected, unless
//! it lies within one fragment or within adjacent numbers.

use std::ops::Range;

use super::times::Layout;
use super::{END, Form, LineParts};

/// Whether a byte may be in a number of this form, or at either end of a time.
pub(super) fn is_digit(form: Form, byte: u8) -> bool {
    match form {
        Form::Decimal | Form::FixedDecimal(_) | Form::Time(..) => byte.is_ascii_digit(),
        Form::FixedHex(_) => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        // A cut has no bytes.
        Form::Nothing => true,
    }
}

/// The positions at which a number of one form may cut a text, for one side of the number.
#[derive(Debug)]
struct Cuts {
    /// Offsets within the text, neither 0 nor its length, ascending.
    offsets: Vec<usize>,
    /// The bytes of the text at those edges that touch a fragment.
    edges: [bool; 256],
}

impl Cuts {
    /// The positions after which the text may continue with a number, or before which a number may
    /// end.
    fn new(needle: &[u8], ignore_case: bool, form: Form, goes_on: bool) -> Cuts {
        let mut cuts = Cuts { offsets: Vec::new(), edges: [false; 256] };
        for offset in 1..needle.len() {
            let (before, behind) = (needle[offset - 1], needle[offset]);
            let (digit, edge) = if goes_on { (behind, before) } else { (before, behind) };
            if is_digit(form, digit) {
                cuts.offsets.push(offset);
                cuts.edges[usize::from(edge)] = true;
                cuts.edges[usize::from(edge.to_ascii_uppercase())] |= ignore_case;
            }
        }
        cuts
    }

    /// Whether a fragment with this byte at its edge may have a part of the text.
    fn touch(&self, edge: u8) -> bool {
        self.edges[usize::from(edge)]
    }
}

/// A text that may lie across numbers.
#[derive(Debug)]
pub(super) struct TracedText {
    needle: Vec<u8>,
    ignore_case: bool,
    /// By kind.
    into: [Cuts; 3],
    out_of: [Cuts; 3],
}

impl TracedText {
    pub(super) fn new(needle: &[u8], ignore_case: bool) -> TracedText {
        let cuts = |goes_on| KINDS.map(|form| Cuts::new(needle, ignore_case, form, goes_on));
        let (into, out_of) = (cuts(true), cuts(false));
        TracedText { needle: needle.to_vec(), ignore_case, into, out_of }
    }
}

/// The bytes with which fragments that may have a part of one of some texts begin or end.
#[derive(Debug)]
pub(super) struct TracedEdges {
    /// By kind of the number.
    into: [[bool; 256]; 3],
    out_of: [[bool; 256]; 3],
}

impl TracedEdges {
    pub(super) fn new<'a>(texts: impl Iterator<Item = &'a TracedText>) -> TracedEdges {
        let none = [[false; 256]; 3];
        let mut edges = TracedEdges { into: none, out_of: none };
        let add = |edges: &mut [[bool; 256]; 3], cuts: &[Cuts; 3]| {
            for (edges, cuts) in edges.iter_mut().zip(cuts) {
                edges.iter_mut().zip(cuts.edges).for_each(|(edge, is_edge)| *edge |= is_edge);
            }
        };
        for text in texts {
            add(&mut edges.into, &text.into);
            add(&mut edges.out_of, &text.out_of);
        }
        edges
    }

    /// The slots and fragments of a block whose first or last byte fits.
    pub(super) fn fragments(&self, parts: &LineParts) -> Vec<(u8, u16)> {
        let kinds: Vec<usize> = parts.forms().map(kind_of).collect();
        let mut found = Vec::new();
        for slot in 0..parts.slot_count() {
            let out_of = slot.checked_sub(1).map(|column| &self.out_of[kinds[column]]);
            for fragment in parts.fragments_of(slot) {
                let own = parts.fragment(fragment);
                let into = kinds.get(usize::from(parts.nexts[fragment]));
                let may_have = match own {
                    // The numbers on both sides of an empty fragment are adjacent.
                    [] => out_of.is_some(),
                    [first, ..] => {
                        let last = own[own.len() - 1];
                        into.is_some_and(|&kind| self.into[kind][usize::from(last)])
                            || out_of.is_some_and(|out_of| out_of[usize::from(*first)])
                    }
                };
                if may_have {
                    found.push((slot as u8, fragment as u16));
                }
            }
        }
        found
    }
}

/// One form of each kind that [`is_digit`] distinguishes.
const KINDS: [Form; 3] = [Form::Decimal, Form::FixedHex(1), Form::Nothing];

fn kind_of(form: Form) -> usize {
    match form {
        Form::Decimal | Form::FixedDecimal(_) | Form::Time(..) => 0,
        Form::FixedHex(_) => 1,
        Form::Nothing => 2,
    }
}

/// The part of the text that a fragment may have. Offsets are in the text.
#[derive(Clone, Copy)]
enum Share {
    /// The text begins in the fragment, and continues at this offset in the number after it.
    Begins { column: usize, until: usize },
    /// The text continues at this offset after the number before the fragment, and ends in the
    /// fragment.
    Ends { column: usize, from: usize },
    /// Both.
    Covered { column: usize, from: usize, next: usize, until: usize },
}

/// So many shares of a block are kept; of more, the fragments are looked at again, as they are in
/// tests.
const SHARES: usize = if cfg!(test) { 8 } else { 1024 };

/// A search of one text in one block.
pub(super) struct Tracer<'a> {
    pub(super) parts: &'a LineParts,
    pub(super) text: &'a TracedText,
    /// Slots and fragments, among them all that may have a part of the text, see
    /// [`TracedEdges::fragments`].
    pub(super) fragments: &'a [(u8, u16)],
}

impl Tracer<'_> {
    /// Calls `each` with the fragments that may have a part of the text, some of them repeatedly.
    pub(super) fn each(&self, mut each: impl FnMut(usize)) {
        self.before_times(&mut each);
        let mut sides = Sides::new(self.parts, self.text.needle.len());
        let mut first = Vec::new();
        let mut count = 0;
        self.shares(|fragment, share| {
            sides.note(share);
            count += 1;
            if first.len() < SHARES {
                first.push((fragment, share));
            }
        });
        let Some(fits) = sides.fitting(self) else { return };
        let mut select = |fragment, share| {
            if fits.has(share) {
                each(fragment);
            }
        };
        match count > first.len() {
            true => self.shares(select),
            false => first.into_iter().for_each(|(fragment, share)| select(fragment, share)),
        }
    }

    /// Calls `each` with the fragments before times in which the text may lie.
    fn before_times(&self, mut each: impl FnMut(usize)) {
        for (form, column) in self.parts.forms().zip(0..) {
            if let Form::Time(layout, _) = form
                && layout.may_hold(&self.text.needle, self.text.ignore_case)
            {
                let nexts = self.parts.nexts.iter().enumerate();
                nexts.filter(|(_, next)| **next == column).for_each(|(fragment, _)| each(fragment));
            }
        }
    }

    /// Calls `each` with every part of the text that a fragment may have.
    fn shares(&self, mut each: impl FnMut(usize, Share)) {
        let parts = self.parts;
        for &(slot, fragment) in self.fragments {
            let fragment = usize::from(fragment);
            let own = parts.fragment(fragment);
            let column = slot.checked_sub(1);
            let form_before = column.and_then(|column| parts.form(column));
            let out_of = form_before.map(|form| &self.text.out_of[kind_of(form)]);
            let next = parts.nexts[fragment];
            let form_behind = if next == END { None } else { parts.form(next) };
            let into = form_behind.map(|form| &self.text.into[kind_of(form)]);
            if let Some(into) = into {
                self.beginnings(own, into, |until| {
                    each(fragment, Share::Begins { column: next.into(), until });
                });
            }
            if let (Some(out_of), Some(column)) = (out_of, column.map(usize::from)) {
                self.ends(own, out_of, into, |from, until| {
                    each(
                        fragment,
                        match until {
                            None => Share::Ends { column, from },
                            Some(until) => {
                                Share::Covered { column, from, next: next.into(), until }
                            }
                        },
                    );
                });
            }
        }
    }

    fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        if self.text.ignore_case { a.eq_ignore_ascii_case(b) } else { a == b }
    }

    /// Whether a byte of a fragment equals a byte of the text.
    #[inline]
    fn is_at(&self, byte: u8, offset: usize) -> bool {
        let own = self.text.needle[offset];
        byte == own || (self.text.ignore_case && byte.eq_ignore_ascii_case(&own))
    }

    /// The offsets up to which the text may be at the end of a fragment.
    fn beginnings(&self, own: &[u8], into: &Cuts, each: impl FnMut(usize)) {
        if let Some(&last) = own.last().filter(|&&last| into.touch(last)) {
            let fits = |&cut: &usize| {
                self.is_at(last, cut - 1)
                    && cut <= own.len()
                    && self.equal(&own[own.len() - cut..], &self.text.needle[..cut])
            };
            into.offsets.iter().copied().filter(fits).for_each(each);
        }
    }

    /// The offsets from which the text may be at the beginning of a fragment, and, if the fragment
    /// ends before the text, the offset at which the text continues.
    fn ends(
        &self,
        own: &[u8],
        out_of: &Cuts,
        into: Option<&Cuts>,
        mut each: impl FnMut(usize, Option<usize>),
    ) {
        // The numbers on both sides of an empty fragment are adjacent.
        let first = own.first().copied();
        if first.is_some_and(|first| !out_of.touch(first)) {
            return;
        }
        let fits = |&cut: &usize| first.is_none_or(|first| self.is_at(first, cut));
        for cut in out_of.offsets.iter().copied().filter(fits) {
            let rest = &self.text.needle[cut..];
            if rest.len() <= own.len() {
                if self.equal(&own[..rest.len()], rest) {
                    each(cut, None);
                }
                continue;
            }
            let until = cut + own.len();
            let goes_on = into.is_some_and(|into| into.offsets.binary_search(&until).is_ok());
            if goes_on && self.equal(own, &rest[..own.len()]) {
                each(cut, Some(until));
            }
        }
    }
}

/// For each column the parts of the text before its numbers, and the parts after them.
struct Sides {
    /// Number of offsets in the text, with that of its end.
    width: usize,
    /// By column and offset: whether the text up to the offset may be before a number.
    before: Vec<bool>,
    /// By column and offset: whether the text from the offset on may be after a number.
    behind: Vec<bool>,
    /// Whether there is any part.
    is_noted: bool,
}

impl Sides {
    fn new(parts: &LineParts, needle_len: usize) -> Sides {
        // Each slot but the first follows a column.
        let columns = parts.slot_count() - 1;
        let width = needle_len + 1;
        let none = vec![false; columns * width];
        Sides { width, before: none.clone(), behind: none, is_noted: false }
    }

    fn note(&mut self, share: Share) {
        let width = self.width;
        self.is_noted = true;
        match share {
            Share::Begins { column, until } => self.before[column * width + until] = true,
            Share::Ends { column, from } => self.behind[column * width + from] = true,
            Share::Covered { column, from, next, until } => {
                self.behind[column * width + from] = true;
                self.before[next * width + until] = true;
            }
        }
    }

    fn has(&self, share: Share) -> bool {
        let before = |column: usize, until: usize| self.before[column * self.width + until];
        let behind = |column: usize, from: usize| self.behind[column * self.width + from];
        match share {
            Share::Begins { column, until } => before(column, until),
            Share::Ends { column, from } => behind(column, from),
            Share::Covered { column, from, next, until } => {
                behind(column, from) && before(next, until)
            }
        }
    }

    /// The parts for which a part on the other side of the number fits; `None` if there are none.
    fn fitting(&self, tracer: &Tracer<'_>) -> Option<Sides> {
        if !self.is_noted {
            return None;
        }
        let (parts, ignore_case) = (tracer.parts, tracer.text.ignore_case);
        let needle = &tracer.text.needle;
        let (width, len) = (self.width, needle.len());
        let none = vec![false; self.before.len()];
        let mut fits = Sides { width, before: none.clone(), behind: none, is_noted: false };
        for column in 0..self.before.len() / width {
            let Some(form) = parts.form(column as u8) else { continue };
            let at = column * width;
            let (before, behind) = (&self.before[at..at + width], &self.behind[at..at + width]);
            if form == Form::Nothing {
                for offset in 1..len {
                    let is_cut = before[offset] && behind[offset];
                    (fits.before[at + offset], fits.behind[at + offset]) = (is_cut, is_cut);
                    fits.is_noted |= is_cut;
                }
                continue;
            }
            // The text may begin or end in a number.
            for from in (0..len).filter(|&from| from == 0 || before[from]) {
                let most = match form {
                    Form::Time(layout, _) => layout.len().min(len - from),
                    _ => needle[from..].iter().take_while(|&&byte| is_digit(form, byte)).count(),
                };
                let fits_behind = |&until: &usize| {
                    let is_there = until == len || behind[until];
                    is_there
                        && match form {
                            Form::Time(layout, _) => {
                                may_be_of_time(layout, needle, from..until, ignore_case)
                            }
                            _ => may_be_so_long(form, from, until, len),
                        }
                };
                for until in (from + 1..=from + most).filter(fits_behind) {
                    fits.before[at + from] = true;
                    fits.behind[at + until] = true;
                    fits.is_noted = true;
                }
            }
        }
        fits.is_noted.then_some(fits)
    }
}

/// Whether a time may be between two offsets of the text: the whole time, unless the text begins
/// or ends in it.
fn may_be_of_time(layout: Layout, needle: &[u8], part: Range<usize>, ignore_case: bool) -> bool {
    let is_whole = part.start > 0 && part.end < needle.len();
    let Some(rest) = layout.len().checked_sub(part.len()) else { return false };
    if is_whole && rest > 0 {
        return false;
    }
    let offset = if part.start == 0 { rest } else { 0 };
    layout.may_have_at(offset, &needle[part], ignore_case)
}

/// Whether a number of this form may be between two offsets of a text of `len` bytes: the whole
/// number, unless the text begins or ends in it.
fn may_be_so_long(form: Form, from: usize, until: usize, len: usize) -> bool {
    let digits = until - from;
    match form {
        Form::FixedDecimal(all) | Form::FixedHex(all) => {
            let is_whole = from > 0 && until < len;
            digits == usize::from(all) || (!is_whole && digits < usize::from(all))
        }
        Form::Decimal | Form::Nothing | Form::Time(..) => true,
    }
}
