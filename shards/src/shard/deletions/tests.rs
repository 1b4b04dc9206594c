//! Which streams have which filters, as the shard sees it.

use std::time::Duration;

use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::{Labels, StreamId, TenantId};

use super::*;
use crate::messages::ShardRequest;
use crate::shard::tests::{Bench, push, tenant};
use crate::types::StreamDefinition;

fn filter(id: u32, text: &str) -> Arc<DeleteFilter> {
    filter_of(tenant(), id, text)
}

fn filter_of(tenant: TenantId, id: u32, text: &str) -> Arc<DeleteFilter> {
    let Ok(Expr::Log(log)) = syntax::parse(text) else { panic!("{text}: a log query") };
    let since = DeletionVersion::FIRST;
    let filter = DeleteFilter::new(DeleteId(id), tenant, &log, (0, 100), since);
    Arc::new(filter.expect("a filter"))
}

fn stream(pairs: &[(&str, &str)]) -> StreamDefinition {
    let labels = Labels::from_pairs(pairs.iter().copied()).unwrap();
    let tenant = tenant();
    StreamDefinition { id: StreamId::new(&tenant, &labels), tenant, labels: Arc::new(labels) }
}

/// The ids of the filters of a stream.
fn marks(bench: &Bench, definition: &StreamDefinition) -> Vec<u32> {
    let slot = bench.shard.by_id[&definition.id];
    let list = bench.shard.streams[slot as usize].deletions.as_ref();
    list.map_or(Vec::new(), |list| list.iter().map(|filter| filter.id.0).collect())
}

fn list(bench: &Bench, definition: &StreamDefinition) -> DeleteFilters {
    let slot = bench.shard.by_id[&definition.id];
    Arc::clone(bench.shard.streams[slot as usize].deletions.as_ref().expect("a list"))
}

const FILTERS: [&str; 6] = [
    r#"{app="a"}"#,
    r#"{app="a", env="prod"} |= "x""#,
    r#"{app=~"a|b"}"#,
    r#"{app=~".+", env!="prod"}"#,
    r#"{env=~"p.*"} |= "x""#,
    r#"{app="a", zone=""}"#,
];

#[test]
fn streams_have_the_filters_that_select_them_whichever_came_first() {
    let streams = [
        (stream(&[("app", "a"), ("env", "prod")]), vec![0, 1, 2, 4, 5]),
        (stream(&[("app", "a"), ("env", "dev")]), vec![0, 2, 3, 5]),
        (stream(&[("app", "b"), ("zone", "x")]), vec![2, 3]),
        (stream(&[("app", "a"), ("zone", "x")]), vec![0, 2, 3]),
        (stream(&[("app", "c"), ("env", "prod")]), vec![4]),
        (stream(&[("host", "h")]), vec![]),
    ];
    for filters_first in [false, true] {
        let mut bench = Bench::new();
        let hide = |bench: &mut Bench| {
            // Out of order, and some twice.
            for id in [3, 0, 5, 1, 0, 4, 2] {
                bench.tell(ShardRequest::Hide(filter(id, FILTERS[id as usize])));
            }
        };
        if filters_first {
            hide(&mut bench);
        }
        for (definition, _) in &streams {
            bench.stores(push(&[(definition, &[(1, "line")])]));
        }
        if !filters_first {
            hide(&mut bench);
        }
        for (definition, expected) in &streams {
            let marks = marks(&bench, definition);
            assert_eq!(marks, *expected, "{:?}, first: {filters_first}", definition.labels);
        }
    }
}

#[test]
fn a_filter_that_ends_stays_for_a_while() {
    let mut bench = Bench::new();
    let definition = stream(&[("app", "a")]);
    bench.stores(push(&[(&definition, &[(1, "line")])]));
    for id in [1, 2] {
        bench.tell(ShardRequest::Hide(filter(id, FILTERS[0])));
    }
    bench.tell(ShardRequest::Unhide(DeleteId(1)));
    bench.tell(ShardRequest::Unhide(DeleteId(7)));
    assert_eq!(marks(&bench, &definition), [1, 2]);
    let wakeup = bench.shard.next_wakeup().expect("it goes");
    assert_eq!(wakeup, bench.now.after(GRACE));
    bench.now = bench.now.after(GRACE - Duration::from_nanos(1));
    bench.step(crate::shard::Event::Timer);
    assert_eq!(marks(&bench, &definition), [1, 2]);
    bench.now = wakeup;
    bench.step(crate::shard::Event::Timer);
    assert_eq!(marks(&bench, &definition), [2]);
    assert_eq!(bench.shard.deletions.lists.len(), 1);
    let late = stream(&[("app", "a"), ("env", "dev")]);
    bench.stores(push(&[(&late, &[(1, "line")])]));
    assert_eq!(marks(&bench, &late), [2]);
    // The last one leaves nothing behind.
    bench.tell(ShardRequest::Unhide(DeleteId(2)));
    bench.now = bench.now.after(GRACE);
    bench.step(crate::shard::Event::Timer);
    assert!(marks(&bench, &definition).is_empty());
    let deletions = &bench.shard.deletions;
    assert!(deletions.lists.is_empty() && deletions.tenants.is_empty());
    assert!(deletions.filters.is_empty() && deletions.ended.is_empty());
}

#[test]
fn streams_with_equal_lists_share_one() {
    let mut bench = Bench::new();
    let streams = ["1", "2", "3"].map(|number| stream(&[("app", "a"), ("s", number)]));
    bench.stores(push(&[(&streams[0], &[(1, "line")]), (&streams[1], &[(1, "line")])]));
    bench.tell(ShardRequest::Hide(filter(1, FILTERS[0])));
    bench.tell(ShardRequest::Hide(filter(2, FILTERS[2])));
    bench.stores(push(&[(&streams[2], &[(1, "line")])]));
    let lists = streams.each_ref().map(|definition| list(&bench, definition));
    assert!(Arc::ptr_eq(&lists[0], &lists[1]) && Arc::ptr_eq(&lists[0], &lists[2]));
}

#[test]
fn a_request_of_another_tenant_marks_nothing() {
    let mut bench = Bench::new();
    let definition = stream(&[("app", "a")]);
    bench.stores(push(&[(&definition, &[(1, "line")])]));
    let theirs = filter_of(TenantId::new("acm").unwrap(), 1, FILTERS[0]);
    bench.tell(ShardRequest::Hide(theirs));
    assert!(marks(&bench, &definition).is_empty());
}
