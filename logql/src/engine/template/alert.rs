//! Templates of the labels and annotations of alerts: Go's `text/template` with the functions and
//! variables of Prometheus.
//!
//! `{{ $labels.app }} has {{ $value | humanize }} errors`
//!
//! Functions cannot wait. An execution that meets a `query` or a `logLines` whose answer it lacks
//! ends, and says what it needs. The caller finds the answer and executes the template again.
//!
//! Guarantees: the same data give the same output. The bounds of templates hold, an output has at
//! most 64 KiB, and a template asks for at most [`MAX_QUERIES`] queries. A template keeps a few
//! compiled regular expressions, of 256 KiB in all at most.

use std::cell::RefCell;
use std::collections::BTreeMap;

use logsvc_proto::Labels;

use super::Input;
use super::exec;
use super::execution::Execution;
use super::functions::{KeptRegexes, find_for_alerts};
use super::parsed::Parsed;
use super::value::Value;
use crate::engine::labels::{ERROR, EntryLabels};

/// Most different queries of one template.
pub const MAX_QUERIES: usize = 10;
/// Most lines that `logLines` gives.
pub const MAX_LINES: usize = 20;

/// What Prometheus writes in front of every template of an alert.
const DEFINITIONS: &str = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}\
                           {{$externalURL := .ExternalURL}}{{$value := .Value}}";

/// The answer to a query of a template: its samples, or why there is none.
pub type QueryAnswer = Result<Vec<(Labels, f64)>, String>;

/// What a template of an alert is executed over.
#[derive(Clone, Copy, Debug)]
pub struct AlertData<'d> {
    /// `$labels`: the labels of the sample.
    pub labels: &'d Labels,
    /// `$value`: the value of the sample.
    pub value: f64,
    /// `$externalLabels`
    pub external_labels: &'d Labels,
    /// `$externalURL`
    pub external_url: &'d str,
    /// The time that `now` gives: that of the evaluation, in ns since the Unix epoch.
    pub time_ns: i64,
    /// The answers that are known, by the text of the query.
    pub queries: &'d BTreeMap<String, QueryAnswer>,
    /// The lines for `logLines`, once they are known.
    pub lines: Option<&'d AlertLines>,
}

/// Lines behind an alert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertLines {
    /// How many were asked for.
    pub limit: usize,
    /// The lines, at most `limit`, or why there are none.
    pub lines: Result<Vec<String>, String>,
}

/// What an execution needs before it can give an output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AlertNeed {
    /// The answer to this query.
    Query(String),
    /// Lines behind the alert.
    Lines {
        /// How many, at least 1 and at most [`MAX_LINES`].
        limit: usize,
    },
}

/// The end of an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AlertOutput {
    /// The text.
    Text(String),
    /// The template has to be executed again with the answer.
    Needs(AlertNeed),
}

/// A compiled template of an alert. Cores may share it.
#[derive(Debug)]
pub struct AlertTemplate {
    parsed: Parsed,
    regexes: KeptRegexes,
}

/// What the functions of alerts see.
#[derive(Debug)]
pub(super) struct AlertRun<'v> {
    pub(super) data: &'v AlertData<'v>,
    /// The template's own.
    pub(super) regexes: &'v KeptRegexes,
    need: RefCell<Option<AlertNeed>>,
}

impl AlertRun<'_> {
    /// Ends the execution with a need. Gives the error that ends it, which is never shown.
    pub(super) fn need(&self, need: AlertNeed) -> String {
        *self.need.borrow_mut() = Some(need);
        "an answer is needed".to_owned()
    }
}

impl<'v> AlertData<'v> {
    /// A field of the dot.
    pub(super) fn field(&self, name: &str) -> Option<Value<'v>> {
        Some(match name {
            "Labels" => Value::Map(self.labels),
            "ExternalLabels" => Value::Map(self.external_labels),
            "ExternalURL" => Value::text(self.external_url.as_bytes()),
            "Value" => Value::Float(self.value),
            _ => return None,
        })
    }
}

impl AlertTemplate {
    /// Compiles a template. `name` is the name that messages have, such as `__alert_Name`.
    ///
    /// # Errors
    /// Go's message: `template: __alert_Name:1: undefined variable "$foo"` for instance.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let text = [DEFINITIONS, text].concat();
        // Names are looked up by their text.
        let mut intern = |_: &[u8]| ERROR;
        let parsed =
            Parsed::parse(name.to_owned().into(), text.as_bytes(), find_for_alerts, &mut intern)?;
        Ok(Self { parsed, regexes: KeptRegexes::default() })
    }

    /// Executes the template.
    ///
    /// # Errors
    /// Go's message: `template: __alert_Name:1:115: executing "__alert_Name" at <...>: ...` for
    /// instance. Columns count from the definitions of the variables, as they do in Prometheus.
    pub fn execute(&self, data: &AlertData<'_>) -> Result<AlertOutput, String> {
        let alert = AlertRun { data, regexes: &self.regexes, need: RefCell::default() };
        let result = self.text(&alert);
        match alert.need.take() {
            Some(need) => Ok(AlertOutput::Needs(need)),
            None => result.map(AlertOutput::Text),
        }
    }

    fn text(&self, alert: &AlertRun<'_>) -> Result<String, String> {
        let (labels, regexes) = (EntryLabels::new(), RefCell::default());
        let input =
            Input { labels: &labels, line: b"", timestamp_ns: 0, now_ns: alert.data.time_ns };
        let run = Execution::for_alert(input, &regexes, alert);
        let mut out = Vec::new();
        exec::execute(&self.parsed, Value::Alert(alert.data), &run, &mut out)?;
        Ok(String::from_utf8(out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}
