//! The facts about a block without which it has no match of a query.

use logsvc_logql::engine::LeafPlan;

use logsvc_segment::filter::Needle;

/// The needles that every matching entry must have: of each element, one of the alternatives.
pub(crate) type Conditions = Vec<Vec<Needle>>;

/// A condition that every entry of a query fulfils, in streams without some labels.
#[derive(Debug)]
pub(crate) struct Condition {
    /// Every entry has one of them.
    pub(crate) needles: Vec<Needle>,
    /// Labels that a stream must not have.
    unless_labels: Vec<String>,
}

impl Condition {
    /// Whether it holds whatever labels a stream has.
    pub(crate) fn is_certain(&self) -> bool {
        self.unless_labels.is_empty()
    }

    /// Whether it holds where streams may have these labels.
    pub(crate) fn holds(&self, has_label: impl Fn(&str) -> bool) -> bool {
        !self.unless_labels.iter().any(|name| has_label(name))
    }
}

/// The conditions of a plan.
pub(crate) fn all_conditions_of(plan: &LeafPlan) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for item in plan.required_text() {
        let texts = item.any_of.iter().map(|literal| Needle::substring(&literal.bytes));
        let Some(mut needles) = texts.collect::<Option<Vec<_>>>() else { continue };
        needles.extend(item.unless_labels.iter().map(|n| Needle::metadata_name(n.as_bytes())));
        conditions.push(Condition { needles, unless_labels: item.unless_labels });
    }
    for (name, value) in plan.required_metadata() {
        let needles = vec![Needle::metadata(name.as_bytes(), value.as_bytes())];
        conditions.push(Condition { needles, unless_labels: vec![name] });
    }
    conditions
}

/// The conditions of a plan that hold for all streams of a set. `has_label` says whether any of
/// the streams has a label of this name.
pub(crate) fn conditions_of(plan: &LeafPlan, has_label: impl Fn(&str) -> bool) -> Conditions {
    let conditions = all_conditions_of(plan).into_iter();
    conditions.filter(|one| one.holds(&has_label)).map(|one| one.needles).collect()
}
