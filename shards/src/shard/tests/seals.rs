//! When heads are frozen, and which entries are visible meanwhile.

use super::*;
use crate::compact::{Activity, DraftPolicy};
use crate::shard::seal::RETRY_PAUSE;
use crate::wal::format::BLOCK_LEN;

fn sealing_bench(seal: SealPolicy) -> Bench {
    let mut bench = Bench::new();
    bench.shard = Shard::new(&ShardConfig {
        wal: WalConfig {
            sync: SyncPolicy::Always,
            file_max_bytes: 1 << 20,
            waiting_max_bytes: 4096,
        },
        core: 0,
        owned: crate::types::Part::one(1, 0).into(),
        is_member: false,
        first_wal: WalName { epoch: 0, shards: 1, shard: 0, index: 0 },
        heads: bench.budget.clone(),
        streams: bench.streams.clone(),
        seal,
        maintenance: MaintenanceConfig::default(),
        tails: Budget::new("tails", TAILS_BUDGET_BYTES),
        changes: NodeChanges::new(1).of_shard(0),
        deletions: Arc::from([]),
    })
    .unwrap();
    bench
}

fn lines(bench: &mut Bench) -> usize {
    bench.query("acme", "{app=~`.+`}").iter().map(|(_, entries)| entries.len()).sum()
}

#[test]
fn heads_are_set_aside_between_commits_and_stay_visible() {
    let policy = SealPolicy { head_max_bytes: 30, ..SealPolicy::ON_REQUEST };
    let mut bench = sealing_bench(policy);
    let (a, b) = (app("a"), app("b"));
    let first = push(&[(&a, &[(1, "first line"), (2, "second line")]), (&b, &[(1, "x")])]);
    bench.append(first).unwrap();
    let job = bench.seal.as_ref().expect("the heads have reached their bound");
    assert_eq!((job.streams.len(), job.closed_wal_index), (2, Some(0)));
    assert_eq!(lines(&mut bench), 3);
    // New pushes go to another log file and to new heads.
    let mut reply = bench.send(ShardRequest::Append(push(&[(&a, &[(3, "third")])])));
    assert!(matches!(&bench.op, Some(WalOp::Open { header, .. }) if header.name.index == 1));
    bench.run_to_idle();
    assert!(bench.append_reply(&mut reply).unwrap().is_ok());
    assert_eq!(lines(&mut bench), 4);
    // A query sees an entry that is being sealed once.
    bench.append(push(&[(&a, &[(2, "second line")])])).unwrap();
    assert_eq!(lines(&mut bench), 4);
    bench.end_seal(Ok(Vec::new()));
    assert_eq!(lines(&mut bench), 2, "the segments that were not made are not seen");
}

#[test]
fn heads_that_fill_faster_than_they_are_sealed_become_drafts() {
    let policy = SealPolicy { head_max_bytes: 20_000, ..SealPolicy::ON_REQUEST };
    let mut bench = sealing_bench(policy);
    let a = app("a");
    let mut timestamp_ns = 0;
    // Fills the heads in about so many milliseconds.
    let mut fill = |bench: &mut Bench, ms: u64| {
        for _ in 0..8 {
            timestamp_ns += 1;
            bench.append(push(&[(&a, &[(timestamp_ns, &"x".repeat(3000))])])).unwrap();
            bench.now = bench.now.after(Duration::from_millis(ms / 6));
        }
    };
    fill(&mut bench, 100);
    assert!(bench.seal.is_some(), "as fast as it may be");
    // The next one is full, and the first is not sealed yet.
    let first = bench.seal.clone().expect("it is being sealed");
    assert!(!first.draft.is_set());
    fill(&mut bench, 120);
    assert!(first.draft.is_set(), "what is left of it");
    bench.end_seal(Ok(Vec::new()));
    assert!(bench.end_seal(Err("no space".into())).draft.is_set());
    bench.now = bench.now.after(RETRY_PAUSE);
    bench.step(Event::Timer);
    assert!(bench.end_seal(Ok(Vec::new())).draft.is_set(), "after a failure it is what it was");
    for (ms, is_draft) in [(130, true), (300, false), (60, true)] {
        fill(&mut bench, ms);
        assert_eq!(bench.end_seal(Ok(Vec::new())).draft.is_set(), is_draft, "{ms} ms");
        // The rest, on request.
        let _flushed = bench.send(ShardRequest::Flush);
        assert!(!bench.end_seal(Ok(Vec::new())).draft.is_set());
    }
}

#[test]
fn heads_with_much_of_each_stream_are_encoded_at_once() {
    let policy = SealPolicy { head_max_bytes: 200_000, ..SealPolicy::ON_REQUEST };
    for (streams, is_draft) in [(1, false), (4, true)] {
        let mut bench = sealing_bench(policy);
        let mut timestamp_ns = 0;
        let mut fill = |bench: &mut Bench| {
            for number in 0..80 {
                let stream = app(&format!("app-{}", number % streams));
                timestamp_ns += 1;
                let line = "x".repeat(3000);
                bench.append(push(&[(&stream, &[(timestamp_ns, &line)])])).unwrap();
            }
        };
        fill(&mut bench);
        let first = bench.seal.clone().expect("the heads are full");
        fill(&mut bench);
        assert!(first.draft.is_set(), "whatever it has, it is late");
        bench.end_seal(Ok(Vec::new()));
        let second = bench.seal.clone().expect("so are the next ones");
        assert_eq!(second.draft.is_set(), is_draft, "{streams}");
    }
}

#[test]
fn a_flush_is_answered_when_everything_before_it_is_sealed() {
    let mut bench = sealing_bench(SealPolicy::ON_REQUEST);
    let ShardReply::Flushed(Ok(())) = bench.ask(ShardRequest::Flush) else { panic!() };
    let a = app("a");
    bench.append(push(&[(&a, &[(1, "one")])])).unwrap();
    let mut first = bench.send(ShardRequest::Flush);
    assert!(bench.seal.is_some());
    bench.append(push(&[(&a, &[(2, "two")])])).unwrap();
    let mut second = bench.send(ShardRequest::Flush);
    bench.end_seal(Ok(Vec::new()));
    assert!(matches!(bench.reply(&mut first), Some(ShardReply::Flushed(Ok(())))));
    assert!(bench.reply(&mut second).is_none(), "its entries are not sealed yet");
    bench.end_seal(Err("no space".into()));
    assert!(matches!(bench.reply(&mut second), Some(ShardReply::Flushed(Err(_)))));
}

#[test]
fn age_and_log_size_begin_sealing_too() {
    let max_age = Duration::from_secs(5);
    let mut bench = sealing_bench(SealPolicy { max_age, ..SealPolicy::ON_REQUEST });
    assert_eq!(bench.shard.next_wakeup(), None);
    bench.append(push(&[(&app("a"), &[(1, "one")])])).unwrap();
    assert_eq!(bench.shard.next_wakeup(), Some(bench.now.after(max_age)));
    bench.now = bench.now.after(max_age);
    bench.step(Event::Timer);
    assert!(bench.seal.is_some());

    // The header and two frames.
    let wal_max_bytes = 3 * BLOCK_LEN;
    let mut bench = sealing_bench(SealPolicy { wal_max_bytes, ..SealPolicy::ON_REQUEST });
    bench.append(push(&[(&app("a"), &[(1, "one")])])).unwrap();
    assert!(bench.seal.is_none());
    bench.append(push(&[(&app("a"), &[(2, &"x".repeat(300))])])).unwrap();
    assert!(bench.seal.is_some());
}

#[test]
fn a_stop_seals_unless_the_disk_refuses() {
    let policy = SealPolicy { on_stop: true, ..SealPolicy::ON_REQUEST };
    for succeeds in [true, false] {
        let mut bench = sealing_bench(policy);
        bench.append(push(&[(&app("a"), &[(1, "one")])])).unwrap();
        let mut stopped = bench.send(ShardRequest::Stop);
        assert!(bench.reply(&mut stopped).is_none());
        bench.end_seal(if succeeds { Ok(Vec::new()) } else { Err("no space".into()) });
        // Either way nothing is lost: the log has it.
        assert!(matches!(bench.reply(&mut stopped), Some(ShardReply::Stopped(Ok(())))));
    }
}

#[test]
fn merges_do_not_rest_once_there_are_too_many_drafts() {
    let mut bench = Bench::new();
    let max_bytes = DraftPolicy::default().max_line_bytes;
    for (bytes, activity) in [
        (0, Activity::Idle),
        (max_bytes / 5, Activity::Idle),
        (max_bytes / 4, Activity::Overtaken),
        (max_bytes, Activity::Overtaken),
        (max_bytes / 5, Activity::Idle),
    ] {
        bench.shard.drafts.remove(bench.shard.drafts.line_bytes());
        bench.shard.drafts.add(bytes);
        bench.step(Event::Timer);
        assert_eq!(bench.shard.maintenance.throttle.get(), activity, "{bytes}");
    }
}
