//! The labels and annotations of alerts: templates of Prometheus.
//!
//! A text is compiled once ([`Template::parse`]) and expanded for every alert
//! ([`Template::expand`]). Expansion does no I/O. A template that asks for a query or for lines
//! gives [`Expansion::Needs`]; the caller finds the answers, adds them to the data and expands
//! again. A template needs one answer at a time, at most [`MAX_QUERIES`] queries and the lines once
//! or twice, so this ends. Only lines of a larger limit than the known ones are asked for.
//!
//! Guarantees: the same data give the same text. Steps, nesting and bytes are bounded, as in
//! [`AlertTemplate`]. What can go wrong: an execution error. Alerts then show [`shown_error`] in
//! place of the text.

mod log_query;
mod names;
#[cfg(test)]
mod tests;

pub use log_query::{LogQueryOfAlert, log_query_of, reads_entries};
pub use logsvc_logql::engine::{
    AlertData as TemplateData, AlertLines as TemplateLines, AlertNeed as Need, MAX_LINES,
    MAX_QUERIES, QueryAnswer,
};
use logsvc_logql::engine::{AlertOutput, AlertTemplate};
use logsvc_proto::go::quote::quoted;

/// A compiled text. Cores may share it.
#[derive(Debug)]
pub struct Template(Kind);

#[derive(Debug)]
enum Kind {
    /// The text as it is.
    Plain(Box<str>),
    Compiled {
        /// Messages have it.
        name: Box<str>,
        template: Box<AlertTemplate>,
    },
}

/// What an expansion gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expansion {
    /// The text.
    Text(String),
    /// What the data lack; not empty.
    Needs(Vec<Need>),
}

impl Template {
    /// Compiles a text of the alert `alert`.
    ///
    /// # Errors
    /// Go's message: `template: __alert_Name:1: undefined variable "$foo"` for instance.
    pub fn parse(alert: &str, text: &str) -> Result<Self, String> {
        if !text.contains("{{") {
            return Ok(Self(Kind::Plain(text.into())));
        }
        let name = format!("__alert_{alert}");
        let template = Box::new(AlertTemplate::parse(&name, text)?);
        Ok(Self(Kind::Compiled { name: name.into(), template }))
    }

    /// Expands the text.
    ///
    /// # Errors
    /// Prometheus' message: `error executing template __alert_Name: template: ...`.
    pub fn expand(&self, data: &TemplateData<'_>) -> Result<Expansion, String> {
        match &self.0 {
            Kind::Plain(text) => Ok(Expansion::Text(text.to_string())),
            Kind::Compiled { name, template } => match template.execute(data) {
                Ok(AlertOutput::Text(text)) => Ok(Expansion::Text(text)),
                Ok(AlertOutput::Needs(need)) => Ok(Expansion::Needs(vec![need])),
                Err(error) => Err(format!("error executing template {name}: {error}")),
            },
        }
    }
}

/// What an alert shows in place of a text that could not be expanded.
pub fn shown_error(error: &str) -> String {
    format!("<error expanding template: {error}>")
}

/// Where a text of an alert stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextKind {
    /// The value of a label.
    Label,
    /// The value of an annotation.
    Annotation,
}

/// Checks a text of an alerting rule as Prometheus does when it loads a rule. It parses the text
/// and does not execute it: whether `query` finds a sample is known only when the alert fires.
///
/// # Errors
/// Prometheus' message: `annotation "a": template: __alert_Name:1: undefined variable "$foo"`.
pub fn check(kind: TextKind, name: &str, alert: &str, text: &str) -> Result<(), String> {
    let word = match kind {
        TextKind::Label => "label",
        TextKind::Annotation => "annotation",
    };
    match Template::parse(alert, text) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{word} {}: {error}", quoted(name))),
    }
}
