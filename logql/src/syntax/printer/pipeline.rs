//! A pipeline alone, without its selector, as it goes to another node.
//!
//! The text is that of the flat canonical form, but for numbers of label filters: the canonical form
//! writes all digits of `1e308`, and a query may have thousands of them. So the text is at most
//! [`PRINTED_FACTOR`](crate::syntax::PRINTED_FACTOR) times as long as the query was.

use super::{Out, label_filter_with, unwrap};
use crate::syntax::ast::{Stage, Unwrap};
use std::fmt::Write;

/// The stages and the `unwrap` behind them, if there is one; empty without any.
pub(crate) fn print_pipeline(stages: &[Stage], behind: Option<&Unwrap>) -> String {
    let mut out = Out::new();
    for stage in stages {
        begin(&mut out);
        match stage {
            Stage::LabelFilter(filter) => {
                out.push_str("| ");
                label_filter_with(&mut out, filter, short_number);
            }
            _ => write!(out, "{stage}").expect("writing to a String succeeds"),
        }
    }
    if let Some(item) = behind {
        begin(&mut out);
        unwrap(&mut out, item);
        for filter in &item.filters {
            out.push_str(" | ");
            label_filter_with(&mut out, filter, short_number);
        }
    }
    out
}

fn begin(out: &mut Out) {
    if !out.is_empty() {
        out.push(' ');
    }
}

/// The shorter one of the two ways to write a number exactly.
fn short_number(out: &mut Out, value: f64) {
    let (digits, exponent) = (value.to_string(), format!("{value:e}"));
    out.push_str(if exponent.len() < digits.len() { &exponent } else { &digits });
}
