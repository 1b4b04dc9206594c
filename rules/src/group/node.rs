//! The owner of all groups: what it knows of each, and its log.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::{FairQueue, Latch, Runtime};

use super::definition::Definition;
use super::rule::RuleCell;
use crate::common::{CommonFiles, Keeping};
use crate::config::EvaluationConfig;
use crate::messages::GroupStatus;
use crate::state::format::Record;
use crate::state::{
    CommonState, GroupKey, GroupSnapshot, News, RuleImage, RuleSnapshot, StateCounters, StateLog,
};

/// Samples and alerts that a core works on itself. More are for side threads.
pub(super) const ASIDE_ITEMS: usize = 1000;

/// Where the state of alerts is, beside the memory.
#[derive(Clone, Debug)]
pub enum StatePlace {
    /// In the data folder at this path, of a node that is alone.
    Folder(PathBuf),
    /// Where several nodes have it in common. Groups are evaluated as long as the term lasts.
    Common(Rc<dyn CommonFiles>),
}

impl From<&Path> for StatePlace {
    fn from(data_dir: &Path) -> StatePlace {
        StatePlace::Folder(data_dir.to_path_buf())
    }
}

/// What keeps the state.
pub(super) enum Keeper<R: Runtime> {
    Log(StateLog<R>),
    Common(CommonState<R>),
}

impl<R: Runtime> Keeper<R> {
    pub(super) fn counters(&self) -> StateCounters {
        match self {
            Keeper::Log(log) => log.counters(),
            Keeper::Common(state) => state.counters(),
        }
    }

    pub(super) async fn stop(&self) {
        match self {
            Keeper::Log(log) => log.stop().await,
            Keeper::Common(state) => state.stop().await,
        }
    }
}

/// What evaluations need from others.
pub struct GroupLinks<E, A, S> {
    /// Evaluates queries.
    pub evaluator: E,
    /// Takes alerts.
    pub alerts: Rc<A>,
    /// Takes samples.
    pub samples: Rc<S>,
    /// How far before the evaluation's time the queries of a tenant look, unless the group says
    /// it.
    pub query_offset: Rc<dyn Fn(&TenantId) -> Duration>,
}

/// A group that is evaluated.
pub(super) struct Group {
    pub(super) key: GroupKey,
    /// Of the key: where in the interval it is evaluated, and on which core.
    pub(super) hash: u64,
    /// Its number in the log of the state.
    pub(super) number: Cell<u32>,
    /// Whether the log's file knows the number.
    pub(super) is_in_log: Cell<bool>,
    pub(super) definition: RefCell<Rc<Definition>>,
    pub(super) is_removed: Cell<bool>,
    /// The last evaluation of an earlier process, until the first one of this.
    pub(super) before_start_ns: Cell<Option<i64>>,
    /// The evaluation time of the last evaluation.
    pub(super) last_time_ns: Cell<Option<i64>>,
    pub(super) counts: RefCell<Counts>,
    /// Series of rules that are gone, which have not ended yet.
    pub(super) owed: RefCell<Vec<Labels>>,
    /// The status, until something changes.
    pub(super) status: RefCell<Option<Arc<GroupStatus>>>,
}

/// State of a group that was not defined yet in this process.
pub(super) struct Unclaimed {
    pub(super) number: u32,
    pub(super) last_evaluation_ns: Option<i64>,
    pub(super) rules: Vec<(u32, Rc<RuleImage>)>,
}

pub(super) struct Node<R: Runtime, E, A, S> {
    pub(super) runtime: R,
    pub(super) place: StatePlace,
    pub(super) config: EvaluationConfig,
    pub(super) links: GroupLinks<E, A, S>,
    /// The queries that run.
    pub(super) places: FairQueue<TenantId>,
    pub(super) groups: RefCell<BTreeMap<GroupKey, Rc<Group>>>,
    pub(super) unclaimed: RefCell<BTreeMap<GroupKey, Unclaimed>>,
    /// There once earlier states were read.
    pub(super) keeper: OnceCell<Keeper<R>>,
    pub(super) last_number: Cell<u32>,
    pub(super) is_stopping: Cell<bool>,
    pub(super) tasks: Cell<usize>,
    /// Triggered when the last task has ended while the node stops.
    pub(super) drained: Latch,
}

/// Numbers of a group since the start of the process, and of its last evaluation.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) evaluations: u64,
    pub(super) evaluation_failures: u64,
    pub(super) iterations: u64,
    pub(super) iterations_missed: u64,
    pub(super) last_evaluation_ns: Option<i64>,
    pub(super) last_duration: Duration,
    pub(super) last_samples: u64,
    /// Of all evaluations of rules together.
    pub(super) rules_time: Duration,
    /// Of all evaluations of the group together.
    pub(super) iterations_time: Duration,
}

impl Group {
    pub(super) fn definition(&self) -> Rc<Definition> {
        Rc::clone(&self.definition.borrow())
    }

    pub(super) fn changed(&self) {
        *self.status.borrow_mut() = None;
    }

    pub(super) fn rules(&self) -> Vec<Rc<RuleCell>> {
        self.definition.borrow().rules.clone()
    }
}

impl<R: Runtime, E, A, S> Node<R, E, A, S> {
    pub(super) fn new_number(&self) -> u32 {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        number
    }

    /// Whether groups may be evaluated here and now: no other node does so.
    pub(super) async fn may_evaluate(&self) -> bool {
        match &self.place {
            StatePlace::Folder(_) => true,
            StatePlace::Common(common) => common.keeping().await == Keeping::Yes,
        }
    }

    /// Appends runs of records, and waits until they are kept or cannot be. What nodes have in common
    /// is written later.
    pub(super) async fn keep(&self, payloads: Vec<Vec<u8>>, news: News) {
        match self.keeper.get() {
            // The log tells of a failure itself.
            Some(Keeper::Log(log)) => drop(log.append(payloads).await),
            Some(Keeper::Common(state)) => state.note(news),
            None => {}
        }
    }

    /// Appends records without waiting for them. Before the log is there, it will begin with what
    /// the tables hold.
    pub(super) fn note(&self, records: &[Record]) {
        let mut run = Vec::new();
        records.iter().for_each(|record| record.write(&mut run));
        self.note_runs(if run.is_empty() { Vec::new() } else { vec![run] });
    }

    pub(super) fn note_runs(&self, payloads: Vec<Vec<u8>>) {
        match self.keeper.get() {
            // They are in their place now.
            Some(Keeper::Log(log)) => drop(log.append(payloads)),
            Some(Keeper::Common(state)) if !payloads.is_empty() => state.note(News::State),
            Some(Keeper::Common(_)) | None => {}
        }
    }

    /// What the tables hold, for a rewrite. From here on the new file knows what is in here, and
    /// nothing else.
    pub(super) fn snapshot(&self) -> Vec<GroupSnapshot> {
        let oldest_ns = self.runtime.unix_nanos().saturating_sub_unsigned(
            u64::try_from(self.config.for_outage_tolerance.as_nanos()).unwrap_or(u64::MAX),
        );
        let mut unclaimed = self.unclaimed.borrow_mut();
        unclaimed.retain(|_, group| group.last_evaluation_ns.is_some_and(|last| last >= oldest_ns));
        let mut groups: Vec<GroupSnapshot> = unclaimed
            .iter()
            .map(|(key, group)| GroupSnapshot {
                key: key.clone(),
                number: group.number,
                last_evaluation_ns: group.last_evaluation_ns,
                rules: group.rules.iter().map(snapshot_of_image).collect(),
            })
            .collect();
        for group in self.groups.borrow().values() {
            let rules: Vec<RuleSnapshot> =
                group.rules().iter().filter_map(|rule| rule.snapshot()).collect();
            group.is_in_log.set(!rules.is_empty());
            if !rules.is_empty() {
                groups.push(GroupSnapshot {
                    key: group.key.clone(),
                    number: group.number.get(),
                    last_evaluation_ns: group.last_time_ns.get().or(group.before_start_ns.get()),
                    rules,
                });
            }
        }
        groups
    }
}

fn snapshot_of_image((number, image): &(u32, Rc<RuleImage>)) -> RuleSnapshot {
    RuleSnapshot { number: *number, identity: Rc::clone(image), table: Arc::clone(&image.table) }
}

/// The time of samples of an evaluation, in ms since the Unix epoch. It is the time up to which the
/// query looked, as in Prometheus and Loki.
pub(super) fn sample_ms(time_ns: i64, query_offset: Duration) -> i64 {
    queried_ns(time_ns, query_offset).div_euclid(1_000_000)
}

/// Up to when a query looks, in ns since the Unix epoch.
pub(super) fn queried_ns(time_ns: i64, query_offset: Duration) -> i64 {
    time_ns.saturating_sub_unsigned(u64::try_from(query_offset.as_nanos()).unwrap_or(u64::MAX))
}
