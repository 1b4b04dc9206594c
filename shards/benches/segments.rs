//! What sealing costs: writing a segment of blocks as heads have them.
//!
//! `cargo bench -p logsvc-shards --bench segments [-- FILE...]` prints one row for each
//! style of lines that the load generator makes, one for lines with ids as metadata, and
//! one for the lines of each file that is named. Figures are CPU-seconds per GB of lines,
//! the best of some passes over the same streams, and stored bytes per byte of lines.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark on its own thread: it is never simulated and reads clock and files"
)]

#[path = "../../bench/src/line_styles.rs"]
#[allow(dead_code, unreachable_pub, reason = "the load generator uses more of it")]
mod line_styles;
#[path = "../../bench/src/random.rs"]
#[allow(dead_code, unused_imports, reason = "the load generator uses more of it")]
mod random;
#[path = "../../bench/src/units.rs"]
#[allow(dead_code, unused_imports, reason = "the load generator uses more of it")]
mod units;
#[path = "../../bench/src/words.rs"]
#[allow(dead_code, reason = "the load generator uses more of it")]
mod words;

use std::time::Instant;

use line_styles::{Scene, line};
use logsvc_proto::labels::parse_labels;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_shards::batch::{BatchBuilder, sections};
use logsvc_shards::head::{BlockPool, StreamHead};
use logsvc_shards::segment::{Entries, SegmentIdentity, SegmentWriter};
use random::Random;

/// What a stream has in a segment when a thousand of them fill the heads of two cores.
const STREAM_BYTES: usize = 107 << 10;
const STREAMS: usize = 128;
const PASSES: usize = 7;

/// A stream's labels and entries.
struct Stream {
    labels: Labels,
    head: StreamHead,
}

impl Stream {
    fn line_bytes(&self) -> u64 {
        self.head.blocks().map(|block| block.lines().len() as u64).sum()
    }
}

fn main() {
    println!("{:<24} {:>12} {:>8}", "", "CPU-s per GB", "bytes");
    for (app, name) in ["json", "logfmt", "access", "plain"].into_iter().enumerate() {
        measure(name, &streams_of((0..).map(styled(app)), false));
    }
    measure("json with metadata", &streams_of((0..).map(styled(0)), true));
    // Cargo adds `--bench`.
    for path in std::env::args().skip(1).filter(|arg| !arg.starts_with('-')) {
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
        let name = path.rsplit('/').next().unwrap_or(&path);
        measure(name, &streams_of(lines, false));
    }
}

/// Lines of an application as its pods write them, a few per second.
fn styled(app: usize) -> impl FnMut(i64) -> Vec<u8> {
    let mut random = Random::new(app as u64 + 1);
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

/// Streams of these lines, with the names that they have in a segment in order.
fn streams_of(lines: impl IntoIterator<Item = Vec<u8>>, with_metadata: bool) -> Vec<Stream> {
    let mut lines = lines.into_iter().zip(0_i64..).peekable();
    let mut random = Random::new(9);
    let mut pool = BlockPool::default();
    let mut streams = Vec::new();
    while streams.len() < STREAMS && lines.peek().is_some() {
        let labels = format!("{{app=\"bench\", pod=\"{:04}\"}}", streams.len());
        let labels = parse_labels(labels.as_bytes()).expect("labels");
        let mut batch = BatchBuilder::default();
        batch.begin(StreamId(streams.len() as u128));
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
        streams.push(Stream { labels, head });
    }
    streams
}

fn measure(name: &str, streams: &[Stream]) {
    let raw_bytes: u64 = streams.iter().map(Stream::line_bytes).sum();
    let mut best = f64::INFINITY;
    let mut stored_bytes = 0;
    for _ in 0..PASSES {
        let start = Instant::now();
        stored_bytes = write(streams);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let per_gb = best * 1e9 / raw_bytes as f64;
    println!("{name:<24} {per_gb:>12.3} {:>8.4}", stored_bytes as f64 / raw_bytes as f64);
}

/// Writes a segment; returns its bytes.
fn write(streams: &[Stream]) -> u64 {
    let identity = SegmentIdentity { epoch: 1, shards: 1, shard: 0, seq: 0, created_ns: 0 };
    let mut writer = SegmentWriter::new(identity).expect("memory for a compressor");
    let tenant = TenantId::new("fake").expect("a tenant");
    for (number, stream) in streams.iter().enumerate() {
        let id = StreamId(number as u128);
        writer.begin_stream(&tenant, &stream.labels, id).expect("in order");
        writer.expect_line_bytes(stream.line_bytes());
        for block in stream.head.blocks() {
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
