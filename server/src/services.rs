//! The parts of a node and the state of each, as `/services` shows them.
//!
//! Every core reports the state of its share of a part; a part runs when it runs on
//! all cores. States only go forward: New, Starting, Running, Stopping, Terminated;
//! Failed ends any of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use logsvc_runtime::CoreId;

/// A part of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Accepts connections.
    Server,
    /// Holds the data folder.
    Store,
    /// Shards: recent entries and their log.
    Ingester,
    /// Takes pushes.
    Distributor,
    /// Runs queries on shards.
    Querier,
    /// Takes queries.
    QueryFrontend,
    /// Knows the limits of tenants, and reads their files again.
    RuntimeConfig,
}

impl Part {
    const ALL: [Part; 7] = [
        Part::Server,
        Part::Store,
        Part::Ingester,
        Part::Distributor,
        Part::Querier,
        Part::QueryFrontend,
        Part::RuntimeConfig,
    ];

    /// Parts that only pass requests on, and so work when the shards do.
    pub(crate) const FRONT: [Part; 4] =
        [Part::Distributor, Part::Querier, Part::QueryFrontend, Part::RuntimeConfig];

    fn name(self) -> &'static str {
        match self {
            Part::Server => "server",
            Part::Store => "store",
            Part::Ingester => "ingester",
            Part::Distributor => "distributor",
            Part::Querier => "querier",
            Part::QueryFrontend => "query-frontend",
            Part::RuntimeConfig => "runtime-config",
        }
    }
}

/// The state of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    /// Not begun yet.
    New,
    /// Getting ready.
    Starting,
    /// Doing its work.
    Running,
    /// Finishing.
    Stopping,
    /// Over.
    Terminated,
    /// Over because something went wrong.
    Failed,
}

impl State {
    const ALL: [State; 6] = [
        State::New,
        State::Starting,
        State::Running,
        State::Stopping,
        State::Terminated,
        State::Failed,
    ];

    /// Its name in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::New => "New",
            State::Starting => "Starting",
            State::Running => "Running",
            State::Stopping => "Stopping",
            State::Terminated => "Terminated",
            State::Failed => "Failed",
        }
    }

    fn of(number: u8) -> State {
        State::ALL.get(usize::from(number)).copied().unwrap_or(State::Failed)
    }
}

/// The states of all parts on all cores.
#[derive(Debug)]
pub(crate) struct Services {
    cores: usize,
    /// By part, then by core.
    states: Box<[AtomicU8]>,
}

impl Services {
    /// All new.
    pub(crate) fn new(cores: u16) -> Services {
        let cores = usize::from(cores);
        let states = (0..cores * Part::ALL.len()).map(|_| AtomicU8::new(State::New as u8));
        Services { cores, states: states.collect() }
    }

    fn cell(&self, core: usize, part: Part) -> &AtomicU8 {
        &self.states[part as usize * self.cores + core]
    }

    /// A core's share of a part has come so far. What goes back is ignored.
    pub(crate) fn set(&self, core: CoreId, part: Part, state: State) {
        self.cell(usize::from(core.0), part).fetch_max(state as u8, Ordering::AcqRel);
    }

    /// Some parts of a core have come so far.
    pub(crate) fn set_some(&self, core: CoreId, parts: &[Part], state: State) {
        parts.iter().for_each(|&part| self.set(core, part, state));
    }

    /// A part that the node has once has come so far.
    pub(crate) fn set_whole(&self, part: Part, state: State) {
        for core in 0..self.cores {
            self.cell(core, part).fetch_max(state as u8, Ordering::AcqRel);
        }
    }

    /// The state of a core's share.
    pub(crate) fn share(&self, core: CoreId, part: Part) -> State {
        State::of(self.cell(usize::from(core.0), part).load(Ordering::Acquire))
    }

    /// The state of a part.
    pub(crate) fn state(&self, part: Part) -> State {
        let shares = (0..self.cores).map(|core| self.cell(core, part).load(Ordering::Acquire));
        let (mut least, mut most) = (State::Failed, State::New);
        for share in shares.map(State::of) {
            least = least.min(share);
            most = most.max(share);
        }
        match (least, most) {
            (_, State::Failed) => State::Failed,
            (least, most) if least == most => most,
            (_, State::Stopping | State::Terminated) => State::Stopping,
            _ => State::Starting,
        }
    }

    /// Names and states of all parts.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, State)> {
        Part::ALL.into_iter().map(|part| (part.name(), self.state(part)))
    }

    /// How many parts are in each state, if one does not work any more.
    pub(crate) fn not_running(&self) -> Option<BTreeMap<&'static str, usize>> {
        self.all().any(|(_, state)| state > State::Running).then(|| {
            let mut counts = BTreeMap::new();
            self.all().for_each(|(_, state)| *counts.entry(state.name()).or_default() += 1);
            counts
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_where_its_slowest_core_is() {
        let services = Services::new(2);
        let (first, second) = (CoreId(0), CoreId(1));
        let steps = [
            (first, State::Starting, State::Starting),
            (second, State::Starting, State::Starting),
            (first, State::Running, State::Starting),
            (second, State::Running, State::Running),
            (first, State::Stopping, State::Stopping),
            (first, State::Terminated, State::Stopping),
            (second, State::Running, State::Stopping),
            (second, State::Terminated, State::Terminated),
        ];
        assert_eq!(services.state(Part::Ingester), State::New);
        for (core, state, expected) in steps {
            services.set(core, Part::Ingester, state);
            assert_eq!(services.state(Part::Ingester), expected, "{core} {state:?}");
        }
        assert_eq!(services.share(first, Part::Ingester), State::Terminated);
        services.set(first, Part::Ingester, State::Starting);
        assert_eq!(services.state(Part::Ingester), State::Terminated, "nothing goes back");
    }

    #[test]
    fn one_failure_fails_the_part() {
        let services = Services::new(3);
        services.set_whole(Part::Store, State::Running);
        assert_eq!(services.not_running(), None);
        services.set(CoreId(1), Part::Store, State::Failed);
        services.set(CoreId(1), Part::Store, State::Running);
        assert_eq!(services.state(Part::Store), State::Failed);
        let counts = services.not_running().expect("a part that failed");
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("Failed", 1), ("New", 6)]);
    }
}
