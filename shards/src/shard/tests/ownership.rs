//! Partitions come and go: what is accepted, what is visible, and when requests are answered.

use std::path::Path;

use super::*;
use crate::compact::{Findings, Inspected, OwnTotals};
use crate::manifest::Day;
use crate::messages::{GainRequest, GainedSegment};
use crate::node::open_node;
use crate::sealed::SegmentFolder;
use crate::shard::seal::RETRY_PAUSE;
use crate::types::StreamPartitions;
use logsvc_logql::engine::MetadataSets;
use logsvc_segment::{Entries, EntriesMetadata, SegmentWriter, stream_order};

/// Number of all partitions.
const OF: u16 = 4;

fn some<const N: usize>(partitions: [u16; N]) -> OwnedPartitions {
    OwnedPartitions::some(OF, partitions)
}

/// A stream of a partition.
fn stream(partition: u16) -> StreamDefinition {
    let mut streams = (0..).map(|number| app(&format!("app-{number}")));
    streams.find(|stream| stream.id.shard(OF) == partition).expect("ids are spread")
}

/// A push of one entry for each of some streams.
fn entries<const N: usize>(partitions: [u16; N], timestamp_ns: i64) -> AppendRequest {
    let streams = partitions.map(stream);
    let entry: &[(i64, &str)] = &[(timestamp_ns, "line")];
    let sections: Vec<_> = streams.iter().map(|stream| (stream, entry)).collect();
    push(&sections)
}

/// The shard of a member that owns nothing.
fn member() -> Bench {
    let mut bench = Bench::new();
    bench.shard = Shard::new(&ShardConfig {
        wal: WalConfig {
            sync: SyncPolicy::Always,
            file_max_bytes: 1 << 20,
            waiting_max_bytes: 4096,
        },
        core: 0,
        owned: OwnedPartitions::none(OF),
        is_member: true,
        first_wal: WalName { epoch: 0, shards: 1, shard: 0, index: 0 },
        heads: bench.budget.clone(),
        streams: bench.streams.clone(),
        seal: SealPolicy::ON_REQUEST,
        maintenance: MaintenanceConfig::default(),
        tails: Budget::new("tails", TAILS_BUDGET_BYTES),
        changes: NodeChanges::new(1).of_shard(0),
        deletions: Arc::from([]),
    })
    .unwrap();
    bench
}

/// Segments with one entry of one stream for each of some partitions, at the time of the segment's
/// number in the list, from 1.
fn write(bench: &Bench, segments: &'static [&'static [u16]]) -> Vec<OpenedSegment> {
    bench.simulation.block_on(move |runtime: SimRuntime| async move {
        let node = open_node(&runtime, Path::new("/data")).await.unwrap();
        let budget = Budget::new("directories", 1 << 20);
        let directories = Rc::new(Directories::new(runtime.clone(), &budget));
        let mut written = Vec::new();
        for (partitions, timestamp_ns) in segments.iter().zip(1..) {
            let part = Part::new(OF, partitions[0], partitions[partitions.len() - 1]).unwrap();
            let (shards, shard) = part.numbers();
            // A start of its own each, so that no name is given twice.
            let epoch = node.plan.epoch + timestamp_ns as u32;
            let first = WalName { epoch, shards, shard, index: 0 };
            let directories = Rc::clone(&directories);
            let folder = SegmentFolder::new(runtime.clone(), &node.plan, first, directories);
            let segment = folder.begin(Day(0)).unwrap();
            let mut writer = SegmentWriter::new(folder.identity(&segment)).unwrap();
            let mut streams: Vec<_> = partitions.iter().map(|&one| stream(one)).collect();
            streams.sort_by(|a, b| {
                stream_order((&a.tenant, &a.labels, a.id), (&b.tenant, &b.labels, b.id))
            });
            let mut sets = MetadataSets::new();
            let set = sets.intern(std::iter::empty::<(&str, &str)>()).unwrap();
            for StreamDefinition { id, tenant, labels } in &streams {
                writer.begin_stream(tenant, labels, *id).unwrap();
                let entry = Entries {
                    timestamps_ns: &[timestamp_ns],
                    lines_start: 0,
                    line_ends: &[4],
                    lines: b"line",
                    metadata: EntriesMetadata::Sets { set_ids: &[set], sets: &sets },
                };
                writer.append(&entry).unwrap();
            }
            let order = segment.name.sealed_order();
            let opened = folder.publish(segment, writer.finish().unwrap(), 0, order).await.unwrap();
            folder.finalize(&opened.segment.live).await.unwrap();
            written.push(opened);
        }
        written
    })
}

fn gained(opened: &OpenedSegment) -> GainedSegment {
    let SealedSegment { live, ref path, footer, .. } = opened.segment;
    GainedSegment { live, path: path.clone(), footer, left: StreamPartitions::default() }
}

fn gain(partitions: OwnedPartitions, segments: &[&OpenedSegment]) -> ShardRequest {
    let segments = segments.iter().map(|opened| gained(opened)).collect();
    ShardRequest::Gain(Box::new(GainRequest { partitions, segments }))
}

impl Bench {
    /// A member's shard that owns these.
    fn owning(partitions: OwnedPartitions) -> Bench {
        let mut bench = member();
        bench.owns(gain(partitions, &[]));
        bench
    }

    fn owns(&mut self, request: ShardRequest) {
        let reply = self.ask(request);
        assert!(matches!(reply, ShardReply::Owned), "{reply:?}");
        self.inspect_all();
    }

    /// Ends the inspection under way.
    fn end_inspection(&mut self) {
        let Some(MaintenanceJob::Inspect(job)) = self.job.take() else { panic!() };
        let findings = Findings {
            own: OwnTotals { entries: 1, line_bytes: 4, runs: 1 },
            all_by_ns: i64::MAX,
            expired_bytes: 0,
            kept_bytes: 1,
        };
        let segment = job.segment.live.name;
        let inspected = Inspected { segment, policy: job.policy, findings: Some(findings) };
        let inspected = Some(inspected);
        let outcome = MaintenanceOutcome { inspected, ..MaintenanceOutcome::default() };
        self.step(Event::Maintained(Box::new(Ok(outcome))));
    }

    fn inspect_all(&mut self) {
        while self.job.is_some() {
            self.end_inspection();
        }
    }

    fn refuses<const N: usize>(&mut self, partitions: [u16; N]) {
        let mut refused = self.send(ShardRequest::Append(entries(partitions, 50)));
        self.is_sent_elsewhere(&mut refused);
    }

    fn is_sent_elsewhere(&mut self, refused: &mut Reply) {
        // The push comes back, so that it can go to the owner.
        match self.reply(refused) {
            Some(ShardReply::Elsewhere(request)) => assert!(!request.batch.is_empty()),
            other => panic!("{other:?}"),
        }
    }

    /// The answer to a request to settle, if it has come.
    fn settled(&mut self, reply: &mut Reply) -> Option<Result<(), Arc<str>>> {
        self.reply(reply).map(|reply| match reply {
            ShardReply::Settled(result) => result,
            other => panic!("{other:?}"),
        })
    }

    /// Partition 1 is being settled.
    fn refuses_while_settling(&mut self, reply: &mut Reply) {
        let mut refused = self.send(ShardRequest::Append(entries([2, 1], 50)));
        self.is_sent_elsewhere(&mut refused);
        assert_eq!(self.settled(reply), None);
    }

    /// Settles partitions of which nothing is in memory.
    fn settle_now(&mut self, partitions: OwnedPartitions) {
        let mut reply = self.send(ShardRequest::Settle(partitions));
        assert_eq!(self.settled(&mut reply), Some(Ok(())));
    }

    fn known_streams(&mut self) -> u64 {
        self.status().streams.iter().map(|(_, count)| count).sum()
    }

    /// The partitions of which a query finds a stream, and the number of its entries.
    fn found(&mut self) -> Vec<(u16, usize)> {
        let found = self.query("acme", "{app=~`.+`}");
        let partition = |labels: &str| {
            let mut all = 0..OF;
            all.find(|&one| stream(one).labels.canonical() == labels).expect("it is one of them")
        };
        let mut found: Vec<_> =
            found.iter().map(|(labels, entries)| (partition(labels), entries.len())).collect();
        found.sort_unstable();
        found
    }
}

#[test]
fn who_owns_nothing_takes_nothing_and_remembers_nothing() {
    let mut bench = member();
    bench.refuses([1]);
    bench.refuses([1, 2]);
    assert!(bench.op.is_none() && bench.status().streams.is_empty());
    assert!(bench.shard.by_id.is_empty());
    bench.owns(gain(some([1]), &[]));
    // One stream of two is of another partition.
    bench.refuses([1, 2]);
    bench.refuses([2, 1]);
    assert!(bench.op.is_none() && bench.status().streams.is_empty());
    assert!(bench.shard.by_id.is_empty());
}

#[test]
fn what_is_gained_is_accepted_and_its_segments_are_read() {
    let mut bench = member();
    let segments = write(&bench, &[&[1, 2], &[2]]);
    bench.owns(gain(some([1]), &[&segments[0]]));
    let first_order = segments[0].segment.live.order + 1;
    assert_eq!(bench.owned, Some((some([1]), first_order)));
    assert_eq!(bench.status().seal.segments, 1);
    assert_eq!(bench.found(), [(1, 1)], "the other stream is another shard's");
    bench.stores(entries([1], 50));
    bench.refuses([2]);
    assert_eq!(bench.found(), [(1, 2)]);
    bench.owns(gain(some([2]), &[&segments[0], &segments[1]]));
    let first_order = segments[1].segment.live.order + 1;
    assert_eq!(bench.owned, Some((some([1, 2]), first_order)));
    assert_eq!(bench.status().seal.segments, 2);
    bench.stores(entries([1, 2], 60));
    bench.refuses([3]);
    assert_eq!(bench.found(), [(1, 3), (2, 3)]);
}

#[test]
fn partitions_are_gained_when_the_job_under_way_has_ended() {
    let mut bench = member();
    let segments = write(&bench, &[&[1, 2], &[2, 3]]);
    let reply = bench.ask(gain(some([1]), &[&segments[0]]));
    assert!(matches!(reply, ShardReply::Owned));
    assert!(bench.job.is_some(), "others use the segment, too");
    let mut reply = bench.send(gain(some([3]), &[&segments[1]]));
    bench.step(Event::Timer);
    assert!(bench.reply(&mut reply).is_none());
    assert_eq!(bench.status().seal.segments, 1);
    bench.refuses([3]);
    bench.end_inspection();
    assert!(matches!(bench.reply(&mut reply), Some(ShardReply::Owned)));
    assert_eq!(bench.owned.as_ref().map(|(owned, _)| owned), Some(&some([1, 3])));
    assert_eq!(bench.status().seal.segments, 2);
    bench.stores(entries([1, 3], 50));
}

#[test]
fn settling_is_answered_when_what_was_accepted_is_sealed() {
    let mut bench = Bench::owning(some([1, 2]));
    let mut pushed = bench.send(ShardRequest::Append(entries([1, 2], 1)));
    bench.end_op(true);
    let mut reply = bench.send(ShardRequest::Settle(some([1])));
    // The commit of the push is under way.
    bench.refuses_while_settling(&mut reply);
    bench.run_to_idle();
    assert_eq!(bench.append_reply(&mut pushed).map(|reply| reply.is_ok()), Some(true));
    bench.refuses_while_settling(&mut reply);
    assert_eq!(bench.found(), [(1, 1), (2, 1)]);
    let job = bench.end_seal(Err("no space".into()));
    assert_eq!(job.streams.len(), 2);
    bench.refuses_while_settling(&mut reply);
    bench.now = bench.now.after(RETRY_PAUSE);
    bench.step(Event::Timer);
    bench.refuses_while_settling(&mut reply);
    assert_eq!(bench.found(), [(1, 1), (2, 1)]);
    let segments = write(&bench, &[&[1, 2]]);
    bench.end_seal(Ok(segments));
    assert_eq!(bench.settled(&mut reply), Some(Ok(())));
    assert!(bench.job.is_none() && bench.op.is_none());
    assert_eq!(bench.found(), [(1, 1), (2, 1)], "until they are lost");
    bench.refuses([1]);
    bench.stores(entries([2], 50));
}

#[test]
fn a_push_that_fails_does_not_hold_up_settling() {
    let mut bench = Bench::owning(some([1]));
    let mut pushed = bench.send(ShardRequest::Append(entries([1], 1)));
    bench.end_op(true);
    let mut reply = bench.send(ShardRequest::Settle(some([1])));
    bench.end_op(false);
    assert!(matches!(bench.append_reply(&mut pushed), Some(Err(AppendError::Disk(_)))));
    assert_eq!(bench.settled(&mut reply), Some(Ok(())));
}

#[test]
fn settling_is_answered_at_once_if_nothing_is_in_memory() {
    let mut bench = Bench::owning(some([1, 2]));
    bench.settle_now(some([1]));
    bench.settle_now(some([2]));
    assert!(bench.seal.is_none());
    bench.refuses([1]);
    bench.owns(ShardRequest::Lose(some([1, 2])));
    assert_eq!(bench.owned, Some((OwnedPartitions::none(OF), 0)));
}

#[test]
fn partitions_are_resumed_before_and_after_they_are_settled() {
    let mut bench = Bench::owning(some([1, 2]));
    bench.stores(entries([1], 1));
    let mut reply = bench.send(ShardRequest::Settle(some([1])));
    assert_eq!(bench.settled(&mut reply), None);
    bench.owns(ShardRequest::Resume(some([1])));
    assert!(bench.settled(&mut reply).is_some_and(|result| result.is_err()));
    bench.stores(entries([1, 2], 2));
    bench.end_seal(Ok(Vec::new()));
    let _flushed = bench.send(ShardRequest::Flush);
    bench.end_seal(Ok(Vec::new()));
    bench.settle_now(some([1, 2]));
    bench.refuses([1]);
    bench.owns(ShardRequest::Resume(some([1])));
    bench.stores(entries([1], 3));
    bench.refuses([2]);
    // What was resumed is not settled any more.
    let ShardReply::Settled(Err(_)) = bench.ask(ShardRequest::Lose(some([1, 2]))) else { panic!() };
}

#[test]
fn only_what_is_settled_is_lost() {
    let mut bench = Bench::owning(some([1, 2]));
    let segments = write(&bench, &[&[1], &[1, 2]]);
    let names = [0, 1].map(|index: usize| segments[index].segment.live.name);
    bench.stores(entries([1, 2], 1));
    let refused = |bench: &mut Bench, partitions: OwnedPartitions| {
        let ShardReply::Settled(Err(error)) = bench.ask(ShardRequest::Lose(partitions)) else {
            panic!()
        };
        assert!(error.contains("not settled"), "{error}");
    };
    refused(&mut bench, some([1]));
    let mut reply = bench.send(ShardRequest::Settle(some([1])));
    refused(&mut bench, some([1]));
    bench.end_seal(Ok(segments));
    assert_eq!(bench.settled(&mut reply), Some(Ok(())));
    refused(&mut bench, some([1, 2]));
    assert_eq!((bench.known_streams(), bench.found()), (2, vec![(1, 2), (2, 1)]));
    // Queries hold them.
    let held = bench.shard.segments.clone();
    assert_eq!(held.iter().map(|one| one.live.name).collect::<Vec<_>>(), names);
    bench.owns(ShardRequest::Lose(some([1])));
    assert_eq!(bench.owned, Some((some([2]), 0)));
    assert_eq!((bench.known_streams(), bench.found()), (1, vec![(2, 1)]));
    assert_eq!(bench.series(everything(&[], ALL)), [stream(2).labels.canonical()]);
    let left: Vec<_> = bench.shard.segments.iter().map(|one| one.live.name).collect();
    assert_eq!(left, names[1..], "it has a stream of the other partition");
    bench.refuses([1]);
    bench.stores(entries([2], 50));
}

#[test]
fn what_is_lost_and_gained_again_is_looked_for_in_segments() {
    let mut bench = Bench::owning(some([1, 2]));
    let segments = write(&bench, &[&[1, 2]]);
    let again = gain(some([1]), &[&segments[0]]);
    bench.stores(entries([1, 2], 1));
    let mut reply = bench.send(ShardRequest::Settle(some([1])));
    bench.end_seal(Ok(segments));
    assert_eq!(bench.settled(&mut reply), Some(Ok(())));
    let before = Arc::clone(&bench.shard.segments[0]);
    assert!(bench.shard.active.knows(&before));
    bench.owns(ShardRequest::Lose(some([1])));
    assert_eq!(bench.found(), [(2, 1)]);
    bench.owns(again);
    let [after] = &bench.shard.segments[..] else { panic!() };
    assert!(!bench.shard.active.knows(after));
    assert!(after.before.as_ref().is_some_and(|one| Arc::ptr_eq(one, &before)));
    assert_eq!((bench.known_streams(), bench.found()), (1, vec![(1, 1), (2, 1)]));
    bench.stores(entries([1], 50));
    assert_eq!(bench.found(), [(1, 2), (2, 1)]);
}

#[test]
fn what_has_left_a_segment_stays_away_although_the_bucket_does_not_know_it() {
    // The shard has merged the streams of partition 1 in all three.
    let mut bench = Bench::owning(some([1]));
    let segments = write(&bench, &[&[1, 2, 3], &[1, 2], &[2, 3]]);
    bench.owns(gain(some([2]), &[&segments[0], &segments[1], &segments[2]]));
    assert_eq!(bench.found(), [(2, 3)]);
    bench.owns(gain(some([3]), &[&segments[0], &segments[2]]));
    assert_eq!(bench.found(), [(2, 3), (3, 2)]);
}

#[test]
fn what_others_have_brought_elsewhere_is_not_read_where_it_was() {
    let mut bench = member();
    let segments = write(&bench, &[&[1, 2], &[1, 2, 3], &[2]]);
    bench.owns(gain(some([1]), &[&segments[0], &segments[1]]));
    assert_eq!(bench.found(), [(1, 2)]);
    // The owner of partition 2 has merged it, and has handed it over with what it has made.
    bench.owns(gain(some([2]), &[&segments[2]]));
    assert_eq!(bench.found(), [(1, 2), (2, 1)]);
    bench.owns(gain(some([3]), &[&segments[1]]));
    assert_eq!(bench.found(), [(1, 2), (2, 1), (3, 1)]);
}
