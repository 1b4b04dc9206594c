//! The components of a node and the state of each, as `/services` shows them.
//!
//! Every core reports the state of its share of a component; a component runs when it runs on
//! all cores. States only go forward: New, Starting, Running, Stopping, Terminated;
//! Failed ends any of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use logsvc_runtime::CoreId;

use crate::config::targets::{self, Part, Parts};

/// A component of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Component {
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
    /// Keeps rule groups and evaluates them.
    Ruler,
    /// Knows the limits of tenants, and reads their files again.
    RuntimeConfig,
}

impl Component {
    const ALL: [Component; 8] = [
        Component::Server,
        Component::Store,
        Component::Ingester,
        Component::Distributor,
        Component::Querier,
        Component::QueryFrontend,
        Component::Ruler,
        Component::RuntimeConfig,
    ];

    /// Parts that only pass requests on, and so work when the shards do.
    pub(crate) const FRONT: [Component; 4] = [
        Component::Distributor,
        Component::Querier,
        Component::QueryFrontend,
        Component::RuntimeConfig,
    ];

    /// The part of a node that it is; `None` if every node has it.
    fn part(self) -> Option<Part> {
        match self {
            Component::Ingester => Some(Part::Ingester),
            Component::Distributor => Some(Part::Distributor),
            Component::Querier => Some(Part::Querier),
            Component::QueryFrontend => Some(Part::QueryFrontend),
            Component::Ruler => Some(Part::Ruler),
            Component::Server | Component::Store | Component::RuntimeConfig => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Component::Server => "server",
            Component::Store => "store",
            Component::Ingester => "ingester",
            Component::Distributor => "distributor",
            Component::Querier => "querier",
            Component::QueryFrontend => "query-frontend",
            Component::Ruler => "ruler",
            Component::RuntimeConfig => "runtime-config",
        }
    }
}

/// The state of a component.
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

/// The states of all components on all cores.
#[derive(Debug)]
pub(crate) struct Services {
    cores: usize,
    /// What a node of a cluster does.
    parts: Option<Parts>,
    /// By component, then by core.
    states: Box<[AtomicU8]>,
}

impl Services {
    /// All new. `parts` says what the node does as one of a cluster.
    pub(crate) fn new(cores: u16, parts: Option<Parts>) -> Services {
        let cores = usize::from(cores);
        let states = (0..cores * Component::ALL.len()).map(|_| AtomicU8::new(State::New as u8));
        Services { cores, parts, states: states.collect() }
    }

    fn cell(&self, core: usize, component: Component) -> &AtomicU8 {
        &self.states[component as usize * self.cores + core]
    }

    /// A core's share of a component has come so far. A step back is ignored.
    pub(crate) fn set(&self, core: CoreId, component: Component, state: State) {
        self.cell(usize::from(core.0), component).fetch_max(state as u8, Ordering::AcqRel);
    }

    /// Some components of a core have come so far.
    pub(crate) fn set_some(&self, core: CoreId, components: &[Component], state: State) {
        components.iter().for_each(|&component| self.set(core, component, state));
    }

    /// All shares of a component have come so far.
    pub(crate) fn set_whole(&self, component: Component, state: State) {
        for core in 0..self.cores {
            self.cell(core, component).fetch_max(state as u8, Ordering::AcqRel);
        }
    }

    /// The state of a core's share.
    pub(crate) fn share(&self, core: CoreId, component: Component) -> State {
        State::of(self.cell(usize::from(core.0), component).load(Ordering::Acquire))
    }

    /// The state of a component.
    pub(crate) fn state(&self, component: Component) -> State {
        let shares = (0..self.cores).map(|core| self.cell(core, component).load(Ordering::Acquire));
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

    /// Names and states of all components that the node has, and of its parts that are none: they only
    /// pass requests on.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, State)> {
        let is_there = move |part: Part| self.parts.is_none_or(|parts: Parts| parts.has(part));
        let components =
            Component::ALL.into_iter().filter(move |it| it.part().is_none_or(is_there));
        let others = targets::PARTS.into_iter().filter(|part| {
            let mut components = Component::ALL.into_iter();
            self.parts.is_some_and(|parts| parts.has(*part))
                && components.all(|component| component.part() != Some(*part))
        });
        let others =
            others.map(|part| (targets::name_of(part), self.state(Component::RuntimeConfig)));
        components.map(|component| (component.name(), self.state(component))).chain(others)
    }

    /// How many components are in each state, if one has stopped or failed.
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
    fn a_component_is_where_its_slowest_core_is() {
        let services = Services::new(2, None);
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
        assert_eq!(services.state(Component::Ingester), State::New);
        for (core, state, expected) in steps {
            services.set(core, Component::Ingester, state);
            assert_eq!(services.state(Component::Ingester), expected, "{core} {state:?}");
        }
        assert_eq!(services.share(first, Component::Ingester), State::Terminated);
        services.set(first, Component::Ingester, State::Starting);
        assert_eq!(services.state(Component::Ingester), State::Terminated, "nothing goes back");
    }

    #[test]
    fn one_failure_fails_the_component() {
        let services = Services::new(3, None);
        services.set_whole(Component::Store, State::Running);
        assert_eq!(services.not_running(), None);
        services.set(CoreId(1), Component::Store, State::Failed);
        services.set(CoreId(1), Component::Store, State::Running);
        assert_eq!(services.state(Component::Store), State::Failed);
        let counts = services.not_running().expect("a component that failed");
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("Failed", 1), ("New", 7)]);
    }

    #[test]
    fn a_node_of_a_cluster_shows_its_parts() {
        let shown = |parts: &[Part]| {
            let services = Services::new(1, Some(targets::parts(parts)));
            services.all().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(shown(&[]), ["server", "store", "runtime-config"]);
        let read = shown(&[Part::Querier, Part::QueryFrontend]);
        assert_eq!(read, ["server", "store", "querier", "query-frontend", "runtime-config"]);
        let backend = shown(&[Part::Compactor, Part::Ruler]);
        assert_eq!(backend, ["server", "store", "ruler", "runtime-config", "compactor"]);
        assert_eq!(Services::new(1, None).all().count(), 8);
        assert_eq!(Services::new(1, Some(targets::ALL)).all().count(), 3 + 13);
    }
}
