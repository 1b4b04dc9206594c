//! Where entries of each partition go, as a node knows it at one moment.
//!
//! All cores of the node see the newest [`Routes`] ([`logsvc_runtime::Published`]). They may be old:
//! a shard that does not own a partition sends its entries back, and another node says that it knows
//! a newer map.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_cluster::map::{Epoch, Map, Partition};
use logsvc_cluster::member::{Member, Stop};
use logsvc_runtime::{CoreId, Monotonic};

/// The partition whose owner keeps what all nodes have in common ([`crate::common`]).
pub const KEEPER_PARTITION: Partition = 0;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes {
    /// The writer that this node is.
    pub me: Epoch,
    /// The number of the map.
    pub number: u64,
    /// The map.
    pub map: Arc<Map>,
    /// What shards of this node have.
    pub here: BTreeMap<Partition, Here>,
    /// The number of the map since which this node owns [`KEEPER_PARTITION`], if it does.
    pub keeper_since: Option<u64>,
    /// Why this node is none among others any more, if so.
    pub stopped: Option<Stop>,
}

/// A partition that a shard of this node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Here {
    /// The core of the shard.
    pub core: CoreId,
    /// From when on it takes entries; `None`: it is about to give the partition up.
    pub accepts_from: Option<Monotonic>,
}

/// Where entries of a partition go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// To the shard of this core.
    Core(CoreId),
    /// To another node.
    Node(Epoch),
    /// Nowhere for now: nobody owns it, or its owner does not take entries yet, or any more.
    Nowhere,
}

impl Routes {
    /// Those of a member that has read no map yet.
    pub(super) fn of_new(member: &Member) -> Routes {
        Routes {
            me: member.me(),
            number: member.number(),
            map: Arc::new(member.map().clone()),
            here: BTreeMap::new(),
            keeper_since: None,
            stopped: None,
        }
    }

    /// Those of this moment, if they differ from the former ones.
    pub(super) fn next(
        &self,
        member: &Member,
        cores: &BTreeMap<Partition, CoreId>,
    ) -> Option<Routes> {
        let here = |(&partition, &core): (&Partition, &CoreId)| {
            (partition, Here { core, accepts_from: member.accepts_from(partition) })
        };
        let here: BTreeMap<Partition, Here> = cores.iter().map(here).collect();
        let (number, stopped) = (member.number(), member.stopped().cloned());
        let keeper_since = member.owned().find(|(partition, _)| *partition == KEEPER_PARTITION);
        let keeper_since = keeper_since.map(|(_, since)| since);
        if number == self.number && here == self.here && stopped == self.stopped {
            return None;
        }
        // A number has one map.
        let is_same = number == self.number;
        let map = if is_same { Arc::clone(&self.map) } else { Arc::new(member.map().clone()) };
        Some(Routes { me: self.me, number, map, here, keeper_since, stopped })
    }

    /// Where entries of a partition go now.
    #[must_use]
    pub fn place(&self, partition: Partition, now: Monotonic) -> Place {
        if self.stopped.is_some() {
            return Place::Nowhere;
        }
        match self.map.live_owner(partition) {
            Some(owner) if owner != self.me => Place::Node(owner),
            Some(_) => match self.here.get(&partition) {
                Some(here) if here.accepts_from.is_some_and(|from| from <= now) => {
                    Place::Core(here.core)
                }
                _ => Place::Nowhere,
            },
            None => Place::Nowhere,
        }
    }

    /// The partitions of each owner by this map; `None` if some have none.
    #[must_use]
    pub fn owners(&self) -> Option<BTreeMap<Epoch, Vec<Partition>>> {
        let mut owners: BTreeMap<Epoch, Vec<Partition>> = BTreeMap::new();
        for (partition, _) in self.map.partitions() {
            owners.entry(self.map.live_owner(partition)?).or_default().push(partition);
        }
        Some(owners)
    }
}
