//! Tells from the bounds of pages that a pattern rejects all their values.
//!
//! All values of a page begin with what its bound and the bound of the next page have in common, and
//! the byte after that lies between those of the bounds. A pattern with a literal beginning rejects
//! most of these without a read.

use logsvc_logql::engine::{CompiledMatcher, PatternOutcome};

use super::LabelIndex;
use super::key::common_len;

/// A page is not excluded by longer texts.
const TEXT_MAX_BYTES: usize = 256;

/// A page is not excluded by more texts.
const TEXTS_MAX: usize = 16;

/// The pages that may have values with this `beginning` of their keys and that the pattern of the
/// matcher accepts, ascending.
pub(super) fn pages_left(
    index: &LabelIndex,
    matcher: &CompiledMatcher,
    beginning: &[u8],
) -> Vec<u32> {
    let pages = index.pages_of(beginning);
    if pages.len() < 2 || !matcher.pattern_rejects_beginnings() {
        return pages.collect();
    }
    let texts: Vec<Vec<String>> =
        pages.clone().map(|page| texts_of(index, page, beginning)).collect();
    // Only an automaton tells beginnings, and it is made for many values.
    let mut walk = matcher.pattern_walk(usize::MAX);
    let mut left = Vec::new();
    for (page, texts) in pages.zip(&texts) {
        let is_rejected = !texts.is_empty()
            && texts
                .iter()
                .all(|text| matches!(walk.test(text), PatternOutcome::RejectedBeginning(_)));
        if !is_rejected {
            left.push(page);
        }
    }
    left
}

/// Texts of which each value of a page begins with one; none if nothing is known.
fn texts_of(index: &LabelIndex, page: u32, beginning: &[u8]) -> Vec<String> {
    let bound = |page: u32| index.bound(page)?.strip_prefix(beginning);
    let (Some(low), Some(high)) = (bound(page), bound(page + 1)) else { return Vec::new() };
    let common = common_len(low, high);
    if common > TEXT_MAX_BYTES {
        return Vec::new();
    }
    let text = match std::str::from_utf8(&low[..common]) {
        Ok(text) => text,
        Err(error) => {
            let whole = std::str::from_utf8(&low[..error.valid_up_to()]).unwrap_or_default();
            return some(whole);
        }
    };
    let (Some(&first), Some(&last)) = (low.get(common), high.get(common)) else {
        return some(text);
    };
    // The next page has the values that begin with a bound that ends here.
    let behind = if high.len() == common + 1 { last } else { last.saturating_add(1) };
    if !behind.is_ascii() || usize::from(behind.saturating_sub(first)) > TEXTS_MAX {
        return some(text);
    }
    (first..behind).map(|byte| format!("{text}{}", char::from(byte))).collect()
}

fn some(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { vec![text.to_owned()] }
}
