//! A small log whose every byte is damaged, one at a time, and which is cut at every length: whole
//! entries come back, and no others. Acknowledged entries that are lost are reported, and their
//! bytes are kept.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logsvc_logql::engine::StreamResult;
use logsvc_runtime::CoreId;
use logsvc_runtime::sim::{DiskOperation, Simulation};
use logsvc_segment::batch::{BatchBuilder, sections};
use logsvc_shards::messages::AppendRequest;
use logsvc_shards::wal::format::{
    BLOCK_LEN, FILE_HEADER_LEN, FRAME_HEADER_LEN, FileHeader, FrameHeader, HEADERS_LEN, Layout,
    Record, SECOND_HEADER_AT, WalName, records,
};
use logsvc_shards::wal::restored::RecoverySummary;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::Rng;

use crate::cluster::{Cluster, WAL_DIR, append_outcome, send_append, sleep};
use crate::ledger::Ledger;

const SHARDS: u16 = 2;
const STREAMS: usize = 5;

/// Lines are unique, so they stand for their entries.
type Lines = BTreeSet<String>;

struct Frame {
    range: Range<u64>,
    lines: Lines,
}

impl Frame {
    /// The frame, and the filling of its last block.
    fn blocks(&self) -> Range<u64> {
        self.range.start..Layout::Padded.position_behind(self.range.end)
    }
}

/// A log file as it was written.
struct WalFile {
    path: PathBuf,
    bytes: Vec<u8>,
    /// How many bytes count; the bytes behind them belong to a commit that failed.
    counts_len: u64,
    /// Whether a later file of the writer says so.
    has_successor: bool,
    frames: Vec<Frame>,
}

/// A log of two shards with several files each, one of which ends in a frame whose
/// sync failed.
struct Wal {
    files: Vec<WalFile>,
    /// All other files of the data folder.
    others: Vec<(PathBuf, Vec<u8>)>,
    ledger: Ledger,
    /// Everything that was acknowledged.
    lines: Lines,
    /// The line of the failed commit, and the only file whose header says that it
    /// does not count.
    failed: (String, usize),
}

fn config() -> WalConfig {
    WalConfig { file_max_bytes: 4 * BLOCK_LEN, ..WalConfig::default() }
}

impl Wal {
    fn write() -> Wal {
        let simulation = Simulation::new(3);
        let ledger = Ledger::new(&["acme"], STREAMS);
        let cluster = Cluster::start(&simulation, SHARDS, config()).expect("a healthy disk");
        let mut lines = Lines::new();
        let mut failed_line = String::new();
        for number in 0..24_usize {
            // A push that goes to a file which exists already.
            let fails = number == 14;
            if fails {
                simulation.disk().fail_next(DiskOperation::Sync, WAL_DIR, 1);
            }
            let stream = &ledger.streams[number % STREAMS];
            let mut builder = BatchBuilder::new(Vec::new());
            builder.begin(stream.id);
            let line = format!("line {number} of the log");
            let metadata = number.is_multiple_of(5).then_some(("trace", "0af7"));
            builder.push(number as i64 * 1_000, line.as_bytes(), metadata.into_iter());
            let request = AppendRequest {
                batch: builder.finish(),
                definitions: vec![stream.clone()],
                out_of_order_window_ns: None,
                is_replayed: false,
            };
            let reply = send_append(&cluster.caller(0), cluster.layout.core_of(stream.id), request);
            let reply = reply.expect("the lanes have room");
            let outcome = cluster.run(append_outcome(reply)).expect("an answer");
            assert_eq!(outcome.is_err(), fails, "{outcome:?}");
            if fails {
                failed_line = line;
            } else {
                lines.insert(line);
            }
            let runtime = cluster.node.runtime(CoreId(0)).clone();
            cluster.run(async move { sleep(&runtime, Duration::from_millis(1)).await });
        }
        cluster.stop().expect("a healthy disk");
        let disk = simulation.disk();
        let read = |path: PathBuf| (disk.read(&path).expect("it is there"), path);
        let (wal, others): (Vec<_>, Vec<_>) = disk
            .files("/srv")
            .into_iter()
            .map(read)
            .partition(|(_, path)| path.extension().is_some_and(|ending| ending == "wal"));
        let headers: Vec<FileHeader> =
            wal.iter().map(|(bytes, _)| FileHeader::decode(bytes).expect("it checks")).collect();
        let file = |(bytes, path): (Vec<u8>, PathBuf)| {
            let header = FileHeader::decode(&bytes).expect("it checks");
            let previous = headers.iter().filter(|h| h.name.shard == header.name.shard);
            let previous = previous.filter_map(|h| h.previous);
            let mut says = previous.filter(|previous| previous.index == header.name.index);
            let durable_len = says.next().map(|previous| previous.durable_len);
            let counts_len = durable_len.unwrap_or(bytes.len() as u64);
            let has_successor = durable_len.is_some();
            let frames = frames_of(&bytes[..counts_len as usize], header.nonce);
            WalFile { path, bytes, counts_len, has_successor, frames }
        };
        let files: Vec<WalFile> = wal.into_iter().map(file).collect();
        let others = others.into_iter().map(|(bytes, path)| (path, bytes)).collect();
        let is_failed = |file: &WalFile| file.counts_len < file.bytes.len() as u64;
        let failed = files.iter().position(is_failed).expect("a file with a failed commit");
        let failed = FileHeader::decode(&files[failed].bytes).expect("it checks").name;
        let knows = |header: &FileHeader| {
            let previous = header.previous.map(|previous| previous.index);
            header.name.shard == failed.shard && previous == Some(failed.index)
        };
        let knowing = headers.iter().position(knows).expect("it has a successor");
        let wal = Wal { files, others, ledger, lines, failed: (failed_line, knowing) };
        // The log must have the files and frames that the test is about.
        assert!(wal.files.len() > 4, "{} files", wal.files.len());
        assert!(wal.files.iter().any(|file| file.frames.len() > 2));
        for shard in 0..u32::from(SHARDS) {
            let files = headers.iter().filter(|header| header.name.shard == shard).count();
            assert!(files > 1, "shard {shard} wrote {files} files");
        }
        let in_frames: Lines = wal.files.iter().flat_map(WalFile::lines).collect();
        assert_eq!(in_frames, wal.lines);
        wal
    }

    /// Puts the log on a new disk, with another content of one file.
    fn damaged(&self, seed: u64, file: usize, bytes: &[u8]) -> Simulation {
        let simulation = Simulation::new(seed);
        for (path, bytes) in &self.others {
            simulation.disk().write(path, bytes);
        }
        for (number, intact) in self.files.iter().enumerate() {
            let bytes = if number == file { bytes } else { &intact.bytes };
            simulation.disk().write(&intact.path, bytes);
        }
        simulation
    }

    /// Starts a node, checks that it shows only lines that were sent, and stops it.
    fn recover(&self, simulation: &Simulation, shards: u16) -> (Lines, RecoverySummary) {
        let cluster = Cluster::start(simulation, shards, config())
            .unwrap_or_else(|failure| panic!("the node does not start: {failure}"));
        let tenant = &self.ledger.streams[0].tenant;
        let shown = cluster.everything(tenant);
        let lines = shown.iter().flat_map(|stream| self.checked_lines(stream));
        let mut unique = Lines::new();
        lines.for_each(|line| assert!(unique.insert(line.clone()), "twice: {line}"));
        let found = cluster.recovery();
        cluster.stop().expect("a healthy disk");
        (unique, found)
    }

    fn checked_lines(&self, stream: &StreamResult) -> Vec<String> {
        let number = self.ledger.streams.iter().position(|s| *s.labels == stream.labels);
        let number = number.unwrap_or_else(|| panic!("unknown stream {:?}", stream.labels));
        let line = |entry: &logsvc_logql::engine::ResultEntry| {
            let line = String::from_utf8(entry.line.to_vec()).expect("lines are text");
            let index = line.split(' ').nth(1).and_then(|text| text.parse::<usize>().ok());
            let index = index.unwrap_or_else(|| panic!("a wrong line: {line}"));
            let is_known = self.lines.contains(&line) || line == self.failed.0;
            assert!(is_known, "never sent: {line}");
            assert_eq!(index % STREAMS, number, "{line} is in another stream");
            assert_eq!(entry.timestamp_ns, index as i64 * 1_000, "{line}");
            let metadata = entry.categories.iter().flat_map(|c| c.structured_metadata.iter());
            let expected = index.is_multiple_of(5).then_some(("trace", "0af7"));
            assert!(metadata.eq(expected), "{line}");
            line
        };
        stream.entries.iter().map(line).collect()
    }

    /// Checks that nothing shows of the failed commit, unless the header is damaged
    /// that says so; then it may, since it was not acknowledged.
    fn check_failed(&self, file: usize, header_is_damaged: bool, lines: &mut Lines) {
        let shows = lines.remove(&self.failed.0);
        assert!(!shows || (file == self.failed.1 && header_is_damaged), "{}", self.failed.0);
    }

    /// All lines except the lines of some frames of a file.
    fn without(&self, file: usize, lost: impl Fn(usize) -> bool) -> Lines {
        let frames = self.files[file].frames.iter().enumerate();
        let lost: Lines =
            frames.filter(|(k, _)| lost(*k)).flat_map(|(_, f)| f.lines.clone()).collect();
        self.lines.difference(&lost).cloned().collect()
    }
}

impl WalFile {
    fn lines(&self) -> Lines {
        self.frames.iter().flat_map(|frame| frame.lines.iter().cloned()).collect()
    }

    /// Which bytes to damage and where to cut: everywhere but in the long runs of zeros that
    /// fill up blocks, of which a few places are enough.
    fn places(&self) -> impl Iterator<Item = u64> {
        let is_used = |at: &u64| {
            *at < FILE_HEADER_LEN as u64 || is_second(*at) || self.frame_at(*at).is_some()
        };
        let is_edge = |at: u64| at.is_multiple_of(BLOCK_LEN) || (at + 1).is_multiple_of(BLOCK_LEN);
        let len = self.bytes.len() as u64;
        (0..len).filter(move |at| {
            is_used(at) || (*at > 0 && is_used(&(at - 1))) || is_edge(*at) || at % 701 == 0
        })
    }

    fn frame_at(&self, offset: u64) -> Option<usize> {
        self.frames.iter().position(|frame| frame.range.contains(&offset))
    }

    fn quarantined(&self, simulation: &Simulation, start: u64) -> Option<Vec<u8>> {
        let name = self.path.file_name().and_then(|name| name.to_str()).expect("a name");
        simulation.disk().read(Path::new(WAL_DIR).join(format!("quarantine/{name}-{start}.bytes")))
    }
}

/// Whether the offset is in the second header, which tells how much of the previous file counts.
fn is_second(offset: u64) -> bool {
    (SECOND_HEADER_AT..HEADERS_LEN).contains(&(offset as usize))
}

fn frames_of(bytes: &[u8], nonce: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut offset = BLOCK_LEN as usize;
    while offset < bytes.len() {
        let header = FrameHeader::decode(&bytes[offset..], nonce).expect("a good frame");
        let end = offset + FRAME_HEADER_LEN + header.payload_len as usize;
        let mut lines = Lines::new();
        for record in records(&bytes[offset + FRAME_HEADER_LEN..end]) {
            let Ok(Record::Batch(batch)) = record else { continue };
            for section in sections(batch) {
                for entry in section.expect("a good section").entries() {
                    lines.insert(String::from_utf8(entry.line.to_vec()).expect("text"));
                }
            }
        }
        frames.push(Frame { range: offset as u64..end as u64, lines });
        offset = header.layout.position_behind(end as u64) as usize;
    }
    frames
}

/// How many shards recover; resharding must not change the findings.
fn shards_for(case: u64) -> u16 {
    [SHARDS, 1, 3][(case % 3) as usize]
}

fn is_clean(found: &RecoverySummary) -> bool {
    (found.damaged_places, found.torn_tails, found.unsynced_holes) == (0, 0, 0)
}

#[test]
fn the_intact_log_comes_back_whole() {
    let wal = Wal::write();
    for shards in 1..=5 {
        let simulation = wal.damaged(1, usize::MAX, &[]);
        let (lines, found) = wal.recover(&simulation, shards);
        assert_eq!(lines, wal.lines);
        // The frame of the failed commit is cut off once.
        assert_eq!((found.damaged_places, found.torn_tails), (0, 1), "{found:?}");
        let (lines, found) = wal.recover(&simulation, shards);
        assert_eq!(lines, wal.lines);
        assert!(is_clean(&found), "{found:?}");
        let quarantine = simulation.disk().files(Path::new(WAL_DIR).join("quarantine"));
        assert!(quarantine.is_empty(), "{quarantine:?}");
    }
}

#[test]
fn every_flipped_byte_is_noticed_and_costs_its_frame_only() {
    let wal = Wal::write();
    let mut case = 0;
    for (number, file) in wal.files.iter().enumerate() {
        for offset in file.places() {
            case += 1;
            let mask = if case % 5 == 0 { 0xff } else { 1 << (offset % 8) };
            let mut bytes = file.bytes.clone();
            bytes[offset as usize] ^= mask;
            let simulation = wal.damaged(case, number, &bytes);
            let place = format!("{} at {offset}, mask {mask:x}", file.path.display());
            check_flip(&wal, number, offset, &bytes, &simulation, shards_for(case), &place);
        }
    }
}

fn check_flip(
    wal: &Wal,
    number: usize,
    offset: u64,
    bytes: &[u8],
    simulation: &Simulation,
    shards: u16,
    place: &str,
) {
    let file = &wal.files[number];
    let (mut lines, found) = wal.recover(simulation, shards);
    let is_header = offset < FILE_HEADER_LEN as u64 || is_second(offset);
    wal.check_failed(number, is_header, &mut lines);
    let frame = file.frame_at(offset);
    let is_last = frame == Some(file.frames.len() - 1) && !file.has_successor;
    let lost = |k| frame == Some(k);
    assert_eq!(lines, wal.without(number, lost), "{place}");
    if is_last || (frame.is_none() && !is_header) {
        // The end of the log, zeros that fill up a block, or bytes that were never acknowledged: no
        // damage.
        assert_eq!(found.damaged_places, 0, "{place}: {found:?}");
        // One torn tail belongs to the failed commit.
        assert_eq!(found.torn_tails, 1 + u64::from(is_last), "{place}: {found:?}");
    } else {
        let range = match frame {
            Some(k) => file.frames[k].blocks(),
            None if is_second(offset) => SECOND_HEADER_AT as u64..HEADERS_LEN as u64,
            None => 0..file.frames[0].range.start,
        };
        assert_eq!(found.damaged_places, 1, "{place}: {found:?}");
        assert_eq!(found.damaged_bytes, range.end - range.start, "{place}");
        assert_eq!(found.uncopied_places, 0, "{place}");
        let copy = file.quarantined(simulation, range.start);
        assert_eq!(copy.as_deref(), Some(&bytes[range.start as usize..range.end as usize]));
    }
    if !is_last {
        let left = simulation.disk().read(&file.path).expect("it stays");
        let counting = ..file.counts_len as usize;
        assert_eq!(left[counting], bytes[counting], "{place}: damaged bytes are not cut off");
    }
    if !offset.is_multiple_of(4) {
        return;
    }
    let (mut again, found_again) = wal.recover(simulation, shards);
    wal.check_failed(number, is_header, &mut again);
    assert_eq!(again, lines, "{place}: another start");
    assert_eq!(found_again.torn_tails, 0, "{place}: {found_again:?}");
    assert_eq!(found_again.damaged_places, found.damaged_places, "{place}");
}

#[test]
fn every_cut_leaves_the_frames_before_it() {
    let wal = Wal::write();
    let mut case = 0;
    for (number, file) in wal.files.iter().enumerate() {
        for len in file.places() {
            case += 1;
            let simulation = wal.damaged(case, number, &file.bytes[..len as usize]);
            let shards = shards_for(case);
            let place = format!("{} cut at {len}", file.path.display());
            let (mut lines, found) = wal.recover(&simulation, shards);
            wal.check_failed(number, len < HEADERS_LEN as u64, &mut lines);
            let lost = |k: usize| file.frames[k].range.end > len;
            assert_eq!(lines, wal.without(number, lost), "{place}");
            let used_len = file.frames.last().map_or(BLOCK_LEN, |frame| frame.range.end);
            let is_damaged = file.has_successor && len < used_len;
            assert_eq!(found.damaged_places, u64::from(is_damaged), "{place}: {found:?}");
            assert_eq!(found.uncopied_places, 0, "{place}");
            let (mut again, found_again) = wal.recover(&simulation, shards);
            wal.check_failed(number, len < HEADERS_LEN as u64, &mut again);
            assert_eq!(again, lines, "{place}: another start");
            assert_eq!(found_again.torn_tails, 0, "{place}: {found_again:?}");
            assert_eq!(found_again.damaged_places, found.damaged_places, "{place}");
            let is_gone = len < FILE_HEADER_LEN as u64 && !is_damaged;
            assert_eq!(simulation.disk().read(&file.path).is_none(), is_gone, "{place}");
        }
    }
}

#[test]
fn lost_sectors_and_foreign_bytes_are_never_taken_for_entries() {
    let wal = Wal::write();
    let mut rng = Rng::new(7);
    let mut case = 0;
    for (number, file) in wal.files.iter().enumerate() {
        let len = file.bytes.len();
        for _ in 0..60 {
            case += 1;
            let mut bytes = file.bytes.clone();
            let start = rng.below(len as u64) as usize;
            let end = (start + rng.between(1, 512) as usize).min(len);
            match case % 4 {
                0 => bytes[start..end].fill(0),
                1 => bytes[start..end].iter_mut().for_each(|b| *b = rng.next_u64() as u8),
                // A part of another file, frames and all.
                2 => {
                    let other = &wal.files[(number + 1) % wal.files.len()].bytes;
                    let part = &other[start.min(other.len())..end.min(other.len())];
                    bytes[start..start + part.len()].copy_from_slice(part);
                }
                // A part of this file, in another place.
                _ => {
                    let from = rng.below((len - (end - start) + 1) as u64) as usize;
                    bytes.copy_within(from..from + (end - start), start);
                }
            }
            let place = format!("{} {start}..{end}, case {case}", file.path.display());
            let simulation = wal.damaged(case, number, &bytes);
            let shards = shards_for(case / 4);
            // Only lines that were sent show: checked by `recover`.
            let (lines, found) = wal.recover(&simulation, shards);
            let changed: BTreeSet<usize> = (0..len)
                .filter(|at| bytes[*at] != file.bytes[*at])
                .filter_map(|at| file.frame_at(at as u64))
                .collect();
            // Several frames at the very end look like a torn tail too.
            let tail_start = (0..file.frames.len()).rev().find(|k| !changed.contains(k));
            let is_tail = |k: usize| !file.has_successor && tail_start.is_none_or(|last| k > last);
            if case % 4 < 2 {
                let untouched = wal.without(number, |k| changed.contains(&k));
                // Both definitions of a stream may be gone with two frames.
                if changed.len() < 2 {
                    assert!(lines.is_superset(&untouched), "{place}");
                }
            }
            if changed.iter().any(|k| !is_tail(*k)) && lines != wal.lines {
                assert!(found.damaged_places > 0, "{place}: {found:?}");
            }
            let (again, found_again) = wal.recover(&simulation, shards);
            assert_eq!(again, lines, "{place}: another start");
            assert_eq!(found_again.torn_tails, 0, "{place}: {found_again:?}");
        }
    }
}

#[test]
fn a_name_that_uses_up_the_epochs_is_refused() {
    let simulation = Simulation::new(1);
    let name = WalName { epoch: u32::MAX, shards: 1, shard: 0, index: 0 };
    simulation.disk().write(Path::new(WAL_DIR).join(name.file_name()), b"");
    let failure = Cluster::start(&simulation, 1, config()).err().expect("it cannot start");
    assert!(failure.contains("epoch"), "{failure}");
}

#[test]
fn damage_on_a_full_disk_keeps_nobody_down() {
    let wal = Wal::write();
    let mut bytes = wal.files[0].bytes.clone();
    bytes[BLOCK_LEN as usize + 3] ^= 1;
    let simulation = wal.damaged(1, 0, &bytes);
    // Full even when the bytes of the failed commit are cut off.
    simulation.disk().set_capacity_bytes(simulation.disk().used_bytes() - BLOCK_LEN);
    let (lines, found) = wal.recover(&simulation, SHARDS);
    assert_eq!(lines, wal.without(0, |k| k == 0));
    assert_eq!((found.damaged_places, found.uncopied_places), (1, 1));
    // With space again the copy is made.
    simulation.disk().set_capacity_bytes(1 << 40);
    let (_, found) = wal.recover(&simulation, SHARDS);
    assert_eq!((found.damaged_places, found.uncopied_places), (1, 0));
    let blocks = wal.files[0].frames[0].blocks();
    let copy = wal.files[0].quarantined(&simulation, blocks.start).expect("a copy");
    assert_eq!(copy, &bytes[blocks.start as usize..blocks.end as usize]);
}
