//! Log files made by hand, in states that a writer hardly ever leaves behind.

use std::path::{Path, PathBuf};

use logsvc_runtime::sim::Simulation;
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::types::StreamDefinition;
use logsvc_shards::wal::format::{
    BLOCK_LEN, FILE_HEADER_LEN, FileHeader, FrameHeader, Layout, Previous, SECOND_HEADER_AT,
    WalName, write_batch, write_definition,
};
use logsvc_shards::wal::restored::RecoverySummary;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::{Cluster, WAL_DIR};
use crate::ledger::Ledger;

/// The random part of the files' nonces.
const RANDOM: u32 = 77;
const NAME: WalName = WalName { epoch: 0, shards: 1, shard: 0, index: 0 };

struct Crafted {
    bytes: Vec<u8>,
    nonce: u64,
    frames: u64,
    layout: Layout,
}

impl Crafted {
    fn new(name: WalName) -> Crafted {
        Crafted::with(name, Layout::Packed)
    }

    fn with(name: WalName, layout: Layout) -> Crafted {
        let nonce = name.nonce(RANDOM);
        let (created_ns, is_reused, previous) = (1, false, None);
        let header = FileHeader { name, nonce, created_ns, layout, is_reused, previous };
        Crafted { bytes: header.encode(), nonce, frames: 0, layout }
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends the next frame; gives its bytes.
    fn frame(&mut self, durable_len: u64, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader {
            nonce: self.nonce,
            number: self.frames,
            durable_len,
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(payload),
            layout: self.layout,
        };
        self.frames += 1;
        let frame = [&header.encode()[..], payload].concat();
        self.bytes.extend_from_slice(&frame);
        let end = self.layout.position_behind(self.len());
        self.bytes.resize(end as usize, 0);
        frame
    }

    /// Like [`Crafted::frame`], but with other bytes than were meant.
    fn broken_frame(&mut self, payload: &[u8]) {
        let start = self.bytes.len();
        self.frame(0, payload);
        self.bytes[start + 20] ^= 1;
    }
}

fn defined(stream: &StreamDefinition) -> Vec<u8> {
    let mut payload = Vec::new();
    write_definition(&mut payload, stream.id, &stream.tenant, &stream.labels);
    payload
}

fn entry(stream: &StreamDefinition, timestamp_ns: i64, line: &str) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(stream.id);
    builder.push(timestamp_ns, line.as_bytes(), std::iter::empty::<(&str, &str)>());
    let mut payload = Vec::new();
    write_batch(&mut payload, &builder.finish());
    payload
}

fn path(name: WalName) -> PathBuf {
    Path::new(WAL_DIR).join(name.file_name())
}

fn recover(
    simulation: &Simulation,
    ledger: &Ledger,
    shards: u16,
) -> (Vec<String>, RecoverySummary) {
    let cluster = Cluster::start(simulation, shards, WalConfig::default()).expect("a healthy disk");
    let shown = cluster.everything(&ledger.streams[0].tenant);
    let entries = shown.iter().flat_map(|stream| &stream.entries);
    let lines = entries.map(|entry| String::from_utf8_lossy(&entry.line).into_owned()).collect();
    let found = cluster.recovery();
    cluster.stop().expect("a healthy disk");
    (lines, found)
}

fn recovered(file: &Crafted, ledger: &Ledger) -> (Vec<String>, RecoverySummary) {
    let simulation = Simulation::new(1);
    simulation.disk().write(path(NAME), &file.bytes);
    recover(&simulation, ledger, 1)
}

#[test]
fn a_hole_is_damage_only_if_it_was_synced() {
    let ledger = Ledger::new(&["acme"], 1);
    let stream = &ledger.streams[0];
    let layouts = [Layout::Packed, Layout::Padded];
    for (synced_bytes_of_hole, layout) in layouts.into_iter().flat_map(|l| [(0, l), (1, l)]) {
        let mut file = Crafted::with(NAME, layout);
        file.frame(layout.first_frame(), &[defined(stream), entry(stream, 1, "one")].concat());
        let hole = file.len();
        file.broken_frame(&entry(stream, 2, "lost"));
        file.frame(hole + synced_bytes_of_hole, &entry(stream, 3, "three"));
        let (lines, found) = recovered(&file, &ledger);
        assert_eq!(lines, ["one", "three"]);
        let expected = (synced_bytes_of_hole, 1 - synced_bytes_of_hole);
        assert_eq!((found.damaged_places, found.unsynced_holes), expected, "{found:?}");
        assert_eq!((found.frames, found.torn_tails), (2, 0));
    }
}

#[test]
fn a_padded_file_without_its_header_comes_back() {
    let ledger = Ledger::new(&["acme"], 1);
    let stream = &ledger.streams[0];
    let mut file = Crafted::with(NAME, Layout::Padded);
    file.frame(BLOCK_LEN, &[defined(stream), entry(stream, 1, "one")].concat());
    file.frame(file.len(), &entry(stream, 2, "two"));
    file.bytes[20] ^= 1;
    let (lines, found) = recovered(&file, &ledger);
    assert_eq!(lines, ["one", "two"]);
    assert_eq!((found.damaged_places, found.damaged_bytes), (1, BLOCK_LEN));
    assert_eq!(found.torn_tails, 0, "{found:?}");
}

#[test]
fn a_header_that_was_not_written_whole_leaves_no_trace() {
    let ledger = Ledger::new(&["acme"], 1);
    let whole = Crafted::with(NAME, Layout::Padded).bytes;
    for (written, len) in [(0, 0), (0, 4096), (40, 40), (40, 512), (20, 4096)] {
        let mut bytes = whole[..written].to_vec();
        bytes.resize(len, 0);
        let simulation = Simulation::new(1);
        simulation.disk().write(path(NAME), &bytes);
        let (lines, found) = recover(&simulation, &ledger, 1);
        assert_eq!((lines.len(), found), (0, RecoverySummary::default()));
        assert_eq!(simulation.disk().read(path(NAME)), None, "it is removed");
    }
}

#[test]
fn stale_frames_are_not_taken_for_new_ones() {
    let ledger = Ledger::new(&["acme"], 1);
    let stream = &ledger.streams[0];
    let mut file = Crafted::new(NAME);
    file.frame(64, &[defined(stream), entry(stream, 1, "one")].concat());
    let second = file.frame(64, &entry(stream, 2, "two"));
    let end = file.len();
    // An old frame of this file, right behind the end and after some garbage.
    for garbage in [0, 13] {
        let bytes = file.bytes.clone();
        let mut file = Crafted { bytes, nonce: file.nonce, frames: 2, layout: file.layout };
        file.bytes.resize(file.bytes.len() + garbage, 0);
        file.bytes.extend_from_slice(&second);
        let torn = file.len() - end;
        let (lines, found) = recovered(&file, &ledger);
        assert_eq!(lines, ["one", "two"]);
        assert_eq!((found.frames, found.torn_bytes), (2, torn), "{found:?}");
        assert_eq!(found.damaged_places, 0);
    }
}

#[test]
fn a_file_without_its_header_takes_frames_of_one_kind_only() {
    let ledger = Ledger::new(&["acme"], 1);
    let stream = &ledger.streams[0];
    let mut other = Crafted::new(NAME);
    other.nonce = NAME.nonce(RANDOM + 1);
    other.frames = 1;
    let foreign = other.frame(64, &entry(stream, 9, "of another file"));
    let mut file = Crafted::new(NAME);
    file.frame(64, &[defined(stream), entry(stream, 1, "one")].concat());
    file.bytes.extend_from_slice(&foreign);
    file.bytes[20] ^= 1;
    let (lines, found) = recovered(&file, &ledger);
    assert_eq!(lines, ["one"]);
    assert_eq!((found.damaged_places, found.damaged_bytes), (1, 64));
    assert_eq!(found.torn_bytes, foreign.len() as u64);

    // Header and first frame gone: the frames behind them count.
    file.bytes.truncate(file.bytes.len() - foreign.len());
    let lost = file.len();
    file.frame(lost, &[defined(stream), entry(stream, 2, "two")].concat());
    file.bytes[70] ^= 1;
    let (lines, found) = recovered(&file, &ledger);
    assert_eq!(lines, ["two"]);
    assert_eq!((found.damaged_places, found.damaged_bytes), (1, lost));
}

/// A file that was another one before, of three frames, and has `frames` of its own.
fn reused(stream: &StreamDefinition, frames: usize) -> Crafted {
    let mut old = Crafted::with(WalName { index: 7, ..NAME }, Layout::Padded);
    for (number, line) in ["old one", "old two", "old three"].into_iter().enumerate() {
        let definition = if number == 0 { defined(stream) } else { Vec::new() };
        old.frame(old.len(), &[definition, entry(stream, number as i64, line)].concat());
    }
    let (layout, nonce) = (Layout::Padded, NAME.nonce(RANDOM));
    let (created_ns, is_reused, previous) = (1, true, None);
    let header = FileHeader { name: NAME, nonce, created_ns, layout, is_reused, previous };
    let mut file = Crafted { bytes: header.encode(), nonce, frames: 0, layout };
    for (number, line) in ["one", "two", "three"].into_iter().enumerate().take(frames) {
        let definition = if number == 0 { defined(stream) } else { Vec::new() };
        let durable_len = file.len();
        file.frame(durable_len, &[definition, entry(stream, number as i64, line)].concat());
    }
    let own_len = file.bytes.len();
    file.bytes.extend_from_slice(&old.bytes[own_len..]);
    file
}

#[test]
fn frames_of_a_file_before_are_neither_entries_nor_a_torn_tail() {
    let ledger = Ledger::new(&["acme"], 1);
    for frames in 0..=3 {
        let file = reused(&ledger.streams[0], frames);
        let (lines, found) = recovered(&file, &ledger);
        assert_eq!(lines, ["one", "two", "three"][..frames]);
        assert_eq!((found.torn_tails, found.damaged_places), (0, 0), "{found:?}");
        assert_eq!(found.frames, frames as u64);
    }
}

#[test]
fn frames_of_a_file_before_are_no_entries_when_the_header_is_damaged() {
    let ledger = Ledger::new(&["acme"], 1);
    for frames in 0..=3 {
        let mut file = reused(&ledger.streams[0], frames);
        file.bytes[20] ^= 1;
        let (lines, found) = recovered(&file, &ledger);
        assert_eq!(lines, ["one", "two", "three"][..frames]);
        assert_eq!(found.damaged_places, 1, "{found:?}");
    }
}

#[test]
fn a_second_header_that_does_not_check_is_damage_if_frames_follow() {
    let ledger = Ledger::new(&["acme"], 1);
    for frames in 0..=2 {
        let mut file = reused(&ledger.streams[0], frames);
        file.bytes[SECOND_HEADER_AT + 3] = 1;
        let (lines, found) = recovered(&file, &ledger);
        assert_eq!(lines, ["one", "two"][..frames]);
        // Without frames it may be the trace of a crash.
        assert_eq!(found.damaged_places, u64::from(frames > 0), "{found:?}");
    }
}

#[test]
fn a_stream_that_nothing_defines_is_reported_by_its_owner() {
    let ledger = Ledger::new(&["acme"], 3);
    let shards = 3;
    for unknown in &ledger.streams {
        let known = ledger.streams.iter().find(|s| s.id != unknown.id).expect("three streams");
        for shard in 0..3 {
            let name = WalName { epoch: 0, shards: 7, shard, index: 0 };
            let mut file = Crafted::new(name);
            let payload = [defined(known), entry(unknown, 1, "lost"), entry(known, 1, "kept")];
            let frame = file.frame(64, &payload.concat());
            let simulation = Simulation::new(1);
            simulation.disk().write(path(name), &file.bytes);
            let (lines, found) = recover(&simulation, &ledger, shards);
            assert_eq!(lines, ["kept"]);
            assert_eq!(found.damaged_places, 1, "mended by {shard}: {found:?}");
            let copy = format!("quarantine/{}-{FILE_HEADER_LEN}.bytes", name.file_name());
            let copy = simulation.disk().read(Path::new(WAL_DIR).join(copy));
            assert_eq!(copy.as_deref(), Some(&frame[..]));
        }
    }
}

#[test]
fn what_does_not_decode_is_damage_and_the_rest_counts() {
    let ledger = Ledger::new(&["acme"], 1);
    let stream = &ledger.streams[0];
    let mut bad_batch = Vec::new();
    write_batch(&mut bad_batch, &[1; 50]);
    for bad in [bad_batch, vec![9, 0, 0, 0, 0], vec![1, 2, 0, 0, 0, 1, 1], vec![2]] {
        let mut file = Crafted::new(NAME);
        file.frame(64, &[defined(stream), entry(stream, 1, "one"), bad].concat());
        let durable_len = file.len();
        file.frame(durable_len, &entry(stream, 2, "two"));
        let (lines, found) = recovered(&file, &ledger);
        assert_eq!(lines, ["one", "two"]);
        assert_eq!((found.damaged_places, found.damaged_bytes), (1, durable_len - 64));
    }
}

#[test]
fn bytes_that_do_not_count_are_cut_whatever_they_are() {
    let ledger = Ledger::new(&["acme"], 1);
    let stream = &ledger.streams[0];
    let mut first = Crafted::new(NAME);
    first.frame(64, &[defined(stream), entry(stream, 1, "one")].concat());
    let durable_len = first.len();
    first.frame(durable_len, &entry(stream, 2, "never acknowledged"));
    let next = NAME.successor();
    let header = FileHeader {
        name: next,
        nonce: next.nonce(RANDOM + 1),
        created_ns: 1,
        layout: Layout::Packed,
        is_reused: false,
        previous: Some(Previous { index: 0, durable_len }),
    };
    for shards in 1..4 {
        let simulation = Simulation::new(1);
        simulation.disk().write(path(NAME), &first.bytes);
        simulation.disk().write(path(next), &header.encode());
        let (lines, found) = recover(&simulation, &ledger, shards);
        assert_eq!(lines, ["one"]);
        assert_eq!((found.torn_tails, found.damaged_places), (1, 0), "{found:?}");
        let left = simulation.disk().read(path(NAME)).expect("it stays");
        assert_eq!(left, &first.bytes[..durable_len as usize]);
    }
}
