//! Evaluates rule groups ([`Evaluation`]): one task per group, all on one core, which is the only owner of the
//! groups and their state.
//!
//! Order of an evaluation of a rule: the query, the next table, the log of the state, the
//! notifications, the samples. So what was told to an Alertmanager survives the end of the process.
//!
//! Guarantees:
//! - Rules of a group are evaluated in their order and never twice at a time. At most
//!   `max_concurrent` queries of rules run at a time on the node, shared fairly by tenants.
//! - A query that fails changes no alert and no series.
//! - A group that is replaced goes on in the same task, on its old schedule if the interval is the
//!   same. Rules with the same name and labels keep their alerts and series. The evaluation that
//!   runs at that moment is given up.
//! - The series of a group or rule that is removed end with stale markers. Alertmanagers are told
//!   nothing; alerts end for them when they are not sent again.
//! - The text of a query is in no log line above the level debug.
//!
//! - Where several nodes have groups in common ([`StatePlace::Common`]), nothing is evaluated without a
//!   proof that no other node does. A node that is the keeper no more ends nothing: no series, no
//!   alert.
//!
//! What can go wrong: a disk that cannot keep the state of alerts stops no evaluation
//! ([`crate::state`]). A receiver of samples that refuses makes the rule's health an error.

mod definition;
mod evaluate;
mod hash;
mod node;
mod rule;
mod run;
mod status;
mod waits;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::{FairQueue, Latch, Runtime};

use self::definition::{Definition, carry_over};
use self::node::{Group, Keeper, Node, Unclaimed, sample_ms};
pub use self::node::{GroupLinks, StatePlace};
use self::waits::unless;
use crate::catalogue::TenantGroups;
use crate::config::EvaluationConfig;
use crate::evaluation::Evaluation;
use crate::evaluator::Evaluator;
use crate::messages::{GroupStatus, RulerNumbers};
use crate::model::RuleGroup;
use crate::sink::{AlertSink, RecordedSample, STALE, SampleSink};
use crate::state::format::Record;
use crate::state::{self, CommonState, GroupKey, StateCounters, StateLog};

/// All groups that are evaluated. See the module.
pub struct Groups<R: Runtime, E, A, S> {
    node: Rc<Node<R, E, A, S>>,
}

impl<R: Runtime, E, A, S> std::fmt::Debug for Groups<R, E, A, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").field("groups", &self.node.groups.borrow().len()).finish()
    }
}

impl<R: Runtime, E: Evaluator, A: AlertSink, S: SampleSink> Groups<R, E, A, S> {
    /// No groups yet. One value per process may run at a time, with the data folder claimed, or for one
    /// term.
    pub fn new(
        runtime: R,
        place: impl Into<StatePlace>,
        config: EvaluationConfig,
        links: GroupLinks<E, A, S>,
    ) -> Groups<R, E, A, S> {
        let node = Node {
            places: FairQueue::new(config.places(runtime.core_count())),
            groups: RefCell::default(),
            unclaimed: RefCell::default(),
            keeper: OnceCell::new(),
            last_number: Cell::new(0),
            is_stopping: Cell::new(false),
            tasks: Cell::new(0),
            drained: Latch::new(),
            place: place.into(),
            runtime,
            config,
            links,
        };
        Groups { node: Rc::new(node) }
    }

    /// Creates or replaces a group, which is in force at once. An equal one changes nothing.
    pub fn put(&self, tenant: &TenantId, namespace: &str, source: Arc<RuleGroup>) {
        let key = GroupKey {
            tenant: tenant.clone(),
            namespace: namespace.into(),
            name: source.name.as_str().into(),
        };
        let known = self.node.groups.borrow().get(&key).cloned();
        match known {
            Some(group) => self.node.replace(&group, source),
            None => self.node.create(key, source),
        }
    }

    /// Removes a group. Its series end.
    pub fn remove(&self, tenant: &TenantId, namespace: &str, name: &str) {
        let key =
            GroupKey { tenant: tenant.clone(), namespace: namespace.into(), name: name.into() };
        let removed = self.node.groups.borrow_mut().remove(&key);
        if let Some(group) = removed {
            self.node.end(&group);
        }
    }

    /// Numbers of the file with the alerts' state.
    pub fn state_counters(&self) -> StateCounters {
        self.node.keeper.get().map_or_else(StateCounters::default, Keeper::counters)
    }

    /// Reads the state of earlier processes, and begins to keep it.
    async fn begin(&self) {
        let node = &self.node;
        let image = match &node.place {
            StatePlace::Folder(data_dir) => state::load(&node.runtime, data_dir).await.0,
            StatePlace::Common(common) => state::load_common(&node.runtime, &**common).await,
        };
        for (key, group) in image {
            let rules = group.rules.into_iter().map(|rule| (node.new_number(), Rc::new(rule)));
            let rules = rules.collect();
            let unclaimed = Unclaimed {
                number: node.new_number(),
                last_evaluation_ns: group.last_evaluation_ns,
                rules,
            };
            node.unclaimed.borrow_mut().insert(key, unclaimed);
        }
        let for_log = Rc::downgrade(node);
        let snapshot = move || for_log.upgrade().map_or_else(Vec::new, |node| node.snapshot());
        let (runtime, snapshot) = (&node.runtime, Rc::new(snapshot));
        let keeper = match &node.place {
            StatePlace::Folder(data_dir) => {
                Keeper::Log(StateLog::start(runtime, data_dir, snapshot))
            }
            StatePlace::Common(common) => {
                let tolerance = node.config.for_outage_tolerance;
                Keeper::Common(CommonState::start(runtime, Rc::clone(common), tolerance, snapshot))
            }
        };
        assert!(node.keeper.set(keeper).is_ok(), "groups run once");
        let groups: Vec<Rc<Group>> = node.groups.borrow().values().cloned().collect();
        groups.into_iter().for_each(|group| node.launch(group));
    }
}

impl<R, E, A, S> Evaluation for Groups<R, E, A, S>
where
    R: Runtime,
    E: Evaluator,
    A: AlertSink,
    S: SampleSink,
{
    fn set_groups(&self, tenant: &TenantId, groups: &TenantGroups) {
        let known: Vec<GroupKey> = {
            let known = self.node.groups.borrow();
            known.keys().filter(|key| key.tenant == *tenant).cloned().collect()
        };
        // Groups that are new come first, so that series that only have moved go on.
        for (namespace, _, group) in groups.groups() {
            self.put(tenant, namespace, Arc::clone(group));
        }
        for key in known {
            if groups.group(&key.namespace, &key.name).is_none() {
                self.remove(tenant, &key.namespace, &key.name);
            }
        }
    }

    async fn status(&self, tenant: &TenantId) -> Vec<Arc<GroupStatus>> {
        let groups: Vec<Rc<Group>> = {
            let groups = self.node.groups.borrow();
            groups.values().filter(|group| group.key.tenant == *tenant).cloned().collect()
        };
        let mut statuses = Vec::with_capacity(groups.len());
        for group in groups {
            statuses.push(status::of_group(&self.node.runtime, &group).await);
        }
        statuses
    }

    fn numbers(&self) -> RulerNumbers {
        let groups = self.node.groups.borrow();
        let groups = groups.values().map(|group| status::numbers(group)).collect();
        RulerNumbers { groups, ..RulerNumbers::default() }
    }

    async fn run(&self, stop: Latch) {
        // A bucket may not answer for long.
        let _ = unless(&stop, self.begin()).await;
        stop.wait().await;
        let node = &self.node;
        node.is_stopping.set(true);
        let groups: Vec<Rc<Group>> = node.groups.borrow().values().cloned().collect();
        groups.iter().for_each(|group| group.definition().ended.trigger());
        if node.tasks.get() > 0 {
            node.drained.wait().await;
        }
        if let Some(keeper) = node.keeper.get() {
            keeper.stop().await;
        }
    }
}

impl<R: Runtime, E: Evaluator, A: AlertSink, S: SampleSink> Node<R, E, A, S> {
    fn create(self: &Rc<Self>, key: GroupKey, source: Arc<RuleGroup>) {
        let definition = Definition::new(&self.config, source, || self.new_number());
        let group = Rc::new(Group {
            hash: hash::of_group(&key),
            number: Cell::new(self.new_number()),
            is_in_log: Cell::new(false),
            definition: RefCell::new(Rc::new(definition)),
            is_removed: Cell::new(false),
            before_start_ns: Cell::new(None),
            last_time_ns: Cell::new(None),
            counts: RefCell::default(),
            owed: RefCell::default(),
            status: RefCell::default(),
            key: key.clone(),
        });
        self.groups.borrow_mut().insert(key, Rc::clone(&group));
        if self.keeper.get().is_some() {
            self.launch(group);
        }
    }

    /// Gives a group what an earlier process knew of it, and starts its task.
    fn launch(self: &Rc<Self>, group: Rc<Group>) {
        let unclaimed = self.unclaimed.borrow_mut().remove(&group.key);
        if let Some(known) = unclaimed {
            group.number.set(known.number);
            group.is_in_log.set(true);
            group.before_start_ns.set(known.last_evaluation_ns);
            self.note(&group.definition().take_images(known.rules));
            group.changed();
        }
        let node = Rc::clone(self);
        self.begin_task(async move { run::run(node, group).await });
    }

    fn replace(&self, group: &Rc<Group>, source: Arc<RuleGroup>) {
        let old = group.definition();
        if Arc::ptr_eq(&old.source, &source) || old.source == source {
            return;
        }
        let definition = Definition::new(&self.config, source, || self.new_number());
        let carried = carry_over(&old, definition);
        self.note(&carried.records);
        group.owed.borrow_mut().extend(carried.ended);
        *group.definition.borrow_mut() = Rc::new(carried.definition);
        group.changed();
        old.ended.trigger();
    }

    /// Ends a group that is out of the map.
    fn end(self: &Rc<Self>, group: &Rc<Group>) {
        group.is_removed.set(true);
        group.definition().ended.trigger();
        if group.is_in_log.get() {
            self.note(&[Record::ForgetGroup { group: group.number.get() }]);
        }
        let tenant = group.key.tenant.clone();
        let mut series: Vec<Labels> = group.owed.take();
        series.extend(group.rules().iter().flat_map(|rule| rule.series()));
        if series.is_empty() || !self.links.samples.takes(&tenant) {
            return;
        }
        let offset = group.definition().query_offset;
        let offset = offset.unwrap_or_else(|| (self.links.query_offset)(&tenant));
        let timestamp_ms = sample_ms(self.runtime.unix_nanos(), offset);
        let node = Rc::clone(self);
        self.begin_task(async move { node.end_series(tenant, series, timestamp_ms).await });
    }

    /// Ends series, unless a group that is there has them too: it was renamed or moved.
    async fn end_series(&self, tenant: TenantId, series: Vec<Labels>, timestamp_ms: i64) {
        let mut held: Vec<Labels> = Vec::new();
        for group in self.groups.borrow().values().filter(|group| group.key.tenant == tenant) {
            held.extend(group.rules().iter().flat_map(|rule| rule.series()));
        }
        held.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        let ended = series.into_iter().filter(|labels| !crate::record::contains(&held, labels));
        let samples: Vec<RecordedSample> =
            ended.map(|labels| RecordedSample { labels, timestamp_ms, value: STALE }).collect();
        if samples.is_empty() {
            return;
        }
        if let Err(error) = self.links.samples.append(&tenant, samples).await {
            tracing::warn!(%error, tenant = tenant.as_str(), "series of a removed group do not end");
        }
    }

    fn begin_task(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        self.tasks.set(self.tasks.get() + 1);
        let node = Rc::clone(self);
        drop(self.runtime.spawn(async move {
            task.await;
            node.tasks.set(node.tasks.get() - 1);
            if node.is_stopping.get() && node.tasks.get() == 0 {
                node.drained.trigger();
            }
        }));
    }
}
