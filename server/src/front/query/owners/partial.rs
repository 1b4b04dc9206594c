//! A part of an answer, for who prefers it to none.
//!
//! Guarantees: the part has everything of the partitions whose owners have answered, by one map. It says
//! how many partitions are missing, and of whom. An owner that this node reaches, and that gossip does not
//! take for dead, is waited for, however long its work takes.
//!
//! What can go wrong: if the keeper of the requests for deletion is missing, so may be its newest ones. The
//! part may show entries that they hide.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use logsvc_cluster::map::{Epoch, Map};
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_shards::member::Routes;

use super::PATIENCE;
use crate::front::query::Querier;

/// How long owners may keep who takes a part waiting, since the last change of owners.
const PART_PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection to an owner may take to come about.
const REACH_TIMEOUT: Duration = Duration::from_secs(2);

/// How often it is looked whether owners are reached.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Most nodes that a warning names.
const NAMES_MAX: usize = 10;

/// Stands for a caller that takes a part of an answer. A caller may ask several questions; it waits once for
/// the owners of a map.
#[derive(Clone, Default, Debug)]
pub(crate) struct TakesPart {
    /// The number of the map of which some owners were waited for in vain; 0 if there is none.
    given_up: Rc<Cell<u64>>,
}

impl TakesPart {
    /// For a question that begins now.
    pub(super) fn begin(&self, now: Monotonic) -> PartDue {
        let at_last = now.after(PATIENCE);
        PartDue { given_up: self.given_up.get(), number: 0, at: now, at_last }
    }

    pub(super) fn note_given_up(&self, number: u64) {
        self.given_up.set(number);
    }
}

/// When a part is given.
#[derive(Debug)]
pub(super) struct PartDue {
    given_up: u64,
    /// The number of the newest map that was known.
    number: u64,
    at: Monotonic,
    /// Whatever becomes of the owners.
    at_last: Monotonic,
}

impl PartDue {
    /// Whether a part is given, as far as there is nobody to wait for. It is not due at the next call, to
    /// look at owners from time to time alone.
    pub(super) fn is_due(&mut self, now: Monotonic, number: u64) -> bool {
        if number != self.number {
            let patience = if number == self.given_up { LOOK_INTERVAL } else { PART_PATIENCE };
            self.number = number;
            self.at = now.after(patience).min(self.at_last);
        }
        let is_due = now >= self.at;
        if is_due {
            self.at = now.after(LOOK_INTERVAL);
        }
        is_due
    }
}

/// What an answer lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lacking {
    /// Partitions.
    partitions: usize,
    /// Partitions that there are.
    all: usize,
    /// Names of the nodes that have not answered.
    nodes: BTreeSet<String>,
}

impl Lacking {
    /// By how many partitions who has not answered has.
    pub(super) fn of(missing: &BTreeMap<Option<Epoch>, usize>, map: &Map) -> Lacking {
        let name = |owner: Epoch| map.members.get(&owner).map(|info| info.name.clone());
        Lacking {
            partitions: missing.values().sum(),
            all: map.slots.len(),
            nodes: missing.keys().flatten().filter_map(|owner| name(*owner)).collect(),
        }
    }
}

/// The warning of an answer that lacks something. `are_values`: it has values, and not entries or names.
pub(crate) fn warning_of(lacking: &Lacking, are_values: bool) -> String {
    let Lacking { partitions, all, nodes } = lacking;
    let mut names: Vec<&str> = nodes.iter().take(NAMES_MAX).map(String::as_str).collect();
    if nodes.len() > NAMES_MAX {
        names.push("others");
    }
    let who = match names.as_slice() {
        [] => "they have no owner".to_owned(),
        names => format!("no answer from {}", names.join(", ")),
    };
    let what = if are_values { "; values may be too low" } else { "" };
    format!("this answer is partial: {partitions} of {all} partitions are missing ({who}){what}")
}

impl<R: Runtime> Querier<R> {
    /// Whether one of the owners may still answer: it is this node, or gossip does not take it for dead and
    /// it takes connections.
    pub(super) async fn may_answer_yet(
        &self,
        owners: impl Iterator<Item = Epoch>,
        routes: &Routes,
    ) -> bool {
        let membership = self.core.cluster().and_then(|cluster| cluster.membership());
        let members = membership.map(|membership| membership.members());
        let is_dead = |owner: Epoch| {
            members.as_ref().is_some_and(|members| {
                let mut lives = members.list.iter();
                lives.any(|it| it.vitals.writer_epoch == Some(owner.0) && !it.is_alive())
            })
        };
        let runtime = &self.core.runtime;
        let reached = owners.filter(|owner| !is_dead(*owner)).map(async |owner| {
            if owner == routes.me {
                return true;
            }
            let info = routes.map.members.get(&owner);
            let Some(address) = info.and_then(|info| info.address.parse().ok()) else {
                return false;
            };
            runtime.connect(address, runtime.now().after(REACH_TIMEOUT)).await.is_ok()
        });
        join_all(reached).await.contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use logsvc_cluster::map::{MemberInfo, State};

    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic(ms * 1_000_000)
    }

    #[test]
    fn a_part_waits_for_who_may_take_over_and_not_for_ever() {
        let takes = TakesPart::default();
        let mut due = takes.begin(at(0));
        assert!(!due.is_due(at(0), 3) && !due.is_due(at(9_999), 3));
        assert!(due.is_due(at(10_000), 3) && !due.is_due(at(10_500), 3));
        assert!(due.is_due(at(11_000), 3));
        // Somebody has taken over.
        assert!(!due.is_due(at(15_000), 4) && due.is_due(at(25_000), 4));
        assert!(!due.is_due(at(29_000), 5) && due.is_due(at(30_000), 5));
        // The next question of the same query does not wait for the same owners.
        takes.note_given_up(5);
        let mut due = takes.begin(at(30_000));
        assert!(!due.is_due(at(30_000), 5) && due.is_due(at(31_000), 5));
        assert!(!due.is_due(at(31_500), 6) && due.is_due(at(41_500), 6));
    }

    #[test]
    fn a_warning_names_what_is_missing_and_of_whom() {
        let mut map = Map::empty(16);
        let info = |name: &str| MemberInfo {
            name: name.to_owned(),
            address: String::new(),
            zone: String::new(),
            state: State::Active,
            position: 0,
        };
        map.members.insert(Epoch(1), info("a"));
        map.members.insert(Epoch(2), info("b"));
        let of = |missing: &[(Option<Epoch>, usize)]| {
            Lacking::of(&missing.iter().copied().collect(), &map)
        };
        let mut lacking = of(&[(Some(Epoch(2)), 5), (None, 1)]);
        let text = "this answer is partial: 6 of 16 partitions are missing (no answer from b)";
        assert_eq!(warning_of(&lacking, false), text);
        assert_eq!(warning_of(&lacking, true), format!("{text}; values may be too low"));
        let text = "this answer is partial: 2 of 16 partitions are missing (they have no owner)";
        assert_eq!(warning_of(&of(&[(None, 2)]), false), text);
        lacking.nodes.extend((0..20).map(|number| format!("n-{number:02}")));
        let text = warning_of(&lacking, false);
        assert!(
            text.ends_with(
                "(no answer from b, n-00, n-01, n-02, n-03, n-04, n-05, n-06, n-07, n-08, others)"
            ),
            "{text}"
        );
    }
}
