use std::collections::BTreeMap;

use super::*;
use crate::wal::format::{BLOCK_LEN, FILE_HEADER_LEN, Record, records, write_batch};

const NAME: WalName = WalName { epoch: 5, shards: 2, shard: 1, index: 0 };

fn ms(count: u64) -> Monotonic {
    Monotonic(0).after(Duration::from_millis(count))
}

/// A writer, the clock, and the operation under way.
struct Bench {
    writer: WalWriter<u32>,
    now: Monotonic,
    nonce: u64,
    /// The header of the file after the last one that was opened.
    upcoming: Option<FileHeader>,
    /// Which file and frame each batch was asked to be defined for.
    defined: BTreeMap<u32, Vec<FramePosition>>,
}

impl Bench {
    fn new(sync: SyncPolicy, file_max_bytes: u64) -> Bench {
        let config = WalConfig { sync, file_max_bytes, waiting_max_bytes: 1000 };
        Bench {
            writer: WalWriter::new(config, NAME),
            now: ms(10),
            nonce: 100,
            upcoming: None,
            defined: BTreeMap::new(),
        }
    }

    fn add(&mut self, number: u32, len: usize) {
        self.writer.accepts(len, 0, self.now).unwrap();
        self.writer.add(&vec![number as u8; len], 0, number);
    }

    fn next(&mut self) -> Option<WalOp> {
        self.nonce += 1;
        let defined = &mut self.defined;
        self.writer.next_op(self.now, self.nonce, 7, |number, position, out| {
            defined.entry(*number).or_default().push(position);
            // Something that stands behind the batches, as a definition does.
            write_batch(out, b"def");
        })
    }

    /// Expects an open and reports its end.
    fn open(&mut self, success: bool) -> (FileHeader, Vec<u32>) {
        let Some(WalOp::Open { header, next }) = self.next() else { panic!("no open") };
        assert!(header.name.may_have(header.nonce) && next.name.may_have(next.nonce));
        assert_eq!((header.created_ns, header.is_reused), (7, false));
        assert_eq!((next.name, next.previous), (header.name.successor(), None));
        if let Some(upcoming) = self.upcoming.replace(next)
            && upcoming.name == header.name
        {
            assert_eq!(FileHeader { previous: header.previous, ..upcoming }, header);
        }
        assert!(self.next().is_none(), "one operation at a time");
        let failed = self.writer.opened(success, self.now);
        (header, failed.into_iter().map(|batch| batch.waiting).collect())
    }

    /// Expects a commit and gives its bytes, offset and whether it syncs.
    fn commit(&mut self) -> (AlignedBuffer, u64, bool) {
        let Some(WalOp::Commit { frame, offset, sync }) = self.next() else { panic!("no commit") };
        assert!(self.next().is_none(), "one operation at a time");
        (frame, offset, sync)
    }

    /// Reports the end of a commit; gives the numbers of its batches, after
    /// checking that each lies where it is said to.
    fn end(&mut self, success: bool, frame: AlignedBuffer) -> Vec<u32> {
        let commit = self.writer.committed(success, frame, self.now);
        assert_eq!(commit.success, success);
        let numbers = commit.batches.iter().map(|batch| {
            assert!(commit.frame[batch.range.clone()].iter().all(|b| *b == batch.waiting as u8));
            batch.waiting
        });
        let numbers = numbers.collect();
        self.writer.recycle(commit.frame);
        numbers
    }
}

fn batches_of(frame: &[u8], nonce: u64) -> (FrameHeader, Vec<Vec<u8>>) {
    let header = FrameHeader::decode(frame, nonce).expect("a frame header that checks");
    let end = FRAME_HEADER_LEN + header.payload_len as usize;
    assert_eq!(header.layout.position_behind(end as u64), frame.len() as u64);
    assert!(frame[end..].iter().all(|&byte| byte == 0), "padding is empty");
    let payload = &frame[FRAME_HEADER_LEN..end];
    assert_eq!(header.payload_crc, crc32c::crc32c(payload));
    let batch = |record| match record {
        Ok(Record::Batch(batch)) => batch.to_vec(),
        other => panic!("{other:?}"),
    };
    (header, records(payload).map(batch).collect())
}

#[test]
fn what_arrives_during_a_commit_goes_with_the_next_one() {
    let mut bench = Bench::new(SyncPolicy::Always, 1 << 20);
    assert!(bench.next().is_none(), "nothing to write, so no file");
    bench.add(1, 10);
    let (header, failed) = bench.open(true);
    assert_eq!((header.previous, failed), (None, vec![]));
    bench.add(2, 3);
    let (frame, offset, sync) = bench.commit();
    assert_eq!((offset, sync), (BLOCK_LEN, true));
    let (first, batches) = batches_of(&frame, header.nonce);
    assert_eq!(batches, vec![vec![1; 10], vec![2; 3], b"def".to_vec(), b"def".to_vec()]);
    assert_eq!((first.number, first.durable_len), (0, BLOCK_LEN));
    assert_eq!((header.layout, first.layout), (Layout::Padded, Layout::Padded));
    let first_end = offset + frame.len() as u64;

    for number in 3..6 {
        bench.add(number, 2);
    }
    assert_eq!(bench.writer.waiting_bytes(), 3 * (2 + BATCH_RECORD_OVERHEAD));
    assert!(!bench.writer.is_idle());
    assert_eq!(bench.end(true, frame), vec![1, 2]);
    let (frame, offset, sync) = bench.commit();
    assert_eq!((offset, sync), (first_end, true));
    let (second, batches) = batches_of(&frame, header.nonce);
    assert_eq!(batches[..3], [vec![3; 2], vec![4; 2], vec![5; 2]]);
    assert_eq!((second.number, second.durable_len), (1, first_end));
    assert_eq!(bench.end(true, frame), vec![3, 4, 5]);
    assert!(bench.next().is_none() && bench.writer.is_idle());
    assert!(bench.writer.next_wakeup().is_none());

    let counters = bench.writer.counters();
    assert_eq!((counters.commits, counters.syncs, counters.files), (2, 3, 1));
    let position = |frame| vec![FramePosition { file: 0, frame }];
    assert_eq!((&bench.defined[&2], &bench.defined[&3]), (&position(0), &position(1)));
}

#[test]
fn an_interval_syncs_once_it_has_passed_and_not_before() {
    let mut bench = Bench::new(SyncPolicy::Interval(Duration::from_millis(100)), 1 << 20);
    bench.add(1, 10);
    let (opened, _) = bench.open(true);
    let (frame, _, sync) = bench.commit();
    assert!(!sync);
    let end = 64 + frame.len() as u64;
    bench.now = ms(20);
    bench.end(true, frame);
    assert_eq!(bench.writer.next_wakeup(), Some(ms(120)), "counts from the acknowledgement");
    bench.now = ms(60);
    bench.add(2, 10);
    let (frame, offset, sync) = bench.commit();
    assert_eq!((offset, sync), (end, false));
    bench.end(true, frame);
    assert_eq!(bench.writer.next_wakeup(), Some(ms(120)), "the oldest write counts");
    bench.now = ms(119);
    assert!(bench.next().is_none());
    bench.now = ms(120);
    let (frame, offset, sync) = bench.commit();
    assert!(frame.is_empty() && sync);
    bench.add(3, 10);
    bench.end(true, frame);
    let (frame, next_offset, sync) = bench.commit();
    assert_eq!((next_offset, sync), (offset, false), "an empty sync takes no room");
    let (header, _) = batches_of(&frame, opened.nonce);
    assert_eq!((header.number, header.durable_len), (2, offset));
    bench.end(true, frame);
    // A write that goes out late anyway takes the sync along.
    bench.now = ms(400);
    bench.add(4, 10);
    let (frame, _, sync) = bench.commit();
    assert!(sync && !frame.is_empty());
    bench.end(true, frame);
    assert_eq!(bench.writer.next_wakeup(), None);
}

#[test]
fn without_syncs_only_rotation_and_a_stop_sync() {
    let mut bench = Bench::new(SyncPolicy::Never, 300);
    bench.add(1, 10);
    bench.open(true);
    let (frame, _, sync) = bench.commit();
    assert!(!sync && bench.writer.sync_now().is_none(), "a commit is under way");
    bench.end(true, frame);
    assert_eq!(bench.writer.next_wakeup(), None);
    assert!(bench.next().is_none());
    let Some(WalOp::Commit { frame, sync: true, .. }) = bench.writer.sync_now() else {
        panic!("a stop syncs")
    };
    assert!(!bench.writer.is_idle());
    bench.end(true, frame);
    assert!(bench.writer.sync_now().is_none(), "nothing left to sync");
    bench.add(2, 300);
    let (frame, _, sync) = bench.commit();
    assert!(sync, "nobody syncs the file after it is closed");
    bench.end(true, frame);
    assert!(bench.writer.sync_now().is_none());
}

#[test]
fn a_full_file_is_followed_by_one_that_knows_its_length() {
    let cases = [
        (SyncPolicy::Always, 3 * BLOCK_LEN + 300, BLOCK_LEN),
        (SyncPolicy::Interval(Duration::from_secs(9)), 300, FILE_HEADER_LEN as u64),
    ];
    for (policy, file_max_bytes, first_frame) in cases {
        let mut bench = Bench::new(policy, file_max_bytes);
        let mut len = first_frame;
        for number in 0..3 {
            bench.add(number, 60);
            if number == 0 {
                bench.open(true);
            }
            let (frame, offset, _) = bench.commit();
            assert_eq!(offset, len);
            len += frame.len() as u64;
            assert_eq!(bench.end(true, frame), vec![number]);
        }
        assert!(len >= file_max_bytes, "the limit is passed by less than a frame");
        assert!(bench.next().is_none(), "no new file before there is something to write");
        bench.add(3, 60);
        let (header, _) = bench.open(true);
        assert_eq!(header.name, WalName { index: 1, ..NAME });
        assert_eq!(header.previous, Some(Previous { index: 0, durable_len: len }));
        let (frame, offset, _) = bench.commit();
        assert_eq!(offset, first_frame);
        assert_eq!(batches_of(&frame, header.nonce).0.number, 0);
        assert_eq!(bench.end(true, frame), vec![3]);
        assert_eq!(bench.defined[&3], vec![FramePosition { file: 1, frame: 0 }]);
    }
}

#[test]
fn a_failed_open_returns_what_waits_and_pauses() {
    let mut bench = Bench::new(SyncPolicy::Always, 1 << 20);
    bench.add(1, 10);
    bench.add(2, 10);
    let (_, failed) = bench.open(false);
    assert_eq!(failed, vec![1, 2]);
    assert_eq!(bench.writer.waiting_bytes(), 0);
    assert!(bench.writer.is_idle() && bench.next().is_none());
    assert_eq!(bench.writer.next_wakeup(), None);
    let until = bench.now.after(REOPEN_PAUSE);
    bench.now = Monotonic(until.0 - 1);
    assert_eq!(bench.writer.accepts(1, 0, bench.now), Err(WalUnavailable::Disk));
    bench.now = until;
    bench.add(3, 10);
    let (header, failed) = bench.open(true);
    assert_eq!((header.name.index, header.previous, failed), (1, None, vec![]));
    let (frame, ..) = bench.commit();
    assert_eq!(batches_of(&frame, header.nonce).1[0], vec![3; 10], "nothing of the others");
    assert_eq!(bench.end(true, frame), vec![3]);
    assert_eq!(bench.writer.counters().failures, 1);
}

#[test]
fn a_failed_commit_fails_its_batches_only_and_is_cut_off() {
    let mut bench = Bench::new(SyncPolicy::Always, 1 << 20);
    bench.add(1, 10);
    bench.open(true);
    let (frame, ..) = bench.commit();
    let durable_len = BLOCK_LEN + frame.len() as u64;
    bench.end(true, frame);
    bench.add(2, 10);
    bench.add(3, 10);
    let (frame, ..) = bench.commit();
    bench.add(4, 10);
    assert_eq!(bench.end(false, frame), vec![2, 3]);
    assert_eq!(bench.writer.accepts(10, 0, bench.now), Ok(()), "a new file is tried at once");
    bench.add(5, 10);

    // The next file cannot be made, so the batches behind fail too, once each.
    let (header, failed) = bench.open(false);
    assert_eq!(header.previous, Some(Previous { index: 0, durable_len }));
    assert_eq!(failed, vec![4, 5]);
    bench.now = bench.now.after(REOPEN_PAUSE);
    bench.add(6, 10);
    let (header, _) = bench.open(true);
    assert_eq!(header.name.index, 2);
    assert_eq!(header.previous, Some(Previous { index: 0, durable_len }), "still the real one");

    // The first commit of the new file fails: no file per push from now on.
    let (frame, ..) = bench.commit();
    bench.add(7, 10);
    assert_eq!(bench.end(false, frame), vec![6]);
    assert_eq!(bench.writer.accepts(10, 0, bench.now), Err(WalUnavailable::Disk));
    assert!(bench.next().is_none());
    let until = bench.now.after(REOPEN_PAUSE);
    assert_eq!(bench.writer.next_wakeup(), Some(until), "the one that waits goes then");
    bench.now = until;
    let (header, _) = bench.open(true);
    assert_eq!(header.previous, Some(Previous { index: 2, durable_len: BLOCK_LEN }));
    let (frame, ..) = bench.commit();
    assert_eq!(bench.end(true, frame), vec![7]);
    assert_eq!(bench.writer.counters().failures, 3);
    let files: Vec<_> = bench.defined[&7].iter().map(|position| position.file).collect();
    assert_eq!(files, vec![3], "defined for the file that took it");
}

#[test]
fn a_failed_sync_by_interval_keeps_what_was_acknowledged() {
    let mut bench = Bench::new(SyncPolicy::Interval(Duration::from_millis(1)), 1 << 20);
    bench.add(1, 10);
    bench.open(true);
    let (frame, ..) = bench.commit();
    let len = 64 + frame.len() as u64;
    bench.end(true, frame);
    bench.now = bench.now.after(Duration::from_millis(1));
    let (frame, ..) = bench.commit();
    assert_eq!(bench.end(false, frame), Vec::<u32>::new());
    bench.add(2, 10);
    let (header, _) = bench.open(true);
    assert_eq!(header.previous, Some(Previous { index: 0, durable_len: len }));
}

#[test]
fn too_much_is_refused() {
    let mut bench = Bench::new(SyncPolicy::Always, 1 << 20);
    let (max, definitions) = (BATCH_MAX_BYTES, DEFINITIONS_MAX_BYTES);
    let ask =
        |bench: &Bench, len, definitions_len| bench.writer.accepts(len, definitions_len, bench.now);
    assert_eq!(ask(&bench, max + 1, 0), Err(WalUnavailable::TooLarge));
    assert_eq!(ask(&bench, 1, definitions + 1), Err(WalUnavailable::TooLarge));
    assert_eq!(ask(&bench, max, definitions), Ok(()), "alone anything goes that fits a frame");
    bench.add(1, 600);
    let left = 1000 - 600 - 2 * BATCH_RECORD_OVERHEAD;
    assert_eq!(ask(&bench, left, 0), Ok(()));
    assert_eq!(ask(&bench, left + 1, 0), Err(WalUnavailable::Busy));
    assert_eq!(ask(&bench, 1, definitions), Ok(()));
    bench.writer.add(&[2], 1, 2);
    assert_eq!(ask(&bench, 1, definitions), Err(WalUnavailable::Busy));
    bench.open(true);
    let (frame, ..) = bench.commit();
    assert_eq!(ask(&bench, max, definitions), Ok(()), "what is under way does not count");
    bench.end(true, frame);
}
