//! Measures sealing, which is writing a segment of head blocks, and reading its lines again.
//!
//! `cargo bench -p logsvc-segment --bench segments [-- FILE...]` prints one row for each
//! style of lines that the load generator makes, one for streams of all styles in turns,
//! one for lines with ids as metadata, and one for the lines of each file that is named.
//! Figures are CPU-seconds per GB of lines, the best of some passes over the same streams,
//! and stored bytes per byte of lines. *lines* puts all lines together. *parts* reads blocks in
//! their parts, *search* does the same and looks for a text that some fragments have, *join*
//! puts each hundredth line together as well.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark on its own thread: it is never simulated and reads clock and files"
)]

use std::hint::black_box;
use std::time::Instant;

use logsvc_logql::engine::{LineTest, Literal};
use logsvc_proto::labels::parse_labels;
use logsvc_proto::{StreamId, TenantId};
use logsvc_segment::batch::{BatchBuilder, sections};
use logsvc_segment::head::{BlockPool, StreamHead};
use logsvc_segment::{
    ColumnKind, Decoder, Directory, Entries, FOOTER_LEN, Footer, LineParts, LineSearch,
    SegmentIdentity, SegmentWriter, SlotLines,
};
use logsvc_testkit::{Rng, Scene, line};

/// Bytes of a stream in a segment if a thousand streams fill the heads of two cores.
const STREAM_BYTES: usize = 107 << 10;
const STREAMS: usize = 128;
const PASSES: usize = 7;

fn main() {
    let columns = ["write", "lines", "parts", "search", "join", "bytes"];
    print!("{:<24}", "CPU-s per GB");
    columns.iter().for_each(|column| print!(" {column:>8}"));
    println!();
    let names = ["json", "logfmt", "access", "plain"];
    let styles: Vec<_> =
        (0..names.len()).map(|app| heads_of((0..).map(styled(app)), false)).collect();
    for (name, heads) in names.iter().zip(&styles) {
        measure(name, heads.iter());
    }
    // Adjacent streams of different styles.
    let in_turns = (0..STREAMS).map(|number| &styles[number % styles.len()][number]);
    measure("in turns", in_turns);
    measure("json with metadata", heads_of((0..).map(styled(0)), true).iter());
    // Cargo adds `--bench`.
    for path in std::env::args().skip(1).filter(|arg| !arg.starts_with('-')) {
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
        let name = path.rsplit('/').next().unwrap_or(&path);
        measure(name, heads_of(lines, false).iter());
    }
}

/// Lines of an application as its pods write them, a few per second.
fn styled(app: usize) -> impl FnMut(i64) -> Vec<u8> {
    let mut random = Rng::new(app as u64 + 1);
    move |number| {
        let scene = Scene {
            unix_nanos: 1_795_000_000_000_000_000 + number * 317_000_000,
            level: "info",
            component: "worker",
            news: None,
        };
        line(&mut random, app, &scene).into_bytes()
    }
}

/// Streams of these lines.
fn heads_of(lines: impl IntoIterator<Item = Vec<u8>>, with_metadata: bool) -> Vec<StreamHead> {
    let mut lines = lines.into_iter().zip(0_i64..).peekable();
    let mut random = Rng::new(9);
    let mut pool = BlockPool::default();
    let mut heads = Vec::new();
    while heads.len() < STREAMS && lines.peek().is_some() {
        let mut batch = BatchBuilder::default();
        batch.begin(StreamId(heads.len() as u128));
        let mut bytes = 0;
        while let Some((line, number)) = lines.next_if(|_| bytes < STREAM_BYTES) {
            bytes += line.len();
            let at_ns = number * 317_000_000 + (random.next_u64() % 1_000_000) as i64;
            let trace = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
            let pair = with_metadata.then_some(("trace_id", trace.as_str()));
            batch.push(at_ns, &line, pair.into_iter());
        }
        let mut head = StreamHead::default();
        for section in sections(&batch.finish()) {
            head.append(&section.expect("a good batch"), &mut pool);
        }
        heads.push(head);
    }
    heads
}

fn line_bytes(head: &StreamHead) -> u64 {
    head.blocks().map(|block| block.lines().len() as u64).sum()
}

fn measure<'a>(name: &str, heads: impl Iterator<Item = &'a StreamHead> + Clone) {
    let raw_bytes: u64 = heads.clone().map(line_bytes).sum();
    let per_gb = |pass: &mut dyn FnMut()| {
        let seconds = (0..PASSES).map(|_| {
            let start = Instant::now();
            pass();
            start.elapsed().as_secs_f64()
        });
        seconds.fold(f64::INFINITY, f64::min) * 1e9 / raw_bytes as f64
    };
    let mut file = Vec::new();
    let writing = per_gb(&mut || file = write(heads.clone()));
    let blocks = Blocks::open(&file);
    let mut decoder = Decoder::new();
    let lines = per_gb(&mut || blocks.lines(&mut decoder));
    let parts = per_gb(&mut || blocks.parts(&mut decoder, |_, _| {}));
    let test = LineTest {
        any_of: vec![Literal { bytes: b"POST".to_vec(), ignore_case: false }],
        negated: false,
        decides: true,
    };
    let (search, _) = LineSearch::new(std::slice::from_ref(&test)).expect("not a number");
    let searching = per_gb(&mut || {
        blocks.parts(&mut decoder, |parts, _| {
            let mut slot_lines = SlotLines::default();
            black_box(search.test(&parts, &mut slot_lines).expect("good parts"));
        });
    });
    let joining = per_gb(&mut || {
        blocks.parts(&mut decoder, |parts, times| {
            let mut slot_lines = SlotLines::default();
            let lines = 0..parts.line_count();
            let wants = |line: usize| line.is_multiple_of(100);
            let each = |_: usize, line: &[u8]| {
                black_box(line);
            };
            parts.join(&mut slot_lines, times, lines, wants, each).expect("good parts");
        });
    });
    let bytes = file.len() as f64 / raw_bytes as f64;
    print!("{name:<24}");
    let figures = [writing, lines, parts, searching, joining];
    figures.iter().for_each(|figure| print!(" {figure:>8.3}"));
    println!(" {bytes:>8.4}");
}

/// The blocks of a segment.
struct Blocks<'a> {
    file: &'a [u8],
    directory: Directory,
}

impl<'a> Blocks<'a> {
    fn open(file: &'a [u8]) -> Blocks<'a> {
        let end = file.len() - FOOTER_LEN;
        let footer = Footer::parse(&file[end..], file.len() as u64).expect("a footer");
        let range = footer.directory_range();
        let stored = file[range.start as usize..range.end as usize].to_vec();
        Blocks { file, directory: Directory::open(footer, stored).expect("a directory") }
    }

    fn stored(&self, block: u32, kind: ColumnKind) -> &'a [u8] {
        let range = self.directory.block(block).column(kind).range();
        &self.file[range.start as usize..range.end as usize]
    }

    /// The timestamps of a block, if reading its lines takes them.
    fn times(&self, decoder: &mut Decoder, block: u32) -> Vec<i64> {
        let kind = ColumnKind::Timestamps;
        let stored = self.stored(block, kind);
        match self.directory.block(block).column(ColumnKind::Lines).codec.needs_timestamps() {
            true => decoder.timestamps(&self.directory, block, stored).expect("timestamps"),
            false => Vec::new(),
        }
    }

    fn lines(&self, decoder: &mut Decoder) {
        for block in 0..self.directory.block_count() {
            let times = self.times(decoder, block);
            let stored = self.stored(block, ColumnKind::Lines);
            black_box(decoder.lines(&self.directory, block, stored, &times).expect("lines"));
        }
    }

    /// Calls `each` with the parts of every block that has them, and the timestamps.
    fn parts(&self, decoder: &mut Decoder, mut each: impl FnMut(LineParts, &[i64])) {
        for block in 0..self.directory.block_count() {
            let times = self.times(decoder, block);
            let stored = self.stored(block, ColumnKind::Lines);
            let parts = decoder.line_parts(&self.directory, block, stored).expect("parts");
            if let Some(parts) = parts {
                each(parts, &times);
            }
        }
    }
}

/// Writes a segment.
fn write<'a>(heads: impl Iterator<Item = &'a StreamHead>) -> Vec<u8> {
    let identity = SegmentIdentity { epoch: 1, shards: 1, shard: 0, seq: 0, created_ns: 0 };
    let mut writer = SegmentWriter::new(identity).expect("memory for a compressor");
    let mut file = Vec::new();
    let tenant = TenantId::new("fake").expect("a tenant");
    for (head, number) in heads.zip(0_u128..) {
        let labels = format!("{{app=\"bench\", pod=\"{number:04}\"}}");
        let labels = parse_labels(labels.as_bytes()).expect("labels");
        writer.begin_stream(&tenant, &labels, StreamId(number)).expect("in order");
        writer.expect_line_bytes(line_bytes(head));
        for block in head.blocks() {
            let entries = Entries::of_head(block);
            let mut done = 0;
            while done < entries.len() {
                done += writer.append(&entries.behind(done)).expect("good entries").entries;
                file.extend_from_slice(&writer.take_output());
            }
        }
    }
    file.extend_from_slice(&writer.finish().expect("entries").bytes);
    file
}
