//! Measures block filters: adding lines, folding, writing a region, and reading all filters from
//! it.
//!
//! `cargo bench -p logsvc-segment --bench filters [-- FILE...]` prints one row for each
//! style of lines that the load generator makes, one for random bytes, and one for the
//! lines of each file that is named. Figures are CPU-seconds per GB of lines, the best
//! of some passes over the same blocks of 256 KiB.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark on its own thread: it is never simulated and reads clock and files"
)]

use std::hint::black_box;
use std::time::Instant;

use logsvc_segment::filter::{BlockFilter, BlockFilterBuilder, RegionWriter};
use logsvc_testkit::{Rng, Scene, line};

const BLOCK_BYTES: usize = 256 << 10;
const BLOCKS: usize = 48;
const PASSES: usize = 7;

/// Lines one after another, and where they end.
#[derive(Default)]
struct Block {
    lines: Vec<u8>,
    ends: Vec<u32>,
}

impl Block {
    fn push(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
        self.ends.push(self.lines.len() as u32);
    }
}

fn main() {
    println!(
        "{:<24} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "CPU-s per GB", "lines", "folding", "region", "loading", "bytes"
    );
    for (app, name) in ["json", "logfmt", "access", "plain"].into_iter().enumerate() {
        measure(name, &blocks_of((0..).map(styled(app)), BLOCK_BYTES));
    }
    // Streams with little in a segment.
    measure("json in small blocks", &blocks_of((0..).map(styled(0)), BLOCK_BYTES / 6));
    let mut random = Rng::new(5);
    let noise = (0..).map(|_| (0..180).map(|_| random.next_u64() as u8).collect::<Vec<u8>>());
    measure("random bytes", &blocks_of(noise, BLOCK_BYTES));
    // Cargo adds `--bench`.
    for path in std::env::args().skip(1).filter(|arg| !arg.starts_with('-')) {
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
        let name = path.rsplit('/').next().unwrap_or(&path);
        measure(name, &blocks_of(lines.collect::<Vec<_>>(), BLOCK_BYTES));
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

fn blocks_of(lines: impl IntoIterator<Item = Vec<u8>>, block_bytes: usize) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    for line in lines {
        if blocks.last().is_some_and(|block| block.lines.len() + line.len() > block_bytes) {
            if blocks.len() == BLOCKS {
                break;
            }
            blocks.push(Block::default());
        }
        blocks.last_mut().expect("there is one").push(&line);
    }
    blocks
}

fn measure(name: &str, blocks: &[Block]) {
    let raw_bytes: usize = blocks.iter().map(|block| block.lines.len()).sum();
    let mut best = [f64::INFINITY; 4];
    let mut region_bytes = 0;
    let mut builder = BlockFilterBuilder::new();
    for _ in 0..PASSES {
        let mut spent = [0.0; 4];
        let mut writer = RegionWriter::new();
        for block in blocks {
            timed(&mut spent[0], || builder.add_lines(black_box(&block.lines), &block.ends));
            let filter: BlockFilter = timed(&mut spent[1], || builder.finish());
            timed(&mut spent[2], || writer.push(filter));
        }
        let (region, index) = timed(&mut spent[2], || writer.finish());
        region_bytes = region.len();
        let loaded = timed(&mut spent[3], || {
            let mut loader = index.load(region).expect("the region is whole");
            while loader.advance().expect("the region is whole") {}
            loader.finish()
        });
        timed(&mut spent[3], || {
            for block in 0..blocks.len() {
                assert!(black_box(loaded.get(block)).is_some());
            }
        });
        for (best, spent) in best.iter_mut().zip(spent) {
            *best = best.min(spent);
        }
    }
    let per_gb = best.map(|seconds| seconds * 1e9 / raw_bytes as f64);
    println!(
        "{name:<24} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.4}",
        per_gb[0],
        per_gb[1],
        per_gb[2],
        per_gb[3],
        region_bytes as f64 / raw_bytes as f64
    );
}

fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *seconds += start.elapsed().as_secs_f64();
    result
}
