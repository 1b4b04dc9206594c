//! Requests for deletion: the answer to any query is the answer of a store into which the hidden
//! entries were never pushed. Requests come and are cancelled, entries come before and after them,
//! late and twice, heads are sealed, segments are merged, and the node starts again with another
//! number of shards. Queries of earlier versions are asked, too.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{CompiledMatcher, Plan, QueryParams, QueryResult};
use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{CoreId, Monotonic, Runtime};
use logsvc_shards::deletion::{DeleteFilter, DeleteId, DeletionVersion};
use logsvc_shards::messages::{PurgeTarget, ShardReply, ShardRequest};
use logsvc_shards::types::ScanStats;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::Cluster;
use crate::data::SECOND_NS;
use crate::life::Life;
use crate::naive::Model;
use crate::queries::{Answer, Query, QueryWriter, ask_all, ask_at};
use crate::removal::begin;

/// Versions of which queries are asked.
const VERSIONS: usize = 4;

/// For so long after its end a version is asked for. Shards know its requests for a minute.
const ASKED_MAX: Duration = Duration::from_secs(50);

/// A request, and its meaning to the model.
pub(crate) struct Request {
    pub(crate) filter: Arc<DeleteFilter>,
    log: LogExpr,
    matchers: Vec<CompiledMatcher>,
    plan: Plan,
}

impl Request {
    fn new(
        id: u32,
        tenant: &TenantId,
        text: &str,
        (start_ns, end_ns): (i64, i64),
        since: DeletionVersion,
    ) -> Request {
        let Ok(Expr::Log(log)) = syntax::parse(text) else { panic!("{text}: a log query") };
        let bounds_ns = (start_ns, end_ns);
        let filter = DeleteFilter::new(DeleteId(id), tenant.clone(), &log, bounds_ns, since);
        let params = QueryParams::range(start_ns, end_ns + 1, 1);
        let plan = Plan::new(&Expr::Log(log.clone()), &params).expect("a plan");
        let matchers = plan.leaves()[0].compiled_matchers().expect("matchers");
        Request { filter: Arc::new(filter.expect("a filter")), log, matchers, plan }
    }

    /// Whether the query of the request returns an entry.
    pub(crate) fn hides(&self, labels: &Labels, entry: &TestEntry) -> bool {
        let holds = |m: &CompiledMatcher| m.matches(labels.get(m.name()).unwrap_or(""));
        let is_inside = (self.filter.start_ns..=self.filter.end_ns).contains(&entry.timestamp_ns);
        if !is_inside || !self.matchers.iter().all(holds) {
            return false;
        }
        let mut store = TestStore::new();
        store.push(labels, entry.clone());
        match store.run(&self.plan, &Layout::PLAIN) {
            Ok(QueryResult::Streams(streams)) => !streams.is_empty(),
            other => panic!("{}: {other:?}", self.log),
        }
    }
}

impl Request {
    /// Whether it has stages, and selects all streams and times of a tenant.
    fn may_hide_all(&self, model: &Model, tenant: &TenantId) -> bool {
        let filter = &self.filter;
        let mut streams = model.of(tenant);
        filter.plan.is_some()
            && model.bounds_ns().is_some_and(|(min_ns, max_ns)| {
                filter.start_ns <= min_ns && max_ns <= filter.end_ns
            })
            && streams.all(|stream| filter.selects(tenant, &stream.definition.labels))
    }
}

/// The requests that hold at a version.
pub(crate) type Holding = Vec<Arc<Request>>;

/// The requests of a node, as its keeper would have them.
pub(crate) struct Requests {
    next_id: u32,
    /// The newest versions, the one in force last.
    pub(crate) versions: Vec<(DeletionVersion, Holding)>,
    /// When the versions before that ended.
    pub(crate) ended: Vec<Monotonic>,
}

impl Requests {
    pub(crate) fn new() -> Requests {
        let versions = vec![(DeletionVersion::FIRST, Vec::new())];
        Requests { next_id: 1, versions, ended: Vec::new() }
    }

    pub(crate) fn in_force(&self) -> (DeletionVersion, &Holding) {
        let (version, holding) = self.versions.last().expect("one is in force");
        (*version, holding)
    }

    fn publish(&mut self, cluster: &Cluster<'_>, version: DeletionVersion, holding: Holding) {
        self.versions.push((version, holding));
        self.ended.push(now(cluster));
        if self.versions.len() > VERSIONS {
            self.forget(1);
        }
    }

    /// Forgets so many versions that have ended.
    pub(crate) fn forget(&mut self, count: usize) {
        self.versions.drain(..count);
        self.ended.drain(..count);
    }

    /// Forgets the versions at which a request did not hold.
    pub(crate) fn forget_before(&mut self, id: DeleteId) {
        let holds = |holding: &Holding| holding.iter().any(|request| request.filter.id == id);
        let before = self.versions.iter().rposition(|(_, holding)| !holds(holding));
        self.forget(before.map_or(0, |index| index + 1));
    }

    /// Forgets the versions that shards may have forgotten.
    fn forget_old(&mut self, cluster: &Cluster<'_>) {
        let now = now(cluster);
        self.forget(self.ended.iter().filter(|ended| now.since(**ended) > ASKED_MAX).count());
    }

    pub(crate) fn create(
        &mut self,
        cluster: &Cluster<'_>,
        tenant: &TenantId,
        text: &str,
        bounds_ns: (i64, i64),
    ) {
        let (version, holding) = self.in_force();
        let next = version.next();
        let mut holding = holding.clone();
        let request = Arc::new(Request::new(self.next_id, tenant, text, bounds_ns, next));
        self.next_id += 1;
        tell(cluster, || ShardRequest::Hide(Arc::clone(&request.filter)));
        holding.push(request);
        self.publish(cluster, next, holding);
    }

    /// Ends a request: its entries show, if they are there.
    pub(crate) fn end(&mut self, cluster: &Cluster<'_>, index: usize) {
        let (version, holding) = self.in_force();
        let next = version.next();
        let mut holding = holding.clone();
        let request = holding.remove(index);
        request.filter.end_at(next);
        self.publish(cluster, next, holding);
        tell(cluster, || ShardRequest::Unhide(request.filter.id));
    }

    /// The filters that a start is given.
    pub(crate) fn filters(&self) -> Arc<[Arc<DeleteFilter>]> {
        self.in_force().1.iter().map(|request| Arc::clone(&request.filter)).collect()
    }
}

/// The time on the monotonic clock.
fn now(cluster: &Cluster<'_>) -> Monotonic {
    Runtime::now(cluster.node.runtime(CoreId(0)))
}

fn tell(cluster: &Cluster<'_>, request: impl FnMut() -> ShardRequest) {
    for reply in ask_all(cluster, request) {
        assert!(matches!(reply, ShardReply::Retained), "{reply:?}");
    }
}

/// The store into which the hidden entries of a tenant were never pushed, and how many these are.
fn store_without(model: &Model, tenant: &TenantId, holding: &Holding) -> (TestStore, u64) {
    let (mut store, mut hidden) = (TestStore::new(), 0);
    let own = || holding.iter().filter(|request| request.filter.tenant == *tenant);
    for stream in model.of(tenant) {
        let labels = &stream.definition.labels;
        for entry in stream.entries() {
            if own().any(|request| request.hides(labels, entry)) {
                hidden += 1;
            } else {
                store.push(labels, entry.clone());
            }
        }
    }
    (store, hidden)
}

/// The times of a request: the given ones, or close to the first and the last entry of a stream.
pub(crate) fn close_to_entries(
    rng: &mut Rng,
    model: &Model,
    tenant: &TenantId,
    times_ns: (i64, i64),
) -> (i64, i64) {
    let bounds: Vec<_> = model.of(tenant).filter_map(|stream| stream.bounds_ns()).collect();
    if bounds.is_empty() || rng.one_in(2) {
        return times_ns;
    }
    let (first_ns, last_ns) = *rng.pick(&bounds);
    let (start_ns, end_ns) =
        (first_ns - 1 + rng.below(3) as i64, last_ns - 1 + rng.below(3) as i64);
    (start_ns, end_ns.max(start_ns))
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) questions: u64,
    /// Answers that would be wrong if nothing were hidden.
    pub(crate) blind: u64,
    /// Answers that say that something could not be read.
    pub(crate) holes: u64,
    hidden: u64,
    pub(crate) stats: ScanStats,
    /// Answers in which sealed blocks were evaluated entry by entry.
    pub(crate) evaluated: u64,
    /// Answers of directories alone, although a request with stages selects all streams and times:
    /// filters have ruled out all blocks.
    pub(crate) summaries: u64,
    /// Answers with searched blocks of which filters have ruled out hidden entries.
    pub(crate) searched: u64,
}

/// Compares a random query, of a version that is in force or was a moment ago.
pub(crate) fn compare(
    cluster: &Cluster<'_>,
    life: &Life<'_>,
    requests: &mut Requests,
    rng: &mut Rng,
    tally: &mut Tally,
) {
    requests.forget_old(cluster);
    let Some(bounds_ns) = life.model.bounds_ns() else { return };
    let tenants = life.model.tenants();
    let tenant = rng.pick(&tenants).clone();
    let index = match rng.one_in(3) {
        true => rng.below(requests.versions.len() as u64) as usize,
        false => requests.versions.len() - 1,
    };
    let store = store_without(&life.model, &tenant, &requests.versions[index].1);
    for _ in 0..3 {
        if now(cluster).since(*requests.ended.get(index).unwrap_or(&now(cluster))) > ASKED_MAX {
            break;
        }
        let query = QueryWriter { rng, bounds_ns, numbers: life.numbers() }.query();
        let versioned = &requests.versions[index];
        compare_query(cluster, life, versioned, (&tenant, &query), &store, tally);
    }
}

/// Compares one query of the version that is in force.
pub(crate) fn compare_now(
    cluster: &Cluster<'_>,
    life: &Life<'_>,
    requests: &Requests,
    tenant: &TenantId,
    query: &Query,
    tally: &mut Tally,
) {
    let Some(versioned) = requests.versions.last() else { return };
    let store = store_without(&life.model, tenant, &versioned.1);
    compare_query(cluster, life, versioned, (tenant, query), &store, tally);
}

fn compare_query(
    cluster: &Cluster<'_>,
    life: &Life<'_>,
    (version, holding): &(DeletionVersion, Holding),
    (tenant, query): (&TenantId, &Query),
    (store, hidden): &(TestStore, u64),
    tally: &mut Tally,
) {
    let (result, stats) = ask_at(cluster, tenant, query, *version);
    if stats.unreadable_parts > 0 {
        tally.holes += 1;
        return;
    }
    let (found, expected) = (Answer::of(result), Answer::of_model(store, query));
    let texts: Vec<String> = holding
        .iter()
        .map(|one| {
            let filter = &one.filter;
            format!("{} {} {}..={}", filter.tenant, one.log, filter.start_ns, filter.end_ns)
        })
        .collect();
    assert!(
        found == expected,
        "{} shards, tenant {tenant}, {query:?}\nwithout {texts:#?}\n{stats:?}\nexpected \
         {expected:?}\n   found {found:?}",
        cluster.shards
    );
    tally.questions += 1;
    tally.stats.add(&stats);
    let is_sealed = stats.head_blocks == 0 && stats.sealed_blocks > 0;
    tally.evaluated += u64::from(is_sealed && stats.entries_hidden > 0);
    if holding.iter().any(|request| request.may_hide_all(&life.model, tenant)) {
        let is_read = stats.decoded_bytes + stats.cached_bytes > 0;
        tally.summaries += u64::from(stats.sealed_entries > 0 && !is_read);
        tally.searched += u64::from(stats.blocks_searched > 0);
    }
    if *hidden > 0 {
        let blind = Answer::of_model(&life.model.store(tenant), query);
        tally.blind += u64::from(blind != expected);
    }
    tally.hidden += hidden;
}

fn live(seed: u64, tally: &mut Tally) {
    let _guard = SeedGuard(seed);
    let simulation = Simulation::new(seed);
    let mut rng = Rng::new(seed ^ 0xde1e_7e00);
    let mut life = Life::new(&simulation, seed);
    let mut requests = Requests::new();
    for _ in 0..rng.between(1, 3) {
        life.deletions = requests.filters();
        // What the shards forgot with the former start, no query asks for.
        requests.forget(requests.ended.len());
        let cluster = life.start(rng.between(1, 4) as u16);
        for _ in 0..rng.between(10, 40) {
            let pending = requests.in_force().1.len() as u64;
            match rng.below(14) {
                0 => {
                    let waits = rng.one_in(2);
                    assert!(life.flush(&cluster, waits), "the disk is well");
                }
                1 => simulation.run_for(Duration::from_millis(5)),
                2 | 3 if pending < 6 => {
                    let Some(bounds_ns) = life.model.bounds_ns() else { continue };
                    let tenants = life.model.tenants();
                    let tenant = rng.pick(&tenants).clone();
                    let numbers = life.numbers();
                    let mut writer = QueryWriter { rng: &mut rng, bounds_ns, numbers };
                    let (text, times_ns) = (writer.log(), writer.times_ns());
                    let times_ns = close_to_entries(&mut rng, &life.model, &tenant, times_ns);
                    requests.create(&cluster, &tenant, &text, times_ns);
                    tally.requests += 1;
                }
                4 if pending > 0 => requests.end(&cluster, rng.below(pending) as usize),
                5..9 => assert!(life.push(&cluster), "the disk is well"),
                _ => compare(&cluster, &life, &mut requests, &mut rng, tally),
            }
        }
        if rng.one_in(4) {
            // Filters that have ended go.
            simulation.run_for(Duration::from_secs(61));
            compare(&cluster, &life, &mut requests, &mut rng, tally);
        }
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn an_answer_is_that_of_a_store_without_the_hidden_entries() {
    let seeds = seeds(150);
    let count = seeds.end - seeds.start;
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        live(seed, &mut tally);
    }
    println!("{seeds:?}: {tally:?}");
    if count >= 100 {
        assert!(tally.requests > 2 * count && tally.questions > 10 * count);
        assert!(tally.blind > count && tally.stats.entries_hidden > count);
    }
}

/// A node of one tenant and one stream with these entries, half of them sealed.
fn with_entries<'s>(
    simulation: &'s Simulation,
    seed: u64,
    entries: &[TestEntry],
) -> (Life<'s>, Cluster<'s>, TenantId) {
    let tenant = TenantId::new("one").expect("a tenant");
    let mut life = Life::new(simulation, seed);
    life.merges = false;
    life.model = Model::default();
    let labels = Labels::from_pairs([("app", "a")]).expect("labels");
    life.model.add(&tenant, labels);
    let cluster = life.start(2);
    for half in entries.chunks(entries.len() / 2) {
        let part = half.iter().map(|entry| (0, entry.clone())).collect();
        assert!(life.push_entries(&cluster, part) && life.flush(&cluster, true));
    }
    // Again: the entries are sealed, and in the head.
    let again = entries[..entries.len() / 4].iter().map(|entry| (0, entry.clone())).collect();
    assert!(life.push_entries(&cluster, again));
    (life, cluster, tenant)
}

/// The points of a metric query, or the number of lines of a log query.
fn count_of(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    text: &str,
    params: &QueryParams,
    version: DeletionVersion,
) -> f64 {
    let query = Query { text: text.to_owned(), params: params.clone() };
    match ask_at(cluster, tenant, &query, version).0.expect("an answer") {
        QueryResult::Streams(streams) => streams.iter().map(|s| s.entries.len() as f64).sum(),
        QueryResult::Vector(samples) => samples.iter().map(|sample| sample.point.value).sum(),
        other => panic!("{other:?}"),
    }
}

const T0_NS: i64 = 1_767_225_600 * SECOND_NS;

#[test]
fn a_line_filter_hides_its_lines_and_no_others() {
    for seed in 0..4 {
        let simulation = Simulation::new(seed);
        let entry = |second: i64| {
            let level = if second % 2 == 0 { "warn" } else { "info" };
            let line = format!("{level} {second}").into_bytes();
            TestEntry { timestamp_ns: T0_NS + second * SECOND_NS, line, metadata: Vec::new() }
        };
        let entries: Vec<TestEntry> = (0..60).map(entry).collect();
        let (_life, cluster, tenant) = with_entries(&simulation, seed, &entries);
        let mut requests = Requests::new();
        let bounds_ns = (T0_NS + 20 * SECOND_NS, T0_NS + 39 * SECOND_NS);
        let mut params = QueryParams::range(T0_NS, T0_NS + 60 * SECOND_NS, SECOND_NS);
        params.limit = 1000;
        let lines = |requests: &Requests| {
            let version = requests.in_force().0;
            count_of(&cluster, &tenant, r#"{app="a"}"#, &params, version)
        };
        assert_eq!(lines(&requests), 60.0);
        requests.create(&cluster, &tenant, r#"{app="a"} |= "warn""#, bounds_ns);
        assert_eq!(lines(&requests), 50.0);
        requests.create(&cluster, &tenant, r#"{app="a"} |= "nosuch""#, bounds_ns);
        assert_eq!(lines(&requests), 50.0);
        requests.end(&cluster, 0);
        assert_eq!(lines(&requests), 60.0);
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_request_hides_its_entries_from_every_kind_of_query() {
    for seed in 0..4 {
        let simulation = Simulation::new(seed);
        let entry = |second: i64| {
            let user = if second < 4 { "u1" } else { "u2" };
            let metadata = vec![("user".to_owned(), user.to_owned())];
            let timestamp_ns = T0_NS + second * SECOND_NS;
            TestEntry { timestamp_ns, line: b"took=1".to_vec(), metadata }
        };
        let entries: Vec<TestEntry> = (0..10).map(entry).collect();
        let (_life, cluster, tenant) = with_entries(&simulation, seed, &entries);
        let mut requests = Requests::new();
        let end_ns = T0_NS + 60 * SECOND_NS;
        requests.create(&cluster, &tenant, r#"{app="a"} | user="u1""#, (T0_NS, end_ns));
        let version = requests.in_force().0;
        let count =
            |text: &str, params: &QueryParams| count_of(&cluster, &tenant, text, params, version);
        let log = QueryParams::range(T0_NS, end_ns, SECOND_NS);
        assert_eq!(count(r#"{app="a"}"#, &log), 6.0);
        let now = QueryParams::instant(end_ns);
        for (text, expected) in [
            (r#"count_over_time({app="a"}[1h])"#, 6.0),
            (r#"sum(count_over_time({app="a"}[1h]))"#, 6.0),
            (r#"sum(bytes_over_time({app="a"}[1h]))"#, 36.0),
            (r#"sum by (user) (count_over_time({app="a"}[1h]))"#, 6.0),
            (r#"sum(sum_over_time({app="a"} | logfmt | unwrap took [1h]))"#, 6.0),
        ] {
            assert_eq!(count(text, &now), expected, "{text}");
        }
        // What is stored is counted as it is.
        let stored = count_of(&cluster, &tenant, r#"{app="a"}"#, &log, DeletionVersion::NONE);
        assert_eq!(stored, 10.0);
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_request_without_stages_ends_with_its_last_nanosecond() {
    let entry = |second: i64| {
        let line = format!("info {second}").into_bytes();
        TestEntry { timestamp_ns: T0_NS + second * SECOND_NS, line, metadata: Vec::new() }
    };
    let entries: Vec<TestEntry> = (0..8).map(entry).collect();
    let (first_ns, last_ns) = (T0_NS, T0_NS + 7 * SECOND_NS);
    // Everything, all but the last entry, and all but the first one.
    for (bounds_ns, left) in [
        ((first_ns, last_ns), 0.0),
        ((first_ns, last_ns - 1), 1.0),
        ((first_ns + 1, last_ns), 1.0),
        ((first_ns + 1, last_ns - 1), 2.0),
    ] {
        let simulation = Simulation::new(7);
        let (mut life, cluster, tenant) = with_entries(&simulation, 7, &entries);
        let mut requests = Requests::new();
        let mut params = QueryParams::range(T0_NS, T0_NS + 60 * SECOND_NS, SECOND_NS);
        params.limit = 1000;
        let lines = |version| count_of(&cluster, &tenant, r#"{app="a"}"#, &params, version);
        requests.create(&cluster, &tenant, r#"{app="a"}"#, bounds_ns);
        let (version, holding) = requests.in_force();
        let filter = Arc::clone(&holding[0].filter);
        assert_eq!(lines(version), left, "hidden {bounds_ns:?}");
        assert!(life.flush(&cluster, true));
        assert_eq!(lines(version), left, "hidden {bounds_ns:?}");
        let (start_ns, end_ns) = bounds_ns;
        let answers = begin(&cluster, vec![PurgeTarget { filter, start_ns, end_ns }]);
        let answers = cluster.run(answers).expect("the node lives");
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(lines(DeletionVersion::NONE), left, "removed {bounds_ns:?}");
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
}
