//! What others on core 0 ask of a node among others, and tell it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_cluster::map::{Map, Partition};
use logsvc_cluster::member::{Accept, Answer, Hold, Input, Member, Stop};
use logsvc_runtime::{Bell, CoreId, Monotonic, Published};

use super::reach::{CUT_OFF_AFTER, CutOff, Reach};
use super::routes::Routes;
use crate::sink::SinkStatus;

/// A node among others, as far as its core knows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemberHandle(pub(super) Rc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) member: RefCell<Member>,
    /// What the member is to be told.
    pub(super) inputs: RefCell<VecDeque<Input>>,
    /// Rung when there is something to be told.
    pub(super) bell: Bell,
    /// The cores that have the partitions.
    pub(super) cores: RefCell<BTreeMap<Partition, CoreId>>,
    /// What all cores of the node see.
    pub(super) routes: Published<Routes>,
    /// Whether the bucket answers.
    pub(super) reach: Reach,
    /// The log of the node, if it is in the bucket.
    sink: Option<Arc<SinkStatus>>,
    /// Whether the shards have exactly the partitions that the member owns.
    pub(super) is_in_step: Cell<bool>,
}

impl MemberHandle {
    pub(super) fn new(member: Member, sink: Option<Arc<SinkStatus>>) -> MemberHandle {
        let routes = Published::new(Routes::of_new(&member));
        MemberHandle(Rc::new(Shared {
            member: RefCell::new(member),
            inputs: RefCell::default(),
            bell: Bell::new(),
            cores: RefCell::default(),
            routes,
            reach: Reach::default(),
            sink,
            is_in_step: Cell::new(true),
        }))
    }

    /// Tells the member something: who seems to live, that somebody knows a newer map, that a query
    /// wants a proof, or that the node is to leave.
    pub fn tell(&self, input: Input) {
        self.0.inputs.borrow_mut().push_back(input);
        self.0.bell.ring();
    }

    /// See [`Member::may_accept`].
    pub fn may_accept(&self, partition: Partition, now: Monotonic) -> Accept {
        self.0.member.borrow().may_accept(partition, now)
    }

    /// See [`Member::holds`].
    pub fn holds(&self, partition: Partition, now: Monotonic) -> Hold {
        self.0.member.borrow().holds(partition, now)
    }

    /// See [`Member::may_answer`]. While the shards do not have what the member owns, it has to be
    /// waited. It has to be asked twice: before the shards are asked, and once they have taken their
    /// snapshots. Only then the answer is one of an instant at which the node was the owner.
    pub fn may_answer(&self, partitions: &[Partition], number: u64, now: Monotonic) -> Answer {
        match self.0.member.borrow().may_answer(partitions, number, now) {
            Answer::Yes if !self.0.is_in_step.get() => Answer::Wait,
            answer => answer,
        }
    }

    /// [`MemberHandle::may_answer`] for all partitions that the node owns by the map of this number.
    pub fn may_answer_all(&self, number: u64, now: Monotonic) -> Answer {
        let owned: Vec<Partition> = {
            let member = self.0.member.borrow();
            let (map, me) = (member.map(), member.me());
            let partitions = map.partitions().map(|(partition, _)| partition);
            partitions.filter(|partition| map.live_owner(*partition) == Some(me)).collect()
        };
        self.may_answer(&owned, number, now)
    }

    /// The partitions that the node owns, each with the number of the map that has begun the ownership;
    /// `None` while its shards have others.
    pub fn owned_in_step(&self) -> Option<BTreeMap<Partition, u64>> {
        self.0.is_in_step.get().then(|| self.0.member.borrow().owned().collect())
    }

    /// The core whose shard has a partition.
    pub fn core_of(&self, partition: Partition) -> Option<CoreId> {
        self.0.cores.borrow().get(&partition).copied()
    }

    /// What the node has lacked for [`CUT_OFF_AFTER`], so that others should have its partitions.
    pub fn cut_off(&self, now: Monotonic) -> Option<CutOff> {
        if self.0.reach.is_cut_off(now) {
            return Some(CutOff::Bucket);
        }
        self.log_failing().is_some_and(|time| time >= CUT_OFF_AFTER).then_some(CutOff::Log)
    }

    /// Whether the node can judge others that are cut off: the bucket has answered it in time for
    /// [`WELL_AFTER`], and its log does not fail.
    ///
    /// [`WELL_AFTER`]: super::WELL_AFTER
    pub fn is_well(&self, now: Monotonic) -> bool {
        self.0.reach.is_well(now) && self.log_failing().is_none()
    }

    fn log_failing(&self) -> Option<Duration> {
        self.0.sink.as_ref().and_then(|sink| sink.log_failing())
    }

    /// Where entries go, for all cores.
    pub fn routes(&self) -> &Published<Routes> {
        &self.0.routes
    }

    /// Tells all cores what has changed.
    pub(super) fn publish(&self) {
        let (member, cores) = (self.0.member.borrow(), self.0.cores.borrow());
        if let Some(next) = self.0.routes.get().next(&member, &cores) {
            self.0.routes.replace(next);
        }
    }

    /// The newest map that is known, and its number.
    pub fn map(&self) -> (u64, Map) {
        let member = self.0.member.borrow();
        (member.number(), member.map().clone())
    }

    /// Why the member has ended, if it has.
    pub fn stopped(&self) -> Option<Stop> {
        self.0.member.borrow().stopped().cloned()
    }
}
