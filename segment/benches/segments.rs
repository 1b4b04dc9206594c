//! Measures sealing: writing a segment of head blocks.
//!
//! `cargo bench -p logsvc-segment --bench segments [-- FILE...]` prints one row for each
//! style of lines that the load generator makes, one for streams of all styles in turns,
//! one for lines with ids as metadata, and one for the lines of each file that is named.
//! Figures are CPU-seconds per GB of lines, the best of some passes over the same streams,
//! and stored bytes per byte of lines.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark on its own thread: it is never simulated and reads clock and files"
)]

use std::time::Instant;

use logsvc_proto::labels::parse_labels;
use logsvc_proto::{StreamId, TenantId};
use logsvc_segment::batch::{BatchBuilder, sections};
use logsvc_segment::head::{BlockPool, StreamHead};
use logsvc_segment::{Entries, SegmentIdentity, SegmentWriter};
use logsvc_testkit::{Rng, Scene, line};

/// Bytes of a stream in a segment if a thousand streams fill the heads of two cores.
const STREAM_BYTES: usize = 107 << 10;
const STREAMS: usize = 128;
const PASSES: usize = 7;

fn main() {
    println!("{:<24} {:>12} {:>8}", "", "CPU-s per GB", "bytes");
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
    let mut best = f64::INFINITY;
    let mut stored_bytes = 0;
    for _ in 0..PASSES {
        let start = Instant::now();
        stored_bytes = write(heads.clone());
        best = best.min(start.elapsed().as_secs_f64());
    }
    let per_gb = best * 1e9 / raw_bytes as f64;
    println!("{name:<24} {per_gb:>12.3} {:>8.4}", stored_bytes as f64 / raw_bytes as f64);
}

/// Writes a segment; returns its bytes.
fn write<'a>(heads: impl Iterator<Item = &'a StreamHead>) -> u64 {
    let identity = SegmentIdentity { epoch: 1, shards: 1, shard: 0, seq: 0, created_ns: 0 };
    let mut writer = SegmentWriter::new(identity).expect("memory for a compressor");
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
                writer.take_output();
            }
        }
    }
    writer.finish().expect("entries").footer.file_len
}
