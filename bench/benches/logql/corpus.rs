//! Logs as they come from real services, made from a seed: lines of 150 to 250
//! bytes with addresses, ids, routes and skewed values, in streams by pod and
//! level, a quarter of which carry a trace id as structured metadata.

use std::fmt::Write;

use logsvc_logql::engine::{BlockSummary, EntryBlock, MetadataColumn, MetadataSets};
use logsvc_proto::Labels;

use logsvc_testkit::Rng;
use logsvc_testkit::words::{AGENTS, GOOD_NEWS, HOSTS, METHODS, RESOURCES};

/// Raw bytes of lines, at least.
const CORPUS_BYTES: usize = 64 << 20;
/// Raw bytes of a block, at most.
const BLOCK_BYTES: usize = 256 << 10;
/// Time the corpus spans.
const SPAN_NS: i64 = 3_600 * 1_000_000_000;
const START_NS: i64 = 1_773_100_800 * 1_000_000_000;
const STREAMS: usize = 16;
/// Mean length of a line, from which the clock's pace follows.
const MEAN_LINE_BYTES: usize = 200;

/// The format of the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Json,
    Logfmt,
    Access,
}

impl Style {
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Logfmt, Self::Access];
}

/// Entries of one stream.
pub(crate) struct Block {
    /// Index of the stream.
    pub(crate) stream: usize,
    arrival: u64,
    timestamps_ns: Vec<i64>,
    line_ends: Vec<u32>,
    lines: Vec<u8>,
    metadata: Option<(MetadataSets, Vec<u32>)>,
}

impl Block {
    fn new(stream: usize, arrival: u64, has_metadata: bool) -> Self {
        Self {
            stream,
            arrival,
            timestamps_ns: Vec::new(),
            line_ends: Vec::new(),
            lines: Vec::with_capacity(BLOCK_BYTES),
            metadata: has_metadata.then(|| (MetadataSets::new(), Vec::new())),
        }
    }

    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }

    pub(crate) fn has_metadata(&self) -> bool {
        self.metadata.is_some()
    }

    pub(crate) fn summary(&self) -> BlockSummary {
        BlockSummary {
            blocks: 1,
            min_timestamp_ns: self.timestamps_ns[0],
            max_timestamp_ns: self.timestamps_ns[self.timestamps_ns.len() - 1],
            entries: self.timestamps_ns.len() as u64,
            line_bytes: self.lines.len() as u64,
            metadata_bytes: None,
        }
    }

    pub(crate) fn columns(&self) -> EntryBlock<'_> {
        let metadata = match &self.metadata {
            Some((sets, set_ids)) => MetadataColumn::Sets { set_ids, sets },
            None => MetadataColumn::None,
        };
        EntryBlock {
            timestamps_ns: &self.timestamps_ns,
            line_ends: &self.line_ends,
            lines: &self.lines,
            metadata,
            arrival: self.arrival,
            sorted: true,
        }
    }
}

/// All logs of one style.
pub(crate) struct Corpus {
    streams: Vec<Labels>,
    /// By time of the first entry.
    blocks: Vec<Block>,
    line_bytes: usize,
    entries: usize,
}

impl Corpus {
    pub(crate) fn new(style: Style) -> Self {
        let streams = (0..STREAMS).map(|stream| labels(style, stream)).collect();
        let has_metadata = |stream: usize| stream.is_multiple_of(4);
        let mut random = Rng::new(0x6c6f_6773 + style as u64);
        let mut open: Vec<Block> =
            (0..STREAMS).map(|stream| Block::new(stream, 0, has_metadata(stream))).collect();
        let mut blocks = Vec::new();
        let (mut line_bytes, mut entries) = (0, 0);
        let mut clock_ns = START_NS;
        let pace_ns = SPAN_NS as u64 / (CORPUS_BYTES / MEAN_LINE_BYTES) as u64;
        let mut line = String::new();
        while line_bytes < CORPUS_BYTES {
            clock_ns += random.below(pace_ns * 2) as i64;
            let stream = random.index(STREAMS);
            line.clear();
            write_line(&mut line, style, &mut random, clock_ns, LEVELS[stream % LEVELS.len()])
                .expect("writing to a String cannot fail");
            let block = &mut open[stream];
            if block.lines.len() + line.len() > BLOCK_BYTES {
                let next = Block::new(stream, block.arrival + 1, has_metadata(stream));
                blocks.push(std::mem::replace(block, next));
            }
            let block = &mut open[stream];
            block.timestamps_ns.push(clock_ns);
            block.lines.extend_from_slice(line.as_bytes());
            block.line_ends.push(block.lines.len() as u32);
            if let Some((sets, set_ids)) = &mut block.metadata {
                let trace_id = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
                set_ids.push(sets.intern([("trace_id", trace_id.as_str())]).expect("small"));
            }
            line_bytes += line.len();
            entries += 1;
        }
        blocks.extend(open.into_iter().filter(|block| !block.timestamps_ns.is_empty()));
        blocks.sort_by_key(|block| block.timestamps_ns[0]);
        Self { streams, blocks, line_bytes, entries }
    }

    /// Labels by stream.
    pub(crate) fn streams(&self) -> &[Labels] {
        &self.streams
    }

    /// Blocks in the order of time.
    pub(crate) fn blocks(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Raw bytes of all lines.
    pub(crate) fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Number of all entries.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Bounds of all times, the second one excluded.
    pub(crate) fn bounds_ns(&self) -> (i64, i64) {
        (START_NS, START_NS + SPAN_NS + SPAN_NS / 10)
    }
}

const LEVELS: [&str; 4] = ["info", "info", "warn", "error"];

fn labels(style: Style, stream: usize) -> Labels {
    let (style, pod) = (format!("{style:?}").to_lowercase(), format!("shop-{:05x}", stream * 7919));
    Labels::from_pairs([
        ("app", "shop"),
        ("namespace", "checkout"),
        ("pod", &pod),
        ("format", &style),
        ("stream", if stream.is_multiple_of(2) { "stdout" } else { "stderr" }),
    ])
    .expect("valid labels")
}

const ACTIONS: [&str; 6] = ["", "", "/items", "/history", "/status", "/export"];
const BAD_NEWS: [&str; 6] = [
    "upstream connection refused",
    "Timeout while waiting for a reply",
    "retrying after a failed attempt",
    "lock held by another worker",
    "payload does not match its schema",
    "connection pool \\\"primary\\\" exhausted",
];

fn write_line(
    out: &mut String,
    style: Style,
    random: &mut Rng,
    clock_ns: i64,
    level: &str,
) -> std::fmt::Result {
    let resource = random.pick(&RESOURCES);
    // One in ten lines of a warning or error stream brings news of that kind.
    let is_bad = level != "info" && random.one_in(10);
    let news = if is_bad { random.pick(&BAD_NEWS) } else { random.pick(&GOOD_NEWS) };
    let level = if is_bad { level } else { *random.pick(&["info", "info", "info", "debug"]) };
    let status: u16 = match (level, random.below(50)) {
        ("error", _) => *random.pick(&[500, 502, 503, 504]),
        ("warn", _) => *random.pick(&[400, 401, 404, 409, 429]),
        (_, 0) => 500,
        _ => *random.pick(&[200, 200, 200, 200, 201, 204, 304]),
    };
    let duration_ms = match random.below(100) {
        0 => 1000 + random.below(9000),
        1..10 => 100 + random.below(900),
        _ => random.below(100),
    };
    let address = (random.below(8), random.below(256), random.below(254) + 1);
    let version = random.below(2) + 1;
    let action = random.pick(&ACTIONS);
    match style {
        Style::Json => {
            out.push_str("{\"ts\":\"");
            write_time(out, clock_ns)?;
            write!(
                out,
                "\",\"level\":\"{level}\",\"caller\":\"{resource}/server.go:{}\",\"msg\":\"{news}\",\"method\":\"{}\",\"path\":\"/api/v{version}/{resource}{action}\",\"status\":{status},\"latency\":{}.{:03},\"peer\":\"10.{}.{}.{}\",\"request_id\":\"{:016x}\"}}",
                random.below(900) + 20,
                random.pick(&METHODS),
                duration_ms,
                random.below(1000),
                address.0,
                address.1,
                address.2,
                random.next_u64(),
            )
        }
        Style::Logfmt => {
            out.push_str("ts=");
            write_time(out, clock_ns)?;
            write!(
                out,
                " level={level} caller={resource}.go:{} component={} msg=\"{news}\" tenant=team-{} duration={}.{:02}ms bytes={} retries={} peer=10.{}.{}.{}:{} request_id={:016x}",
                random.below(700) + 10,
                random.pick(&["gateway", "worker", "indexer", "frontend"]),
                random.below(60),
                duration_ms,
                random.below(100),
                random.below(2_000_000),
                if random.one_in(12) { random.below(5) } else { 0 },
                address.0,
                address.1,
                address.2,
                1024 + random.below(60_000),
                random.next_u64(),
            )
        }
        Style::Access => {
            write!(out, "10.{}.{}.{} - - [", address.0, address.1, address.2)?;
            write_time(out, clock_ns)?;
            write!(
                out,
                "] \"{} /api/v{version}/{resource}/{}{action} HTTP/1.1\" {status} {} \"https://{}/{resource}\" \"{}\" {}.{:03} {:012x}",
                random.pick(&METHODS),
                random.below(1_000_000),
                random.below(90_000),
                random.pick(&HOSTS),
                random.pick(&AGENTS),
                duration_ms / 1000,
                random.below(1000),
                random.next_u64() >> 16,
            )
        }
    }
}

/// A time of the corpus, all of which lie on one day.
fn write_time(out: &mut String, clock_ns: i64) -> std::fmt::Result {
    let of_day_ns = clock_ns.rem_euclid(86_400 * 1_000_000_000);
    let (of_day_s, ns) = (of_day_ns / 1_000_000_000, of_day_ns % 1_000_000_000);
    write!(
        out,
        "2026-03-10T{:02}:{:02}:{:02}.{:06}Z",
        of_day_s / 3600,
        of_day_s / 60 % 60,
        of_day_s % 60,
        ns / 1000
    )
}
