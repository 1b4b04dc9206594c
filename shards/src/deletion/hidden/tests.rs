//! Tests of the evaluator, over blocks of a few entries.

use std::sync::Arc;

use logsvc_logql::engine::testing::{Columns, TestEntry};
use logsvc_logql::engine::{Needs, Unlimited};
use logsvc_logql::syntax::ast::Expr;
use logsvc_logql::syntax::parse;
use logsvc_proto::{Labels, TenantId};

use super::{HiddenEntries, Hiding, ShownEntries, needs_of};
use crate::deletion::{DeleteFilter, DeleteId, DeletionVersion};

const EVERYTHING: Needs = Needs { line_lengths: true, lines: true, metadata: true };

fn filter(id: u32, query: &str, bounds_ns: (i64, i64)) -> DeleteFilter {
    let Ok(Expr::Log(log)) = parse(query) else { panic!("{query}: a log query") };
    let tenant = TenantId::new("t").expect("a tenant");
    let filter = DeleteFilter::new(DeleteId(id), tenant, &log, bounds_ns, DeletionVersion::FIRST);
    filter.expect("a filter")
}

/// Entries at 0, 1, 2 ...; even ones contain `warn`, those that three divides have metadata.
fn entries(count: i64) -> Vec<TestEntry> {
    let entry = |timestamp_ns: i64| {
        let level = if timestamp_ns % 2 == 0 { "warn" } else { "info" };
        let user = (timestamp_ns % 3 == 0).then(|| ("user".to_owned(), "u1".to_owned()));
        let line = format!("{level} {timestamp_ns}").into_bytes();
        TestEntry { timestamp_ns, line, metadata: user.into_iter().collect() }
    };
    (0..count).map(entry).collect()
}

/// The times that filters hide, each with the number of the first filter that does.
fn hidden_of(filters: &[DeleteFilter], entries: &[TestEntry]) -> Vec<(i64, usize)> {
    let labels = Arc::new(Labels::from_pairs([("app", "a")]).expect("labels"));
    let mut evaluator = HiddenEntries::new(Box::new(Unlimited));
    let columns = Columns::new(entries, false);
    let (block, mut hidden) = (columns.block(0), vec![false; entries.len()]);
    let mut found = Vec::new();
    let hidings = filters.iter().map(Hiding::from);
    let note = |number: usize, row: usize| found.push((entries[row].timestamp_ns, number));
    evaluator.mark(hidings, &labels, &block, &mut hidden, note).expect("no limit");
    assert_eq!(found.len(), hidden.iter().filter(|&&is_hidden| is_hidden).count());
    found.sort_unstable();
    found
}

#[test]
fn entries_of_the_times_that_the_query_returns_are_hidden() {
    let even = filter(1, r#"{app="a"} |= "warn""#, (20, 39));
    let expected: Vec<_> = (10..20).map(|half| (half * 2, 0)).collect();
    assert_eq!(hidden_of(&[even], &entries(60)), expected);
    let nothing = filter(1, r#"{app="a"} |= "nosuch""#, (20, 39));
    assert_eq!(hidden_of(&[nothing], &entries(60)), []);
    let all = filter(1, r#"{app="a"}"#, (20, 22));
    assert_eq!(hidden_of(&[all], &entries(60)), [(20, 0), (21, 0), (22, 0)]);
    let user = filter(1, r#"{app="a"} | user="u1""#, (0, 8));
    assert_eq!(hidden_of(&[user], &entries(60)), [(0, 0), (3, 0), (6, 0)]);
}

#[test]
fn the_first_filter_that_hides_an_entry_has_it() {
    let filters = [
        filter(1, r#"{app="a"} | user="u1""#, (3, 6)),
        filter(2, r#"{app="a"} |= "warn""#, (0, 5)),
        filter(3, r#"{app="a"}"#, (4, 7)),
    ];
    let expected = [(0, 1), (2, 1), (3, 0), (4, 1), (5, 2), (6, 0), (7, 2)];
    assert_eq!(hidden_of(&filters, &entries(9)), expected);
    let mut unsorted = entries(9);
    unsorted.reverse();
    assert_eq!(hidden_of(&filters, &unsorted), expected);
}

#[test]
fn more_filters_than_are_kept_hide_their_entries() {
    let count = super::MATCHERS_MAX as u32 * 2;
    let filter_of = |id| filter(id, r#"{app="a"} |~ "warn|info""#, (i64::from(id), i64::from(id)));
    let filters: Vec<_> = (0..count).map(filter_of).collect();
    let expected: Vec<_> = (0..count as usize).map(|id| (id as i64, id)).collect();
    assert_eq!(hidden_of(&filters, &entries(i64::from(count) + 5)), expected);
}

#[test]
fn filters_need_the_columns_that_they_read() {
    let lines = filter(1, r#"{app="a"} |= "warn""#, (0, 1));
    let metadata = filter(1, r#"{app="a"} | user="u1""#, (0, 1));
    let times = filter(1, r#"{app="a"}"#, (0, 1));
    assert!(needs_of([&times]).timestamps_only());
    assert!(needs_of([&times, &lines]).lines && !needs_of([&times, &lines]).metadata);
    assert!(needs_of([&metadata]).metadata && !needs_of([&metadata]).lines);
    assert_eq!(needs_of([&metadata, &lines]), EVERYTHING);
}

#[test]
fn a_copy_has_the_columns_that_are_needed_of_the_shown_entries() {
    let entries = entries(5);
    let columns = Columns::new(&entries, false);
    let whole = columns.block(7);
    let hidden = [true, false, true, false, false];
    let shown = ShownEntries::of(&whole, &hidden, EVERYTHING);
    let block = shown.block(&whole);
    assert_eq!((block.timestamps_ns, block.arrival), (&[1, 3, 4][..], 7));
    assert_eq!((block.lines, block.line_ends), (&b"info 1info 3warn 4"[..], &[6, 12, 18][..]));
    let again = Columns::new(&[1, 3, 4].map(|at: usize| entries[at].clone()), false);
    assert_eq!(again.block(7).lines, block.lines);
    let lengths = Needs { lines: false, metadata: false, ..EVERYTHING };
    let shown = ShownEntries::of(&whole, &hidden, lengths);
    let block = shown.block(&whole);
    assert_eq!((block.lines, block.line_ends), (&b""[..], &[6, 12, 18][..]));
    assert!(ShownEntries::of(&whole, &[true; 5], EVERYTHING).is_empty());
}
