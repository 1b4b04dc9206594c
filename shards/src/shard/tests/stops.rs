use super::*;

fn stopped(reply: Option<ShardReply>) -> Option<Result<(), Arc<str>>> {
    reply.map(|reply| match reply {
        ShardReply::Stopped(result) => result,
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_stop_waits_for_what_is_under_way_and_behind_it() {
    let mut bench = Bench::new();
    let a = app("a");
    let mut first = bench.send(ShardRequest::Append(push(&[(&a, &[(1, "x")])])));
    bench.end_op(true);
    let mut second = bench.send(ShardRequest::Append(push(&[(&a, &[(2, "y")])])));
    let mut stop = bench.send(ShardRequest::Stop);
    let mut late = bench.send(ShardRequest::Append(push(&[(&a, &[(3, "z")])])));
    assert_eq!(bench.append_reply(&mut late), Some(Err(AppendError::Stopping)));
    assert_eq!(stopped(bench.reply(&mut stop)), None);
    bench.end_op(true);
    assert!(bench.append_reply(&mut first).unwrap().is_ok());
    assert_eq!(stopped(bench.reply(&mut stop)), None, "the second one is not committed");
    bench.end_op(true);
    assert!(bench.append_reply(&mut second).unwrap().is_ok());
    assert_eq!(stopped(bench.reply(&mut stop)), Some(Ok(())));
    assert!(bench.op.is_none());
    assert_eq!(bench.query("acme", "{app=`a`}")[0].1.len(), 2, "reads go on");
}

#[test]
fn a_stop_syncs_what_the_policy_left_unsynced() {
    for policy in [SyncPolicy::Never, SyncPolicy::Interval(Duration::from_secs(100))] {
        for success in [true, false] {
            let mut bench = Bench::with(policy, 1 << 30, 1 << 20);
            let a = app("a");
            assert!(bench.append(push(&[(&a, &[(1, "x")])])).is_ok());
            let mut stop = bench.send(ShardRequest::Stop);
            assert!(stopped(bench.reply(&mut stop)).is_none());
            let op = bench.end_op(success);
            assert!(matches!(op, WalOp::Commit { frame, sync: true, .. } if frame.is_empty()));
            let outcome = stopped(bench.reply(&mut stop)).unwrap();
            assert_eq!(outcome.is_ok(), success, "{outcome:?}");
            assert!(bench.op.is_none());
        }
    }
}

#[test]
fn an_idle_shard_stops_at_once() {
    let mut bench = Bench::new();
    let reply = bench.ask(ShardRequest::Stop);
    assert_eq!(stopped(Some(reply)), Some(Ok(())));
    let a = app("a");
    assert_eq!(bench.append(push(&[(&a, &[(1, "x")])])), Err(AppendError::Stopping));
}

#[test]
fn an_interval_falls_due_by_the_timer() {
    let interval = Duration::from_millis(50);
    let mut bench = Bench::with(SyncPolicy::Interval(interval), 1 << 30, 1 << 20);
    let a = app("a");
    assert!(bench.append(push(&[(&a, &[(1, "x")])])).is_ok());
    let due = bench.now.after(interval);
    assert_eq!(bench.shard.next_wakeup(), Some(due));
    bench.step(Event::Timer);
    assert!(bench.op.is_none(), "too early");
    bench.now = due;
    bench.step(Event::Timer);
    assert!(matches!(&bench.op, Some(WalOp::Commit { sync: true, .. })));
    bench.run_to_idle();
    assert_eq!(bench.shard.next_wakeup(), None);
}
