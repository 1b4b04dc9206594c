//! The entries that subscribers get, and the memory that they cost.

use super::*;
use crate::deletion::DeletionVersion;
use crate::tail::{
    DROPPED_LISTED_MAX, TailBatch, TailFollow, TailJoin, TailPart, TailPoll, TailStatus,
};

const QUEUE_MAX_BYTES: usize = 1 << 20;

fn plan(query: &str) -> Plan {
    let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
    let params = QueryParams { limit: 10_000, ..QueryParams::new(time) };
    Plan::new(&syntax::parse(query).unwrap(), &params).unwrap()
}

fn join(subscription: u64, epoch: u64, query: &str) -> TailJoin {
    let history = LeafRequest {
        tenants: tenant().into(),
        plan: Arc::new(plan(query).leaves()[0].clone()),
        deletions: DeletionVersion::NONE,
        cancellation: Cancellation::default(),
        account: Account::alone(1 << 20),
        entries_each: None,
    };
    TailJoin { subscription, epoch, queue_max_bytes: QUEUE_MAX_BYTES, history }
}

fn lines_of(part: &TailPart) -> Vec<(i64, String)> {
    part.block.with_columns(0, |columns| {
        let mut start = 0;
        let line = |(index, &end): (usize, &u32)| {
            let line = &columns.lines[start..end as usize];
            start = end as usize;
            (columns.timestamps_ns[index], String::from_utf8(line.to_vec()).unwrap())
        };
        columns.line_ends.iter().enumerate().map(line).collect()
    })
}

/// Epochs and lines of a batch.
fn shown(batch: &TailBatch) -> Vec<(u64, i64, String)> {
    let of_part = |part: &TailPart| {
        let epoch = part.epoch;
        lines_of(part).into_iter().map(move |(time_ns, line)| (epoch, time_ns, line))
    };
    batch.parts.iter().flat_map(of_part).collect()
}

fn shows(entries: &[(u64, i64, &str)]) -> Vec<(u64, i64, String)> {
    entries.iter().map(|&(epoch, time_ns, line)| (epoch, time_ns, line.to_owned())).collect()
}

impl Bench {
    fn join(&mut self, join: TailJoin) -> usize {
        match self.ask(ShardRequest::TailJoin(join)) {
            ShardReply::Leaf(Ok(part)) => part.result.stats().entries_kept as usize,
            other => panic!("{other:?}"),
        }
    }

    fn poll(&mut self) -> Reply {
        self.send(ShardRequest::TailPoll(TailPoll::default()))
    }

    fn tailed(&mut self, reply: &mut Reply) -> Option<Vec<TailBatch>> {
        self.reply(reply).map(|reply| match reply {
            ShardReply::Tailed(batches) => batches,
            other => panic!("{other:?}"),
        })
    }

    /// The new entries of one subscription.
    fn polled(&mut self) -> TailBatch {
        let mut reply = self.poll();
        let mut batches = self.tailed(&mut reply).expect("something has come");
        assert_eq!(batches.len(), 1);
        batches.remove(0)
    }
}

#[test]
fn what_comes_is_told_once_and_what_came_is_history() {
    let mut bench = Bench::new();
    let (a, b) = (app("a"), app("b"));
    bench.append(push(&[(&a, &[(1, "old")]), (&b, &[(1, "other")])])).unwrap();
    // This one is under way when the tail begins: it is no history.
    let mut before = bench.send(ShardRequest::Append(push(&[(&a, &[(2, "on its way")])])));
    assert_eq!(bench.join(join(7, 1, "{app=`a`}")), 1);
    let mut poll = bench.poll();
    assert!(bench.tailed(&mut poll).is_none(), "nothing has come");
    bench.run_to_idle();
    assert!(bench.append_reply(&mut before).is_some());
    let batches = bench.tailed(&mut poll).expect("an entry has come");
    assert_eq!(batches.len(), 1);
    assert_eq!((batches[0].subscription, batches[0].dropped_count), (7, 0));
    assert_eq!(shown(&batches[0]), shows(&[(1, 2, "on its way")]));
    // Between two questions entries wait; entries of other streams and repeated entries do not.
    bench.append(push(&[(&b, &[(3, "other")]), (&a, &[(3, "x"), (4, "y")])])).unwrap();
    bench.append(push(&[(&a, &[(3, "x"), (4, "y")])])).unwrap();
    bench.append(push(&[(&a, &[(5, "z")])])).unwrap();
    let batch = bench.polled();
    assert_eq!(shown(&batch), shows(&[(1, 3, "x"), (1, 4, "y"), (1, 5, "z")]));
    let mut poll = bench.poll();
    assert!(bench.tailed(&mut poll).is_none());
    // A second question ends the first one.
    let mut second = bench.poll();
    assert_eq!(bench.tailed(&mut poll).map(|batches| batches.len()), Some(0));
    assert!(bench.tailed(&mut second).is_none());
}

#[test]
fn each_join_divides_the_entries() {
    let mut bench = Bench::new();
    let a = app("a");
    assert_eq!(bench.join(join(1, 5, "{app=`a`}")), 0);
    bench.append(push(&[(&a, &[(1, "one")])])).unwrap();
    assert_eq!(bench.join(join(1, 6, "{app=`a`}")), 1, "the new one sees it as history");
    bench.append(push(&[(&a, &[(2, "two")])])).unwrap();
    assert_eq!(shown(&bench.polled()), shows(&[(5, 1, "one"), (6, 2, "two")]));
    assert_eq!(bench.status().tails.subscriptions, 1);
}

#[test]
fn streams_that_come_later_are_matched_too() {
    let mut bench = Bench::new();
    bench.join(join(1, 1, "{app=~`a.*`, env!=`dev`}"));
    bench.join(join(2, 1, "{app=`b`}"));
    assert_eq!(bench.status().tails.streams, 0);
    let dev = definition(&[("app", "a1"), ("env", "dev")]);
    let prod = definition(&[("app", "a1"), ("env", "prod")]);
    let pairs = [(&dev, &[(1, "dev")][..]), (&prod, &[(1, "prod")]), (&app("c"), &[(1, "c")])];
    bench.append(push(&pairs)).unwrap();
    assert_eq!(shown(&bench.polled()), shows(&[(1, 1, "prod")]));
    assert_eq!(bench.status().tails.streams, 1);
}

#[test]
fn an_entry_is_copied_once_for_all_who_follow() {
    let mut bench = Bench::new();
    let a = app("a");
    for subscription in 0..3 {
        bench.join(join(subscription, 1, "{app=`a`}"));
    }
    bench.append(push(&[(&a, &[(1, "shared")])])).unwrap();
    let mut reply = bench.poll();
    let batches = bench.tailed(&mut reply).expect("entries for three");
    assert_eq!(batches.len(), 3);
    let block = &batches[0].parts[0].block;
    assert!(batches.iter().all(|batch| Arc::ptr_eq(&batch.parts[0].block, block)));
    assert_eq!(Arc::strong_count(block), 3);
}

#[test]
fn what_has_no_room_is_dropped_and_told() {
    let mut bench = Bench::new();
    let (a, line) = (app("a"), "x".repeat(1000));
    bench.join(TailJoin { queue_max_bytes: 1, ..join(1, 1, "{app=`a`}") });
    bench.join(join(2, 1, "{app=`a`}"));
    let many: Vec<(i64, &str)> = (0..3).map(|time_ns| (time_ns, line.as_str())).collect();
    bench.append(push(&[(&a, &many)])).unwrap();
    let more: Vec<(i64, &str)> = (3..6).map(|time_ns| (time_ns, line.as_str())).collect();
    bench.append(push(&[(&a, &more)])).unwrap();
    let mut reply = bench.poll();
    let batches = bench.tailed(&mut reply).expect("entries for two");
    let (small, large) = (&batches[0], &batches[1]);
    assert_eq!((large.parts.len(), large.dropped_count), (2, 0));
    // One piece always fits, so that a small queue does not starve.
    assert_eq!((small.parts.len(), small.dropped_count), (1, 3));
    let times: Vec<i64> = small.dropped.iter().map(|dropped| dropped.timestamp_ns).collect();
    assert_eq!(times, [3, 4, 5]);
    assert_eq!(small.dropped[0].labels.canonical(), "{app=\"a\"}");
    assert_eq!(bench.status().tails.dropped, 3);
    // The queue was taken, so there is room again; and its bound may change.
    drop(batches);
    let raised = TailPoll { queue_max_bytes: vec![(1, QUEUE_MAX_BYTES), (9, 1)] };
    let mut poll = bench.send(ShardRequest::TailPoll(raised));
    for time_ns in 6..9 {
        bench.append(push(&[(&a, &[(time_ns, &line)])])).unwrap();
    }
    assert_eq!(bench.tailed(&mut poll).map(|batches| batches.len()), Some(2));
    let mut reply = bench.poll();
    let batches = bench.tailed(&mut reply).expect("entries for two");
    assert!(batches.iter().all(|batch| batch.parts.len() == 2 && batch.dropped_count == 0));
}

#[test]
fn tails_never_take_more_memory_than_their_budget() {
    let mut bench = Bench::with(SyncPolicy::Always, 1 << 30, 1 << 24);
    let config = ShardConfig {
        wal: WalConfig { waiting_max_bytes: 1 << 24, ..WalConfig::default() },
        core: 0,
        owned: crate::types::Part::one(1, 0).into(),
        is_member: false,
        first_wal: WalName { epoch: 0, shards: 1, shard: 0, index: 0 },
        heads: bench.budget.clone(),
        streams: bench.streams.clone(),
        seal: SealPolicy::ON_REQUEST,
        maintenance: MaintenanceConfig::default(),
        tails: Budget::new("tails", 100_000),
        changes: NodeChanges::new(1).of_shard(0),
        deletions: Arc::from([]),
    };
    bench.shard = Shard::new(&config).unwrap();
    let (a, line) = (app("a"), "y".repeat(200));
    bench.join(join(1, 1, "{app=`a`}"));
    let (mut seen, mut dropped, mut held) = (0, 0, Vec::new());
    for push_number in 0..20 {
        let times = push_number * 500..(push_number + 1) * 500;
        let entries: Vec<(i64, &str)> = times.map(|time_ns| (time_ns, line.as_str())).collect();
        bench.append(push(&[(&a, &entries)])).unwrap();
        assert!(config.tails.used_bytes() <= 100_000);
        if push_number % 5 == 4 {
            let batch = bench.polled();
            assert!(batch.dropped.len() <= DROPPED_LISTED_MAX);
            seen += batch.parts.iter().map(|part| part.block.entry_count() as u64).sum::<u64>();
            dropped += batch.dropped_count;
            // Memory is given back only when the last holder lets go.
            held.push(batch);
        }
    }
    assert_eq!(seen + dropped, 10_000);
    assert!(seen > 300 && dropped > 5000, "{seen} seen");
    assert!(config.tails.used_bytes() > 50_000);
    drop(held);
    assert_eq!(config.tails.used_bytes(), 0);
    assert_eq!(bench.query("acme", "{app=`a`}")[0].1.len(), 10_000, "pushes are not held up");
}

#[test]
fn long_sections_are_copied_in_pieces() {
    let mut bench = Bench::with(SyncPolicy::Always, 1 << 30, 1 << 24);
    bench.shard = Shard::new(&ShardConfig {
        wal: WalConfig { waiting_max_bytes: 1 << 24, ..WalConfig::default() },
        core: 0,
        owned: crate::types::Part::one(1, 0).into(),
        is_member: false,
        first_wal: WalName { epoch: 0, shards: 1, shard: 0, index: 0 },
        heads: bench.budget.clone(),
        streams: bench.streams.clone(),
        seal: SealPolicy::ON_REQUEST,
        maintenance: MaintenanceConfig::default(),
        tails: Budget::new("tails", 1 << 30),
        changes: NodeChanges::new(1).of_shard(0),
        deletions: Arc::from([]),
    })
    .unwrap();
    let (a, line) = (app("a"), "z".repeat(100));
    bench.join(join(1, 1, "{app=`a`}"));
    let entries: Vec<(i64, &str)> = (0..5000).map(|time_ns| (time_ns, line.as_str())).collect();
    bench.append(push(&[(&a, &entries)])).unwrap();
    let batch = bench.polled();
    assert!(batch.parts.len() > 4);
    let times: Vec<i64> = shown(&batch).into_iter().map(|(_, time_ns, _)| time_ns).collect();
    assert_eq!(times, (0..5000).collect::<Vec<_>>());
}

#[test]
fn metadata_travels_along() {
    let mut bench = Bench::new();
    let a = app("a");
    bench.join(join(1, 1, "{app=`a`}"));
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(a.id);
    builder.push(1, b"with", [("trace", "t1")].into_iter());
    builder.push(2, b"without", std::iter::empty::<(&str, &str)>());
    builder.end();
    let batch = builder.finish();
    let request = AppendRequest {
        batch,
        definitions: vec![a],
        out_of_order_window_ns: None,
        is_replayed: false,
    };
    bench.append(request).unwrap();
    let batch = bench.polled();
    batch.parts[0].block.with_columns(0, |columns| {
        use logsvc_logql::engine::MetadataColumn;
        let MetadataColumn::Sets { set_ids, sets } = columns.metadata else { panic!("no sets") };
        assert_eq!(sets.get(set_ids[0]).collect::<Vec<_>>(), [("trace", "t1")]);
        assert_eq!(set_ids[1], 0);
    });
}

#[test]
fn closed_and_forgotten_subscriptions_cost_nothing() {
    let mut bench = Bench::new();
    let a = app("a");
    bench.join(join(1, 1, "{app=`a`}"));
    bench.join(join(2, 1, "{app=`a`}"));
    bench.append(push(&[(&a, &[(1, "x")])])).unwrap();
    bench.ask(ShardRequest::TailClose(1));
    let batch = bench.polled();
    assert_eq!((batch.subscription, batch.parts.len()), (2, 1));
    let mut poll = bench.poll();
    bench.ask(ShardRequest::TailClose(2));
    assert_eq!(bench.tailed(&mut poll).map(|batches| batches.len()), Some(0), "nothing will come");
    assert_eq!(bench.status().tails, TailStatus { dropped: 0, ..TailStatus::default() });
    assert!(bench.shard.streams.iter().all(|stream| stream.tails.is_none()));
    // A subscription that is not asked for is closed with the first event after a while.
    bench.join(join(3, 1, "{app=`a`}"));
    let mut poll = bench.poll();
    bench.now = bench.now.after(Duration::from_secs(3600));
    bench.append(push(&[(&a, &[(2, "y")])])).unwrap();
    assert_eq!(bench.tailed(&mut poll).map(|batches| batches.len()), Some(1), "somebody waits");
    bench.now = bench.now.after(Duration::from_secs(59));
    assert_eq!(bench.status().tails.subscriptions, 1);
    bench.now = bench.now.after(Duration::from_secs(2));
    bench.append(push(&[(&a, &[(3, "z")])])).unwrap();
    assert_eq!(bench.status().tails.subscriptions, 0);
    assert_eq!(bench.status().tails.streams, 0);
}

#[test]
fn a_stop_ends_all_tails() {
    let mut bench = Bench::new();
    bench.join(join(1, 1, "{app=`a`}"));
    let mut poll = bench.poll();
    let mut stop = bench.send(ShardRequest::Stop);
    bench.run_to_idle();
    assert!(matches!(bench.reply(&mut stop), Some(ShardReply::Stopped(Ok(())))));
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(pin!(&mut poll).poll(&mut context), Poll::Ready(Err(_))), "disconnected");
    // A core that joins at this point gets the history and nothing more.
    assert_eq!(bench.join(join(2, 1, "{app=`a`}")), 0);
    assert_eq!(bench.status().tails.subscriptions, 0);
}

#[test]
fn entries_of_requests_for_deletion_are_hidden_from_tails() {
    use logsvc_logql::engine::Unlimited;
    use logsvc_logql::syntax::ast::Expr;

    use crate::deletion::{DeleteFilter, DeleteId, HiddenEntries};

    let mut bench = Bench::new();
    let Ok(Expr::Log(log)) = syntax::parse("{app=`a`} |= `warn`") else { panic!("a log query") };
    let since = DeletionVersion::FIRST;
    let filter = DeleteFilter::new(DeleteId(1), tenant(), &log, (10, 20), since).unwrap();
    let filter = Arc::new(filter);
    bench.tell(ShardRequest::Hide(Arc::clone(&filter)));
    assert_eq!(bench.join(join(1, 1, "{app=`a`}")), 0);
    let mut lines = |time_ns: i64| -> Vec<(i64, usize)> {
        let mut waiting = bench.poll();
        let entries = [(time_ns, "warn"), (time_ns + 1, "info"), (time_ns + 2, "warn 2")];
        assert!(bench.append(push(&[(&app("a"), &entries)])).is_ok());
        let Some(ShardReply::Tailed(batches)) = bench.reply(&mut waiting) else { panic!() };
        let mut hidden = HiddenEntries::new(Box::new(Unlimited));
        let mut shown = Vec::new();
        for part in batches.iter().flat_map(|batch| &batch.parts) {
            let visited = part.block.with_shown_columns(0, &mut hidden, |columns| {
                shown.extend(columns.timestamps_ns.iter().map(|&time| (time, columns.lines.len())));
            });
            visited.unwrap();
        }
        shown
    };
    assert_eq!(lines(10), [(11, 4)]);
    assert_eq!(lines(20), [(21, 10), (22, 10)]);
    assert_eq!(lines(30), [(30, 14), (31, 14), (32, 14)]);
    filter.end_at(since.next());
    assert_eq!(lines(13), [(13, 14), (14, 14), (15, 14)]);
}

#[test]
fn who_follows_gets_what_comes_and_nothing_that_is_replayed() {
    let mut bench = Bench::new();
    let a = app("a");
    bench.append(push(&[(&a, &[(1, "old")])])).unwrap();
    let TailJoin { subscription, epoch, queue_max_bytes, history } = join(3, 1, "{app=`a`}");
    let LeafRequest { tenants, plan, .. } = history;
    let follow = TailFollow { subscription, epoch, queue_max_bytes, tenants, plan };
    let reply = bench.ask(ShardRequest::TailFollow(follow));
    assert!(matches!(reply, ShardReply::Tailed(batches) if batches.is_empty()));
    let replayed = AppendRequest { is_replayed: true, ..push(&[(&a, &[(2, "of another")])]) };
    bench.append(replayed).unwrap();
    bench.append(push(&[(&a, &[(3, "new")])])).unwrap();
    assert_eq!(shown(&bench.polled()), shows(&[(1, 3, "new")]));
    // Whoever sends again what was replayed sends nothing new.
    bench.append(push(&[(&a, &[(2, "of another")])])).unwrap();
    let mut poll = bench.poll();
    assert!(bench.tailed(&mut poll).is_none());
}
