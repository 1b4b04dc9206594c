//! One matcher of a selection: the pages that it needs, and what they say.
//!
//! A matcher is a pattern, perhaps negated. The rows with a value that the pattern accepts are
//! looked up if these values are known, and collected from all values of the label otherwise. If the
//! pattern accepts the empty value, which rows without the label have, then the rows that have the
//! label are looked up, too.

use std::ops::Range;

use logsvc_logql::engine::{CompiledMatcher, PatternOutcome};

use super::beginnings::pages_left;
use super::page::PageEntries;
use super::stored_rows::StoredRows;
use super::{LabelIndex, fail, key};
use crate::error::SegmentError;
use crate::row_set::RowSet;

/// See the module.
#[derive(Debug)]
pub(super) struct Condition<'a> {
    matcher: &'a CompiledMatcher,
    /// Whether the rows that the pattern rejects are selected.
    is_negated: bool,
    accepts_absent: bool,
    /// The key of the name, if it is looked up.
    name_key: Option<Vec<u8>>,
    values: Wanted,
    /// Pages that were not read yet, ascending.
    pages: Vec<u32>,
    /// Rows with a value that the pattern accepts, in any order.
    accepted: Vec<Range<u32>>,
    /// Rows that have the label, if they are looked up.
    labelled: RowSet,
}

#[derive(Debug)]
enum Wanted {
    /// Those of these keys, which ascend.
    Keys(Vec<Vec<u8>>),
    /// Those whose keys have this beginning and that the pattern accepts.
    Tested(Vec<u8>),
}

impl<'a> Condition<'a> {
    /// The condition that a matcher sets for the streams of a tenant.
    pub(super) fn new(
        index: &LabelIndex,
        tenant: u32,
        matcher: &'a CompiledMatcher,
    ) -> Condition<'a> {
        let before_values = key::before_values(tenant, matcher.name());
        // A pattern that matches all values but the empty one is the empty value, negated.
        let is_non_empty = matcher.pattern_accepts_non_empty();
        let is_negated = matcher.is_negated() != is_non_empty;
        let accepts_absent = is_non_empty || matcher.pattern_matches("");
        let name_key = accepts_absent.then(|| key::of_name(tenant, matcher.name()));
        let mut pages: Vec<u32> =
            name_key.iter().filter_map(|name_key| index.page_of(name_key)).collect();
        let values = match matcher.pattern_literals() {
            _ if is_non_empty => Wanted::Keys(Vec::new()),
            Some(literals) => {
                let values = literals.iter().filter(|value| !value.is_empty());
                let keys = values.map(|value| key::of_value(&before_values, value));
                let keys: Vec<Vec<u8>> = keys.collect();
                pages.extend(keys.iter().filter_map(|key| index.page_of(key)));
                Wanted::Keys(keys)
            }
            None => {
                pages.extend(pages_left(index, matcher, &before_values));
                Wanted::Tested(before_values)
            }
        };
        // The name stands before its values, and literals are sorted.
        pages.dedup();
        let (accepted, labelled) = (Vec::new(), RowSet::new());
        Condition {
            matcher,
            is_negated,
            accepts_absent,
            name_key,
            values,
            pages,
            accepted,
            labelled,
        }
    }

    /// The cost of the condition, and whether it excludes little; cheap ones compare as less.
    pub(super) fn cost(&self) -> (bool, usize, bool) {
        let is_tested = matches!(self.values, Wanted::Tested(_));
        (is_tested, self.pages.len(), self.excludes())
    }

    /// Whether the rows of the condition are those that do not match.
    fn excludes(&self) -> bool {
        self.accepts_absent != self.is_negated
    }

    /// Pages that were not read yet, ascending.
    pub(super) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Takes the first `count` of [`Self::pages`], with their raw bytes. `rows` are those of the
    /// tenant, and `left` those that are still selected: what is found about others may be wrong.
    pub(super) fn read<'p>(
        &mut self,
        count: usize,
        pages: impl Iterator<Item = &'p [u8]>,
        rows: &Range<u32>,
        left: &RowSet,
    ) -> Result<(), SegmentError> {
        self.pages.drain(..count);
        let mut values = Values::default();
        for raw in pages {
            self.read_page(raw, rows, left, &mut values)?;
        }
        let mut walk = self.matcher.pattern_walk(values.found.len());
        for (value, rows) in values.iter() {
            if walk.test(value) == PatternOutcome::Accepted {
                self.accepted.extend(rows.ranges());
            }
        }
        Ok(())
    }

    fn read_page<'p>(
        &mut self,
        raw: &'p [u8],
        rows: &Range<u32>,
        left: &RowSet,
        values: &mut Values<'p>,
    ) -> Result<(), SegmentError> {
        let parse = |stored| {
            let rows = StoredRows::parse(stored, rows.clone());
            rows.map_err(|_| fail("rows are not those of their tenant"))
        };
        let mut keys = match &self.values {
            Wanted::Keys(keys) => &keys[..],
            Wanted::Tested(_) => &[],
        };
        let mut entries = PageEntries::new(raw);
        while let Some((key, stored)) = entries.next().map_err(fail)? {
            if self.name_key.as_deref() == Some(key) {
                self.labelled = parse(stored)?.to_set();
                continue;
            }
            match &self.values {
                Wanted::Keys(_) => {
                    while let [wanted, rest @ ..] = keys
                        && &wanted[..] < key
                    {
                        keys = rest;
                    }
                    match keys.first() {
                        Some(wanted) if wanted == key => {
                            self.accepted.extend(parse(stored)?.ranges());
                        }
                        Some(_) => {}
                        // The name's key is below those of values.
                        None if self.name_key.as_deref().is_none_or(|name| name < key) => break,
                        None => {}
                    }
                }
                Wanted::Tested(beginning) => {
                    if let Some(value) = key.strip_prefix(&beginning[..]) {
                        let rows = parse(stored)?;
                        if !rows.is_one() || rows.intersects(left) {
                            values.push(value, rows)?;
                        }
                    } else if key > &beginning[..] {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of `left` that match. All pages were read.
    pub(super) fn finish(self, left: &RowSet) -> RowSet {
        let excludes = self.excludes();
        let mut rows = RowSet::from_ranges(self.accepted);
        if self.accepts_absent {
            rows = self.labelled.difference(&rows);
        }
        if excludes { left.difference(&rows) } else { left.intersection(&rows) }
    }
}

/// Values of some pages, in one piece of text, so that a pattern walks over all of them.
#[derive(Default)]
struct Values<'p> {
    text: String,
    /// The exclusive end of each value in `text`, and its rows.
    found: Vec<(usize, StoredRows<'p>)>,
}

impl<'p> Values<'p> {
    fn push(&mut self, value: &[u8], rows: StoredRows<'p>) -> Result<(), SegmentError> {
        let value = std::str::from_utf8(value).map_err(|_| fail("a value is not UTF-8"))?;
        self.text.push_str(value);
        self.found.push((self.text.len(), rows));
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = (&str, StoredRows<'p>)> {
        let mut start = 0;
        self.found.iter().map(move |&(end, rows)| {
            let start = std::mem::replace(&mut start, end);
            (&self.text[start..end], rows)
        })
    }
}
