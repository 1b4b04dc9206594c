//! Compares purges of single segments with the entries that they must leave.

use logsvc_logql::syntax::{self, ast::Expr};

use super::super::find::find;
use super::super::purge::selected;
use super::*;
use crate::deletion::{DeleteFilter, DeleteId, DeletionVersion, PurgeTarget, RemovedTotals};
use logsvc_store::double::World;

/// A target and its naive form: the streams of a tenant whose entries have all of these.
struct Target {
    target: PurgeTarget,
    tenant: &'static str,
    text: Option<&'static str>,
    id: Option<&'static str>,
}

fn new_target(
    number: u32,
    tenant: &'static str,
    (stages, text, id): (&str, Option<&'static str>, Option<&'static str>),
    bounds_ns: (i64, i64),
) -> Target {
    let query = format!("{{app=~`app.*`}}{stages}");
    let Ok(Expr::Log(log)) = syntax::parse(&query) else { panic!("{query}") };
    let (request, since) = (DeleteId(number), DeletionVersion::FIRST);
    let filter = DeleteFilter::new(request, TenantId::new(tenant).unwrap(), &log, bounds_ns, since);
    let filter = Arc::new(filter.unwrap());
    let target = PurgeTarget { filter, start_ns: bounds_ns.0, end_ns: bounds_ns.1 };
    Target { target, tenant, text, id }
}

fn random_target(rng: &mut Rng, number: u32) -> Target {
    let tenant = *rng.pick(&["one", "two"]);
    let stages = *rng.pick(&[
        ("", None, None),
        (" |= `line 3`", Some("line 3"), None),
        (" |= `line` | id=`1`", Some("line"), Some("1")),
        (" | id=`other`", None, Some("other")),
    ]);
    let (a, b) = (rng.below(1200) as i64, rng.below(1200) as i64);
    new_target(number, tenant, stages, (a.min(b), a.max(b)))
}

impl Target {
    fn hides(&self, stream: &StreamDefinition, entry: &Entry) -> bool {
        let has_text = |text: &str| entry.line.windows(text.len()).any(|w| w == text.as_bytes());
        let has_id = |id: &str| entry.metadata.iter().any(|(name, v)| name == "id" && v == id);
        stream.tenant.as_str() == self.tenant
            && (self.target.start_ns..=self.target.end_ns).contains(&entry.timestamp_ns)
            && self.text.is_none_or(has_text)
            && self.id.is_none_or(has_id)
    }
}

/// The entries that targets leave, and the totals of each.
fn naive(content: &Content, targets: &[Target]) -> (Content, Vec<RemovedTotals>) {
    let streams = streams();
    let mut totals = vec![RemovedTotals::default(); targets.len()];
    let mut left = Content::new();
    for (number, entries) in content {
        for entry in entries {
            match targets.iter().position(|target| target.hides(&streams[*number], entry)) {
                Some(first) => {
                    totals[first].entries += 1;
                    totals[first].line_bytes += entry.line.len() as u64;
                }
                None => left.entry(*number).or_default().push(entry.clone()),
            }
        }
    }
    (left, totals)
}

fn job(segment: &Arc<SealedSegment>, targets: &[Target]) -> PurgeJob {
    PurgeJob {
        segment: Arc::clone(segment),
        earlier: Vec::new(),
        targets: targets.iter().map(|target| target.target.clone()).collect(),
        own_entries: segment.live.entries,
        must_leave: false,
        keep: Box::new(KeepAll),
        throttle: Arc::default(),
    }
}

#[test]
fn exactly_the_hidden_entries_go_and_each_counts_for_the_first_target() {
    let (mut clean, mut removed, mut rewritten) = (0, 0, 0);
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let counts = Simulation::new(seed).block_on(move |runtime| async move {
            let mut rng = Rng::new(seed);
            let store = stored::store_of(&runtime, &World::default());
            let mut bench = Bench::with_store(runtime, Some(store.clone())).await;
            let spread = *rng.pick(&[10, 1000]);
            let content = random_content(&mut rng, 0, spread, &[]);
            let is_draft = rng.one_in(2);
            let segment = write_as(&bench.folder, &content, 0, is_draft).await;
            // Of one seed in three the segment is in a bucket.
            if seed % 3 == 0 {
                stored::evict(&bench, &store, &segment, seed % 2 == 0).await;
            }
            let mut targets: Vec<Target> =
                (0..rng.between(1, 4) as u32).map(|n| random_target(&mut rng, n)).collect();
            if rng.one_in(4) {
                // Everything.
                let all = |tenant| new_target(9, tenant, ("", None, None), (0, 2_000));
                targets.extend(["one", "two"].map(all));
            }
            let (left, totals) = naive(&content, &targets);
            let job = MaintenanceJob::Purge(Box::new(job(&segment, &targets)));
            let outcome = bench.compactor.run(job).await.unwrap();
            let purged = outcome.purged.unwrap();
            assert_eq!(purged.removed, totals);
            assert!(purged.is_clean);
            let after = match outcome.added {
                Some(added) => read(&bench.folder, &Arc::new(added.segment)).await,
                None if outcome.removed.is_empty() => read(&bench.folder, &segment).await,
                None => Content::new(),
            };
            assert_eq!(after, left);
            match (outcome.is_merge, outcome.removed.is_empty()) {
                (true, _) => (0, 0, 1),
                (false, true) => (1, 0, 0),
                (false, false) => (0, 1, 0),
            }
        });
        clean += counts.0;
        removed += counts.1;
        rewritten += counts.2;
    }
    assert!(clean > 0 && removed > 0 && rewritten > 0, "{clean} {removed} {rewritten}");
}

#[test]
fn a_search_that_finds_too_many_ends_early_and_says_so() {
    Simulation::new(1).block_on(|runtime| async move {
        let bench = Bench::new(runtime.clone()).await;
        // Streams with full blocks of their own.
        let entries = |number: i64| {
            let line = |ts: i64| Entry {
                timestamp_ns: ts,
                line: format!("line {} {}", ts % 2 + 3, "x".repeat(20_000)).into_bytes(),
                metadata: Vec::new(),
            };
            (0..40).map(|at| line(number + at)).collect::<Vec<Entry>>()
        };
        let content: Content = (0..4).map(|number| (number, entries(number as i64))).collect();
        let segment = write(&bench.folder, &content, 0).await;
        let stages = (" |= `line 3`", Some("line 3"), None);
        let targets = [new_target(7, "one", stages, (0, 1_000))];
        let expected = naive(&content, &targets).1[0].entries;
        let job = job(&segment, &targets);
        let mut found = Vec::new();
        for bits_max_bytes in [8, 1 << 20] {
            let mut input = Input::open(&bench.folder, Arc::clone(&segment)).await.unwrap();
            let streams = selected(&runtime, &mut input, &job).await.unwrap();
            let one = find(&runtime, &mut input, &job, streams, bits_max_bytes).await.unwrap();
            found.push((one.is_complete, one.entries()));
        }
        let (is_complete, entries) = found[0];
        assert!(!is_complete && entries > 0 && entries < expected, "{found:?} {expected}");
        assert_eq!(found[1], (true, expected));
    });
}
