//! A group as it was defined, and what becomes of the state when it is defined anew.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::Labels;
use logsvc_runtime::Latch;

use super::rule::RuleCell;
use crate::config::EvaluationConfig;
use crate::model::RuleGroup;
use crate::state::RuleImage;
use crate::state::format::Record;

/// One definition of a group.
pub(super) struct Definition {
    pub(super) source: Arc<RuleGroup>,
    pub(super) interval: Duration,
    pub(super) query_offset: Option<Duration>,
    pub(super) rules: Vec<Rc<RuleCell>>,
    /// Triggered when another definition is in force, or none.
    pub(super) ended: Latch,
}

/// A definition with the state of the one before.
pub(super) struct Carried {
    pub(super) definition: Definition,
    /// What the log has to know.
    pub(super) records: Vec<Record>,
    /// Series of rules that are gone.
    pub(super) ended: Vec<Labels>,
}

impl Definition {
    pub(super) fn new(
        config: &EvaluationConfig,
        source: Arc<RuleGroup>,
        mut number: impl FnMut() -> u32,
    ) -> Definition {
        let rule = |rule: &crate::model::Rule| {
            Rc::new(RuleCell::new(config, rule.clone(), &source.labels, number()))
        };
        Definition {
            interval: source.interval.unwrap_or(config.evaluation_interval),
            query_offset: source.query_offset,
            rules: source.rules.iter().map(rule).collect(),
            ended: Latch::new(),
            source,
        }
    }

    /// Takes what an earlier process knew of the rules. Gives records that make the log forget the
    /// rest.
    pub(super) fn take_images(&self, images: Vec<(u32, Rc<RuleImage>)>) -> Vec<Record> {
        let old: Vec<Known<'_>> =
            images.iter().map(|(_, image)| Known { is_alerting: true, image }).collect();
        let mut records = Vec::new();
        for ((number, image), new) in images.iter().zip(matching(&old, &self.known())) {
            let Some(new) = new else {
                records.push(Record::ForgetRule { rule: *number });
                continue;
            };
            let rule = &self.rules[new];
            rule.number.set(*number);
            // Its query may be another one.
            rule.is_in_log.set(rule.identity.expr == image.expr);
            rule.state.borrow_mut().table = Arc::clone(&image.table);
        }
        records
    }

    fn known(&self) -> Vec<Known<'_>> {
        self.rules.iter().map(|rule| rule.known()).collect()
    }
}

/// Puts the state of `old` into `new`, which has none. Rules that are the same go over themselves.
pub(super) fn carry_over(old: &Definition, mut new: Definition) -> Carried {
    let pairs = matching(&old.known(), &new.known());
    let (mut records, mut ended) = (Vec::new(), Vec::new());
    for (rule, pair) in old.rules.iter().zip(pairs) {
        let Some(index) = pair else {
            ended.extend(rule.series());
            if rule.is_in_log.get() {
                records.push(Record::ForgetRule { rule: rule.number.get() });
            }
            continue;
        };
        if rule.source == new.rules[index].source && rule.labels == new.rules[index].labels {
            new.rules[index] = Rc::clone(rule);
            continue;
        }
        let changed = &new.rules[index];
        changed.number.set(rule.number.get());
        let has_same_texts = changed.identity.expr == rule.identity.expr;
        changed.is_in_log.set(rule.is_in_log.get() && has_same_texts);
        *changed.state.borrow_mut() = rule.state.borrow().clone();
    }
    Carried { definition: new, records, ended }
}

/// What a rule is known by.
struct Known<'a> {
    is_alerting: bool,
    image: &'a RuleImage,
}

impl RuleCell {
    fn known(&self) -> Known<'_> {
        Known { is_alerting: self.is_alerting(), image: &self.identity }
    }
}

/// For each old rule the place of the new one that takes its state. Rules with equal name, labels
/// and query come first, then those with equal name and labels; among equals, the first takes that
/// of the first.
fn matching(old: &[Known<'_>], new: &[Known<'_>]) -> Vec<Option<usize>> {
    let mut pairs = vec![None; old.len()];
    let mut is_taken = vec![false; new.len()];
    for with_query in [true, false] {
        for (old, pair) in old.iter().zip(&mut pairs) {
            if pair.is_some() {
                continue;
            }
            let fits = |new: &Known<'_>| {
                new.is_alerting == old.is_alerting
                    && new.image.name == old.image.name
                    && new.image.labels == old.image.labels
                    && (!with_query || new.image.expr == old.image.expr)
            };
            let found = (0..new.len()).find(|&index| !is_taken[index] && fits(&new[index]));
            if let Some(index) = found {
                is_taken[index] = true;
                *pair = Some(index);
            }
        }
    }
    pairs
}
