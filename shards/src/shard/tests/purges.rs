//! The rounds of a purge, and when it is answered.

use super::*;
use crate::deletion::{DeleteFilter, DeleteId};
use crate::messages::{PurgeOutcome, PurgeRequest, PurgeTarget};

/// Of the streams of an app, all entries from 100 to 200 ns.
fn request(app: &str) -> ShardRequest {
    let query = format!("{{app=`{app}`}}");
    let syntax::ast::Expr::Log(log) = syntax::parse(&query).unwrap() else { panic!() };
    let (id, since) = (DeleteId(1), DeletionVersion::FIRST);
    let filter = DeleteFilter::new(id, tenant(), &log, (100, 200), since).unwrap();
    let target = PurgeTarget { filter: Arc::new(filter), start_ns: 100, end_ns: 200 };
    ShardRequest::Purge(PurgeRequest { targets: Arc::from([target]) })
}

/// What the shard answers once the file that waited is gone.
fn begun() -> (Bench, Reply) {
    let mut bench = Bench::new();
    bench.append(push(&[(&app("a"), &[(150, "one")])])).unwrap();
    let reply = bench.send(request("a"));
    assert_eq!(bench.reuses_logs, Some(false));
    assert!(bench.seal.is_none(), "the log file that waits goes first");
    bench.step(Event::LogsGivenBack);
    (bench, reply)
}

/// Ends the last job of a purge.
fn swept(bench: &mut Bench, leaving: &[&str]) {
    assert!(matches!(bench.job.take(), Some(MaintenanceJob::Sweep)));
    let leaving = Some(leaving.iter().map(Into::into).collect());
    let outcome = MaintenanceOutcome { leaving, ..MaintenanceOutcome::default() };
    bench.step(Event::Maintained(Box::new(Ok(outcome))));
}

fn outcome(bench: &mut Bench, mut reply: Reply) -> Result<PurgeOutcome, Arc<str>> {
    match bench.reply(&mut reply) {
        Some(ShardReply::Purged(result)) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_log_goes_on_with_another_file_and_then_all_is_examined() {
    let (mut bench, reply) = begun();
    let job = bench.end_seal(Ok(Vec::new()));
    assert_eq!((job.streams.len(), job.closed_wal_index), (1, Some(0)));
    swept(&mut bench, &["/data/left"]);
    let outcome = outcome(&mut bench, reply).unwrap();
    assert_eq!(outcome.first_log.map(|name| name.index), Some(1));
    assert_eq!(outcome.leaving, [std::path::Path::new("/data/left")]);
    assert_eq!(outcome.removed.len(), 1);
    assert_eq!(bench.reuses_logs, Some(true));
    // The next one, with nothing in memory.
    let reply = bench.send(request("a"));
    bench.step(Event::LogsGivenBack);
    assert!(bench.end_seal(Ok(Vec::new())).streams.is_empty());
    swept(&mut bench, &[]);
    assert!(self::outcome(&mut bench, reply).unwrap().leaving.is_empty());
}

#[test]
fn entries_that_come_meanwhile_make_another_round() {
    let (mut bench, reply) = begun();
    let mut rounds = 1;
    loop {
        // After the heads were frozen.
        bench.append(push(&[(&app("a"), &[(150 + rounds, "late")])])).unwrap();
        bench.end_seal(Ok(Vec::new()));
        if bench.job.is_some() {
            break;
        }
        bench.step(Event::Timer);
        rounds += 1;
    }
    assert_eq!(rounds, 4, "it ends, however many come");
    swept(&mut bench, &[]);
    outcome(&mut bench, reply).unwrap();
    // Neither other streams nor other times.
    let (mut bench, reply) = begun();
    bench
        .append(push(&[(&app("b"), &[(150, "x")]), (&app("a"), &[(99, "x"), (99, "y")])]))
        .unwrap();
    bench.append(push(&[(&app("a"), &[(201, "x")])])).unwrap();
    bench.end_seal(Ok(Vec::new()));
    swept(&mut bench, &[]);
    outcome(&mut bench, reply).unwrap();
}

#[test]
fn a_failed_sealing_is_tried_again_before_anything_is_examined() {
    let (mut bench, reply) = begun();
    for _ in 0..3 {
        bench.end_seal(Err("no space".into()));
        assert!(bench.job.is_none());
        bench.now = bench.now.after(crate::shard::seal::RETRY_PAUSE);
        bench.step(Event::Timer);
    }
    bench.end_seal(Ok(Vec::new()));
    swept(&mut bench, &[]);
    outcome(&mut bench, reply).unwrap();
}

#[test]
fn the_status_tells_since_when_jobs_fail_and_how_long_the_last_one_took() {
    let failing_since = |bench: &mut Bench| bench.status().seal.maintenance.failing_since;
    let (mut bench, _reply) = begun();
    bench.end_seal(Ok(Vec::new()));
    let began = bench.now;
    for _ in 0..3 {
        assert!(matches!(bench.job.take(), Some(MaintenanceJob::Sweep)));
        let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
        bench.step(Event::Maintained(Box::new(Err(error.into()))));
        assert_eq!(failing_since(&mut bench), Some(began), "the first failure counts");
        bench.now = bench.now.after(Duration::from_secs(600));
        bench.step(Event::Timer);
        // To finish what is half done is not yet a success.
        assert!(matches!(bench.job.take(), Some(MaintenanceJob::Resume)));
        bench.step(Event::Maintained(Box::new(Ok(MaintenanceOutcome::default()))));
        assert_eq!(failing_since(&mut bench), Some(began));
    }
    assert_eq!(bench.status().seal.maintenance.last_job, None);
    bench.now = bench.now.after(Duration::from_secs(7));
    assert!(matches!(bench.job.take(), Some(MaintenanceJob::Sweep)));
    let outcome = MaintenanceOutcome { released: 1, ..MaintenanceOutcome::default() };
    bench.step(Event::Maintained(Box::new(Ok(outcome))));
    let status = bench.status().seal.maintenance;
    assert_eq!((status.failing_since, status.last_job), (None, Some(Duration::from_secs(7))));
    // Without a job of this kind, nothing is left that fails.
    let (mut bench, _reply) = begun();
    bench.end_seal(Ok(Vec::new()));
    let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
    bench.job = None;
    bench.step(Event::Maintained(Box::new(Err(error.into()))));
    bench.now = bench.now.after(Duration::from_secs(600));
    bench.step(Event::Timer);
    bench.job = None;
    bench.step(Event::Maintained(Box::new(Ok(MaintenanceOutcome::default()))));
    assert!(failing_since(&mut bench).is_some());
    swept(&mut bench, &[]);
    assert_eq!(failing_since(&mut bench), None);
}

#[test]
fn there_is_one_purge_at_a_time_and_a_stop_ends_it() {
    let (mut bench, reply) = begun();
    let ShardReply::Purged(Err(error)) = bench.ask(request("a")) else { panic!() };
    assert!(error.contains("under way"), "{error}");
    let _stopped = bench.send(ShardRequest::Stop);
    let error = outcome(&mut bench, reply).unwrap_err();
    assert!(error.contains("stopping"), "{error}");
    let ShardReply::Purged(Err(_)) = bench.ask(request("a")) else { panic!() };
}
