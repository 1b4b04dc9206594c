//! One evaluation of one rule.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::VectorSample;
use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::Labels;
use logsvc_runtime::{KeyBounds, Runtime, SideQueue};

use super::definition::Definition;
use super::node::{ASIDE_ITEMS, Group, Node, queried_ns, sample_ms};
use super::rule::{Kind, RuleCell};
use super::waits::{jitter, unless};
use crate::alert::{Answers, Evaluated, Needs, Prepared, RuleTexts, Terms, prepare};
use crate::evaluator::{Evaluator, RuleAnswer, RuleQuery, RuleQueryError, Wanted};
use crate::expand::{
    LogQueryOfAlert, MAX_QUERIES, QueryAnswer, TemplateLines, log_query_of, reads_entries,
};
use crate::messages::Health;
use crate::record::{self, Recorded};
use crate::rule_error::RuleError;
use crate::sink::{AlertSink, RecordedSample, STALE, SampleSink};
use crate::state::News;
use crate::state::format::{FRAME_AIM_BYTES, Record, write_alert};

/// How often templates are expanded anew: each of the queries of one may need the answer of the one
/// before, and its lines.
const TEMPLATE_ROUNDS: usize = MAX_QUERIES + 2;
/// Most different queries of templates in an evaluation of a rule.
const TEMPLATE_QUERIES: usize = 1000;
/// Most alerts that get lines in an evaluation of a rule.
const TEMPLATE_LINES: usize = 100;

/// Why an evaluation gave nothing.
enum Failure {
    /// The definition has ended, or the node stops.
    Ended,
    /// The rule's health is an error.
    Error(String),
}

impl From<RuleError> for Failure {
    fn from(error: RuleError) -> Failure {
        Failure::Error(error.to_string())
    }
}

/// One evaluation of a group.
pub(super) struct Turn<'a, R: Runtime, E, A, S> {
    pub(super) node: &'a Rc<Node<R, E, A, S>>,
    pub(super) group: &'a Rc<Group>,
    pub(super) definition: &'a Rc<Definition>,
    pub(super) time_ns: i64,
    pub(super) query_offset: Duration,
    /// Whether the log knows the time of this evaluation.
    pub(super) has_time: Cell<bool>,
}

impl<R, E, A, S> Turn<'_, R, E, A, S>
where
    R: Runtime,
    E: Evaluator,
    A: AlertSink,
    S: SampleSink,
{
    /// Evaluates a rule. Gives the number of its samples, or nothing if the definition has ended.
    pub(super) async fn rule(&self, rule: &Rc<RuleCell>) -> Option<u64> {
        let wait = jitter(rule.hash, self.node.config.max_jitter);
        if wait > Duration::ZERO {
            let until = self.node.runtime.now().after(wait);
            unless(&self.definition.ended, self.node.runtime.sleep_until(until)).await?;
        }
        if self.definition.ended.is_triggered() {
            return None;
        }
        let (began, began_ns) = (self.node.runtime.now(), self.node.runtime.unix_nanos());
        let result = match &rule.kind {
            Kind::Alert { texts, hold, keep_firing, .. } => {
                self.alert(rule, texts, (*hold, *keep_firing)).await
            }
            Kind::Record => self.record(rule).await,
        };
        let result = match result {
            Ok(samples) => Ok(samples),
            Err(Failure::Ended) => return None,
            Err(Failure::Error(error)) => Err(error),
        };
        let took = self.node.runtime.now().since(began);
        {
            let mut counts = self.group.counts.borrow_mut();
            counts.evaluations += 1;
            counts.evaluation_failures += u64::from(result.is_err());
            counts.rules_time += took;
        }
        tracing::debug!(
            tenant = self.group.key.tenant.as_str(),
            group = &*self.group.key.name,
            rule = &*rule.name,
            took_us = took.as_micros(),
            failed = result.is_err(),
            "a rule was evaluated"
        );
        let mut state = rule.state.borrow_mut();
        state.last_evaluation_ns = Some(began_ns);
        state.evaluation_time = took;
        match &result {
            Ok(_) => {
                state.health = Health::Ok;
                state.logged_error = None;
            }
            Err(error) => {
                if state.logged_error.as_ref() != Some(error) {
                    self.complain(rule, error);
                    state.logged_error = Some(error.clone());
                }
                state.health = Health::Err(error.clone());
            }
        }
        drop(state);
        self.group.changed();
        Some(result.unwrap_or(0))
    }

    /// Whether the log knows the time of this evaluation.
    pub(super) fn wrote_time(&self) -> bool {
        self.has_time.get()
    }

    /// Tells the reason, which may repeat neither the query nor its texts.
    fn complain(&self, rule: &RuleCell, error: &str) {
        let key = &self.group.key;
        let repeats = error.contains(&*rule.text) || error.contains(&*rule.printed);
        tracing::warn!(
            tenant = key.tenant.as_str(),
            namespace = &*key.namespace,
            group = &*key.name,
            rule = &*rule.name,
            reason = if repeats { "see the list of rules" } else { error },
            "a rule cannot be evaluated; its alerts stay what they are"
        );
    }

    async fn alert(
        &self,
        rule: &Rc<RuleCell>,
        texts: &Arc<RuleTexts>,
        (hold, keep_firing): (Duration, Duration),
    ) -> Result<u64, Failure> {
        let tenant = &self.group.key.tenant;
        let takes_samples = self.node.links.samples.takes(tenant);
        let terms = Arc::new(Terms {
            time_ns: self.time_ns,
            hold_ns: nanos(hold),
            keep_firing_ns: nanos(keep_firing),
            limit: self.definition.source.limit,
            resend_delay_ns: nanos(self.node.config.resend_delay),
            interval_ns: nanos(self.definition.interval),
            sample_ms: takes_samples.then(|| sample_ms(self.time_ns, self.query_offset)),
            generator_url: rule.generator_url.clone(),
        });
        let evaluated = match self.next_table(rule, texts, &terms).await? {
            Ok(evaluated) => evaluated,
            Err(error) => return Err(self.failed(rule, error, takes_samples).await),
        };
        let Evaluated { table, changed, gone, notifications, samples, ended } = evaluated;
        let table = Arc::new(table);
        rule.state.borrow_mut().table = Arc::clone(&table);
        self.group.changed();
        if !changed.is_empty() || !gone.is_empty() {
            let mut log = self.log_run();
            log.introduce(rule);
            for labels in gone {
                log.add(|run| Record::Gone { rule: rule.number.get(), labels }.write(run));
            }
            for index in changed {
                log.add(|run| write_alert(rule.number.get(), &table.alerts()[index], run));
            }
            self.node.keep(log.end(), News::State).await;
        }
        if !notifications.is_empty() {
            self.node.links.alerts.send(tenant, notifications);
        }
        let count = samples.len() as u64;
        self.append(rule, samples, ended).await.map(|()| count)
    }

    /// The result of the query, and from it the next table. Large ones are worked on aside.
    async fn next_table(
        &self,
        rule: &Rc<RuleCell>,
        texts: &Arc<RuleTexts>,
        terms: &Arc<Terms>,
    ) -> Result<Result<Evaluated, RuleError>, Failure> {
        let vector = Arc::new(self.vector(rule).await?);
        let mut answers = Arc::new(Answers::default());
        for round in 0.. {
            let table = rule.table();
            let is_last = round == TEMPLATE_ROUNDS;
            let items = vector.len() + table.len();
            let (vector, answers_so_far) = (Arc::clone(&vector), Arc::clone(&answers));
            let (texts, terms) = (Arc::clone(texts), Arc::clone(terms));
            let step =
                move || match prepare(&vector, terms.time_ns, &texts, &answers_so_far, is_last) {
                    Ok(Prepared::Needs(needs)) => Err(needs),
                    Ok(Prepared::Alerts(found)) => Ok(table.evaluate(found, &terms)),
                    Err(error) => Ok(Err(error)),
                };
            match self.work(items, step).await {
                Ok(evaluated) if self.definition.ended.is_triggered() => {
                    drop(evaluated);
                    break;
                }
                Ok(evaluated) => return Ok(evaluated),
                Err(needs) => {
                    let known = std::mem::take(Arc::make_mut(&mut answers));
                    answers = Arc::new(self.answer(rule, known, needs).await?);
                }
            }
        }
        Err(Failure::Ended)
    }

    /// An error of the rule. Too many alerts cost all of them.
    async fn failed(&self, rule: &Rc<RuleCell>, error: RuleError, takes_samples: bool) -> Failure {
        if matches!(error, RuleError::TooManyAlerts { .. }) {
            let dropped = std::mem::take(&mut rule.state.borrow_mut().table);
            self.group.changed();
            if !dropped.is_empty() {
                if takes_samples {
                    rule.state.borrow_mut().owed.extend(dropped.series());
                }
                if rule.is_in_log.replace(false) {
                    let mut log = self.log_run();
                    log.add(|run| Record::ForgetRule { rule: rule.number.get() }.write(run));
                    self.node.keep(log.end(), News::State).await;
                }
            }
        }
        error.into()
    }

    async fn record(&self, rule: &Rc<RuleCell>) -> Result<u64, Failure> {
        let vector = self.vector(rule).await?;
        if !self.node.links.samples.takes(&self.group.key.tenant) {
            return Ok(vector.len() as u64);
        }
        let before = Arc::clone(&rule.state.borrow().series);
        let identity = (rule.identity.name.clone(), rule.identity.labels.clone());
        let limit = self.definition.source.limit;
        let at_ms = sample_ms(self.time_ns, self.query_offset);
        let items = vector.len() + before.len();
        let step = move || {
            let (name, labels) = identity;
            record::record(vector, &name, &labels, limit, at_ms, &before)
        };
        let Recorded { samples, ended, series } = self.work(items, step).await?;
        if self.definition.ended.is_triggered() {
            return Err(Failure::Ended);
        }
        let count = samples.len() as u64;
        self.append(rule, samples, ended).await?;
        rule.state.borrow_mut().series = series.into();
        Ok(count)
    }

    /// Gives samples to the receivers, with stale markers of the series that have ended.
    async fn append(
        &self,
        rule: &Rc<RuleCell>,
        mut samples: Vec<RecordedSample>,
        ended: Vec<Labels>,
    ) -> Result<(), Failure> {
        let owed = std::mem::take(&mut rule.state.borrow_mut().owed);
        if samples.is_empty() && ended.is_empty() && owed.is_empty() {
            return Ok(());
        }
        let timestamp_ms = sample_ms(self.time_ns, self.query_offset);
        let mut stale: BTreeSet<Labels> = owed.into_iter().collect();
        if !stale.is_empty() {
            // Those may have begun again.
            samples.iter().for_each(|sample| {
                stale.remove(&sample.labels);
            });
        }
        stale.extend(ended);
        samples.extend(stale.iter().map(|labels| RecordedSample {
            labels: labels.clone(),
            timestamp_ms,
            value: STALE,
        }));
        let appended = self.node.links.samples.append(&self.group.key.tenant, samples).await;
        appended.map_err(|error| {
            rule.state.borrow_mut().owed.extend(stale);
            Failure::Error(error.to_string())
        })
    }

    /// The vector of the rule's query.
    async fn vector(&self, rule: &RuleCell) -> Result<Vec<VectorSample>, Failure> {
        let expr = rule.expr.as_ref().map_err(|error| Failure::Error(error.clone()))?;
        let time_ns = queried_ns(self.time_ns, self.query_offset);
        let interval_ns = nanos(self.definition.interval);
        let query = self.query((&rule.text, expr), time_ns, interval_ns, Wanted::Vector);
        match self.ask(query).await? {
            Ok(RuleAnswer::Vector(vector)) => Ok(vector),
            Ok(RuleAnswer::Lines(_)) => Err(Failure::Error(RuleQueryError::NoVector.to_string())),
            Err(error) => Err(Failure::Error(error)),
        }
    }

    /// Answers what templates ask for.
    async fn answer(
        &self,
        rule: &RuleCell,
        mut answers: Answers,
        needs: Needs,
    ) -> Result<Answers, Failure> {
        for text in needs.queries {
            let answer = if answers.queries.len() >= TEMPLATE_QUERIES {
                Err("too many queries in the templates of a rule".to_owned())
            } else {
                self.samples_of(&text).await?
            };
            answers.queries.insert(text, answer);
        }
        for (key, (sample, limit)) in needs.lines {
            let is_new = !answers.lines.contains_key(&key);
            let lines = if is_new && answers.lines.len() >= TEMPLATE_LINES {
                Err("too many alerts of a rule ask for lines".to_owned())
            } else {
                self.lines_of(rule, &sample, limit).await?
            };
            answers.lines.insert(key, TemplateLines { limit, lines });
        }
        Ok(answers)
    }

    /// The samples of a template's query, at the evaluation's time.
    async fn samples_of(&self, text: &str) -> Result<QueryAnswer, Failure> {
        let expr = match logsvc_logql::syntax::parse(text) {
            Ok(expr) => Arc::new(expr),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let query = self.query((&text.into(), &expr), self.time_ns, 0, Wanted::Vector);
        let answer = self.ask(query).await?;
        Ok(match answer {
            Ok(RuleAnswer::Vector(vector)) => {
                Ok(vector.into_iter().map(|one| (one.labels, one.point.value)).collect())
            }
            Ok(RuleAnswer::Lines(_)) => Err(RuleQueryError::NoVector.to_string()),
            Err(error) => Err(error),
        })
    }

    /// The newest lines behind a sample of the rule's result.
    async fn lines_of(
        &self,
        rule: &RuleCell,
        sample: &Labels,
        limit: usize,
    ) -> Result<Result<Vec<String>, String>, Failure> {
        let expr = rule.expr.as_ref().ok();
        let found = expr.and_then(|expr| log_query_of(expr, sample));
        let Some(LogQueryOfAlert { text, expr, window_ns, offset_ns }) = found else {
            // Other samples of the rule may have lines.
            return Ok(match expr {
                Some(expr) if reads_entries(expr) => Ok(Vec::new()),
                _ => Err("the query of the rule reads no lines".to_owned()),
            });
        };
        let queried_ns = queried_ns(self.time_ns, self.query_offset);
        let end_ns = queried_ns.saturating_sub(offset_ns);
        // The window does not have its begin.
        let start_ns = end_ns.saturating_sub(window_ns).saturating_add(1);
        let wanted = Wanted::Lines { start_ns, limit };
        let query = self.query((&text.into(), &Arc::new(expr)), end_ns, 0, wanted);
        Ok(match self.ask(query).await? {
            Ok(RuleAnswer::Lines(lines)) => Ok(lines
                .into_iter()
                .map(|line| String::from_utf8_lossy(&line.line).into_owned())
                .collect()),
            Ok(RuleAnswer::Vector(_)) => Err("the query of the rule reads no lines".to_owned()),
            Err(error) => Err(error),
        })
    }

    fn query(
        &self,
        (text, expr): (&Arc<str>, &Arc<Expr>),
        time_ns: i64,
        interval_ns: i64,
        wanted: Wanted,
    ) -> RuleQuery {
        RuleQuery {
            tenant: self.group.key.tenant.clone(),
            text: Arc::clone(text),
            expr: Arc::clone(expr),
            time_ns,
            interval_ns,
            wanted,
            spread: self.group.hash,
        }
    }

    /// Asks for an answer when there is a place.
    async fn ask(&self, query: RuleQuery) -> Result<Result<RuleAnswer, String>, Failure> {
        let asking = async {
            let ticket = self.node.places.enter(query.tenant.clone(), KeyBounds::default());
            let Ok(ticket) = ticket else { unreachable!("the queue has no bound") };
            let _place = ticket.await;
            self.node.links.evaluator.evaluate(query).await
        };
        match unless(&self.definition.ended, asking).await {
            None | Some(Err(RuleQueryError::Stopping)) => Err(Failure::Ended),
            Some(Ok(answer)) => Ok(Ok(answer)),
            Some(Err(error)) => Ok(Err(error.to_string())),
        }
    }

    /// Runs a computation here, or on a side thread if it is about many items.
    async fn work<T, F>(&self, items: usize, step: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if items > ASIDE_ITEMS {
            return self.node.runtime.offload_to(SideQueue::Upkeep, step).await;
        }
        step()
    }

    /// A run of records that introduces the group and says when it was evaluated.
    fn log_run(&self) -> LogRun {
        let mut run = Vec::new();
        let group = self.group;
        if !group.is_in_log.replace(true) {
            group.key.record(group.number.get()).write(&mut run);
        }
        Record::Evaluated { group: group.number.get(), time_ns: self.time_ns }.write(&mut run);
        self.has_time.set(true);
        LogRun { group: group.number.get(), run, full: Vec::new() }
    }
}

/// Records for the log, in frames of a fair size.
struct LogRun {
    group: u32,
    run: Vec<u8>,
    full: Vec<Vec<u8>>,
}

impl LogRun {
    fn introduce(&mut self, rule: &RuleCell) {
        rule.introduce(self.group, &mut self.run);
    }

    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.run);
        if self.run.len() >= FRAME_AIM_BYTES {
            self.full.push(std::mem::take(&mut self.run));
        }
    }

    fn end(mut self) -> Vec<Vec<u8>> {
        if !self.run.is_empty() {
            self.full.push(self.run);
        }
        self.full
    }
}

/// A duration in ns; the longest there is if it is longer.
pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
