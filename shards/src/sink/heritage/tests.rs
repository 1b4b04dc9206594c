//! Logs that no writer has left, and some that only a rare one has.

use std::time::Duration;

use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_segment::batch::BatchBuilder;
use logsvc_store::double::World;
use logsvc_store::log::{LogWriter, fence};

use super::*;
use crate::sink::pieces::{PieceRef, write_piece};
use crate::types::Part;
use crate::wal::format::{
    FRAME_HEADER_LEN, FileHeader, FrameHeader, Layout, WalName, write_batch, write_definition,
};

const EPOCH: u32 = 5;

/// Makes the pieces of a log file.
struct Source {
    name: WalName,
    offset: u64,
    number: u64,
}

impl Source {
    fn new(shard: u32, index: u32) -> Source {
        let name = WalName { epoch: EPOCH, shards: 2, shard, index };
        Source { name, offset: 0, number: 0 }
    }

    fn header(&mut self) -> (WalName, u64, Vec<u8>) {
        let header = FileHeader {
            name: self.name,
            nonce: 9,
            created_ns: 0,
            layout: Layout::Padded,
            is_reused: false,
            previous: None,
        };
        self.offset = Layout::Padded.first_frame();
        (self.name, 0, header.encode())
    }

    fn frame(&mut self, payload: &[u8]) -> (WalName, u64, Vec<u8>) {
        let header = FrameHeader {
            nonce: 9,
            number: self.number,
            durable_len: self.offset,
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(payload),
            layout: Layout::Padded,
        };
        let (offset, len) = (self.offset, (FRAME_HEADER_LEN + payload.len()) as u64);
        self.number += 1;
        self.offset = Layout::Padded.position_behind(offset + len);
        (self.name, offset, [&header.encode(), payload].concat())
    }
}

fn stream(number: u32) -> (StreamId, TenantId, Labels) {
    let tenant = TenantId::new("a").expect("a tenant");
    let labels = Labels::from_pairs([("app", number.to_string().as_str())]).expect("labels");
    (StreamId::new(&tenant, &labels), tenant, labels)
}

/// A frame with one entry of each stream, with lines of so many bytes.
fn payload(streams: &[u32], len: usize, is_defined: bool) -> Vec<u8> {
    let (mut payload, mut builder) = (Vec::new(), BatchBuilder::new(Vec::new()));
    for &number in streams {
        let (id, tenant, labels) = stream(number);
        if is_defined {
            write_definition(&mut payload, id, &tenant, &labels);
        }
        builder.begin(id);
        builder.push(i64::from(number), &vec![b'x'; len], std::iter::empty::<(&str, &str)>());
        builder.end();
    }
    write_batch(&mut payload, &builder.finish());
    payload
}

fn object(pieces: &[&(WalName, u64, Vec<u8>)]) -> Vec<u8> {
    let mut object = Vec::new();
    for (name, offset, bytes) in pieces {
        write_piece(&mut object, PieceRef { name: *name, offset: *offset, bytes });
    }
    object
}

/// The first bytes of a piece, and the others.
fn cut(piece: &(WalName, u64, Vec<u8>), at: usize) -> [(WalName, u64, Vec<u8>); 2] {
    let (name, offset, bytes) = piece;
    let (one, other) = bytes.split_at(at);
    [(*name, *offset, one.to_vec()), (*name, offset + at as u64, other.to_vec())]
}

type Outcome = Result<(Vec<HeritageBatch>, HeritageTotals), HeritageError>;

/// Reads a log of these objects, whose fence is to be at `end`; `None`: it is fenced behind them.
fn outcome(objects: &[Vec<u8>], end: Option<u64>) -> Outcome {
    slow_outcome(objects, end, Duration::ZERO)
}

/// The same for somebody who needs so long for a batch.
fn slow_outcome(objects: &[Vec<u8>], end: Option<u64>, pause: Duration) -> Outcome {
    let objects = objects.to_vec();
    Simulation::new(1).block_on(|runtime: SimRuntime| async move {
        let world = World::default();
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        let until = runtime.now().after(Duration::from_secs(60));
        let log = log_of(EPOCH).expect("a name");
        let mut writer = LogWriter::new(runtime.clone(), store.clone(), log.clone());
        for object in &objects {
            let entry = writer.begin(object);
            writer.write(&entry, until).await.expect("written");
        }
        if end.is_none() {
            fence(&runtime, &store, &log, 0, 77, until).await.expect("fenced");
        }
        let end = end.unwrap_or(objects.len() as u64);
        let heritage = Heritage { epoch: EPOCH, from: 0, end };
        let (wanted, mut batches) = ([Part::one(1, 0)].into_iter().collect(), Vec::new());
        let take = async |batch| {
            batches.push(batch);
            runtime.sleep_until(runtime.now().after(pause)).await;
            Ok::<(), HeritageError>(())
        };
        let totals = read(&runtime, &store, heritage, &[], &wanted, take).await?;
        Ok((batches, totals))
    })
}

fn fault(objects: &[Vec<u8>]) -> String {
    outcome(objects, None).expect_err("it is damaged").to_string()
}

#[test]
fn a_frame_may_be_cut_anywhere_and_ends_with_the_log() {
    let mut source = Source::new(0, 0);
    let header = source.header();
    let frame = source.frame(&payload(&[1, 2], 50, true));
    for at in 1..frame.2.len() {
        let [one, other] = cut(&frame, at);
        let objects = [object(&[&header, &one]), object(&[&other])];
        let (batches, totals) = outcome(&objects, None).expect("it is whole");
        assert_eq!((batches.len(), totals.entries, totals.objects), (1, 2, 2));
        // The fence came before the rest: nobody was told that the entries are stored.
        let (batches, totals) = outcome(&objects[..1], None).expect("it was cut short");
        assert_eq!((batches.len(), totals.frames), (0, 0));
        // Something else came before the rest.
        for between in [Source::new(1, 0).header(), Source::new(0, 1).header()] {
            let error = fault(&[object(&[&header, &one, &between]), object(&[&other])]);
            assert!(error.contains("entry 0: the file") && error.contains("not go on"), "{error}");
        }
        let error = fault(&[object(&[&header, &one]), object(&[]), object(&[&other])]);
        assert!(error.contains("entry 1: the file"), "{error}");
    }
}

#[test]
fn batches_have_about_a_mebibyte() {
    let (mut one, mut other) = (Source::new(0, 0), Source::new(1, 4));
    let mut pieces = vec![one.header(), other.header()];
    pieces.push(one.frame(&payload(&[1, 2, 3, 4, 5, 6], 400_000, true)));
    pieces.push(other.frame(&payload(&[7], 3_000_000, true)));
    pieces.push(one.frame(&payload(&[1], 10, false)));
    pieces.push(other.frame(&payload(&[7, 8], 10, true)));
    let objects: Vec<Vec<u8>> = pieces.iter().map(|piece| object(&[piece])).collect();
    let (batches, totals) = outcome(&objects, None).expect("it is whole");
    let entries: Vec<u64> = batches.iter().map(|batch| batch.entries).collect();
    assert_eq!(entries, [2, 2, 2, 1, 3]);
    assert_eq!((totals.entries, totals.frames, totals.objects), (10, 4, 6));
    let is_small = |batch: &&HeritageBatch| batch.batch.len() <= BATCH_BYTES;
    assert_eq!(batches.iter().filter(is_small).count(), 4, "one entry is larger alone");
    let last: Vec<StreamId> = batches[4].definitions.iter().map(|one| one.id).collect();
    let mut expected = [stream(1).0, stream(7).0, stream(8).0];
    expected.sort_unstable();
    assert_eq!(last, expected, "the file has defined the first one before");
}

#[test]
fn the_patience_with_the_bucket_is_not_used_up_by_who_takes_the_batches() {
    let mut source = Source::new(0, 0);
    let mut objects = vec![object(&[&source.header()])];
    objects.extend((0..12).map(|_| object(&[&source.frame(&payload(&[1], 700_000, true))])));
    let (batches, totals) = slow_outcome(&objects, None, PATIENCE / 2).expect("the bucket is fast");
    assert_eq!((batches.len(), totals.objects, totals.entries), (12, 13, 12));
}

#[test]
fn logs_that_no_writer_has_left_are_errors_that_say_where() {
    let mut source = Source::new(0, 0);
    let header = source.header();
    let frame = source.frame(&payload(&[1], 10, true));
    let next = source.frame(&payload(&[1], 10, true));
    let whole = [object(&[&header, &frame]), object(&[&next])];
    assert_eq!(outcome(&whole, None).expect("it is whole").1.entries, 2);
    let cases = [
        (vec![object(&[&frame])], "entry 0: byte 0 of the file", "the beginning"),
        (vec![object(&[&header, &next])], "entry 0: byte 4096 of the file", "follows"),
        (vec![object(&[&header, &frame]), object(&[&frame])], "entry 1: byte 8192", "follows"),
        (vec![object(&[&header]), vec![1, 2, 3]], "entry 1: ", "do not decode"),
    ];
    for (objects, place, what) in cases {
        let error = fault(&objects);
        assert!(error.contains(place) && error.contains(what), "{error}");
        assert!(error.starts_with("the log wal/00000005: "), "{error}");
    }
    let late = [object(&[&Source::new(0, 1).header()]), object(&[&header])];
    assert!(fault(&late).contains("comes late"));
    let mut foreign = header.clone();
    foreign.0.epoch = 6;
    assert!(fault(&[object(&[&foreign])]).contains("of another writer"));
    let mut undefined = Source::new(0, 0);
    let objects = [undefined.header(), undefined.frame(&payload(&[1], 10, false))];
    let objects: Vec<Vec<u8>> = objects.iter().map(|piece| object(&[piece])).collect();
    let error = outcome(&objects, None).expect_err("nobody knows the stream");
    assert!(matches!(error, HeritageError::Undefined { number: 1, stream: id, .. }
        if id == stream(1).0));
    let mut bad = Source::new(0, 0);
    let objects = [bad.header(), bad.frame(b"no records")];
    let objects: Vec<Vec<u8>> = objects.iter().map(|piece| object(&[piece])).collect();
    assert!(fault(&objects).contains("malformed record"));
}

#[test]
fn a_log_ends_where_its_fence_is() {
    let mut source = Source::new(0, 0);
    let objects = [source.header(), source.frame(&payload(&[1], 10, true))];
    let objects: Vec<Vec<u8>> = objects.iter().map(|piece| object(&[piece])).collect();
    // There is no fence in these.
    let error = outcome(&objects, Some(2)).expect_err("the fence is missing");
    assert!(matches!(error, HeritageError::Missing { number: 2, end: 2, .. }), "{error}");
    let error = outcome(&objects, Some(7)).expect_err("objects are missing");
    assert!(matches!(error, HeritageError::Missing { number: 2, end: 7, .. }), "{error}");
    let error = outcome(&objects, Some(1)).expect_err("it goes on");
    assert!(matches!(error, HeritageError::End { number: 1, end: 1, .. }), "{error}");
}
