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
fn there_is_one_purge_at_a_time_and_a_stop_ends_it() {
    let (mut bench, reply) = begun();
    let ShardReply::Purged(Err(error)) = bench.ask(request("a")) else { panic!() };
    assert!(error.contains("under way"), "{error}");
    let _stopped = bench.send(ShardRequest::Stop);
    let error = outcome(&mut bench, reply).unwrap_err();
    assert!(error.contains("stopping"), "{error}");
    let ShardReply::Purged(Err(_)) = bench.ask(request("a")) else { panic!() };
}
