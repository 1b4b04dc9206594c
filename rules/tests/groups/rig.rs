//! A node that evaluates groups. What queries answer is told by the test.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{ResultPoint, VectorSample};
use logsvc_proto::{Labels, TenantId};
use logsvc_rules::catalogue::TenantGroups;
use logsvc_rules::config::EvaluationConfig;
use logsvc_rules::evaluation::Evaluation;
use logsvc_rules::evaluator::{Evaluator, RuleAnswer, RuleLine, RuleQuery, RuleQueryError, Wanted};
use logsvc_rules::group::{GroupLinks, Groups, StatePlace};
use logsvc_rules::messages::{AlertState, AlertStatus, GroupNumbers, GroupStatus, Health};
use logsvc_rules::model::{AlertRule, Rule, RuleGroup, RuleKind};
use logsvc_rules::sink::{AlertSink, AppendError, Notification, RecordedSample, SampleSink};
use logsvc_rules::state::StateCounters;
use logsvc_runtime::sim::{Node, SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Latch, Runtime};

pub(crate) const SECOND_NS: i64 = 1_000_000_000;
pub(crate) const STATE: &str = "/data/rules/state/ALERTS";

pub(crate) type Pairs = Vec<(&'static str, &'static str)>;
pub(crate) type Answer = Result<Vec<(Pairs, f64)>, String>;
/// Answers to a query at a time in ns.
pub(crate) type Script = Box<dyn Fn(&str, i64) -> Answer>;

pub(crate) fn tenant() -> TenantId {
    TenantId::new("t").expect("a tenant")
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_result_pairs(pairs.iter().copied()).expect("a set")
}

/// What the test sees and decides.
pub(crate) struct Play {
    pub(crate) script: RefCell<Script>,
    /// How long a query takes.
    pub(crate) takes: Cell<Duration>,
    /// Texts and times of all queries.
    pub(crate) queries: RefCell<Vec<(String, i64)>>,
    pub(crate) running: Cell<usize>,
    pub(crate) most_running: Cell<usize>,
    /// With the time at which they were sent.
    pub(crate) notifications: RefCell<Vec<(i64, Notification)>>,
    pub(crate) samples: RefCell<Vec<RecordedSample>>,
    /// Refuses samples.
    pub(crate) refuses: Cell<bool>,
    pub(crate) takes_samples: Cell<bool>,
    /// The tenant's delay.
    pub(crate) query_offset: Cell<Duration>,
}

#[derive(Clone)]
pub(crate) struct Played {
    play: Rc<Play>,
    runtime: SimRuntime,
}

impl Evaluator for Played {
    async fn evaluate(&self, query: RuleQuery) -> Result<RuleAnswer, RuleQueryError> {
        let play = &self.play;
        play.queries.borrow_mut().push((query.text.to_string(), query.time_ns));
        play.running.set(play.running.get() + 1);
        play.most_running.set(play.most_running.get().max(play.running.get()));
        let _ended = Ended(Rc::clone(play));
        self.runtime.sleep_until(self.runtime.now().after(play.takes.get())).await;
        if let Wanted::Lines { start_ns, limit } = query.wanted {
            let line = format!("{limit} of {} {}", query.text, query.time_ns - start_ns);
            let line = line.into_bytes().into();
            let labels = Labels::empty();
            return Ok(RuleAnswer::Lines(vec![RuleLine { time_ns: start_ns, labels, line }]));
        }
        let answer = (play.script.borrow())(&query.text, query.time_ns);
        let sample = |(pairs, value): (Pairs, f64)| VectorSample {
            labels: labels(&pairs),
            point: ResultPoint { timestamp_ms: query.time_ns / 1_000_000, value },
        };
        match answer {
            Err(error) => Err(RuleQueryError::Failed(error)),
            Ok(vector) => Ok(RuleAnswer::Vector(vector.into_iter().map(sample).collect())),
        }
    }
}

struct Ended(Rc<Play>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

impl AlertSink for Played {
    fn send(&self, _: &TenantId, alerts: Vec<Notification>) {
        let now_ns = self.runtime.unix_nanos();
        for alert in alerts {
            assert!(alert.starts_at_ns < alert.ends_at_ns, "{alert:?}");
            assert!(alert.starts_at_ns > 1_000_000_000 * SECOND_NS, "{alert:?}");
            self.play.notifications.borrow_mut().push((now_ns, alert));
        }
    }
}

impl SampleSink for Played {
    fn takes(&self, _: &TenantId) -> bool {
        self.play.takes_samples.get()
    }

    async fn append(&self, _: &TenantId, samples: Vec<RecordedSample>) -> Result<(), AppendError> {
        if self.play.refuses.get() {
            return Err(AppendError::Closed);
        }
        self.play.samples.borrow_mut().extend(samples);
        Ok(())
    }
}

pub(crate) type TestGroups = Groups<SimRuntime, Played, Played, Played>;

/// What outlives a start.
pub(crate) struct World<'s> {
    pub(crate) simulation: &'s Simulation,
    pub(crate) play: Rc<Play>,
    pub(crate) config: RefCell<EvaluationConfig>,
    pub(crate) place: RefCell<StatePlace>,
    groups: RefCell<BTreeMap<String, Arc<RuleGroup>>>,
}

impl<'s> World<'s> {
    pub(crate) fn new(simulation: &'s Simulation) -> World<'s> {
        let play = Play {
            script: RefCell::new(Box::new(|_, _| Ok(Vec::new()))),
            takes: Cell::new(Duration::from_millis(5)),
            queries: RefCell::default(),
            running: Cell::default(),
            most_running: Cell::default(),
            notifications: RefCell::default(),
            samples: RefCell::default(),
            refuses: Cell::default(),
            takes_samples: Cell::new(true),
            query_offset: Cell::new(Duration::ZERO),
        };
        World {
            simulation,
            play: Rc::new(play),
            config: RefCell::default(),
            place: RefCell::new(Path::new("/data").into()),
            groups: RefCell::default(),
        }
    }

    pub(crate) fn script(&self, script: impl Fn(&str, i64) -> Answer + 'static) {
        *self.play.script.borrow_mut() = Box::new(script);
    }

    /// Answers all queries alike from here on.
    pub(crate) fn answers(&self, answer: Answer) {
        self.script(move |_, _| answer.clone());
    }

    pub(crate) fn now_ns(&self) -> i64 {
        self.simulation.block_on(|runtime| async move { runtime.unix_nanos() })
    }

    pub(crate) fn wait(&self, seconds: f64) {
        self.simulation.run_for(Duration::from_secs_f64(seconds));
    }

    pub(crate) fn start(&self) -> Rig<'_, 's> {
        let stop = Latch::new();
        let place: Rc<RefCell<Option<Rc<TestGroups>>>> = Rc::default();
        let known = self.tenant_groups();
        let (for_core, for_stop) = (Rc::clone(&place), stop.clone());
        let (play, config) = (Rc::clone(&self.play), self.config.borrow().clone());
        let place_of_state = self.place.borrow().clone();
        let node = self.simulation.start_node(1, move |runtime| {
            let played = Played { play: Rc::clone(&play), runtime: runtime.clone() };
            let offset = Rc::clone(&play);
            let links = GroupLinks {
                evaluator: played.clone(),
                alerts: Rc::new(played.clone()),
                samples: Rc::new(played),
                query_offset: Rc::new(move |_| offset.query_offset.get()),
            };
            let groups =
                Rc::new(Groups::new(runtime, place_of_state.clone(), config.clone(), links));
            groups.set_groups(&tenant(), &known);
            *for_core.borrow_mut() = Some(Rc::clone(&groups));
            let stop = for_stop.clone();
            async move { groups.run(stop).await }
        });
        let groups = place.borrow().clone().expect("made at once");
        Rig { world: self, node, groups, stop }
    }

    fn tenant_groups(&self) -> TenantGroups {
        let mut all = TenantGroups::default();
        for group in self.groups.borrow().values() {
            all.insert("ns", Arc::clone(group));
        }
        all
    }

    /// Adds or replaces a group for the next start, and in `rig`.
    pub(crate) fn define(&self, group: RuleGroup) {
        self.groups.borrow_mut().insert(group.name.clone(), Arc::new(group));
    }

    pub(crate) fn undefine(&self, name: &str) {
        self.groups.borrow_mut().remove(name);
    }

    /// Samples of series whose printed labels have `part`: time in ms, value.
    pub(crate) fn series(&self, part: &str) -> Vec<(i64, f64)> {
        let samples = self.play.samples.borrow();
        let found = samples.iter().filter(|sample| sample.labels.canonical().contains(part));
        found.map(|sample| (sample.timestamp_ms, sample.value)).collect()
    }

    pub(crate) fn clear(&self) {
        self.play.samples.borrow_mut().clear();
        self.play.notifications.borrow_mut().clear();
        self.play.queries.borrow_mut().clear();
    }

    pub(crate) fn sent(&self) -> Vec<(i64, Notification)> {
        self.play.notifications.borrow().clone()
    }
}

/// One start.
pub(crate) struct Rig<'w, 's> {
    pub(crate) world: &'w World<'s>,
    pub(crate) node: Node,
    pub(crate) groups: Rc<TestGroups>,
    stop: Latch,
}

impl Rig<'_, '_> {
    /// Tells the node of the groups that are defined.
    pub(crate) fn tell(&self) {
        self.groups.set_groups(&tenant(), &self.world.tenant_groups());
    }

    pub(crate) fn status(&self) -> Vec<Arc<GroupStatus>> {
        let (groups, place) = (Rc::clone(&self.groups), Rc::new(RefCell::new(None)));
        let for_task = Rc::clone(&place);
        drop(self.node.runtime(CoreId(0)).spawn(async move {
            *for_task.borrow_mut() = Some(groups.status(&tenant()).await);
        }));
        let done = self.world.simulation.run_until(|| place.borrow().is_some());
        done.unwrap_or_else(|stuck| panic!("{stuck}"));
        place.borrow_mut().take().expect("a status")
    }

    /// Active alerts of the first rule of the first group.
    pub(crate) fn alerts(&self) -> Vec<AlertStatus> {
        let status = self.status();
        status[0].rules[0].alerting.as_ref().expect("an alerting rule").alerts.to_vec()
    }

    /// The only alert's state and when it became active.
    pub(crate) fn only_alert(&self) -> Option<(AlertState, i64)> {
        let alerts = self.alerts();
        assert!(alerts.len() < 2, "{alerts:?}");
        alerts.first().map(|alert| (alert.state, alert.active_at_ns))
    }

    pub(crate) fn health(&self) -> Health {
        self.status()[0].rules[0].health.clone()
    }

    pub(crate) fn numbers(&self) -> GroupNumbers {
        self.groups.numbers().groups[0].clone()
    }

    pub(crate) fn groups_numbers(&self) -> Vec<GroupNumbers> {
        self.groups.numbers().groups
    }

    pub(crate) fn state(&self) -> StateCounters {
        self.groups.state_counters()
    }

    /// Runs until the first rule has been evaluated so often.
    pub(crate) fn evaluations(&self, count: u64) {
        let target = self.numbers().evaluations + count;
        let done = self.world.simulation.run_until(|| self.numbers().evaluations >= target);
        done.unwrap_or_else(|stuck| panic!("{stuck}"));
        // Until what comes behind an evaluation is done.
        self.world.wait(0.2);
    }

    /// Runs until the only alert is in this state.
    pub(crate) fn until(&self, state: AlertState) -> i64 {
        for _ in 0..5000 {
            match self.only_alert() {
                Some((now, active_at_ns)) if now == state => return active_at_ns,
                _ => self.world.wait(0.5),
            }
        }
        panic!("the alert does not become {}", state.word());
    }

    pub(crate) fn stop(self) {
        self.stop.trigger();
        let done = self.world.simulation.run_until(|| !self.node.is_running());
        done.unwrap_or_else(|stuck| panic!("{stuck}"));
    }
}

/// An alerting rule.
pub(crate) fn alert(name: &str, expr: &str, hold_s: u64) -> Rule {
    Rule {
        kind: RuleKind::Alert(AlertRule {
            alert: name.to_owned(),
            hold: Duration::from_secs(hold_s),
            keep_firing: Duration::ZERO,
            annotations: Vec::new(),
        }),
        expr: expr.to_owned(),
        labels: Vec::new(),
    }
}

pub(crate) fn record(name: &str, expr: &str) -> Rule {
    Rule {
        kind: RuleKind::Record { record: name.to_owned() },
        expr: expr.to_owned(),
        labels: Vec::new(),
    }
}

pub(crate) fn with_label(mut rule: Rule, name: &str, value: &str) -> Rule {
    rule.labels.push((name.to_owned(), value.to_owned()));
    rule
}

pub(crate) fn with_annotation(mut rule: Rule, name: &str, value: &str) -> Rule {
    if let RuleKind::Alert(alert) = &mut rule.kind {
        alert.annotations.push((name.to_owned(), value.to_owned()));
    }
    rule
}

/// A group that is evaluated each 10 s.
pub(crate) fn group(name: &str, rules: Vec<Rule>) -> RuleGroup {
    RuleGroup {
        name: name.to_owned(),
        interval: Some(Duration::from_secs(10)),
        rules,
        ..RuleGroup::default()
    }
}

/// A query that parses.
pub(crate) const QUERY: &str = r#"sum(count_over_time({app="a"}[5m])) > 0"#;
