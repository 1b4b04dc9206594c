use super::*;
use crate::messages::TooFarBehind;
use crate::shard::append::HEAD_OVERHEAD_BYTES;
use crate::wal::format::BLOCK_LEN;
use crate::wal::writer::{REOPEN_PAUSE, WalUnavailable};

fn accepted(reply: AppendReply) -> u64 {
    let outcome = reply.unwrap();
    assert_eq!(outcome.too_far_behind, vec![]);
    outcome.accepted
}

#[test]
fn entries_show_with_their_commit_and_not_before() {
    let mut bench = Bench::new();
    let a = app("a");
    let mut first = bench.send(ShardRequest::Append(push(&[(&a, &[(1, "one")])])));
    assert!(matches!(bench.op, Some(WalOp::Open { .. })));
    bench.end_op(true);
    let mut second = bench.send(ShardRequest::Append(push(&[(&a, &[(2, "two")])])));
    assert!(bench.append_reply(&mut first).is_none());
    assert!(bench.query("acme", "{app=`a`}").is_empty());
    assert!(bench.series(everything(&[], ALL)).is_empty(), "a stream without entries");
    bench.end_op(true);
    assert_eq!(bench.append_reply(&mut first).map(accepted), Some(1));
    assert!(bench.append_reply(&mut second).is_none(), "it goes with the next commit");
    let shown = |entries: &[(i64, &str)]| {
        let entries = entries.iter().map(|(ts, line)| (*ts, line.to_string())).collect();
        vec![("{app=\"a\"}".to_string(), entries)]
    };
    assert_eq!(bench.query("acme", "{app=`a`}"), shown(&[(1, "one")]));
    bench.end_op(true);
    assert_eq!(bench.append_reply(&mut second).map(accepted), Some(1));
    assert_eq!(bench.query("acme", "{app=`a`}"), shown(&[(1, "one"), (2, "two")]));
    assert!(bench.query("other", "{app=`a`}").is_empty(), "another tenant");
    let status = bench.status();
    assert_eq!((status.head_entries, status.head_line_bytes), (2, 6));
    assert_eq!(status.commit_latency.buckets.iter().sum::<u64>(), 2);
}

#[test]
fn streams_must_be_defined_and_stay_known() {
    let mut bench = Bench::new();
    let (a, b) = (app("a"), app("b"));
    let without = AppendRequest { definitions: vec![], ..push(&[(&a, &[(1, "x")])]) };
    assert_eq!(bench.append(without), Err(AppendError::UnknownStream));
    assert!(bench.op.is_none());
    assert_eq!(accepted(bench.append(push(&[(&a, &[(1, "x")])]))), 1);
    let known = AppendRequest { definitions: vec![], ..push(&[(&a, &[(2, "y")])]) };
    assert_eq!(accepted(bench.append(known)), 1);
    let half = AppendRequest {
        definitions: vec![a.clone()],
        ..push(&[(&a, &[(3, "z")]), (&b, &[(3, "z")])])
    };
    assert_eq!(bench.append(half), Err(AppendError::UnknownStream));
    assert_eq!(bench.query("acme", "{app=~`.+`}")[0].1.len(), 2, "all of a push or nothing");
}

#[test]
fn a_batch_that_does_not_decode_is_refused_whole() {
    let mut bench = Bench::new();
    let a = app("a");
    let mut bad = push(&[(&a, &[(1, "x")]), (&a, &[(2, "y")])]);
    bad.batch.pop();
    assert!(matches!(bench.append(bad), Err(AppendError::Malformed(_))));
    assert!(bench.op.is_none() && bench.query("acme", "{app=`a`}").is_empty());
}

#[test]
fn duplicates_count_as_stored_and_take_no_memory() {
    let mut bench = Bench::new();
    let a = app("a");
    let entries: &[(i64, &str)] = &[(1, "x"), (1, "x"), (2, "y")];
    assert_eq!(accepted(bench.append(push(&[(&a, entries)]))), 3);
    let used_bytes = bench.budget.used_bytes();
    assert_eq!(used_bytes, HEAD_OVERHEAD_BYTES + 2 * (1 + 12));
    assert_eq!(accepted(bench.append(push(&[(&a, entries)]))), 3);
    assert_eq!(bench.budget.used_bytes(), used_bytes);
    let status = bench.status();
    assert_eq!((status.head_entries, status.duplicates), (2, 4));
    assert_eq!(status.head_reserved_bytes, used_bytes);
}

fn windowed(window_ns: i64, push: AppendRequest) -> AppendRequest {
    AppendRequest { out_of_order_window_ns: Some(window_ns), ..push }
}

#[test]
fn the_window_counts_from_the_newest_entry_of_the_stream() {
    let mut bench = Bench::new();
    let (a, b) = (app("a"), app("b"));
    let first = push(&[(&a, &[(100, "new")]), (&b, &[(1, "other stream")])]);
    assert_eq!(accepted(bench.append(windowed(10, first))), 2);
    assert_eq!(accepted(bench.append(windowed(10, push(&[(&a, &[(90, "edge")])])))), 1);
    let outcome = bench.append(windowed(10, push(&[(&a, &[(89, "late"), (91, "fine")])]))).unwrap();
    let refusal = TooFarBehind {
        stream: a.id,
        labels: a.labels.clone(),
        entries: vec![(89, 90)],
        refused: 1,
        total: 2,
    };
    assert_eq!((outcome.accepted, outcome.too_far_behind), (1, vec![refusal]));
    assert_eq!(accepted(bench.append(push(&[(&a, &[(5, "no window")])]))), 1);
    let lines: Vec<_> = bench.query("acme", "{app=`a`}").remove(0).1;
    assert_eq!(lines.iter().map(|(ts, _)| *ts).collect::<Vec<_>>(), [5, 90, 91, 100]);

    let before = bench.status().wal.commits;
    let outcome = bench.append(windowed(10, push(&[(&a, &[(1, "x")])]))).unwrap();
    assert_eq!((outcome.accepted, outcome.too_far_behind.len()), (0, 1));
    assert_eq!(bench.status().wal.commits, before, "nothing to write");
}

#[test]
fn sections_of_one_stream_see_each_other() {
    let mut bench = Bench::new();
    let (a, b) = (app("a"), app("b"));
    let sections: &[(&StreamDefinition, &[(i64, &str)])] = &[
        (&a, &[(0, "old but first"), (100, "new")]),
        (&b, &[(0, "another stream")]),
        (&a, &[(50, "late"), (95, "fine")]),
        (&a, &[(200, "newer"), (95, "late now")]),
        (&b, &[(11, "first of b was 0")]),
    ];
    let outcome = bench.append(windowed(10, push(sections))).unwrap();
    let refusal = TooFarBehind {
        stream: a.id,
        labels: a.labels.clone(),
        entries: vec![(50, 90), (95, 190)],
        refused: 2,
        total: 6,
    };
    assert_eq!((outcome.accepted, outcome.too_far_behind), (6, vec![refusal]));
    let late_section = push(&[(&b, &[(500, "new")]), (&b, &[(400, "late")])]);
    let outcome = bench.append(windowed(10, late_section)).unwrap();
    assert_eq!((outcome.accepted, outcome.too_far_behind.len()), (1, 1));
    // The entries that the stream has let in count for the next push.
    let outcome = bench.append(windowed(10, push(&[(&a, &[(189, "late")])]))).unwrap();
    assert_eq!(outcome.too_far_behind[0].entries, [(189, 190)]);
}

#[test]
fn refusals_are_counted_but_not_all_listed() {
    let mut bench = Bench::new();
    let a = app("a");
    let mut entries = vec![(1000, "new")];
    entries.extend((0..50).map(|ts| (ts, "late")));
    let outcome = bench.append(windowed(10, push(&[(&a, &entries), (&a, &entries)]))).unwrap();
    assert_eq!(outcome.accepted, 2);
    let [refusal] = &outcome.too_far_behind[..] else { panic!("one per stream") };
    assert_eq!((refusal.refused, refusal.total), (100, 102));
    assert_eq!(refusal.entries.len(), crate::messages::REFUSALS_LISTED_MAX);
    // The smallest and the largest timestamps.
    let b = app("b");
    let extreme: &[(i64, &str)] = &[(i64::MIN, "x"), (i64::MAX, "y"), (i64::MIN, "z")];
    let outcome = bench.append(windowed(i64::MAX, push(&[(&b, extreme)]))).unwrap();
    assert_eq!(outcome.too_far_behind[0].entries, [(i64::MIN, 0)]);
}

#[test]
fn a_failed_commit_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let (a, b) = (app("a"), app("b"));
    assert_eq!(accepted(bench.append(push(&[(&a, &[(1, "kept")])]))), 1);
    let used_bytes = bench.budget.used_bytes();
    let mut lost = bench.send(ShardRequest::Append(push(&[(&a, &[(2, "lost")])])));
    let mut behind = bench.send(ShardRequest::Append(push(&[(&b, &[(3, "behind")])])));
    assert!(bench.budget.used_bytes() > used_bytes + HEAD_OVERHEAD_BYTES);
    bench.end_op(false);
    let refused = bench.append_reply(&mut lost).unwrap();
    assert_eq!(refused, Err(AppendError::Disk("the disk said no".into())));
    assert!(bench.append_reply(&mut behind).is_none());
    assert!(matches!(bench.end_op(true), WalOp::Open { header, .. } if header.name.index == 1));
    let op = bench.end_op(true);
    assert_eq!(defined_by(&op), [b.id]);
    assert_eq!(bench.append_reply(&mut behind).map(accepted), Some(1));
    let kept_bytes = HEAD_OVERHEAD_BYTES + "behind".len() as u64 + 12;
    assert_eq!(bench.budget.used_bytes(), used_bytes + kept_bytes);
    let streams = bench.query("acme", "{app=~`.+`}");
    let lines: Vec<_> = streams.iter().flat_map(|(_, entries)| entries).collect();
    assert_eq!(lines, [&(1, "kept".to_string()), &(3, "behind".to_string())]);
    assert_eq!(bench.status().wal.failures, 1);
}

#[test]
fn a_file_that_cannot_be_made_refuses_and_lets_reads_go_on() {
    let mut bench = Bench::new();
    let a = app("a");
    assert_eq!(accepted(bench.append(push(&[(&a, &[(1, "kept")])]))), 1);
    let used_bytes = bench.budget.used_bytes();
    let mut first = bench.send(ShardRequest::Append(push(&[(&a, &[(2, "x")])])));
    let mut second = bench.send(ShardRequest::Append(push(&[(&a, &[(3, "y")])])));
    bench.end_op(false);
    bench.end_op(false);
    for reply in [&mut first, &mut second] {
        assert!(matches!(bench.append_reply(reply), Some(Err(AppendError::Disk(_)))));
    }
    assert_eq!(bench.budget.used_bytes(), used_bytes);
    let unavailable = Err(AppendError::Log(WalUnavailable::Disk));
    let b = app("b");
    assert_eq!(bench.append(push(&[(&b, &[(4, "z")])])), unavailable);
    assert_eq!(bench.budget.used_bytes(), used_bytes, "not even its stream is remembered");
    assert_eq!(bench.query("acme", "{app=`a`}")[0].1.len(), 1);
    bench.now = bench.now.after(REOPEN_PAUSE);
    assert_eq!(accepted(bench.append(push(&[(&a, &[(5, "again")])]))), 1);
    assert_eq!(bench.query("acme", "{app=`a`}")[0].1.len(), 2);
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let cost = |lines: u64| lines * (10 + 12);
    let line = "0123456789";
    let budget_bytes = HEAD_OVERHEAD_BYTES + cost(2);
    let mut bench = Bench::with(SyncPolicy::Always, budget_bytes, 1 << 20);
    let (a, b) = (app("a"), app("b"));
    let mut reply = bench.send(ShardRequest::Append(push(&[(&a, &[(1, line), (2, line)])])));
    assert_eq!(bench.append(push(&[(&b, &[(1, line)])])), Err(AppendError::HeadsFull));
    bench.run_to_idle();
    assert_eq!(bench.append_reply(&mut reply).map(accepted), Some(2));
    assert_eq!(bench.budget.used_bytes(), budget_bytes, "what is held");
    // A push that comes while sealing is about to release memory waits for it.
    let mut waits = bench.send(ShardRequest::Append(push(&[(&b, &[(1, line)])])));
    assert_eq!(bench.append_reply(&mut waits), None);
    assert_eq!(bench.seal.as_ref().expect("sealing has begun").streams.len(), 1);
    let pause = |pauses, total| PauseStatus { pauses, total };
    assert_eq!(bench.shard.status().pauses, pause(1, Duration::ZERO), "it has not ended");
    bench.now = bench.now.after(Duration::from_millis(40));
    bench.end_seal(Err("no space".into()));
    assert_eq!(bench.shard.status().pauses, pause(1, Duration::from_millis(40)));
    let full = || Err(AppendError::Disk("no space".into()));
    assert_eq!(bench.append_reply(&mut waits), Some(full()), "the disk is to blame");
    // Streams whose entries find no room are forgotten again.
    for number in 0..100 {
        let stream = app(&format!("refused {number}"));
        assert_eq!(bench.append(push(&[(&stream, &[(1, "x")])])), full());
    }
    assert_eq!(bench.query("acme", "{app=`a`}")[0].1.len(), 2, "reads go on");
    bench.now = bench.shard.next_wakeup().expect("sealing is tried again");
    bench.step(Event::Timer);
    bench.end_seal(Ok(Vec::new()));
    assert_eq!(bench.budget.used_bytes(), 0);
    assert_eq!(accepted(bench.append(push(&[(&b, &[(1, line)])]))), 1);
    let known = bench.shard.by_id.len();
    assert!(known <= 3, "{known} streams are known");

    let mut bench = Bench::with(SyncPolicy::Always, budget_bytes, 1 << 20);
    let mut reply = bench.send(ShardRequest::Append(push(&[(&a, &[(1, line), (2, line)])])));
    bench.end_op(true);
    bench.end_op(false);
    assert!(matches!(bench.append_reply(&mut reply), Some(Err(AppendError::Disk(_)))));
    bench.now = bench.now.after(REOPEN_PAUSE);
    let again = bench.append(push(&[(&b, &[(1, line), (2, line)])]));
    assert_eq!(accepted(again), 2, "the failed push has given its memory back");
}

#[test]
fn a_file_defines_a_stream_in_the_first_two_frames_that_use_it() {
    let mut bench = Bench::with(SyncPolicy::Always, 1 << 30, 6 * BLOCK_LEN);
    let (a, b) = (app("a"), app("b"));
    let mut defined = Vec::new();
    for ts in 0..8 {
        let both: &[(&StreamDefinition, &[(i64, &str)])] =
            &[(&a, &[(ts, "x")]), (&b, &[(ts, "x")]), (&a, &[(ts, "y")])];
        let mut reply =
            bench.send(ShardRequest::Append(push(if ts == 1 { &both[..1] } else { both })));
        let mut file_is_new = false;
        if matches!(bench.op, Some(WalOp::Open { .. })) {
            bench.end_op(true);
            file_is_new = true;
        }
        let op = bench.end_op(true);
        assert!(bench.append_reply(&mut reply).unwrap().is_ok());
        defined.push((file_is_new, defined_by(&op)));
    }
    let (both, none) = (vec![a.id, b.id], vec![]);
    let (only_a, only_b) = (vec![a.id], vec![b.id]);
    assert_eq!(
        defined[..4],
        [(true, both.clone()), (false, only_a), (false, only_b), (false, none)]
    );
    let next = defined.iter().skip(1).position(|(is_new, _)| *is_new).expect("a second file") + 1;
    assert_eq!(defined[next], (true, both.clone()));
    assert_eq!(defined[next + 1], (false, both));
}

#[test]
fn more_than_may_wait_is_refused_as_busy() {
    let mut bench = Bench::new();
    let a = app("a");
    let line = "x".repeat(3000);
    let mut replies: Vec<Reply> =
        (0..3).map(|ts| bench.send(ShardRequest::Append(push(&[(&a, &[(ts, &line)])])))).collect();
    let busy = Some(Err(AppendError::Log(WalUnavailable::Busy)));
    // All wait for the file to be made.
    assert_eq!(bench.append_reply(&mut replies[1]), busy);
    assert_eq!(bench.append_reply(&mut replies[2]), busy);
    bench.end_op(true);
    let mut next = bench.send(ShardRequest::Append(push(&[(&a, &[(9, &line)])])));
    bench.run_to_idle();
    assert_eq!(bench.append_reply(&mut replies[0]).map(accepted), Some(1));
    assert_eq!(bench.append_reply(&mut next).map(accepted), Some(1));
}

#[test]
fn a_stream_may_get_its_first_entry_after_younger_streams() {
    let mut bench = Bench::new();
    let (a, b) = (app("a"), app("b"));
    let definitions = vec![a.clone(), b.clone()];
    let both = AppendRequest { definitions, ..push(&[(&b, &[(1, "x")])]) };
    assert_eq!(accepted(bench.append(both)), 1);
    assert_eq!(bench.series(everything(&[], ALL)), ["{app=\"b\"}"]);
    assert_eq!(accepted(bench.append(push(&[(&a, &[(1, "x")])]))), 1);
    assert_eq!(bench.series(everything(&[], ALL)), ["{app=\"a\"}", "{app=\"b\"}"]);
}

/// How many streams fit the bench's memory for streams.
fn fill_up(bench: &mut Bench) -> u64 {
    let mut known = 0;
    let mut cost_bytes = 0;
    while bench.streams.used_bytes() + cost_bytes <= bench.streams.max_bytes() {
        let before_bytes = bench.streams.used_bytes();
        let stream = app(&format!("stream {known:05}"));
        let outcome = bench.append(push(&[(&stream, &[(1, "x")])])).unwrap();
        assert_eq!((outcome.accepted, outcome.refused_streams.len()), (1, 0));
        cost_bytes = bench.streams.used_bytes() - before_bytes;
        known += 1;
    }
    known
}

#[test]
fn new_streams_wait_for_the_memory_of_streams_whose_entries_are_sealed() {
    let mut bench = Bench::new();
    let known = fill_up(&mut bench);
    let new = app("stream is new");
    let mut waits = bench.send(ShardRequest::Append(push(&[(&new, &[(1, "x")])])));
    assert_eq!(bench.append_reply(&mut waits), None);
    bench.end_seal(Ok(Vec::new()));
    bench.run_to_idle();
    assert_eq!(bench.append_reply(&mut waits).map(accepted), Some(1));
    assert_eq!(bench.shard.by_id.len() as u64, known, "another one has gone for it");
    assert!(bench.shard.by_id.contains_key(&new.id));
    let status = bench.status();
    assert_eq!((status.seal.maintenance.forgotten_streams, status.refused_streams), (1, 0));
    // The streams of a push give up no memory for each other.
    let (first, second) = (app("stream 00001"), app("stream sec."));
    let sections: &[(&StreamDefinition, &[(i64, &str)])] =
        &[(&first, &[(2, "y")]), (&second, &[(2, "y")])];
    assert_eq!(accepted(bench.append(push(sections))), 2);
    assert!(bench.shard.by_id.contains_key(&first.id));
}

#[test]
fn a_tenant_whose_only_stream_gives_way_to_its_next_one_is_counted_each_time() {
    let mut bench = Bench::new();
    assert_eq!(accepted(bench.append(push(&[(&app("stream 00"), &[(1, "x")])]))), 1);
    let used_bytes = bench.streams.used_bytes();
    bench.shard.stream_memory.share_bytes = used_bytes;
    for number in 1..20 {
        let next = app(&format!("stream {number:02}"));
        let mut waits = bench.send(ShardRequest::Append(push(&[(&next, &[(1, "x")])])));
        bench.end_seal(Ok(Vec::new()));
        bench.run_to_idle();
        assert_eq!(bench.append_reply(&mut waits).map(accepted), Some(1));
        assert_eq!(bench.streams.used_bytes(), used_bytes);
    }
    assert_eq!(bench.shard.by_id.len(), 1);
}

/// Fills the memory for streams, and lets their entries stay in memory because the disk fails.
fn fill_up_for_long(bench: &mut Bench) -> u64 {
    let known = fill_up(bench);
    let another = app("stream waits");
    let mut waits = bench.send(ShardRequest::Append(push(&[(&another, &[(1, "x")])])));
    bench.end_seal(Err("no space".into()));
    let refused = bench.append_reply(&mut waits).expect("an answer").expect("an outcome");
    assert_eq!((refused.accepted, refused.refused_streams.len()), (0, 1));
    known
}

#[test]
fn streams_beyond_their_memory_are_refused_one_by_one_and_known_ones_go_on() {
    let mut bench = Bench::new();
    let known = fill_up_for_long(&mut bench);
    let cost_bytes = bench.streams.used_bytes() / known;
    assert!(bench.streams.used_bytes() + cost_bytes > bench.streams.max_bytes());
    let first = app("stream 00000");
    for number in 0..100i64 {
        let refused = app(&format!("refused {number:06}"));
        let sections: &[(&StreamDefinition, &[(i64, &str)])] = &[
            (&first, &[(10 + number, "y")]),
            (&refused, &[(1, "x"), (2, "x")]),
            (&refused, &[(3, "x")]),
        ];
        let outcome = bench.append(push(sections)).unwrap();
        assert_eq!(outcome.accepted, 1, "the entries of the others are taken");
        assert_eq!(outcome.refused_streams, [(refused.id, 3)]);
    }
    assert_eq!(bench.shard.by_id.len() as u64, known, "nothing is remembered of them");
    assert_eq!(bench.status().refused_streams, 101);
    assert_eq!(bench.query("acme", "{app=~`refused.*`}"), []);
    assert_eq!(bench.query("acme", "{app=`stream 00000`}")[0].1.len(), 101);
}

#[test]
fn unknown_streams_come_back_to_be_defined() {
    let mut bench = Bench::new();
    let (a, b) = (app("a"), app("b"));
    let mut request = push(&[(&a, &[(1, "x")]), (&b, &[(1, "y")])]);
    request.definitions.pop();
    let batch = request.batch.clone();
    let mut reply = bench.send(ShardRequest::Append(request));
    let Some(ShardReply::Unknown(mut back)) = bench.reply(&mut reply) else { panic!() };
    assert_eq!(back.batch, batch);
    back.definitions = vec![a.clone(), b.clone()];
    assert_eq!(accepted(bench.append(*back)), 2);
}
