//! Answers that are put together from known steps equal the answers of a run over all steps,
//! whatever happens to the entries between two questions: late entries come, heads are sealed,
//! segments are merged, and old entries expire.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{EvalError, KnownSteps, MatrixSeries, Plan, QueryParams, QueryResult};
use logsvc_logql::syntax;
use logsvc_proto::TenantId;
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::changes::Stamp;
use logsvc_shards::messages::ShardRequest;
use logsvc_shards::retention::{RetentionPolicy, TenantPeriods};
use logsvc_shards::types::{ScanStats, TimeRange};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::Cluster;
use crate::data::SECOND_NS;
use crate::life::Life;
use crate::queries::{Answer, Query, QueryWriter, ask, ask_all};

const MS_NS: i64 = 1_000_000;
const MAX_SERIES: usize = 5_000;
/// Some days behind the first entries.
const NOW_NS: i64 = (1_767_225_600 + 4 * 86_400) * SECOND_NS;

/// The counts of a test's questions.
#[derive(Debug, Default)]
struct Tally {
    questions: u64,
    /// Questions of which some steps were known, and questions of which all were.
    reused: u64,
    known: u64,
    /// Steps that were wanted, and steps that ran.
    steps: u64,
    missing: u64,
    /// Questions whose answer would be wrong without the counts of changes.
    stale: u64,
    /// Segments that expired.
    expired: u64,
}

/// A query that is asked again and again.
struct Panel {
    tenant: TenantId,
    text: String,
    step_ns: i64,
    count: i64,
    end_ns: i64,
    known: Option<(KnownSteps, Stamp)>,
}

impl Panel {
    fn new(tenant: &TenantId, writer: &mut QueryWriter<'_>) -> Panel {
        let (first_ns, last_ns) = writer.times_ns();
        let text = writer.metric();
        let count = writer.rng.between(1, 30) as i64;
        let step_ns = ((last_ns - first_ns) / count / MS_NS).max(1) * MS_NS;
        Panel { tenant: tenant.clone(), text, step_ns, count, end_ns: last_ns, known: None }
    }

    /// Goes on by some steps, back, or to other times.
    fn moves(&mut self, rng: &mut Rng) {
        match rng.below(8) {
            0 => self.end_ns -= self.step_ns * rng.below(self.count as u64 + 2) as i64,
            1 if rng.one_in(3) => self.end_ns += rng.below(self.step_ns as u64) as i64,
            2 => self.count = rng.between(1, 30) as i64,
            3 | 4 => {}
            _ => self.end_ns += self.step_ns * rng.between(1, 3) as i64,
        }
    }

    fn query(&self) -> Query {
        let start_ns = self.end_ns - (self.count - 1) * self.step_ns;
        let mut params = QueryParams::range(start_ns, self.end_ns, self.step_ns);
        params.limits.max_series = MAX_SERIES;
        Query { text: self.text.clone(), params }
    }

    fn run(&self, cluster: &Cluster<'_>, query: &Query) -> (Series, ScanStats) {
        let (result, stats) = ask(cluster, &self.tenant, query);
        let series = result.map(|result| match result {
            QueryResult::Matrix(series) => series,
            other => panic!("{other:?}"),
        });
        (series, stats)
    }

    /// Asks as a front does, and without anything known, and compares.
    fn ask(&mut self, cluster: &Cluster<'_>, tally: &mut Tally) {
        let (query, changes) = (self.query(), cluster.changes());
        let expr = syntax::parse(&query.text).unwrap_or_else(|error| panic!("{query:?}: {error}"));
        let plan = Plan::new(&expr, &query.params).expect("a plan");
        // Rates of counters are left out, for instance.
        let Some(wanted) = plan.steps() else { return };
        let all = 0..wanted.count();
        let (start_ns, end_ns) = wanted.entry_bounds_ns(all.clone());
        let range = TimeRange { start_ns, end_ns };
        let stamp = changes.stamp(std::slice::from_ref(&self.tenant), range).expect("some days");
        let part = |steps| Query {
            text: query.text.clone(),
            params: QueryParams { time: wanted.time_of(steps), ..query.params.clone() },
        };
        let completed = |missing: std::ops::Range<u32>, known: &KnownSteps| {
            let (fresh, stats) = match missing.is_empty() {
                true => (Ok(Vec::new()), ScanStats::default()),
                false => self.run(cluster, &part(missing.clone())),
            };
            let whole =
                fresh.and_then(|fresh| known.completed(&wanted, &missing, fresh, MAX_SERIES));
            (whole, stats)
        };
        let (whole, stats) = match &self.known {
            None => self.run(cluster, &query),
            Some((known, stamp)) => {
                let missing = known.missing(&wanted, &changes.since(stamp));
                tally.reused += u64::from(missing != all);
                tally.known += u64::from(missing.is_empty());
                tally.missing += missing.len() as u64;
                tally.steps += all.len() as u64;
                completed(missing, known)
            }
        };
        tally.questions += 1;
        assert_eq!(stats.unreadable_parts, 0, "the disk is well");
        let (expected, _) = self.run(cluster, &query);
        // Something may have expired between the two.
        if changes.since(&stamp).is_empty() {
            let answer = |series: &Series| Answer::of(series.clone().map(QueryResult::Matrix));
            assert!(
                answer(&whole) == answer(&expected),
                "{query:?}\nexpected {expected:?}\n   found {whole:?}"
            );
            if let Some((known, _)) = &self.known {
                let (blind, _) = completed(known.missing(&wanted, &[]), known);
                tally.stale += u64::from(answer(&blind) != answer(&expected));
            }
        }
        self.known = whole.ok().map(|series| (KnownSteps::new(wanted, series), stamp));
    }
}

type Series = Result<Vec<MatrixSeries>, EvalError>;

/// Lets everything up to some time expire, and be removed.
fn expire(cluster: &Cluster<'_>, until_ns: i64) {
    let now_ns = cluster.node.runtime(CoreId(0)).unix_nanos();
    let periods = TenantPeriods { period_ns: Some(now_ns - until_ns), streams: Vec::new() };
    let policy = RetentionPolicy { periods: Some(periods), ..RetentionPolicy::default() };
    let policy = Arc::new(policy);
    ask_all(cluster, || ShardRequest::Retain(Arc::clone(&policy)));
    cluster.simulation.run_for(Duration::from_secs(3));
}

fn live(seed: u64, tally: &mut Tally) {
    let _guard = SeedGuard(seed);
    let simulation = Simulation::new(seed);
    simulation.set_unix_nanos(NOW_NS);
    let mut rng = Rng::new(seed ^ 0x5157_0c00);
    let mut life = Life::new(&simulation, seed);
    let cluster = life.start(*rng.pick(&[1, 2, 3]));
    let mut panels: Vec<Panel> = Vec::new();
    for _ in 0..rng.between(10, 60) {
        match rng.below(12) {
            0 => {
                let waits = rng.one_in(2);
                assert!(life.flush(&cluster, waits), "the disk is well");
            }
            1 => simulation.run_for(Duration::from_millis(5)),
            2 if rng.one_in(2) => {
                let Some((first_ns, last_ns)) = life.model.bounds_ns() else { continue };
                let span_ns = (last_ns - first_ns) as u64;
                expire(&cluster, first_ns + rng.below(span_ns / 2 + 1) as i64);
            }
            3..6 => assert!(life.push(&cluster), "the disk is well"),
            _ => {
                let Some(bounds_ns) = life.model.bounds_ns() else { continue };
                if panels.len() < 6 {
                    let tenants = life.model.tenants();
                    let numbers = life.numbers();
                    let tenant = rng.pick(&tenants).clone();
                    let mut writer = QueryWriter { rng: &mut rng, bounds_ns, numbers };
                    panels.push(Panel::new(&tenant, &mut writer));
                }
                let index = rng.below(panels.len() as u64) as usize;
                panels[index].moves(&mut rng);
                panels[index].ask(&cluster, tally);
            }
        }
    }
    let statuses = cluster.statuses();
    let removed = statuses.iter().map(|status| status.seal.maintenance.removed_segments);
    tally.expired += removed.sum::<u64>();
    cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn known_steps_are_used_again_until_their_entries_change() {
    let seeds = seeds(200);
    let count = seeds.end - seeds.start;
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        live(seed, &mut tally);
    }
    println!("{seeds:?}: {tally:?}");
    if count >= 100 {
        assert!(tally.questions > 5 * count && tally.reused > count && tally.known > count / 4);
        assert!(tally.missing * 10 < tally.steps * 9 && tally.missing > 0);
        // Without it the test would pass if no change were ever told.
        assert!(tally.stale > count / 2 && tally.expired > count / 10);
    }
}
