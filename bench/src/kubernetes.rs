//! Generated streams like the streams of a Kubernetes cluster: namespaces, apps with replicas, and
//! one stream per pod, container and level, or, without the label `level`, one per pod, whose lines
//! are of all levels. Traffic is skewed towards `info`, and one body holds the pods of one node.

use crate::labels::Labels;
use anyhow::{Result, bail};
use logsvc_testkit::{Rng, Scene, Style, mix};

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
    /// Whether the level is a label.
    level_label: bool,
    rng: Rng,
    /// Streams of the current node, each as often as its share of the lines.
    weighted: Vec<usize>,
}

impl PodLines {
    /// A generator for `stream_count` streams, which have the label `level` or not.
    pub(crate) fn new(
        seed: u64,
        stream_count: usize,
        streams_per_body: usize,
        level_label: bool,
    ) -> Result<PodLines> {
        if stream_count == 0 || streams_per_body == 0 {
            bail!("--streams and --streams-per-body must be more than zero");
        }
        let mut pods = PodLines {
            seed,
            stream_count,
            streams_per_body,
            level_label,
            rng: Rng::new(seed),
            weighted: Vec::new(),
        };
        pods.move_to_node(0);
        Ok(pods)
    }

    /// Labels of every stream, without the labels that all streams share.
    pub(crate) fn stream_labels(&self) -> Vec<Labels> {
        (0..self.stream_count)
            .map(|stream| {
                let app = app_of(stream);
                let name = app_name(app);
                let pod = self.pod_of(stream);
                let pod_hash = mix(self.seed, pod as u64);
                let level = LEVELS[stream % LEVELS.len()].0;
                let labels = [
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
                    ("container", if pod % 5 == 4 { "proxy".to_owned() } else { name }),
                ];
                let level = self.level_label.then(|| ("level", level.to_owned()));
                let labels = labels.into_iter().chain(level);
                labels.map(|(name, value)| (name.to_owned(), value)).collect()
            })
            .collect()
    }

    /// The pod that a stream belongs to.
    fn pod_of(&self, stream: usize) -> usize {
        if self.level_label { stream / LEVELS.len() } else { stream }
    }

    /// Chooses the streams of body `number` and restarts the generator for it.
    pub(crate) fn move_to_node(&mut self, number: u64) {
        self.rng = Rng::new(mix(self.seed, number));
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
        let stream = *self.rng.pick(&self.weighted);
        let app = app_of(stream);
        // Without the label, the levels of a stream's lines have the shares that streams have.
        let level_of =
            if self.level_label { stream } else { *self.rng.pick(&self.weighted) } % LEVELS.len();
        let scene = Scene {
            unix_nanos,
            level: LEVELS[level_of].0,
            component: COMPONENTS[app % COMPONENTS.len()],
            news,
        };
        let line = logsvc_testkit::line(&mut self.rng, app, &scene);
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
        let pods = PodLines::new(1, 5000, 16, true).unwrap();
        let distinct: BTreeSet<Labels> = pods.stream_labels().into_iter().collect();
        assert_eq!(distinct.len(), 5000);
    }

    #[test]
    fn lines_have_the_length_and_variety_of_real_ones() {
        let mut pods = PodLines::new(3, 400, 16, true).unwrap();
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
        let pods = PodLines::new(1, 917, 16, true).unwrap();
        for (stream, labels) in pods.stream_labels().iter().enumerate() {
            let namespaces = namespaces_of(style_of(stream));
            assert!(namespaces.contains(&labels["namespace"].as_str()), "{labels:?}");
        }
        assert_eq!((pods.node_count(), pods.streams_of_node(57)), (58, 5));
    }

    #[test]
    fn without_the_label_a_stream_has_lines_of_all_levels() {
        let mut pods = PodLines::new(1, 917, 16, false).unwrap();
        let labels = pods.stream_labels();
        assert!(labels.iter().all(|labels| !labels.contains_key("level")));
        assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), 917);
        let lines: Vec<(usize, String)> = (0..30_000).map(|_| pods.line(0)).collect();
        for stream in (0..16).filter(|stream| style_of(*stream) == Style::Json) {
            for (level, _) in LEVELS {
                let field = format!("\"level\":\"{level}\"");
                assert!(lines.iter().any(|(of, line)| *of == stream && line.contains(&field)));
            }
        }
        assert_eq!(style_of(0), Style::Json, "so there was something to look at");
    }

    #[test]
    fn a_body_stays_on_its_node() {
        let mut pods = PodLines::new(1, 20, 16, true).unwrap();
        for (number, range) in [(0, 0..16), (1, 16..20), (2, 0..16)] {
            pods.move_to_node(number);
            assert!((0..500).all(|_| range.contains(&pods.line(0).0)));
        }
    }
}
