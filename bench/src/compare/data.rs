//! The data set of a comparison: streams of a Kubernetes-like cluster over some hours of log
//! time, generated from a seed.
//!
//! Time passes in rounds. In a round every node sends one body, and the lines of all nodes
//! interleave in time, as in a real cluster. So the lines of one stream are in order, and the
//! lines of the whole data set are not. Every line has an interval of time of its own, in which
//! its timestamp is drawn to the nanosecond: timestamps are unique, and compress as badly as
//! real ones.
//!
//! Some lines are needles: a known id in ten lines, a message in three spellings of upper and
//! lower case, a trace id that at most three neighbours share.

use crate::kubernetes::{PodLines, app_of};
use crate::labels::{self, Labels};
use crate::source::{Body, Entry};
use crate::units::{parse_duration_nanos, parse_instant_nanos, parse_size_bytes, unix_now_nanos};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use logsvc_proto::discover::DETECTED_LEVEL;
use logsvc_testkit::{Rng, mix};
use std::collections::BTreeMap;

/// Streams that share a body, as an agent on one node would send them.
const STREAMS_PER_NODE: usize = 16;
/// Rounds at least, so that small data sets have every stream at several times too.
const MIN_ROUNDS: u64 = 4;
/// Lines of every node that tell how long a line is.
const SAMPLE_LINES: u64 = 64;
/// Lines with the needle id.
pub(crate) const ID_NEEDLES: u64 = 10;
/// One line in so many has one of [`RESETS`] as its message.
const RESET_ONE_IN: u64 = 150;
/// The message of the search without regard to case.
pub(crate) const RESETS: [&str; 3] =
    ["connection reset by peer", "Connection reset by peer", "CONNECTION RESET BY PEER"];
/// Read workloads look at six hours with windows of five minutes before.
const MIN_SPAN_NANOS: u64 = (6 * 60 + 5) * MINUTE_NANOS;
const MINUTE_NANOS: u64 = 60_000_000_000;

/// Which streams have structured metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metadata {
    /// None
    None,
    /// A trace id and a span id on every line of one application in four
    Some,
    /// A trace id and a span id on every line
    All,
}

/// The shape of the data set.
#[derive(Args, Clone, Debug)]
pub(crate) struct DataArgs {
    /// Number of streams, for example 100, 1000 or 10000
    #[arg(long, default_value_t = 1000)]
    pub(crate) streams: usize,
    /// Size of lines and metadata, in GB
    #[arg(long, conflicts_with = "raw_mb")]
    pub(crate) raw_gb: Option<f64>,
    /// Size of lines and metadata, in MB (default: 1000)
    #[arg(long)]
    pub(crate) raw_mb: Option<f64>,
    /// Seed of everything that is generated
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Log time that the lines span; at least 6h5m
    #[arg(long, default_value = "7h", value_parser = parse_duration_nanos)]
    pub(crate) span: u64,
    /// End of the log time: seconds, nanoseconds, now or now-DURATION; cut to a minute
    #[arg(long, default_value = "now", value_parser = |text: &str| parse_instant_nanos(text, unix_now_nanos()))]
    pub(crate) end: i64,
    /// Streams with structured metadata
    #[arg(long, value_enum, default_value_t = Metadata::Some)]
    pub(crate) metadata: Metadata,
    /// Whether streams have the label `level`; without it, each has lines of all levels
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) level_label: bool,
    /// Raw bytes per body, at most
    #[arg(long, default_value = "512KB", value_parser = parse_size_bytes)]
    pub(crate) body_bytes: u64,
    /// Value of the label `job` that all streams share
    #[arg(long, default_value = "compare")]
    pub(crate) job: String,
}

impl DataArgs {
    /// The requested size, in bytes of lines and metadata.
    pub(crate) fn raw_bytes(&self) -> Result<u64> {
        let bytes = match (self.raw_gb, self.raw_mb) {
            (Some(gigabytes), _) => gigabytes * 1e9,
            (None, megabytes) => megabytes.unwrap_or(1000.0) * 1e6,
        };
        if !(1e6..1e15).contains(&bytes) {
            bail!("the data set must have at least 1 MB and less than a million GB");
        }
        Ok(bytes as u64)
    }
}

/// The data set: a sequence of bodies that follows from its options.
pub(crate) struct DataSet {
    pods: PodLines,
    streams: Vec<Labels>,
    seed: u64,
    metadata: Metadata,
    level_label: bool,
    rounds: u64,
    /// Lines of a node with all its streams in one round.
    lines_per_body: u64,
    slot_nanos: u64,
    /// No line is older.
    pub(crate) start_nanos: i64,
    /// All lines are older.
    pub(crate) end_nanos: i64,
    /// Needle ids by number of the body.
    id_needles: BTreeMap<u64, u64>,
    next_body: u64,
    next_seq: u64,
    trace_needle: Option<String>,
}

impl DataSet {
    pub(crate) fn new(args: &DataArgs) -> Result<DataSet> {
        if args.span < MIN_SPAN_NANOS {
            bail!("--span must be at least 6h5m");
        }
        let pods = PodLines::new(args.seed, args.streams, STREAMS_PER_NODE, args.level_label)?;
        let shared = Labels::from([("job".to_owned(), args.job.clone())]);
        let streams = pods.stream_labels();
        let streams = streams.into_iter().map(|own| own.into_iter().chain(shared.clone()));
        let end_nanos = args.end - args.end.rem_euclid(MINUTE_NANOS as i64);
        let mut data = DataSet {
            streams: streams.map(Iterator::collect).collect(),
            pods,
            seed: args.seed,
            metadata: args.metadata,
            level_label: args.level_label,
            rounds: 1,
            lines_per_body: SAMPLE_LINES,
            slot_nanos: 1,
            start_nanos: end_nanos.saturating_sub_unsigned(args.span),
            end_nanos,
            id_needles: BTreeMap::new(),
            next_body: 0,
            next_seq: 0,
            trace_needle: None,
        };
        data.lay_out(args)?;
        Ok(data)
    }

    /// Decides on rounds and slots, from the length of some lines of every node.
    fn lay_out(&mut self, args: &DataArgs) -> Result<()> {
        let nodes = self.pods.node_count();
        let sample: Vec<Body> = self.by_ref().collect();
        let sample_lines: u64 = sample.iter().map(|body| body.line_count).sum();
        let sample_bytes: u64 = sample.iter().map(|body| body.raw_bytes).sum();
        let raw_bytes = args.raw_bytes()?;
        let lines = raw_bytes * sample_lines / sample_bytes.max(1);
        let bodies = raw_bytes.div_ceil(args.body_bytes.max(1)).max(nodes * MIN_ROUNDS);
        // Nodes that are not full send less, see `lines_of_node`.
        let full_nodes = args.streams as f64 / STREAMS_PER_NODE as f64;
        self.rounds = bodies.div_ceil(nodes);
        self.lines_per_body = (lines as f64 / full_nodes / self.rounds as f64).round() as u64;
        // One nanosecond on either side keeps all lines inside of every interval,
        // whichever of its ends is open.
        let slots = self.rounds * self.lines_per_body * nodes;
        self.slot_nanos = (args.span - 2).checked_div(slots).unwrap_or(0);
        if self.lines_per_body == 0 || self.slot_nanos == 0 {
            bail!("too few bytes for so many streams, or too many for the span");
        }
        for needle in 0..ID_NEEDLES {
            let round = (2 * needle + 1) * self.rounds / (2 * ID_NEEDLES);
            let node = self.node_with_ids(needle);
            *self.id_needles.entry(round * nodes + node).or_default() += 1;
        }
        (self.next_body, self.next_seq, self.trace_needle) = (0, 0, None);
        Ok(())
    }

    /// A node with applications whose lines have the field `request_id`: their lines are JSON or
    /// logfmt.
    fn node_with_ids(&self, needle: u64) -> u64 {
        let nodes = self.pods.node_count();
        let first = mix(self.seed ^ 5, needle) % nodes;
        let has_ids = |node: u64| {
            let streams = node as usize * STREAMS_PER_NODE;
            // Half of the streams at least.
            (0..self.pods.streams_of_node(node)).filter(|at| app_of(streams + at) % 4 < 2).count()
                >= STREAMS_PER_NODE / 2
        };
        (first..nodes).chain(0..first).find(|node| has_ids(*node)).unwrap_or(0)
    }

    /// Labels of every stream.
    pub(crate) fn streams(&self) -> &[Labels] {
        &self.streams
    }

    /// The name under which lines have a level: a label, or metadata that servers discover.
    pub(crate) fn level_name(&self) -> &'static str {
        if self.level_label { "level" } else { DETECTED_LEVEL }
    }

    /// A stream that most lines of its pod are in, somewhere in the middle.
    pub(crate) fn typical_stream(&self) -> usize {
        // Every fourth stream is that of the level info.
        self.streams.len() / 8 * 4
    }

    /// A selector of this stream alone.
    pub(crate) fn selector(&self, stream: usize) -> String {
        labels::to_selector(&self.streams[stream])
    }

    /// The id in [`ID_NEEDLES`] lines.
    pub(crate) fn id_needle(&self) -> String {
        format!("{:016x}", mix(self.seed ^ 2, 1))
    }

    /// An id in no line.
    pub(crate) fn absent_id(&self) -> String {
        format!("{:016x}", mix(self.seed ^ 2, 2))
    }

    /// A trace id of the middle of the data set; known once that has been made.
    pub(crate) fn trace_needle(&self) -> Option<&str> {
        self.trace_needle.as_deref()
    }

    fn lines_of_node(&self, node: u64) -> u64 {
        let streams = self.pods.streams_of_node(node) as u64;
        (self.lines_per_body * streams / STREAMS_PER_NODE as u64).max(1)
    }

    fn has_metadata(&self, stream: usize) -> bool {
        match self.metadata {
            Metadata::None => false,
            Metadata::Some => (app_of(stream) / 4).is_multiple_of(4),
            Metadata::All => true,
        }
    }

    fn metadata(
        &self,
        stream: usize,
        slot: u64,
        body: u64,
        at: u64,
    ) -> Vec<(&'static str, String)> {
        if !self.has_metadata(stream) {
            return Vec::new();
        }
        // Three neighbouring lines of a node belong to one trace.
        let mut random = Rng::new(mix(mix(self.seed, body), at / 3));
        let trace_id = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
        let span_id = format!("{:016x}", mix(self.seed ^ 1, slot));
        vec![("trace_id", trace_id), ("span_id", span_id)]
    }
}

impl Iterator for DataSet {
    type Item = Body;

    fn next(&mut self) -> Option<Body> {
        let nodes = self.pods.node_count();
        let number = self.next_body;
        let (round, node) = (number / nodes, number % nodes);
        if round >= self.rounds {
            return None;
        }
        self.next_body += 1;
        self.pods.move_to_node(number);
        let mut body = Body {
            number,
            first_seq: self.next_seq,
            line_count: self.lines_of_node(node),
            raw_bytes: 0,
            streams: Vec::new(),
        };
        self.next_seq += body.line_count;
        let mut id_needles = self.id_needles.get(&number).copied().unwrap_or(0);
        for at in 0..body.line_count {
            let slot = (round * self.lines_per_body + at) * nodes + node;
            let offset_nanos =
                1 + slot * self.slot_nanos + mix(self.seed ^ 3, slot) % self.slot_nanos;
            let unix_nanos = self.start_nanos.saturating_add_unsigned(offset_nanos);
            let fate = mix(self.seed ^ 4, slot);
            let news = fate
                .is_multiple_of(RESET_ONE_IN)
                .then(|| RESETS[(fate / RESET_ONE_IN % RESETS.len() as u64) as usize]);
            let (stream, mut line) = self.pods.line_about(unix_nanos, news);
            if id_needles > 0 && replace_id(&mut line, &self.id_needle()) {
                id_needles -= 1;
            }
            let metadata = self.metadata(stream, slot, number, at);
            if self.trace_needle.is_none() && round >= self.rounds / 2 {
                self.trace_needle = metadata.first().map(|(_, trace_id)| trace_id.clone());
            }
            let entry = Entry { unix_nanos, line, metadata };
            body.raw_bytes += entry.raw_bytes();
            match body.streams.iter_mut().find(|(known, _)| *known == stream) {
                Some((_, entries)) => entries.push(entry),
                None => body.streams.push((stream, vec![entry])),
            }
        }
        Some(body)
    }
}

/// Puts `id` in the place of a line's request id, if it has one.
fn replace_id(line: &mut String, id: &str) -> bool {
    for name in ["\"request_id\":\"", "request_id="] {
        if let Some(at) = line.rfind(name) {
            let start = at + name.len();
            line.replace_range(start..start + id.len(), id);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;
    use crate::kubernetes::style_of;
    use clap::Parser;
    use logsvc_proto::discover::{LevelFields, line_level};
    use std::collections::BTreeSet;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        data: DataArgs,
    }

    fn data(args: &[&str]) -> DataSet {
        let args = [&["test", "--end", "1773100830"], args].concat();
        DataSet::new(&Cli::parse_from(args).data).unwrap()
    }

    #[test]
    fn the_same_options_give_the_same_bodies() {
        let args = ["--raw-mb", "1", "--streams", "100", "--seed", "9"];
        let first: Vec<Body> = data(&args).collect();
        assert!(first.iter().eq(data(&args).collect::<Vec<Body>>().iter()));
        let other: Vec<Body> = data(&["--raw-mb", "1", "--streams", "100"]).collect();
        assert_ne!(first[0], other[0]);
    }

    #[test]
    fn size_streams_and_times_are_as_asked_for() {
        for streams in ["100", "917", "10000"] {
            let data = data(&["--raw-mb", "12", "--streams", streams]);
            let (start_nanos, end_nanos) = (data.start_nanos, data.end_nanos);
            assert_eq!(end_nanos, 1_773_100_800_000_000_000, "cut to a minute");
            assert_eq!(end_nanos - start_nanos, 7 * 3_600_000_000_000);
            let (mut raw_bytes, mut times, mut seen) = (0, BTreeSet::new(), BTreeSet::new());
            for body in data {
                raw_bytes += body.raw_bytes;
                for (stream, entries) in &body.streams {
                    seen.insert(*stream);
                    assert!(entries.is_sorted_by(|a, b| a.unix_nanos < b.unix_nanos));
                    for entry in entries {
                        assert!(times.insert(entry.unix_nanos), "a timestamp twice");
                    }
                }
            }
            assert!((11_000_000..13_000_000).contains(&raw_bytes), "{raw_bytes} of {streams}");
            let streams: usize = streams.parse().unwrap();
            assert!(seen.len() * 10 >= streams * 9, "{} of {streams} streams", seen.len());
            let (first, last) = (*times.first().unwrap(), *times.last().unwrap());
            assert!(first > start_nanos && last < end_nanos);
            assert!(last - first > (end_nanos - start_nanos) / 10 * 9);
        }
    }

    #[test]
    fn needles_are_there() {
        for streams in ["100", "1000"] {
            let mut data = data(&["--raw-mb", "4", "--streams", streams]);
            let (id, absent) = (data.id_needle(), data.absent_id());
            let bodies: Vec<Body> = data.by_ref().collect();
            let entries: Vec<&Entry> =
                bodies.iter().flat_map(|body| &body.streams).flat_map(|(_, e)| e).collect();
            let with = |text: &str| entries.iter().filter(|e| e.line.contains(text)).count() as u64;
            assert_eq!((with(&id), with(&absent)), (ID_NEEDLES, 0));
            assert!(RESETS.iter().all(|text| with(text) > 5));
            let trace_id = data.trace_needle().unwrap();
            let traced = |e: &&&Entry| e.metadata.first().is_some_and(|(_, id)| id == trace_id);
            assert!((1..=3).contains(&entries.iter().filter(traced).count()));
            let lengths = entries.iter().map(|e| e.line.len()).sum::<usize>() / entries.len();
            assert!((150..=250).contains(&lengths), "{lengths}");
        }
    }

    #[test]
    fn without_the_label_the_level_is_told_by_the_line() {
        let args = ["--raw-mb", "4", "--streams", "100", "--level-label", "false"];
        let data = data(&args);
        assert_eq!(data.level_name(), "detected_level");
        assert!(data.streams().iter().all(|labels| !labels.contains_key("level")));
        let (names, mut seen) = (LevelFields::default(), BTreeSet::new());
        for (stream, entries) in data.flat_map(|body| body.streams) {
            for entry in entries {
                let told = fields::level(style_of(stream), &entry.line).to_owned();
                let found = line_level(entry.line.as_bytes(), &names, 0);
                assert_eq!(told, found.as_str(), "{}", entry.line);
                seen.insert(told);
            }
        }
        let levels = ["debug", "error", "info", "unknown", "warn"].map(str::to_owned);
        assert!(seen.iter().eq(&levels), "{seen:?}");
    }
}
