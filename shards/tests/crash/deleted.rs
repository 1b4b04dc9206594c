//! Lines that requests delete are in no file once their request is processed, whatever is killed
//! on the way, and all other lines are there.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::mesh::{Caller, Mesh, MeshOptions};
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{Budget, CoreId, Latch, Runtime};
use logsvc_shards::check::{FindReport, check_store, find_text, inspect_file};
use logsvc_shards::deletion::{
    DeleteRequest, DeleteState, DeletionReply, DeletionRequest, NewDelete, NodeDeletions,
};
use logsvc_shards::follower::BucketStatus;
use logsvc_shards::keeper::{Keeper, KeeperConfig, KeeperLinks};
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, DATA_DIR, sleep};
use crate::ledger::Ledger;
use crate::upkeep::{Line, NOON_NS, eager, flush, push, upkeep};

pub(crate) const SECRET: &str = "geheim";
const QUERY: &str = r#"{app=~".+"} |= "geheim""#;
pub(crate) const HOUR_NS: i64 = 3_600_000_000_000;

pub(crate) type Requests = Caller<DeletionRequest, DeletionReply>;

/// Starts a node with a keeper on core 0.
fn start(simulation: &Simulation, shards: u16) -> (Cluster<'_>, Requests) {
    let upkeep = upkeep(eager(), RetentionPolicy::default());
    let cluster = Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep);
    let cluster = cluster.unwrap_or_else(|error| panic!("{error}"));
    let requests = keep_requests(&cluster, None);
    (cluster, requests)
}

/// Starts a keeper on core 0 of a node.
pub(crate) fn keep_requests(cluster: &Cluster<'_>, bucket: Option<Arc<BucketStatus>>) -> Requests {
    let links = KeeperLinks { bucket, sink: cluster.sink_status(), ..keeper_links(cluster) };
    let config = KeeperConfig {
        cancel_period: Duration::from_secs(60),
        batch_size: 3,
        check_interval: Duration::from_secs(10),
        is_removing: true,
        removes: Box::new(|_| true),
    };
    run_keeper(cluster, links, config)
}

/// What a keeper on core 0 of a node needs, without a bucket.
pub(crate) fn keeper_links(cluster: &Cluster<'_>) -> KeeperLinks {
    KeeperLinks {
        shards: cluster.caller(0),
        changes: cluster.changes().clone(),
        deletions: NodeDeletions::default(),
        memory: Budget::new("deletions", 16 << 20),
        bucket: None,
        sink: None,
        files: None,
    }
}

/// Runs a keeper on core 0 of a node.
pub(crate) fn run_keeper(
    cluster: &Cluster<'_>,
    links: KeeperLinks,
    config: KeeperConfig,
) -> Requests {
    let runtime = cluster.node.runtime(CoreId(0)).clone();
    let options = MeshOptions { request_lane_messages: 16, inflight_per_core: 16 };
    let (requests, inbox) = Mesh::new(1, options).attach(CoreId(0));
    let keeper = Keeper::new(runtime.clone(), &cluster.plan(), links, config);
    drop(runtime.spawn(requests.pump_replies()));
    drop(runtime.spawn(keeper.run(inbox, Latch::new())));
    requests
}

fn ask(cluster: &Cluster<'_>, requests: &Requests, request: DeletionRequest) -> DeletionReply {
    let reply = requests.call(CoreId(0), request).unwrap_or_else(|_| panic!("there is room"));
    cluster.run(async move { reply.await.expect("an answer") })
}

pub(crate) fn create(
    cluster: &Cluster<'_>,
    requests: &Requests,
    tenant: &TenantId,
    part_ns: Option<i64>,
) {
    let request = DeletionRequest::Create(Box::new(NewDelete {
        tenant: tenant.clone(),
        query: QUERY.to_owned(),
        start_ns: NOON_NS - 4 * HOUR_NS,
        end_ns: NOON_NS,
        part_ns,
    }));
    match ask(cluster, requests, request) {
        DeletionReply::Created(Ok(_)) => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) fn list(
    cluster: &Cluster<'_>,
    requests: &Requests,
    tenant: &TenantId,
) -> Vec<DeleteRequest> {
    let request = DeletionRequest::List { tenant: tenant.clone(), bounds_ns: None };
    match ask(cluster, requests, request) {
        DeletionReply::Listed(requests) => requests,
        other => panic!("{other:?}"),
    }
}

fn find(simulation: &Simulation, text: &'static str) -> (FindReport, Vec<String>) {
    find_in(simulation, DATA_DIR, text)
}

/// The files of a folder that have a text.
pub(crate) fn find_in(
    simulation: &Simulation,
    folder: &'static str,
    text: &'static str,
) -> (FindReport, Vec<String>) {
    simulation.block_on(|runtime| async move {
        let mut lines = Vec::new();
        let report = find_text(&runtime, Path::new(folder), text.as_bytes(), |line| {
            lines.push(line);
        });
        let report = report.await.expect("a folder");
        (report, lines)
    })
}

fn quarantined(simulation: &Simulation) -> Vec<PathBuf> {
    let folders = ["wal", "segments"].map(|name| format!("{DATA_DIR}/{name}/quarantine"));
    folders.iter().flat_map(|folder| simulation.disk().files(folder)).collect()
}

fn lines_of(cluster: &Cluster<'_>, tenant: &TenantId) -> Vec<String> {
    let streams = cluster.everything(tenant);
    let lines = streams.iter().flat_map(|stream| &stream.entries);
    let mut lines: Vec<String> =
        lines.map(|entry| String::from_utf8_lossy(&entry.line).into_owned()).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn deleted_lines_are_in_no_file_once_their_request_is_processed() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let simulation = Simulation::new(seed);
        simulation.set_unix_nanos(NOON_NS);
        let ledger = Ledger::new(&["acme", "acme-1"], 4);
        let tenant = ledger.streams[0].tenant.clone();
        let other = TenantId::new("acme-1").expect("a tenant");
        let (mut cluster, mut requests) = start(&simulation, 2);
        let mut kept = Vec::new();
        for round in 0..6 {
            for (stream, definition) in ledger.streams.iter().enumerate() {
                let lines: Vec<Line> = (0..1 + rng.below(40))
                    .map(|number| {
                        let secret = if rng.one_in(3) { SECRET } else { "" };
                        let line = format!("{round} {stream} {number} x{secret}x");
                        if secret.is_empty() && definition.tenant == tenant {
                            kept.push(line.clone());
                        }
                        let back_ns = rng.below(4 * HOUR_NS as u64 - 1) as i64;
                        (NOON_NS - back_ns, line, rng.one_in(2).then_some(number))
                    })
                    .collect();
                push(&cluster, &ledger, stream, &lines);
            }
            if rng.one_in(2) {
                flush(&cluster);
            }
        }
        kept.sort_unstable();
        let others = lines_of(&cluster, &other);
        let (before, _) = find(&simulation, SECRET);
        assert!(before.found > 0 && before.unread == 0, "{before:?}");
        // Both tenants, so that the text may be in no file at all.
        create(&cluster, &requests, &tenant, None);
        create(&cluster, &requests, &other, Some(HOUR_NS));
        let mut parts = 0;
        let mut kills = rng.below(6);
        loop {
            let pause_ms = *rng.pick(&[20, 200, 2_000, 65_000]);
            let pause = Duration::from_millis(rng.below(pause_ms));
            let runtime = cluster.node.runtime(CoreId(0)).clone();
            cluster.run(async move { sleep(&runtime, pause).await });
            let listed = [&tenant, &other].map(|tenant| list(&cluster, &requests, tenant));
            if let DeleteState::Pending { parts_done } = listed[1][0].state {
                assert!(parts_done >= parts, "progress falls");
                parts = parts_done;
            }
            if listed.iter().flatten().all(|request| !request.is_pending()) {
                break;
            }
            if kills > 0 {
                kills -= 1;
                let _ = (0..rng.below(50)).all(|_| simulation.step());
                if rng.one_in(2) {
                    cluster.node.power_off()
                } else {
                    cluster.node.crash()
                };
                (cluster, requests) = start(&simulation, 1 + rng.below(3) as u16);
            }
            // The operator has looked at the torn ends of logs that kills have left.
            for path in quarantined(&simulation) {
                assert!(simulation.disk().remove(&path));
            }
            let files = || simulation.disk().files(DATA_DIR);
            assert!(simulation.now().0 < 4 * HOUR_NS as u64, "never processed: {:#?}", files());
        }
        let printed = simulation.block_on(|runtime| async move {
            let mut lines = Vec::new();
            let path = Path::new(DATA_DIR).join("deletes/REQUESTS");
            let inspected = inspect_file(&runtime, &path, |line| lines.push(line)).await;
            inspected.expect("a record");
            lines
        });
        let states = printed.iter().filter(|line| line.starts_with("  state      processed at"));
        assert_eq!((states.count(), &*printed[0]), (2, "2 delete requests"), "{printed:#?}");
        let (report, told) = find(&simulation, SECRET);
        assert_eq!((report.found, report.unread), (0, 0), "{told:#?}");
        assert_eq!(report.found_in_requests, 2, "{told:#?}");
        assert_eq!(lines_of(&cluster, &tenant), kept);
        let left: Vec<String> =
            others.iter().filter(|line| !line.contains(SECRET)).cloned().collect();
        assert_eq!(lines_of(&cluster, &other), left);
        cluster.stop().expect("in order");
        let report = simulation.block_on(|runtime| async move {
            check_store(&runtime, Path::new(DATA_DIR)).await.expect("a store")
        });
        assert_eq!(report.damaged_places(), 0, "{:#?}", report.findings);
        assert_eq!((report.pending_requests, report.processed_requests), (0, 2));
    }
}

#[test]
fn a_search_finds_lines_metadata_and_labels_in_all_kinds_of_files() {
    let simulation = Simulation::new(3);
    simulation.set_unix_nanos(NOON_NS);
    let ledger = Ledger::new(&["acme"], 2);
    let (cluster, _requests) = start(&simulation, 1);
    let line = |text: &str, id| (NOON_NS - 5, text.to_owned(), id);
    push(&cluster, &ledger, 0, &[line("ab", None), line("cd", None), line("xabcdx", Some(4711))]);
    let (report, told) = find(&simulation, "xabcdx");
    assert_eq!((report.found, report.unread), (1, 0), "in the log: {told:#?}");
    flush(&cluster);
    let (report, told) = find(&simulation, "xabcdx");
    let in_segment = told.iter().filter(|line| line.contains(" in lines")).count();
    assert!(in_segment == 1 && report.unread == 0, "{told:#?}");
    // Two lines that stand side by side are not one.
    let (_, told) = find(&simulation, "abcd");
    assert!(told.iter().any(|line| line.contains("1 in lines")), "{told:#?}");
    let (_, told) = find(&simulation, "4711");
    assert!(told.iter().any(|line| line.contains("1 in metadata of entries")), "{told:#?}");
    let (_, told) = find(&simulation, "acme");
    assert!(told.iter().any(|line| line.contains("in labels")), "{told:#?}");
    let (report, told) = find(&simulation, "nowhere at all");
    assert!(report.found == 0 && report.files > 3 && told.is_empty(), "{told:#?}");
    // A segment that is damaged is told.
    let segments = simulation.disk().files(DATA_DIR);
    let segment = segments.iter().find(|path| path.extension().is_some_and(|end| end == "seg"));
    let segment = Rc::new(segment.expect("it was sealed").clone());
    let len = simulation.disk().read(&*segment).expect("a file").len() as u64;
    assert!(simulation.disk().corrupt(&*segment, len - 100, 1));
    let (report, told) = find(&simulation, "nowhere at all");
    assert_eq!((report.found, report.unread), (0, 1), "{told:#?}");
}
