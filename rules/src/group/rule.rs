//! A rule that is evaluated.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::{Labels, LabelsBuilder};

use super::hash;
use crate::alert::{AlertTable, RuleTexts, generator_url};
use crate::config::EvaluationConfig;
use crate::messages::Health;
use crate::model::{Rule, RuleKind};
use crate::state::format::{FRAME_AIM_BYTES, Record, write_alert, write_rule};
use crate::state::{RuleImage, RuleSnapshot};

/// What only one kind of rules has.
pub(super) enum Kind {
    Alert { texts: Arc<RuleTexts>, hold: Duration, keep_firing: Duration, annotations: Labels },
    Record,
}

/// A rule of a group, with its state.
pub(super) struct RuleCell {
    pub(super) source: Rule,
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    /// The query as it was written.
    pub(super) text: Arc<str>,
    /// The query, or why it cannot be parsed.
    pub(super) expr: Result<Arc<Expr>, String>,
    /// The query in its printed form.
    pub(super) printed: Arc<str>,
    /// Labels of the rule and its group.
    pub(super) labels: Labels,
    /// The link of notifications.
    pub(super) generator_url: String,
    /// Spreads evaluations if there is a jitter.
    pub(super) hash: u64,
    /// What the log of the state knows it by; without a table.
    pub(super) identity: Rc<RuleImage>,
    /// Its number in the log.
    pub(super) number: Cell<u32>,
    /// Whether the log's file knows the number.
    pub(super) is_in_log: Cell<bool>,
    pub(super) state: RefCell<RuleState>,
}

/// What evaluations change.
#[derive(Clone)]
pub(super) struct RuleState {
    pub(super) table: Arc<AlertTable>,
    /// Series of a recording rule, in the order of [`crate::record`].
    pub(super) series: Arc<[Labels]>,
    /// Further series that have not ended yet.
    pub(super) owed: Vec<Labels>,
    pub(super) health: Health,
    pub(super) last_evaluation_ns: Option<i64>,
    pub(super) evaluation_time: Duration,
    /// The error that was logged last, if the rule fails.
    pub(super) logged_error: Option<String>,
}

impl RuleCell {
    /// A rule with the labels of its group, and no state.
    pub(super) fn new(
        config: &EvaluationConfig,
        source: Rule,
        group_labels: &[(String, String)],
        number: u32,
    ) -> RuleCell {
        let mut merged = source.labels.clone();
        let is_own = |name: &str| source.labels.iter().any(|(own, _)| own == name);
        merged.extend(group_labels.iter().filter(|(name, _)| !is_own(name)).cloned());
        merged.sort();
        let parsed = logsvc_logql::syntax::parse(&source.expr);
        let printed = parsed.as_ref().map_or_else(|_| source.expr.clone(), ToString::to_string);
        let kind = match &source.kind {
            RuleKind::Record { .. } => Kind::Record,
            RuleKind::Alert(alert) => Kind::Alert {
                texts: Arc::new(RuleTexts {
                    external_labels: label_set(&config.external_labels),
                    external_url: config.external_url.clone(),
                    ..RuleTexts::new(&alert.alert, &merged, &alert.annotations)
                }),
                hold: alert.hold,
                keep_firing: alert.keep_firing,
                annotations: label_set(&alert.annotations),
            },
        };
        let url = generator_url(&config.external_url, &config.datasource_uid, &printed);
        RuleCell {
            kind,
            name: source.name().into(),
            text: source.expr.as_str().into(),
            expr: parsed.map(Arc::new).map_err(|error| error.to_string()),
            printed: printed.into(),
            labels: label_set(&merged),
            generator_url: url,
            hash: hash::of_texts(&[source.name(), &source.expr]),
            identity: Rc::new(RuleImage {
                name: source.name().to_owned(),
                expr: source.expr.clone(),
                labels: merged,
                table: Arc::default(),
            }),
            number: Cell::new(number),
            is_in_log: Cell::new(false),
            state: RefCell::new(RuleState {
                table: Arc::default(),
                series: Arc::new([]),
                owed: Vec::new(),
                health: Health::Unknown,
                last_evaluation_ns: None,
                evaluation_time: Duration::ZERO,
                logged_error: None,
            }),
            source,
        }
    }

    pub(super) fn is_alerting(&self) -> bool {
        matches!(self.kind, Kind::Alert { .. })
    }

    pub(super) fn table(&self) -> Arc<AlertTable> {
        Arc::clone(&self.state.borrow().table)
    }

    /// All series that have not ended.
    pub(super) fn series(&self) -> Vec<Labels> {
        let state = self.state.borrow();
        let mut series = state.table.series();
        series.extend(state.series.iter().chain(&state.owed).cloned());
        series
    }

    /// For a rewrite of the log, after which its file knows the rule only if it has alerts.
    pub(super) fn snapshot(&self) -> Option<RuleSnapshot> {
        let table = self.table();
        self.is_in_log.set(!table.is_empty());
        let identity = Rc::clone(&self.identity);
        (!table.is_empty()).then_some(RuleSnapshot { number: self.number.get(), identity, table })
    }

    /// Appends the record that gives the rule its number, if the log's file does not know it.
    pub(super) fn introduce(&self, group: u32, run: &mut Vec<u8>) {
        if !self.is_in_log.replace(true) {
            let known_by = &self.identity;
            let texts = (known_by.name.as_str(), known_by.expr.as_str());
            write_rule(self.number.get(), group, texts, &known_by.labels, run);
        }
    }

    /// Runs of records that give the log all alerts of the rule anew.
    pub(super) fn write_whole(&self, group: u32, run: &mut Vec<u8>, full: &mut Vec<Vec<u8>>) {
        if self.is_in_log.replace(false) {
            Record::ForgetRule { rule: self.number.get() }.write(run);
        }
        self.introduce(group, run);
        for alert in self.table().alerts() {
            write_alert(self.number.get(), alert, run);
            if run.len() >= FRAME_AIM_BYTES {
                full.push(std::mem::take(run));
            }
        }
    }
}

/// The pairs as a set; of pairs with one name the last one.
fn label_set(pairs: &[(String, String)]) -> Labels {
    let mut builder = LabelsBuilder::new();
    for (name, value) in pairs {
        builder.set(name.as_str(), value.as_str());
    }
    builder.build_result()
}
