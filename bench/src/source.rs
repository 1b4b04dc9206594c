//! Where the lines come from. A source is a deterministic sequence of bodies: the
//! same [`SourceArgs`] give the same bodies, lines and timestamps every time, so
//! that `verify` needs nothing but the options (or a ledger that holds them).
//!
//! Timestamps increase strictly over the whole sequence, so they are unique and
//! a window of time is a window of lines.

use crate::files::{self, FileLines};
use crate::kubernetes::PodLines;
use crate::labels::{self, Labels};
use crate::units::{parse_duration_nanos, parse_instant_nanos, parse_size_bytes, unix_now_nanos};
use anyhow::{Result, bail};
use clap::Args;
use logsvc_testkit::{Rng, mix};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The lines to push or to expect.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SourceArgs {
    /// Log files, or folders whose *.log files are taken; one stream per file
    #[arg(long, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// Spread each file's lines over this many streams (label `part`)
    #[arg(long, default_value_t = 1)]
    pub(crate) streams_per_file: usize,
    /// How often the files are read through (--bytes overrides)
    #[arg(long, default_value_t = 1)]
    pub(crate) repeat: u64,
    /// Number of generated streams (Kubernetes-like), when no files are given
    #[arg(long, default_value_t = 400)]
    pub(crate) streams: usize,
    /// Streams that share one generated body, as an agent on one node would send
    #[arg(long, default_value_t = 16)]
    pub(crate) streams_per_body: usize,
    /// Seed of everything that is generated
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Raw bytes in all (default: the files once, or 100MB generated)
    #[arg(long, value_parser = parse_size_bytes)]
    pub(crate) bytes: Option<u64>,
    /// Raw bytes per body
    #[arg(long, default_value = "512KB", value_parser = parse_size_bytes)]
    pub(crate) body_bytes: u64,
    /// Add a trace id and a span id to every line as structured metadata
    #[arg(long)]
    pub(crate) metadata: bool,
    /// Whether generated streams have the label `level`; without it, each has lines of all
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    #[serde(default = "has_level_label")]
    pub(crate) level_label: bool,
    /// Value of the label `job` that all streams share
    #[arg(long, default_value = "bench")]
    pub(crate) job: String,
    /// A further label name=value of all streams; repeatable
    #[arg(long = "label", value_parser = labels::parse_pair)]
    pub(crate) labels: Vec<(String, String)>,
    /// Timestamp of the first line: seconds, nanoseconds, now or now-DURATION
    /// (default: early enough for the last line to lie before now)
    #[arg(long, value_parser = |text: &str| parse_instant_nanos(text, unix_now_nanos()))]
    pub(crate) start: Option<i64>,
    /// Time between two lines
    #[arg(long, default_value = "1ms", value_parser = parse_duration_nanos)]
    pub(crate) line_interval: u64,
}

/// Ledgers of before the option.
fn has_level_label() -> bool {
    true
}

/// One log line with its timestamp and structured metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) unix_nanos: i64,
    pub(crate) line: String,
    pub(crate) metadata: Vec<(&'static str, String)>,
}

impl Entry {
    /// Line bytes plus names and values of the metadata, as the limits count them.
    pub(crate) fn raw_bytes(&self) -> u64 {
        let metadata: usize =
            self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        (self.line.len() + metadata) as u64
    }
}

/// The content of one push request.
#[derive(Debug, PartialEq)]
pub(crate) struct Body {
    /// Place in the sequence of bodies, from zero.
    pub(crate) number: u64,
    /// Place of the body's first line in the sequence of lines, from zero.
    pub(crate) first_seq: u64,
    pub(crate) line_count: u64,
    pub(crate) raw_bytes: u64,
    /// Entries by stream; the number is an index into [`Source::streams`].
    pub(crate) streams: Vec<(usize, Vec<Entry>)>,
}

/// A producer of lines: which stream the next one belongs to, and its text.
trait Lines: Send {
    /// Called when a body begins, so that its streams can be chosen.
    fn begin_body(&mut self, number: u64);
    /// The next line and its stream; none when the source is used up.
    fn next_line(&mut self, unix_nanos: i64) -> Option<(usize, String)>;
}

impl Lines for FileLines {
    fn begin_body(&mut self, _number: u64) {}
    fn next_line(&mut self, _unix_nanos: i64) -> Option<(usize, String)> {
        self.next()
    }
}

impl Lines for PodLines {
    fn begin_body(&mut self, number: u64) {
        self.move_to_node(number);
    }
    fn next_line(&mut self, unix_nanos: i64) -> Option<(usize, String)> {
        Some(self.line(unix_nanos))
    }
}

/// The sequence of bodies of one [`SourceArgs`].
pub(crate) struct Source {
    lines: Box<dyn Lines>,
    streams: Vec<Labels>,
    selector: String,
    start_nanos: i64,
    line_interval_nanos: i64,
    seed: u64,
    metadata: bool,
    body_bytes: u64,
    remaining_bytes: u64,
    next_seq: u64,
    next_body: u64,
}

impl Source {
    /// Opens the source. Replaces folders in `args.files` by their files and an open `args.start`
    /// by a time, so that the same value can be written down and used again.
    pub(crate) fn open(args: &mut SourceArgs) -> Result<Source> {
        if args.body_bytes == 0 || args.line_interval == 0 {
            bail!("--body-bytes and --line-interval must be more than zero");
        }
        let mut shared: Labels = args.labels.iter().cloned().collect();
        shared.insert("job".to_owned(), args.job.clone());
        let (lines, own_labels, remaining_bytes, line_count): (Box<dyn Lines>, _, _, _) = if args
            .files
            .is_empty()
        {
            let bytes = args.bytes.unwrap_or(100_000_000);
            let pods =
                PodLines::new(args.seed, args.streams, args.streams_per_body, args.level_label)?;
            let own_labels = pods.stream_labels();
            // Generated lines are longer than 100 bytes: an upper bound.
            (Box::new(pods), own_labels, bytes, bytes / 100)
        } else {
            let repeat = if args.bytes.is_some() { u64::MAX } else { args.repeat };
            args.files = files::expand(&args.files)?;
            let files = FileLines::open(&args.files, args.streams_per_file, repeat)?;
            let own_labels = files.stream_labels();
            let line_count = match args.bytes {
                Some(bytes) => bytes / files.mean_line_bytes().max(1) + files.line_count(),
                None => files.line_count().saturating_mul(args.repeat),
            };
            (Box::new(files), own_labels, args.bytes.unwrap_or(u64::MAX), line_count)
        };
        let streams: Vec<Labels> = own_labels
            .into_iter()
            .map(|own| own.into_iter().chain(shared.clone()).collect())
            .collect();
        let line_interval_nanos = i64::try_from(args.line_interval)?;
        let start_nanos = *args.start.get_or_insert_with(|| {
            unix_now_nanos().saturating_sub_unsigned(line_count.saturating_mul(args.line_interval))
        });
        Ok(Source {
            lines,
            streams,
            selector: labels::to_selector(&shared),
            start_nanos,
            line_interval_nanos,
            seed: args.seed,
            metadata: args.metadata,
            body_bytes: args.body_bytes,
            remaining_bytes,
            next_seq: 0,
            next_body: 0,
        })
    }

    /// Labels of every stream.
    pub(crate) fn streams(&self) -> &[Labels] {
        &self.streams
    }

    /// A selector that matches all streams of the source.
    pub(crate) fn selector(&self) -> &str {
        &self.selector
    }

    fn entry(&self, unix_nanos: i64, line: String) -> Entry {
        let mut metadata = Vec::new();
        if self.metadata {
            // Three neighbouring lines belong to one trace.
            let mut random = Rng::new(mix(self.seed, self.next_seq / 3));
            let trace_id = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
            metadata.push(("trace_id", trace_id));
            metadata.push(("span_id", format!("{:016x}", mix(self.seed ^ 1, self.next_seq))));
        }
        Entry { unix_nanos, line, metadata }
    }
}

impl Iterator for Source {
    type Item = Body;

    fn next(&mut self) -> Option<Body> {
        let mut body = Body {
            number: self.next_body,
            first_seq: self.next_seq,
            line_count: 0,
            raw_bytes: 0,
            streams: Vec::new(),
        };
        self.lines.begin_body(body.number);
        while body.raw_bytes < self.body_bytes && self.remaining_bytes > 0 {
            let offset_nanos = self.line_interval_nanos.saturating_mul(self.next_seq as i64);
            let unix_nanos = self.start_nanos.saturating_add(offset_nanos);
            let Some((stream, line)) = self.lines.next_line(unix_nanos) else {
                self.remaining_bytes = 0;
                break;
            };
            let entry = self.entry(unix_nanos, line);
            let raw_bytes = entry.raw_bytes();
            body.raw_bytes += raw_bytes;
            body.line_count += 1;
            self.remaining_bytes = self.remaining_bytes.saturating_sub(raw_bytes);
            self.next_seq += 1;
            match body.streams.iter_mut().find(|(number, _)| *number == stream) {
                Some((_, entries)) => entries.push(entry),
                None => body.streams.push((stream, vec![entry])),
            }
        }
        if body.line_count == 0 {
            return None;
        }
        self.next_body += 1;
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::source_args;

    #[test]
    fn the_same_options_give_the_same_bodies() {
        let mut args = source_args(&["--bytes", "300KB", "--body-bytes", "40KB", "--metadata"]);
        let first: Vec<Body> = Source::open(&mut args).unwrap().collect();
        let second: Vec<Body> = Source::open(&mut args.clone()).unwrap().collect();
        assert_eq!(first, second);
        assert!(first.len() >= 7, "{} bodies", first.len());
        args.seed += 1;
        let other: Vec<Body> = Source::open(&mut args).unwrap().collect();
        assert_ne!(first[0], other[0]);
    }

    #[test]
    fn timestamps_increase_strictly_and_numbers_are_gapless() {
        let mut args =
            source_args(&["--bytes", "200KB", "--body-bytes", "20KB", "--start", "1700000000"]);
        let (mut seq, mut raw_bytes) = (0, 0);
        for (number, body) in Source::open(&mut args).unwrap().enumerate() {
            assert_eq!((body.number, body.first_seq), (number as u64, seq));
            let mut times: Vec<i64> = Vec::new();
            for (_, entries) in &body.streams {
                assert!(entries.is_sorted_by(|a, b| a.unix_nanos < b.unix_nanos));
                times.extend(entries.iter().map(|entry| entry.unix_nanos));
            }
            times.sort_unstable();
            let first = 1_700_000_000_000_000_000 + seq as i64 * 1_000_000;
            assert!(times.iter().enumerate().all(|(i, &t)| t == first + i as i64 * 1_000_000));
            assert_eq!(times.len() as u64, body.line_count);
            seq += body.line_count;
            raw_bytes += body.raw_bytes;
        }
        assert!((200_000..201_000).contains(&raw_bytes), "{raw_bytes}");
    }

    #[test]
    fn an_open_start_ends_before_now_and_is_written_back() {
        let mut args = source_args(&["--bytes", "50KB"]);
        let last = Source::open(&mut args).unwrap().last().unwrap();
        let newest = last.streams.iter().flat_map(|(_, e)| e).map(|e| e.unix_nanos).max().unwrap();
        assert!(newest < unix_now_nanos());
        assert!(args.start.is_some());
    }
}
