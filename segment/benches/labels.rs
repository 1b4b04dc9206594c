//! Measures the label index: what it adds to writing a segment, its size, and lookups.
//!
//! `cargo bench -p logsvc-segment --bench labels` writes 64,000 streams with one entry each, whose
//! eight labels are those of pods in Kubernetes, as a draft up to its end and as a segment. Figures
//! are the best of some passes.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark on its own thread: it is never simulated and reads the clock"
)]

use std::time::{Duration, Instant};

use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax::ast::{MatchOp, Matcher, Text};
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_segment::batch::MetadataPairs;
use logsvc_segment::{
    Decoder, Finished, LabelIndex, SegmentIdentity, SegmentWriter, StoredRows, stream_order,
};
use logsvc_testkit::Rng;

const STREAMS: u64 = 64_000;
const PASSES: usize = 7;

fn main() {
    let tenant = TenantId::new("tenant").expect("a valid name");
    let mut streams: Vec<(Labels, StreamId)> = labels()
        .map(|labels| {
            let id = StreamId::new(&tenant, &labels);
            (labels, id)
        })
        .collect();
    streams.sort_by(|a, b| stream_order((&tenant, &a.0, a.1), (&tenant, &b.0, b.1)));
    let label_bytes: usize = streams.iter().map(|(labels, _)| labels.as_bytes().len()).sum();
    println!("labels: {} bytes per stream", label_bytes as u64 / STREAMS);

    let mut times = [[Duration::MAX; 2]; 2];
    let mut file = Vec::new();
    let mut written: Option<Finished> = None;
    for _ in 0..PASSES {
        for (is_indexed, best) in [false, true].into_iter().zip(&mut times) {
            let mut writer = SegmentWriter::new(SegmentIdentity::default()).expect("a compressor");
            if !is_indexed {
                writer.without_label_index();
            }
            file.clear();
            let start = Instant::now();
            for (labels, id) in &streams {
                writer.begin_stream(&tenant, labels, *id).expect("in order");
                writer.push(1, b"line", MetadataPairs::NONE).expect("well-formed");
            }
            file.extend_from_slice(&writer.take_output());
            let pushed = start.elapsed();
            let finished = writer.finish().expect("it has entries");
            best[1] = best[1].min(start.elapsed() - pushed);
            best[0] = best[0].min(pushed);
            file.extend_from_slice(&finished.bytes);
            written = Some(finished);
        }
    }
    let per_stream = |time: Duration| time.as_nanos() as i64 / STREAMS as i64;
    for (at, what) in ["pushes", "finish"].into_iter().enumerate() {
        let [without, with] = [0, 1].map(|which| per_stream(times[which][at]));
        println!("{what}: {without} ns per stream, with the index {} more", with - without);
    }
    let Some(Finished { footer, label_index_root: Some(root), directory, .. }) = written else {
        panic!("it has a label index")
    };
    let root_len = root.len();
    let index = LabelIndex::open(&footer, root).expect("it was written");
    let table = footer.stream_table_range();
    println!(
        "pages {:.2} bytes per stream, root {root_len} bytes, directory {}, stream table {}",
        index.pages_len_bytes() as f64 / STREAMS as f64,
        directory.len(),
        table.end - table.start
    );
    let pod = streams[1000].0.get("pod").expect("a pod");
    for (name, op, value) in [
        ("app", MatchOp::Equal, "app-7"),
        ("pod", MatchOp::Equal, pod),
        ("pod", MatchOp::NotEqual, pod),
        ("pod", MatchOp::Regex, "app-7-.*"),
        ("pod", MatchOp::Regex, "app-7-[0-9a-f]+-.*"),
        ("pod", MatchOp::Regex, ".*ab.*"),
        ("zone", MatchOp::Equal, "zone-1"),
    ] {
        let matcher = Matcher { name: name.into(), op, value: Text::from(value) };
        let matcher = CompiledMatcher::new(&matcher).expect("valid");
        lookup(&file, &index, &matcher, &format!("{name} {op:?} {value}"));
    }
    let start = Instant::now();
    let (mut count, mut decoder) = (0, Decoder::new());
    let mut listing = index.values("tenant", "pod");
    while let Some(reads) = listing.next_reads() {
        let piece = |range: &std::ops::Range<u64>| &file[range.start as usize..range.end as usize];
        let pieces: Vec<&[u8]> = reads.iter().map(piece).collect();
        let each = |_: &str, _: StoredRows<'_>| count += 1;
        listing.supply(&mut decoder, &pieces, each).expect("undamaged");
    }
    println!("all pods: {count} in {:?}", start.elapsed());
}

fn lookup(file: &[u8], index: &LabelIndex, matcher: &CompiledMatcher, what: &str) {
    let mut best = Duration::MAX;
    let (mut pages, mut bytes, mut rows) = (0, 0, 0);
    let mut decoder = Decoder::new();
    for _ in 0..PASSES {
        let start = Instant::now();
        let mut select = index.select("tenant", &[matcher]);
        (pages, bytes) = (0, 0);
        while let Some(reads) = select.next_reads() {
            pages += reads.len();
            bytes += reads.iter().map(|read| read.end - read.start).sum::<u64>();
            let piece =
                |range: &std::ops::Range<u64>| &file[range.start as usize..range.end as usize];
            let pieces: Vec<&[u8]> = reads.iter().map(piece).collect();
            select.supply(&mut decoder, &pieces).expect("undamaged");
        }
        rows = select.into_rows().len();
        best = best.min(start.elapsed());
    }
    println!("{what}: {rows} rows, {pages} pages, {bytes} bytes, {best:?}");
}

/// Labels of pods, about 150 bytes each.
fn labels() -> impl Iterator<Item = Labels> {
    let mut rng = Rng::new(1);
    (0..STREAMS).map(move |number| {
        let app = rng.below(100);
        let hash = 0x1000_0000 + app * 0x0123_4567 % 0x0fff_ffff;
        let pod = format!("app-{app}-{hash:08x}-{:05x}{number:x}", rng.below(1 << 20));
        let pairs = [
            ("app", format!("app-{app}")),
            ("cluster", "production-europe-1".to_owned()),
            ("container", format!("container-{}", app % 7)),
            ("level", (*rng.pick(&["info", "warn", "error"])).to_owned()),
            ("namespace", format!("namespace-{}", app % 20)),
            ("pod", pod),
            ("stream", (*rng.pick(&["stdout", "stderr"])).to_owned()),
            ("zone", format!("zone-{}", rng.below(3))),
        ];
        Labels::from_pairs(pairs.iter().map(|(name, value)| (*name, &**value))).expect("valid")
    })
}
