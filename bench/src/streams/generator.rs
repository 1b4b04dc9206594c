//! Labels, times and lines of the streams, from a seed.
//!
//! Every value follows from the seed, the day, and the numbers of stream and line. So any thread
//! makes any push, and a probe knows its answer. Names of pods are unique within a day, because
//! they are made of a number that no other pod of the day has. Streams of different days have
//! different pods.

use super::plan::{DAY_NANOS, Plan};
use crate::labels::Labels;
use crate::source::{Body, Entry};
use logsvc_testkit::{Rng, mix};
use std::fmt::Write;
use std::ops::Range;

/// Namespaces, of which each has as many applications.
pub(crate) const NAMESPACES: u64 = 50;
const APPS: u64 = 20;
/// Characters of the random part of a pod's name: enough for 64 bits.
const SUFFIX_CHARS: usize = 13;
const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const KINDS: [&str; 5] = ["checkout", "payments", "inventory", "recommend", "gateway"];
const ROUTES: [&str; 6] = ["orders", "carts", "users", "invoices", "search", "sessions"];

/// All days.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generator {
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    pub(crate) first_day_nanos: i64,
}

/// What the labels of a pod are made of.
struct Pod {
    id: u64,
    namespace: u64,
    app: u64,
}

impl Generator {
    /// The times of a day, since the Unix epoch.
    pub(crate) fn day(&self, day: u64) -> Range<i64> {
        let start = self.first_day_nanos + day as i64 * DAY_NANOS;
        start..start + DAY_NANOS
    }

    /// The name of a namespace.
    pub(crate) fn namespace(number: u64) -> String {
        format!("team-{number:02}-production")
    }

    /// The namespace of a pod.
    pub(crate) fn namespace_of(&self, day: u64, pod: u64) -> u64 {
        self.pod(day, pod).namespace
    }

    fn pod(&self, day: u64, pod: u64) -> Pod {
        let id = mix(mix(self.seed, day), pod);
        let mut rng = Rng::new(id);
        Pod { id, namespace: rng.below(NAMESPACES), app: rng.below(APPS) }
    }

    /// The value of the label `pod`.
    pub(crate) fn pod_name(&self, day: u64, pod: u64) -> String {
        pod_name(&self.pod(day, pod))
    }

    /// The value of the label `stream`.
    pub(crate) fn output_of(stream: u64) -> &'static str {
        if stream.is_multiple_of(2) { "stdout" } else { "stderr" }
    }

    /// The labels of a stream.
    pub(crate) fn labels(&self, day: u64, stream: u64) -> Labels {
        let number = stream / 2;
        let pod = self.pod(day, number);
        let node = number % super::plan::NODES;
        let text = |name: &str, value: String| (name.to_owned(), value);
        Labels::from([
            text("namespace", Generator::namespace(pod.namespace)),
            text("app", app_name(&pod)),
            text("pod", pod_name(&pod)),
            text("node", format!("ip-10-20-{}-{node}.eu-central-1.internal", node / 8)),
            text("container", KINDS[pod.app as usize % KINDS.len()].to_owned()),
            text("stream", Generator::output_of(stream).to_owned()),
        ])
    }

    /// When a line was written, since the Unix epoch.
    pub(crate) fn time(&self, day: u64, stream: u64, line: u64) -> i64 {
        let slot = self.plan.slot(stream, line);
        let within = self.rng(day, stream, line).below(slot.len_nanos as u64);
        self.day(day).start + slot.start_nanos + within as i64
    }

    /// A line with its time.
    pub(crate) fn entry(&self, day: u64, stream: u64, line: u64) -> Entry {
        let mut rng = self.rng(day, stream, line);
        // The first number is the time's.
        rng.next_u64();
        let mut text = String::with_capacity(160);
        let (level, status) = match (stream % 2, rng.below(8)) {
            (0, 0) => ("debug", 200),
            (0, _) => ("info", [200, 200, 201, 204][rng.index(4)]),
            (_, 0..=2) => ("error", [500, 502, 503][rng.index(3)]),
            _ => ("warn", [400, 404, 409, 429][rng.index(4)]),
        };
        let written = write!(
            text,
            "level={level} caller=handler.go:{} method=GET path=/api/v2/{}/{} status={status} \
             duration={}.{:03}ms request_id={:016x}",
            100 + rng.below(20),
            rng.pick(&ROUTES),
            rng.below(1_000_000),
            rng.below(500),
            rng.below(1000),
            rng.next_u64(),
        );
        debug_assert!(written.is_ok(), "memory takes any text");
        Entry { unix_nanos: self.time(day, stream, line), line: text, metadata: Vec::new() }
    }

    fn rng(&self, day: u64, stream: u64, line: u64) -> Rng {
        Rng::new(mix(mix(mix(self.seed, day) ^ 1, stream), line))
    }

    /// Push number `push` of a day, with the labels of its streams; none if it is empty.
    pub(crate) fn body(&self, day: u64, push: u64) -> Option<(Body, Vec<Labels>)> {
        let content = self.plan.content(push);
        let mut body = Body {
            number: push,
            first_seq: 0,
            line_count: 0,
            raw_bytes: 0,
            streams: Vec::with_capacity(content.len()),
        };
        let mut labels = Vec::with_capacity(content.len());
        for (index, (stream, lines)) in content.into_iter().enumerate() {
            let entries: Vec<Entry> = lines.map(|line| self.entry(day, stream, line)).collect();
            body.line_count += entries.len() as u64;
            body.raw_bytes += entries.iter().map(Entry::raw_bytes).sum::<u64>();
            body.streams.push((index, entries));
            labels.push(self.labels(day, stream));
        }
        (body.line_count > 0).then_some((body, labels))
    }
}

fn app_name(pod: &Pod) -> String {
    format!("{}-api-{:02}", KINDS[pod.app as usize % KINDS.len()], pod.app)
}

fn pod_name(pod: &Pod) -> String {
    let mut name = app_name(pod);
    let mut rest = pod.id;
    for place in 0..SUFFIX_CHARS {
        if place == 0 || place == 8 {
            name.push('-');
        }
        name.push(char::from(DIGITS[(rest % 36) as usize]));
        rest /= 36;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn generator() -> Generator {
        let plan = Plan::new(2000, 5, 1000).unwrap();
        Generator { plan, seed: 7, first_day_nanos: 1_800_000_000_000_000_000 }
    }

    #[test]
    fn labels_and_lines_have_the_sizes_of_real_ones() {
        let generator = generator();
        let (mut label_bytes, mut line_bytes) = (0, 0);
        for stream in 0..1000 {
            let labels = generator.labels(1, stream);
            label_bytes +=
                labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            line_bytes += generator.entry(1, stream, 2).line.len();
        }
        assert!((140_000..165_000).contains(&label_bytes), "{label_bytes}");
        assert!((110_000..130_000).contains(&line_bytes), "{line_bytes}");
    }

    #[test]
    fn no_two_streams_are_equal() {
        let generator = generator();
        let all: BTreeSet<Labels> = (0..3)
            .flat_map(|day| (0..2000).map(move |stream| generator.labels(day, stream)))
            .collect();
        assert_eq!(all.len(), 6000);
        let namespaces: BTreeSet<&String> = all.iter().map(|labels| &labels["namespace"]).collect();
        let nodes: BTreeSet<&String> = all.iter().map(|labels| &labels["node"]).collect();
        assert_eq!((namespaces.len(), nodes.len()), (50, 100));
    }

    #[test]
    fn pushes_of_a_day_hold_all_lines_in_its_time() {
        let generator = generator();
        let (mut lines, mut first) = (0, None);
        for push in 0..generator.plan.pushes() {
            let Some((body, labels)) = generator.body(2, push) else { continue };
            assert_eq!(body.streams.len(), labels.len());
            lines += body.line_count;
            for entry in body.streams.iter().flat_map(|(_, entries)| entries) {
                assert!(generator.day(2).contains(&entry.unix_nanos));
            }
            first.get_or_insert((body, labels));
        }
        assert_eq!(lines, 10_000);
        assert_eq!(first, generator.body(2, 0), "the same again");
    }
}
