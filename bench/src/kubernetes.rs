//! Generated streams that look like those of a Kubernetes cluster: namespaces,
//! apps with replicas, and one stream per pod, container and level. Traffic is
//! skewed towards `info`, and one body holds the pods of one node.

use crate::labels::Labels;
use crate::line_styles::{self, Scene, Style};
use crate::random::{Random, mix};
use anyhow::{Result, bail};

/// Levels and the share of lines that each one gets.
const LEVELS: [(&str, usize); 4] = [("info", 10), ("debug", 3), ("warn", 2), ("error", 1)];
const NAMESPACES: [&str; 8] =
    ["checkout", "catalog", "identity", "search", "shipping", "billing", "platform", "monitoring"];
const COMPONENTS: [&str; 10] = [
    "api",
    "worker",
    "gateway",
    "scheduler",
    "cache",
    "indexer",
    "notifier",
    "exporter",
    "store",
    "frontend",
];
const REPLICAS: usize = 3;

/// The generator. Lines depend on the seed and on the body's number only.
pub(crate) struct PodLines {
    seed: u64,
    stream_count: usize,
    streams_per_body: usize,
    random: Random,
    /// Streams of the current node, each as often as its share of the lines.
    weighted: Vec<usize>,
}

impl PodLines {
    /// A generator for `stream_count` streams.
    pub(crate) fn new(seed: u64, stream_count: usize, streams_per_body: usize) -> Result<PodLines> {
        if stream_count == 0 || streams_per_body == 0 {
            bail!("--streams and --streams-per-body must be more than zero");
        }
        let mut pods = PodLines {
            seed,
            stream_count,
            streams_per_body,
            random: Random::new(seed),
            weighted: Vec::new(),
        };
        pods.move_to_node(0);
        Ok(pods)
    }

    /// Labels of every stream, without those that all streams share.
    pub(crate) fn stream_labels(&self) -> Vec<Labels> {
        (0..self.stream_count)
            .map(|stream| {
                let pod = stream / LEVELS.len();
                let app = pod / REPLICAS;
                let name = app_name(app);
                let pod_hash = mix(self.seed, pod as u64);
                [
                    ("namespace", NAMESPACES[app % NAMESPACES.len()].to_owned()),
                    ("app", name.clone()),
                    (
                        "pod",
                        format!(
                            "{name}-{:09x}-{:05x}",
                            mix(self.seed, app as u64) >> 28,
                            pod_hash >> 44
                        ),
                    ),
                    ("container", if pod % 5 == 4 { "proxy".to_owned() } else { name.clone() }),
                    ("level", LEVELS[stream % LEVELS.len()].0.to_owned()),
                ]
                .map(|(name, value)| (name.to_owned(), value))
                .into()
            })
            .collect()
    }

    /// Chooses the streams of body `number` and restarts the generator for it.
    pub(crate) fn move_to_node(&mut self, number: u64) {
        self.random = Random::new(mix(self.seed, number));
        let first = (number % self.node_count()) as usize * self.streams_per_body;
        let last = (first + self.streams_per_body).min(self.stream_count);
        self.weighted.clear();
        for stream in first..last {
            let share = LEVELS[stream % LEVELS.len()].1;
            self.weighted.extend(std::iter::repeat_n(stream, share));
        }
    }

    /// How many nodes there are; body `number` belongs to node `number % nodes`.
    pub(crate) fn node_count(&self) -> u64 {
        self.stream_count.div_ceil(self.streams_per_body) as u64
    }

    /// How many streams a node has.
    pub(crate) fn streams_of_node(&self, node: u64) -> usize {
        let first = node as usize * self.streams_per_body;
        self.stream_count.saturating_sub(first).min(self.streams_per_body)
    }

    /// The next line of the current node.
    pub(crate) fn line(&mut self, unix_nanos: i64) -> (usize, String) {
        self.line_about(unix_nanos, None)
    }

    /// The next line of the current node, with a given message if there is one and
    /// the line's style has messages.
    pub(crate) fn line_about(
        &mut self,
        unix_nanos: i64,
        news: Option<&'static str>,
    ) -> (usize, String) {
        let stream = self.random.pick(&self.weighted);
        let pod = stream / LEVELS.len();
        let scene = Scene {
            unix_nanos,
            level: LEVELS[stream % LEVELS.len()].0,
            component: COMPONENTS[(pod / REPLICAS) % COMPONENTS.len()],
            news,
        };
        let line = line_styles::line(&mut self.random, pod / REPLICAS, &scene);
        (stream, line)
    }
}

/// The application that a stream belongs to.
pub(crate) fn app_of(stream: usize) -> usize {
    stream / LEVELS.len() / REPLICAS
}

/// The style of a stream's lines.
pub(crate) fn style_of(stream: usize) -> Style {
    Style::of_app(app_of(stream))
}

/// The namespaces whose applications write in one style: the number of namespaces
/// is a multiple of the number of styles.
pub(crate) fn namespaces_of(style: Style) -> Vec<&'static str> {
    let apps = NAMESPACES.iter().enumerate();
    apps.filter(|(app, _)| Style::of_app(*app) == style).map(|(_, name)| *name).collect()
}

fn app_name(app: usize) -> String {
    let namespace = NAMESPACES[app % NAMESPACES.len()];
    let component = COMPONENTS[app % COMPONENTS.len()];
    match app / (NAMESPACES.len() * COMPONENTS.len() / 2) {
        0 => format!("{namespace}-{component}"),
        // Names repeat after the least common multiple of both lists.
        generation => format!("{namespace}-{component}-{generation}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn streams_have_distinct_labels() {
        let pods = PodLines::new(1, 5000, 16).unwrap();
        let distinct: BTreeSet<Labels> = pods.stream_labels().into_iter().collect();
        assert_eq!(distinct.len(), 5000);
    }

    #[test]
    fn lines_have_the_length_and_variety_of_real_ones() {
        let mut pods = PodLines::new(3, 400, 16).unwrap();
        let (mut bytes, mut lines, mut streams) = (0, BTreeSet::new(), BTreeSet::new());
        let mut outside = 0;
        for number in 0..50 {
            pods.move_to_node(number);
            for i in 0..200 {
                let (stream, line) = pods.line(1_773_100_800_000_000_000 + i);
                assert!(line.len() > 100, "{line}");
                outside += usize::from(!(140..=260).contains(&line.len()));
                bytes += line.len();
                streams.insert(stream);
                lines.insert(line);
            }
        }
        let mean_bytes = bytes / 10_000;
        assert!((160..=240).contains(&mean_bytes), "mean {mean_bytes}");
        assert!(outside < 500, "{outside} of 10000 lines outside the range");
        assert!(lines.len() > 9990, "{} distinct lines", lines.len());
        assert!(streams.len() > 380, "{} streams", streams.len());
    }

    #[test]
    fn a_namespace_tells_the_style() {
        let pods = PodLines::new(1, 917, 16).unwrap();
        for (stream, labels) in pods.stream_labels().iter().enumerate() {
            let namespaces = namespaces_of(style_of(stream));
            assert!(namespaces.contains(&labels["namespace"].as_str()), "{labels:?}");
        }
        assert_eq!((pods.node_count(), pods.streams_of_node(57)), (58, 5));
    }

    #[test]
    fn a_body_stays_on_its_node() {
        let mut pods = PodLines::new(1, 20, 16).unwrap();
        for (number, range) in [(0, 0..16), (1, 16..20), (2, 0..16)] {
            pods.move_to_node(number);
            assert!((0..500).all(|_| range.contains(&pods.line(0).0)));
        }
    }
}
