//! Questions and answers of all kinds.

use std::num::NonZeroUsize;
use std::sync::Arc;

use logsvc_fuzz_bodies::logql::leaf_plans;
use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{CompiledMatcher, LeafPlan, LeafResult, Plan, QueryParams};
use logsvc_logql::syntax;
use logsvc_peers::frame::{Addressee, Failure, Kind, close};
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Asked, Found, Question, Reply, Streams};
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::{AppendOutcome, AppendRequest, TooFarBehind};
use logsvc_shards::scope::TenantScope;
use logsvc_shards::types::{ScanStats, StoreReads, StreamDefinition, TimeRange};

pub(crate) const SECOND_NS: i64 = 1_000_000_000;

/// Bytes of a trailer.
const TRAILER_BYTES: usize = 20;

/// A node, by the map of this number.
pub(crate) fn to(number: u64) -> Addressee {
    Addressee { writer: 70, number }
}

pub(crate) fn tenants(names: &[&str]) -> Arc<[TenantId]> {
    names.iter().map(|name| TenantId::new(name).expect("a tenant")).collect()
}

pub(crate) fn labels(app: &str) -> Arc<Labels> {
    Arc::new(Labels::from_pairs([("app", app)]).expect("labels"))
}

pub(crate) fn scopes() -> [TenantScope; 4] {
    [
        TenantScope::labelled(tenants(&["acme"])),
        TenantScope::labelled(tenants(&["b", "a", "c"])),
        TenantScope::merged(tenants(&["a", "b"])),
        TenantScope::merged(tenants(&["acme"])),
    ]
}

pub(crate) fn streams(selectors: &[&str]) -> Streams {
    let group = |text: &&str| {
        let selector = syntax::parse_selector(text).expect("a selector");
        let matchers = selector.matchers.iter();
        matchers.map(|one| CompiledMatcher::new(one).expect("a pattern")).collect()
    };
    let matcher_groups: Vec<Vec<CompiledMatcher>> = selectors.iter().map(group).collect();
    let range = TimeRange { start_ns: -7, end_ns: i64::MAX };
    Streams { matcher_groups: matcher_groups.into(), range }
}

/// Leaves of plans of all kinds; the last plan has three of them.
pub(crate) fn plans() -> Vec<Vec<Arc<LeafPlan>>> {
    let text = r#"sum(rate({app="m"}[5s])) / sum(count_over_time({app="m"} | logfmt [5s]))
        + max(min_over_time({app=~"m|n"} | logfmt | unwrap v | __error__="" [9s]) by (level))"#;
    let expr = syntax::parse(text).expect("a query");
    let range = QueryParams::range(0, 40 * SECOND_NS, 3 * SECOND_NS);
    let mut plans = leaf_plans();
    plans.push(Plan::new(&expr, &range).expect("a plan"));
    plans.iter().map(|plan| plan.leaves().iter().cloned().map(Arc::new).collect()).collect()
}

pub(crate) fn lists() -> Vec<Asked> {
    let mut lists = Vec::new();
    for selectors in [&[][..], &[r#"{a="b"}"#], &[r#"{a="b",c!~"x|y+"}"#, r#"{d=~".+",e!=""}"#]] {
        lists.push(Asked::LabelNames(streams(selectors)));
        lists.push(Asked::LabelValues(streams(selectors), "é\" name".into()));
        lists.push(Asked::Series(streams(selectors)));
    }
    lists
}

pub(crate) fn all_asked() -> Vec<Asked> {
    let leaves = plans().into_iter().map(Asked::Leaves);
    leaves.chain(lists()).chain([Asked::Leaves(Vec::new())]).collect()
}

pub(crate) fn question(asked: Asked) -> Question {
    let [one, ..] = scopes();
    Question {
        tenants: one,
        asked,
        deletions: DeletionVersion::of_number(7),
        entries_each: NonZeroUsize::new(407),
    }
}

pub(crate) fn results(leaves: &[Arc<LeafPlan>]) -> Vec<LeafResult> {
    let mut store = TestStore::new();
    for (stream, second) in [("1", 1), ("2", 1), ("1", 12), ("2", 30), ("1", 31)] {
        let labels = Labels::from_pairs([("app", "m"), ("s", stream)]).expect("labels");
        let metadata = vec![("level".to_owned(), "warn".to_owned())];
        let line = format!("level=info n={second} v={second}.5").into();
        store.push(&labels, TestEntry { timestamp_ns: second * SECOND_NS, line, metadata });
    }
    let layout = Layout { shards: 2, ..Layout::default() };
    let of = |leaf: &Arc<LeafPlan>| store.run_leaf_on_all(leaf, &layout).expect("a leaf");
    leaves.iter().flat_map(of).collect()
}

/// Counters that all differ: their places from 1.
pub(crate) fn stats() -> ScanStats {
    ScanStats {
        streams: 1,
        head_blocks: 2,
        sealed_blocks: 3,
        blocks_filtered: 4,
        blocks_searched: 5,
        read_bytes: 6,
        cached_bytes: 7,
        decoded_bytes: 8,
        unreadable_parts: 9,
        sealed_entries: 10,
        sealed_line_bytes: 11,
        sealed_entries_kept: 12,
        sealed_metadata_bytes: 13,
        head_metadata_bytes: 14,
        cache_lookups: 15,
        cache_hits: 16,
        entries_hidden: 17,
        cut_leaves: 22,
        read_time_ns: 18,
        store: StoreReads { requests: 19, bytes: 20, time_ns: 21 },
    }
}

pub(crate) fn found(asked: &Asked) -> Found {
    let mut found = Found { stats: stats(), ..Found::default() };
    match asked {
        Asked::Leaves(leaves) => found.parts = results(leaves),
        Asked::LabelNames(_) | Asked::LabelValues(..) => {
            found.texts = ["app", "", "é\0", "app"].map(Box::from).to_vec();
            found.unreadable_parts = 3;
        }
        Asked::Series(_) => found.series = vec![labels("a"), labels(""), labels("ü")],
    }
    found
}

pub(crate) fn replies(asked: &Asked) -> Vec<Reply> {
    let failure =
        Failure { status: 429, text: "too many requests".to_owned(), retry_after_s: Some(0) };
    vec![
        Reply::Found(found(asked)),
        Reply::Found(Found::default()),
        Reply::Newer(u64::MAX),
        Reply::Hides(DeletionVersion::of_number(9)),
        Reply::Wait,
        Reply::NotOwner,
        Reply::Failed(failure),
    ]
}

pub(crate) fn push() -> Vec<u8> {
    let tenant = TenantId::new("acme").expect("a tenant");
    let definition = |app: &str| {
        let (tenant, labels) = (tenant.clone(), labels(app));
        StreamDefinition { id: StreamId::new(&tenant, &labels), tenant, labels }
    };
    let definitions = ["a", "b"].map(definition).to_vec();
    let append = AppendRequest {
        batch: b"a batch".to_vec(),
        definitions,
        out_of_order_window_ns: Some(7),
        is_replayed: false,
    };
    Push { to: to(12), append }.encode()
}

pub(crate) fn stored() -> AppendOutcome {
    let late = TooFarBehind {
        stream: StreamId(1 << 90),
        labels: labels("late"),
        entries: vec![(5, 10), (-7, 10)],
        refused: 2,
        total: 3,
    };
    let refused_streams = vec![(StreamId(3), 4), (StreamId(8), 1)];
    let over_limit = vec![(StreamId(4), 2)];
    AppendOutcome { accepted: 9, too_far_behind: vec![late], refused_streams, over_limit }
}

pub(crate) fn push_reply() -> Vec<u8> {
    PushReply::Stored(stored()).encode()
}

/// Where the head of a frame begins and ends.
pub(crate) fn head_of(frame: &[u8]) -> std::ops::Range<usize> {
    let end = frame.len() - TRAILER_BYTES;
    let len = u32::from_le_bytes(frame[end..end + 4].try_into().expect("four bytes"));
    end - len as usize..end
}

/// The frame with another head.
pub(crate) fn with_head(kind: Kind, frame: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let place = head_of(frame);
    let mut head = frame[place.clone()].to_vec();
    change(&mut head);
    close(kind, [&frame[..place.start], &head[..]].concat(), place.start)
}
