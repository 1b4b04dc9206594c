//! From the samples of a result to alerts: labels and annotations with their templates expanded.
//!
//! A template may need answers to further queries. Then nothing is prepared, and all needs that
//! were found are told: the caller asks, and prepares again with the answers.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_logql::engine::VectorSample;
use logsvc_proto::{Labels, LabelsBuilder};

use crate::expand::{
    Expansion, Need as TextNeed, QueryAnswer, Template, TemplateData, TemplateLines, shown_error,
};
use crate::label_sets::without_empty;
use crate::rule_error::RuleError;

/// The label that has the name of an alert.
const ALERT_NAME: &str = "alertname";
/// The label that has the name of a metric.
const METRIC_NAME: &str = "__name__";

/// What templates of an evaluation need.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Needs {
    /// Answers to these queries.
    pub queries: BTreeSet<String>,
    /// By encoded labels of a sample: the labels, and how many lines behind it are needed.
    pub lines: BTreeMap<Box<[u8]>, (Labels, usize)>,
}

impl Needs {
    /// Whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty() && self.lines.is_empty()
    }
}

/// Answers to needs of earlier rounds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answers {
    /// By query.
    pub queries: BTreeMap<String, QueryAnswer>,
    /// By encoded labels of the sample.
    pub lines: BTreeMap<Box<[u8]>, TemplateLines>,
}

/// A compiled text, or why it cannot be compiled.
pub type Text = Result<Template, String>;

/// The texts of an alerting rule, with the labels of its group.
#[derive(Debug, Default)]
pub struct RuleTexts {
    /// The name of the alert.
    pub alert: String,
    /// Labels.
    pub labels: Vec<(String, Text)>,
    /// Annotations.
    pub annotations: Vec<(String, Text)>,
    /// `$externalLabels`.
    pub external_labels: Labels,
    /// `$externalURL`.
    pub external_url: String,
}

impl RuleTexts {
    /// Compiles the texts of an alert.
    pub fn new(
        alert: &str,
        labels: &[(String, String)],
        annotations: &[(String, String)],
    ) -> RuleTexts {
        let compiled = |pairs: &[(String, String)]| {
            let text =
                |(name, text): &(String, String)| (name.clone(), Template::parse(alert, text));
            pairs.iter().map(text).collect()
        };
        RuleTexts {
            alert: alert.to_owned(),
            labels: compiled(labels),
            annotations: compiled(annotations),
            ..RuleTexts::default()
        }
    }
}

/// An alert that the result has.
#[derive(Clone, PartialEq, Debug)]
pub struct NewAlert {
    /// All labels, with `alertname`.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its value.
    pub value: f64,
}

/// What came of a round.
#[derive(Clone, PartialEq, Debug)]
pub enum Prepared {
    /// The alerts, in the bytewise order of their encoded labels.
    Alerts(Vec<NewAlert>),
    /// What is needed first; not empty.
    Needs(Needs),
}

/// The alerts of the result of an evaluation at `time_ns`. A template that fails gives the text
/// `<error expanding template: ...>`, and so does one that needs more although `is_last_round`.
///
/// # Errors
/// Two results have the same labels once the rule's are over them.
pub fn prepare(
    samples: &[VectorSample],
    time_ns: i64,
    texts: &RuleTexts,
    answers: &Answers,
    is_last_round: bool,
) -> Result<Prepared, RuleError> {
    let needs = Needs::default();
    let mut round = Round { texts, time_ns, answers, is_last: is_last_round, needs };
    let mut alerts = Vec::with_capacity(samples.len());
    for sample in samples {
        let labels = round.labels(sample);
        let mut annotations = LabelsBuilder::new();
        for (name, text) in &texts.annotations {
            annotations.set(name.as_str(), round.text(text, sample));
        }
        let annotations = annotations.build_result();
        alerts.push(NewAlert { labels, annotations, value: sample.point.value });
    }
    if !round.needs.is_empty() {
        return Ok(Prepared::Needs(round.needs));
    }
    alerts.sort_by(|a, b| a.labels.as_bytes().cmp(b.labels.as_bytes()));
    if alerts.windows(2).any(|pair| pair[0].labels == pair[1].labels) {
        return Err(RuleError::SameAlert);
    }
    Ok(Prepared::Alerts(alerts))
}

struct Round<'a> {
    texts: &'a RuleTexts,
    time_ns: i64,
    answers: &'a Answers,
    is_last: bool,
    needs: Needs,
}

impl Round<'_> {
    fn labels(&mut self, sample: &VectorSample) -> Labels {
        let mut builder = LabelsBuilder::from_labels(&sample.labels);
        builder.del(METRIC_NAME);
        for (name, text) in &self.texts.labels {
            builder.set(name.as_str(), self.text(text, sample));
        }
        builder.set(ALERT_NAME, self.texts.alert.as_str());
        without_empty(builder)
    }

    /// The text for a sample; any text if something is needed first.
    fn text(&mut self, text: &Text, sample: &VectorSample) -> String {
        let template = match text {
            Ok(template) => template,
            Err(error) => return shown_error(error),
        };
        // A template may use the answers alone that it has asked for: their number is bounded.
        let mut queries = BTreeMap::new();
        let mut lines: Option<&TemplateLines> = None;
        loop {
            let data = TemplateData {
                labels: &sample.labels,
                value: sample.point.value,
                external_labels: &self.texts.external_labels,
                external_url: &self.texts.external_url,
                time_ns: self.time_ns,
                queries: &queries,
                lines,
            };
            let wanted = match template.expand(&data) {
                Ok(Expansion::Text(text)) => return text,
                Err(error) => return shown_error(&error),
                Ok(Expansion::Needs(wanted)) => wanted,
            };
            let mut has_all = true;
            for need in wanted {
                match need {
                    TextNeed::Query(query) => match self.answers.queries.get(&query) {
                        Some(answer) => {
                            queries.insert(query, answer.clone());
                        }
                        None => {
                            has_all = false;
                            self.needs.queries.insert(query);
                        }
                    },
                    TextNeed::Lines { limit } => {
                        match self.answers.lines.get(sample.labels.as_bytes()) {
                            Some(known) if known.limit >= limit => lines = Some(known),
                            _ => {
                                has_all = false;
                                self.need_lines(&sample.labels, limit);
                            }
                        }
                    }
                }
            }
            if !has_all {
                if self.is_last {
                    self.needs = Needs::default();
                    return shown_error("it asks for too much");
                }
                return String::new();
            }
        }
    }

    fn need_lines(&mut self, sample: &Labels, limit: usize) {
        let needed = self.needs.lines.entry(sample.as_bytes().into());
        let (_, most) = needed.or_insert_with(|| (sample.clone(), limit));
        *most = limit.max(*most);
    }
}
