//! What the shards of a node have of what its member owns, and what is to be done about the difference.
//!
//! Guarantees: one job at a time. A partition is lost before it is gained again. What is to be given up
//! is settled first.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use logsvc_cluster::map::{Epoch, Partition};
use logsvc_cluster::member::{Accept, Input};
use logsvc_runtime::{CoreId, Runtime};

use super::jobs::{self, Gaining, Tools};
use super::{MemberError, MemberHandle};
use crate::ledger::Logs;
use crate::types::OwnedPartitions;

/// A partition that a shard has.
#[derive(Clone, Copy, Debug)]
struct Held {
    core: CoreId,
    /// The number of the map that has begun the ownership.
    since: u64,
    /// Whether the shard has settled it, and takes nothing more.
    is_settled: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Engine {
    cores: u16,
    partitions: u16,
    held: BTreeMap<Partition, Held>,
    /// What the member owns, each with the number of the map that has begun it.
    owned: BTreeMap<Partition, u64>,
    /// Partitions with a heritage that is not replayed.
    heritages: BTreeMap<Partition, (u64, BTreeSet<Epoch>)>,
    /// Partitions that are to be settled, and the tickets of the wishes.
    seals: BTreeMap<Partition, u64>,
    adoption: Option<BTreeSet<Epoch>>,
    /// What all logs say, while no job has it.
    logs: Option<Logs>,
}

/// What a job has come to.
pub(super) enum JobEnd {
    /// These partitions are with these cores.
    Gained { logs: Logs, gained: Vec<Gaining> },
    /// These are settled, and the log has all of them at a position.
    Settled { settled: Vec<(Partition, u64)>, position: u64 },
    /// Shards take entries for these again.
    Resumed(Vec<Partition>),
    /// Shards do not have these any more.
    Lost(Vec<Partition>),
    /// The own log says what these have said.
    Adopted { logs: Logs, epochs: BTreeSet<Epoch>, position: u64 },
}

type Job = LocalBoxFuture<'static, Result<JobEnd, MemberError>>;

/// Some partitions by the cores that have them.
pub(super) type ByCore = BTreeMap<CoreId, OwnedPartitions>;

impl Engine {
    pub(super) fn new(cores: u16, partitions: u16) -> Engine {
        Engine {
            cores,
            partitions,
            held: BTreeMap::new(),
            owned: BTreeMap::new(),
            heritages: BTreeMap::new(),
            seals: BTreeMap::new(),
            adoption: None,
            logs: Some(Logs::default()),
        }
    }

    /// Takes over what the member owns now.
    pub(super) fn note_owned(&mut self, owned: BTreeMap<Partition, u64>) {
        self.owned = owned;
        let owned = &self.owned;
        self.heritages.retain(|partition, (since, _)| owned.get(partition) == Some(since));
        self.seals.retain(|partition, _| owned.contains_key(partition));
    }

    pub(super) fn recover(&mut self, partition: Partition, since: u64, from: BTreeSet<Epoch>) {
        self.heritages.insert(partition, (since, from));
    }

    pub(super) fn seal(&mut self, partition: Partition, ticket: u64) {
        self.seals.insert(partition, ticket);
    }

    pub(super) fn adopt(&mut self, epochs: BTreeSet<Epoch>) {
        self.adoption = Some(epochs);
    }

    /// Whether the shards have what the member owns, and nothing else.
    pub(super) fn is_in_step(&self) -> bool {
        self.held.len() == self.owned.len()
            && self.held.iter().all(|(one, held)| self.owned.get(one) == Some(&held.since))
    }

    /// The next job, if there is something to be done.
    pub(super) fn next<R: Runtime>(
        &mut self,
        tools: &Rc<Tools<R>>,
        handle: &MemberHandle,
    ) -> Option<Job> {
        let tools = Rc::clone(tools);
        let lost = |(one, held): &(&Partition, &Held)| self.owned.get(one) != Some(&held.since);
        let lost: Vec<Partition> = self.held.iter().filter(lost).map(|(one, _)| *one).collect();
        if !lost.is_empty() {
            let by_core = self.by_core(&lost);
            let left = self.held.keys().copied().filter(|one| !lost.contains(one));
            let left = OwnedPartitions::some(self.partitions, left);
            return Some(Box::pin(async move {
                jobs::lose(&tools, by_core, left).await?;
                Ok(JobEnd::Lost(lost))
            }));
        }
        let settles = self.seals.iter().filter(|(one, _)| self.held.contains_key(one));
        let settled: Vec<(Partition, u64)> = settles.map(|(one, ticket)| (*one, *ticket)).collect();
        if !settled.is_empty() {
            self.seals.retain(|one, _| !self.held.contains_key(one));
            let is_new = |(one, _): &&(Partition, u64)| !self.held[one].is_settled;
            let new: Vec<Partition> = settled.iter().filter(is_new).map(|(one, _)| *one).collect();
            let by_core = self.by_core(&new);
            return Some(Box::pin(async move {
                let position = jobs::settle(&tools, by_core).await?;
                Ok(JobEnd::Settled { settled, position })
            }));
        }
        let now = tools.runtime.now();
        let goes_on = |(one, held): &(&Partition, &Held)| {
            held.is_settled && matches!(handle.may_accept(**one, now), Accept::Yes | Accept::NotYet)
        };
        let resumed: Vec<Partition> =
            self.held.iter().filter(goes_on).map(|(one, _)| *one).collect();
        if !resumed.is_empty() {
            let by_core = self.by_core(&resumed);
            return Some(Box::pin(async move {
                jobs::resume(&tools, by_core).await?;
                Ok(JobEnd::Resumed(resumed))
            }));
        }
        let gained = self.to_gain();
        if !gained.is_empty()
            && let Some(logs) = self.logs.take()
        {
            let (_, map) = handle.map();
            return Some(Box::pin(async move {
                let logs = jobs::gain(&tools, logs, &map, &gained).await?;
                Ok(JobEnd::Gained { logs, gained })
            }));
        }
        if let Some(epochs) = self.adoption.take()
            && let Some(logs) = self.logs.take()
        {
            let (_, map) = handle.map();
            return Some(Box::pin(async move {
                let (logs, position) = jobs::adopt(&tools, logs, &map, &epochs).await?;
                Ok(JobEnd::Adopted { logs, epochs, position })
            }));
        }
        None
    }

    /// Takes over what a job has come to; gives what the member is to be told.
    pub(super) fn end(&mut self, end: JobEnd, handle: &MemberHandle) -> Vec<Input> {
        let mut inputs = Vec::new();
        match end {
            JobEnd::Gained { logs, gained } => {
                self.logs = Some(logs);
                let mut cores = handle.0.cores.borrow_mut();
                for Gaining { partition, core, since, from } in gained {
                    cores.insert(partition, core);
                    self.held.insert(partition, Held { core, since, is_settled: false });
                    if !from.is_empty() {
                        self.heritages.remove(&partition);
                        inputs.push(Input::Recovered { partition, since });
                        // The own logs have it now.
                        inputs.push(Input::Settled { partition, since });
                    }
                }
            }
            JobEnd::Settled { settled, position } => {
                for (partition, ticket) in settled {
                    if let Some(held) = self.held.get_mut(&partition) {
                        held.is_settled = true;
                    }
                    inputs.push(Input::Sealed { partition, ticket, position });
                }
            }
            JobEnd::Resumed(resumed) => {
                for partition in resumed {
                    if let Some(held) = self.held.get_mut(&partition) {
                        held.is_settled = false;
                    }
                }
            }
            JobEnd::Lost(lost) => {
                let mut cores = handle.0.cores.borrow_mut();
                for partition in lost {
                    self.held.remove(&partition);
                    cores.remove(&partition);
                }
            }
            JobEnd::Adopted { logs, epochs, position } => {
                self.logs = Some(logs);
                inputs.push(Input::Adopted { epochs, position });
            }
        }
        handle.0.is_in_step.set(self.is_in_step());
        inputs
    }

    fn by_core(&self, partitions: &[Partition]) -> ByCore {
        let mut by_core: BTreeMap<CoreId, Vec<Partition>> = BTreeMap::new();
        for partition in partitions {
            if let Some(held) = self.held.get(partition) {
                by_core.entry(held.core).or_default().push(*partition);
            }
        }
        let of = self.partitions;
        let some = |partitions: Vec<Partition>| OwnedPartitions::some(of, partitions);
        by_core.into_iter().map(|(core, partitions)| (core, some(partitions))).collect()
    }

    /// What the member owns and no shard has, each with the core that is to have it: cores with few
    /// partitions get more, and as many as possible that follow each other.
    fn to_gain(&self) -> Vec<Gaining> {
        let new = self.owned.iter().filter(|(one, _)| !self.held.contains_key(one));
        let mut new = new.map(|(one, since)| (*one, *since)).peekable();
        let mut load: BTreeMap<CoreId, usize> =
            (0..self.cores).map(|one| (CoreId(one), 0)).collect();
        self.held.values().for_each(|held| *load.entry(held.core).or_default() += 1);
        let share = self.owned.len().div_ceil(usize::from(self.cores.max(1)));
        let mut by_load: Vec<(usize, CoreId)> =
            load.into_iter().map(|(core, n)| (n, core)).collect();
        by_load.sort_unstable();
        let mut gained = Vec::new();
        for (held, core) in by_load {
            let room = share.saturating_sub(held);
            for (partition, since) in new.by_ref().take(room) {
                let heritage = self.heritages.get(&partition).filter(|(by, _)| *by == since);
                let from = heritage.map(|(_, from)| from.clone()).unwrap_or_default();
                gained.push(Gaining { partition, core, since, from });
            }
            if new.peek().is_none() {
                break;
            }
        }
        gained
    }
}
