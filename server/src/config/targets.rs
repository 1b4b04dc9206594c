//! What `target` names: the parts of a node of a cluster.
//!
//! Guarantees: every name of the reference is known. A node without a cluster has all parts, whatever
//! it is called; [`Config::parts`](super::Config::parts) says so.

pub(crate) use logsvc_membership::vitals::{Role as Part, Roles as Parts};

/// Parts that a node of a cluster may have.
pub(crate) const PARTS: [Part; 13] = [
    Part::Distributor,
    Part::Ingester,
    Part::Querier,
    Part::QueryFrontend,
    Part::QueryScheduler,
    Part::Compactor,
    Part::IndexGateway,
    Part::BloomGateway,
    Part::BloomPlanner,
    Part::BloomBuilder,
    Part::PatternIngester,
    Part::Ruler,
    Part::OverridesExporter,
];

/// All of them.
pub(crate) const ALL: Parts = parts(&PARTS);

const WRITE: &[Part] = &[Part::Distributor, Part::Ingester];
const READ: &[Part] = &[Part::Querier, Part::QueryFrontend];
const BACKEND: &[Part] = &[
    Part::Compactor,
    Part::IndexGateway,
    Part::BloomGateway,
    Part::BloomPlanner,
    Part::BloomBuilder,
    Part::QueryScheduler,
    Part::Ruler,
];

/// Names that the reference can be started as, each with what it stands for. Some of its parts are
/// none here; a node that has no other ones shows its state.
const TARGETS: [(&str, &[Part]); 28] = [
    ("all", &PARTS),
    ("read", READ),
    ("write", WRITE),
    ("backend", BACKEND),
    ("distributor", &[Part::Distributor]),
    ("ingester", &[Part::Ingester]),
    ("querier", &[Part::Querier]),
    ("ingester-querier", &[]),
    ("query-frontend", &[Part::QueryFrontend]),
    ("query-frontend-tripperware", &[]),
    ("query-scheduler", &[Part::QueryScheduler]),
    ("index-gateway", &[Part::IndexGateway]),
    ("compactor", &[Part::Compactor]),
    ("ruler", &[Part::Ruler]),
    ("table-manager", &[]),
    ("pattern-ingester", &[Part::PatternIngester]),
    ("overrides-exporter", &[Part::OverridesExporter]),
    ("bloom-gateway", &[Part::BloomGateway]),
    ("bloom-planner", &[Part::BloomPlanner]),
    ("bloom-builder", &[Part::BloomBuilder]),
    ("bloom-compactor", &[]),
    ("block-builder", &[]),
    ("block-scheduler", &[]),
    ("dataobj-consumer", &[]),
    ("ingest-limits", &[]),
    ("ingest-limits-frontend", &[]),
    ("partition-ingester", &[]),
    ("ui", &[]),
];

/// The set of these parts.
pub(crate) const fn parts(list: &[Part]) -> Parts {
    let mut set = Parts::NONE;
    let mut rest = list;
    while let [first, others @ ..] = rest {
        set = set.with(*first);
        rest = others;
    }
    set
}

/// All names, `all` first.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// The name of a part.
pub(crate) fn name_of(part: Part) -> &'static str {
    let mut rows = TARGETS.iter().filter(|(_, parts)| *parts == [part]);
    // A test looks for each.
    rows.next().map_or("", |(name, _)| *name)
}

/// The names of a value, without the blanks around them.
fn listed(target: &str) -> impl Iterator<Item = &str> {
    target.split(',').map(str::trim)
}

/// Whether a value lists a name.
pub(super) fn lists(target: &str, name: &str) -> bool {
    listed(target).any(|listed| listed == name)
}

/// The names of a value that nobody knows.
pub(super) fn unknown(target: &str) -> impl Iterator<Item = &str> {
    listed(target).filter(|name| names().all(|known| known != *name))
}

/// The parts that a value names. `is_legacy`: `read` has those of `backend`, too.
pub(crate) fn of(target: &str, is_legacy: bool) -> Parts {
    let of_name = |name: &str| {
        let row = TARGETS.iter().find(|(known, _)| *known == name);
        let more = if is_legacy && name == "read" { BACKEND } else { &[] };
        row.map_or(&[][..], |(_, parts)| *parts).iter().chain(more)
    };
    listed(target).flat_map(of_name).fold(Parts::NONE, |set, part| set.with(*part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_name_and_is_in_all() {
        for part in PARTS {
            assert_eq!(of(name_of(part), false), Parts::NONE.with(part), "{part:?}");
            assert!(ALL.has(part));
        }
        assert_eq!(names().next(), Some("all"));
        assert_eq!(name_of(Part::QueryFrontend), "query-frontend");
    }

    #[test]
    fn lists_of_names_are_sets_of_parts() {
        let simple = parts(&[WRITE, READ, BACKEND].concat());
        for (target, expected) in [
            ("all", ALL),
            ("write", parts(&[Part::Distributor, Part::Ingester])),
            ("read", parts(&[Part::Querier, Part::QueryFrontend])),
            ("read,write, backend", simple),
            ("ruler,all", ALL),
            ("querier , ruler", parts(&[Part::Ruler, Part::Querier])),
            ("ui,table-manager", Parts::NONE),
        ] {
            assert_eq!(of(target, false), expected, "{target}");
        }
        assert!(simple.has(Part::Compactor) && !simple.has(Part::PatternIngester));
        assert_eq!(of("read", true), parts(&[READ, BACKEND].concat()));
        assert_eq!(of("write", true), parts(WRITE));
    }

    #[test]
    fn unknown_names_are_found() {
        let found: Vec<&str> = unknown("all, reed,write,,querier").collect();
        assert_eq!(found, ["reed", ""]);
        assert!(lists("read, backend", "backend") && !lists("read", "backend"));
    }
}
