//! The known answers of the read workloads. The generator searches each line while it makes
//! the line. The search shares no code with a query engine, so a wrong answer cannot agree with
//! a wrong expectation.

use super::data::{DataSet, RESETS};
use super::fields;
use crate::kubernetes::style_of;
use crate::source::{Body, Entry};
use logsvc_testkit::Style;
use memchr::memmem::Finder;
use std::collections::{BTreeMap, BTreeSet};

/// Lines that a log query asks for.
pub(crate) const LIMIT: usize = 100;
/// Namespaces whose streams are searched for a common text: three of eight.
pub(crate) const TEXT_NAMESPACES: [&str; 3] = ["catalog", "checkout", "search"];
/// The common text.
pub(crate) const TEXT: &str = "request completed";
/// Texts of the three chained filters: two that must be there, one that must not.
pub(crate) const THREE: [&str; 3] = ["orders", "request_id", "completed"];
/// The line filter of the filtered rate.
pub(crate) const RATE_TEXT: &str = "orders";
/// Range and step of the rate workloads.
pub(crate) const RATE_RANGE_NANOS: i64 = 6 * 3600 * 1_000_000_000;
pub(crate) const RATE_STEP_NANOS: i64 = 60_000_000_000;
/// Steps that the window of a rate spans.
pub(crate) const RATE_WINDOW_STEPS: usize = 5;
/// Smallest number of retries that the logfmt workload counts.
pub(crate) const RETRIES: u64 = 3;
/// Status of the JSON rows, and smallest status of the JSON count.
pub(crate) const JSON_STATUS: u64 = 503;
pub(crate) const JSON_STATUS_FROM: u64 = 500;

/// The newest lines of a log query: timestamp and hash of the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Newest(pub(crate) BTreeMap<i64, u64>);

impl Newest {
    fn note(&mut self, entry: &Entry) {
        if self.0.len() == LIMIT {
            match self.0.first_key_value() {
                Some((oldest, _)) if *oldest < entry.unix_nanos => _ = self.0.pop_first(),
                _ => return,
            }
        }
        self.0.insert(entry.unix_nanos, hash(entry.line.as_bytes()));
    }
}

/// FNV-1a: tells lines apart, here and in answers.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// Lines per step of a rate query and label value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Steps(BTreeMap<String, Vec<u64>>);

impl Steps {
    fn note(&mut self, label: &str, unix_nanos: i64, query_start_nanos: i64) {
        // A window is open at its begin and closed at its end, so an entry on a step belongs to the
        // interval before it.
        let step = (unix_nanos - query_start_nanos - 1).div_euclid(RATE_STEP_NANOS) + 1;
        let Ok(at) = usize::try_from(step + RATE_WINDOW_STEPS as i64 - 1) else { return };
        if !self.0.contains_key(label) {
            let steps = (RATE_RANGE_NANOS / RATE_STEP_NANOS) as usize + RATE_WINDOW_STEPS;
            self.0.insert(label.to_owned(), vec![0; steps]);
        }
        if let Some(count) = self.0.get_mut(label).and_then(|steps| steps.get_mut(at)) {
            *count += 1;
        }
    }

    /// Lines per second by label value and number of the step; steps whose window
    /// is empty are absent.
    pub(crate) fn rates(&self) -> BTreeMap<String, BTreeMap<usize, f64>> {
        let window_s = RATE_WINDOW_STEPS as f64 * RATE_STEP_NANOS as f64 / 1e9;
        let rates = |steps: &Vec<u64>| {
            let sums = steps.windows(RATE_WINDOW_STEPS).map(|window| window.iter().sum::<u64>());
            let rates = sums.enumerate().filter(|(_, sum)| *sum > 0);
            rates.map(|(step, sum)| (step, sum as f64 / window_s)).collect()
        };
        self.0.iter().map(|(label, steps)| (label.clone(), rates(steps))).collect()
    }
}

/// A workload's share of the data, for bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Share {
    /// All streams.
    Everything,
    /// The last six hours of all streams.
    SixHours,
    /// The streams of one style.
    Style(Style),
    /// The streams of [`TEXT_NAMESPACES`].
    Text,
    /// One stream.
    Stream,
}

/// The facts.
pub(crate) struct Known {
    pub(crate) lines: u64,
    pub(crate) raw_bytes: u64,
    /// Bytes of lines alone.
    pub(crate) line_bytes: u64,
    pub(crate) bytes_by_namespace: BTreeMap<String, u64>,
    pub(crate) line_bytes_of: BTreeMap<Share, u64>,
    pub(crate) of_stream: Newest,
    pub(crate) with_text: Newest,
    pub(crate) with_id: Newest,
    pub(crate) with_mid_id: Newest,
    pub(crate) with_absent: Newest,
    pub(crate) resets: u64,
    pub(crate) alternation: u64,
    pub(crate) three: u64,
    pub(crate) json_rows: Newest,
    pub(crate) json_by_method: BTreeMap<String, u64>,
    pub(crate) logfmt_retries: u64,
    pub(crate) by_status: BTreeMap<String, u64>,
    pub(crate) by_route: BTreeMap<String, u64>,
    pub(crate) rates: Steps,
    pub(crate) filtered_rates: Steps,
    /// Counts by namespace and duration in hundredths of a millisecond.
    durations: BTreeMap<String, BTreeMap<u64, u64>>,
    pub(crate) traced: Newest,
    pub(crate) pods: BTreeSet<String>,
    pub(crate) streams: BTreeSet<usize>,
    stream: usize,
    finders: Finders,
    rate_start_nanos: i64,
}

struct Finders {
    text: Finder<'static>,
    id: Finder<'static>,
    mid_id: Finder<'static>,
    absent: Finder<'static>,
    resets: [Finder<'static>; 3],
    three: [Finder<'static>; 3],
    rate_text: Finder<'static>,
}

/// The 12 characters from the middle of an id of 16.
pub(crate) fn middle(id: &str) -> &str {
    &id[2..14]
}

impl Known {
    /// The expectations before the first body.
    pub(crate) fn new(data: &DataSet) -> Known {
        let finder = |text: &str| Finder::new(text).into_owned();
        let id = data.id_needle();
        Known {
            lines: 0,
            raw_bytes: 0,
            line_bytes: 0,
            bytes_by_namespace: BTreeMap::new(),
            line_bytes_of: BTreeMap::new(),
            of_stream: Newest::default(),
            with_text: Newest::default(),
            with_id: Newest::default(),
            with_mid_id: Newest::default(),
            with_absent: Newest::default(),
            resets: 0,
            alternation: 0,
            three: 0,
            json_rows: Newest::default(),
            json_by_method: BTreeMap::new(),
            logfmt_retries: 0,
            by_status: BTreeMap::new(),
            by_route: BTreeMap::new(),
            rates: Steps::default(),
            filtered_rates: Steps::default(),
            durations: BTreeMap::new(),
            traced: Newest::default(),
            pods: BTreeSet::new(),
            streams: BTreeSet::new(),
            stream: data.typical_stream(),
            finders: Finders {
                text: finder(TEXT),
                id: finder(&id),
                mid_id: finder(middle(&id)),
                absent: finder(&data.absent_id()),
                resets: RESETS.map(finder),
                three: THREE.map(finder),
                rate_text: finder(RATE_TEXT),
            },
            rate_start_nanos: data.end_nanos - RATE_RANGE_NANOS,
        }
    }

    /// Takes note of a body that `data` has just made.
    pub(crate) fn note(&mut self, body: &Body, data: &DataSet) {
        self.lines += body.line_count;
        self.raw_bytes += body.raw_bytes;
        for (stream, entries) in &body.streams {
            let labels = &data.streams()[*stream];
            let namespace = labels["namespace"].as_str();
            if self.streams.insert(*stream) {
                self.pods.insert(labels["pod"].clone());
            }
            let line_bytes: usize = entries.iter().map(|entry| entry.line.len()).sum();
            self.note_bytes(*stream, namespace, line_bytes as u64);
            for entry in entries {
                let level = labels.get("level").map(String::as_str);
                let level = level.unwrap_or_else(|| fields::level(style_of(*stream), &entry.line));
                self.note_entry(*stream, namespace, level, entry);
                if let Some(trace_id) = data.trace_needle()
                    && entry.metadata.first().is_some_and(|(_, value)| value == trace_id)
                {
                    self.traced.note(entry);
                }
            }
        }
    }

    fn note_bytes(&mut self, stream: usize, namespace: &str, line_bytes: u64) {
        self.line_bytes += line_bytes;
        add(&mut self.bytes_by_namespace, namespace, line_bytes);
        let mut cover = |share| *self.line_bytes_of.entry(share).or_default() += line_bytes;
        cover(Share::Everything);
        cover(Share::Style(style_of(stream)));
        if TEXT_NAMESPACES.contains(&namespace) {
            cover(Share::Text);
        }
        if stream == self.stream {
            cover(Share::Stream);
        }
    }

    fn note_entry(&mut self, stream: usize, namespace: &str, level: &str, entry: &Entry) {
        let line = entry.line.as_bytes();
        let has = |finder: &Finder<'_>| finder.find(line).is_some();
        let finders = &self.finders;
        if stream == self.stream {
            self.of_stream.note(entry);
        }
        if TEXT_NAMESPACES.contains(&namespace) && has(&finders.text) {
            self.with_text.note(entry);
        }
        if has(&finders.mid_id) {
            self.with_mid_id.note(entry);
            if has(&finders.id) {
                self.with_id.note(entry);
            }
        }
        if has(&finders.absent) {
            self.with_absent.note(entry);
        }
        self.resets += u64::from(finders.resets.iter().any(has));
        let [first, second, without] = &finders.three;
        self.three += u64::from(has(first) && has(second) && !has(without));
        self.rates.note(level, entry.unix_nanos, self.rate_start_nanos);
        if entry.unix_nanos > self.rate_start_nanos {
            *self.line_bytes_of.entry(Share::SixHours).or_default() += line.len() as u64;
        }
        if has(&finders.rate_text) {
            self.filtered_rates.note(level, entry.unix_nanos, self.rate_start_nanos);
        }
        match style_of(stream) {
            Style::Json => self.note_json(entry),
            Style::Logfmt => self.note_logfmt(namespace, &entry.line),
            Style::Access => self.note_access(&entry.line),
            Style::Plain => {}
        }
    }

    fn note_json(&mut self, entry: &Entry) {
        let status = fields::number(&entry.line, "\"status\":").unwrap_or(0);
        if status == JSON_STATUS {
            self.json_rows.note(entry);
        }
        if status >= JSON_STATUS_FROM {
            let method = fields::until(&entry.line, "\"method\":\"", '"').unwrap_or_default();
            add(&mut self.json_by_method, method, 1);
        }
    }

    fn note_logfmt(&mut self, namespace: &str, line: &str) {
        let retries = fields::number(line, " retries=").unwrap_or(0);
        self.logfmt_retries += u64::from(retries >= RETRIES);
        if let Some(duration) = fields::until(line, " duration=", 'm') {
            let hundredths = duration.replace('.', "").parse().unwrap_or(0);
            if !self.durations.contains_key(namespace) {
                self.durations.insert(namespace.to_owned(), BTreeMap::new());
            }
            if let Some(counts) = self.durations.get_mut(namespace) {
                *counts.entry(hundredths).or_default() += 1;
            }
        }
    }

    fn note_access(&mut self, line: &str) {
        let Some(request) = fields::Request::of(line) else { return };
        add(&mut self.by_status, request.status, 1);
        let mut path = request.path.strip_prefix("/api/").unwrap_or_default().split('/');
        let (version, resource) =
            (path.next().unwrap_or_default(), path.next().unwrap_or_default());
        add(&mut self.by_route, &format!("{version},{resource}"), 1);
        self.alternation += u64::from(
            matches!(request.method, "POST" | "DELETE") && matches!(resource, "orders" | "carts"),
        );
    }

    /// The `q`-quantile of the durations of the logfmt lines by namespace, in seconds,
    /// interpolated between the two nearest ranks.
    pub(crate) fn duration_quantiles(&self, q: f64) -> BTreeMap<String, f64> {
        let quantile = |counts: &BTreeMap<u64, u64>| {
            let total: u64 = counts.values().sum();
            let rank = q * (total.max(1) - 1) as f64;
            let value_at = |rank: u64| {
                let mut seen = 0;
                let mut reached = counts.iter().find(|(_, count)| {
                    seen += **count;
                    seen > rank
                });
                reached.take().map_or(0.0, |(hundredths, _)| *hundredths as f64 / 1e5)
            };
            let weight = rank - rank.floor();
            value_at(rank.floor() as u64) * (1.0 - weight) + value_at(rank.ceil() as u64) * weight
        };
        self.durations.iter().map(|(name, counts)| (name.clone(), quantile(counts))).collect()
    }
}

/// Adds to the count of a name, which is copied once.
fn add(counts: &mut BTreeMap<String, u64>, name: &str, amount: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += amount,
        None => _ = counts.insert(name.to_owned(), amount),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(unix_nanos: i64) -> Entry {
        Entry { unix_nanos, line: format!("line {unix_nanos}"), metadata: Vec::new() }
    }

    #[test]
    fn the_newest_lines_are_kept_in_whatever_order_they_come() {
        let mut newest = Newest::default();
        for time in (0..500).map(|i| i * 7919 % 500) {
            newest.note(&entry(time));
        }
        assert!(newest.0.keys().copied().eq(400..500));
        assert_eq!(newest.0[&450], hash(b"line 450"));
    }

    #[test]
    fn rates_count_windows_that_are_open_at_their_begin() {
        let start_nanos = 1_773_100_800_000_000_000;
        let mut steps = Steps::default();
        let minute = RATE_STEP_NANOS;
        for offset in
            [-5 * minute, -5 * minute + 1, 0, 1, minute, RATE_RANGE_NANOS, RATE_RANGE_NANOS + 1]
        {
            steps.note("info", start_nanos + offset, start_nanos);
        }
        let rates = &steps.rates()["info"];
        let counts: Vec<(usize, f64)> =
            rates.iter().map(|(step, rate)| (*step, (rate * 300.0).round())).collect();
        // The first line is outside of every window, the last one behind the range.
        let expected = [(0, 2.0), (1, 3.0), (2, 3.0), (3, 3.0), (4, 3.0), (5, 2.0), (360, 1.0)];
        assert_eq!(counts, expected);
    }
}
