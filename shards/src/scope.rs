//! The tenants of a query, and how their streams are told apart.
//!
//! A query of several tenants sees each stream as if it had the label [`TENANT_LABEL`] with the id
//! of its tenant. If the stream has a label of this name, the query sees it as
//! [`ORIGINAL_TENANT_LABEL`]. Matchers apply to these labels too, so a matcher on the tenant label
//! chooses among the tenants. All of this happens where streams are selected: later stages see
//! ordinary labels.
//!
//! Guarantees: a stream of a tenant outside of the scope is never selected. A query of one tenant
//! sees streams as they are, and pays nothing.

use std::sync::Arc;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::labels::LabelsBuilder;
use logsvc_proto::{Labels, TenantId};

use crate::index::{LabelIndex, Slot};

/// The label that tells the tenant in answers about several.
pub const TENANT_LABEL: &str = "__tenant_id__";

/// The name under which a stream's own label [`TENANT_LABEL`] is shown.
pub(crate) const ORIGINAL_TENANT_LABEL: &str = "original___tenant_id__";

/// See the module. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantScope {
    tenants: Arc<[TenantId]>,
    view: View,
}

/// How streams are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// As they are.
    Plain,
    /// As the module says.
    Labelled,
    /// Matchers mean the labels of the module, but streams are shown as they are.
    Merged,
}

impl From<TenantId> for TenantScope {
    /// One tenant, whose streams are seen as they are.
    fn from(tenant: TenantId) -> TenantScope {
        TenantScope { tenants: Arc::from([tenant]), view: View::Plain }
    }
}

impl TenantScope {
    /// Several tenants, whose streams are told apart by their label. Of one tenant
    /// the streams are seen as they are.
    pub fn labelled(tenants: Arc<[TenantId]>) -> TenantScope {
        TenantScope::of(tenants, View::Labelled)
    }

    /// Several tenants whose equal streams are not told apart.
    pub fn merged(tenants: Arc<[TenantId]>) -> TenantScope {
        TenantScope::of(tenants, View::Merged)
    }

    fn of(tenants: Arc<[TenantId]>, view: View) -> TenantScope {
        let view = if tenants.len() > 1 { view } else { View::Plain };
        TenantScope { tenants, view }
    }

    /// Whether it is one tenant, whose streams are seen as they are.
    pub(crate) fn is_plain(&self) -> bool {
        self.view == View::Plain
    }

    /// Whether equal streams of several tenants are not told apart.
    pub fn is_merged(&self) -> bool {
        self.view == View::Merged
    }

    /// The tenants.
    pub fn tenants(&self) -> &[TenantId] {
        &self.tenants
    }

    /// A stream's value of a label as matchers see it; empty if it has none.
    fn value<'a>(&self, tenant: &'a TenantId, labels: &'a Labels, name: &str) -> &'a str {
        match (self.view, name) {
            (View::Plain, _) => labels.get(name),
            (_, TENANT_LABEL) => Some(tenant.as_str()),
            (_, ORIGINAL_TENANT_LABEL) => original(labels),
            (_, _) => labels.get(name),
        }
        .unwrap_or_default()
    }

    /// Whether a stream is selected by matchers that must all hold.
    pub fn accepts(
        &self,
        tenant: &TenantId,
        labels: &Labels,
        matchers: &[CompiledMatcher],
    ) -> bool {
        let holds = |m: &CompiledMatcher| m.matches(self.value(tenant, labels, m.name()));
        self.tenants.contains(tenant) && matchers.iter().all(holds)
    }

    /// The streams of an index that matchers select, which must all hold; rising.
    /// `stream_of` gives the tenant and the labels of a stream.
    pub(crate) fn select<'s>(
        &self,
        index: &LabelIndex,
        matchers: &[CompiledMatcher],
        stream_of: impl Fn(Slot) -> (&'s TenantId, &'s Labels),
    ) -> Vec<Slot> {
        if let (View::Plain, [tenant]) = (self.view, &*self.tenants) {
            return index.tenant(tenant).map_or(Vec::new(), |index| index.select(matchers));
        }
        let tests_original = matchers.iter().any(|m| m.name() == ORIGINAL_TENANT_LABEL);
        let mut slots = Vec::new();
        for tenant in self.tenants.iter() {
            let Some(stored) = self.stored_matchers(tenant, matchers) else { continue };
            let Some(index) = index.tenant(tenant) else { continue };
            let mut found = index.select(stored);
            if tests_original {
                found.retain(|&slot| {
                    let (tenant, labels) = stream_of(slot);
                    self.accepts(tenant, labels, matchers)
                });
            }
            slots.append(&mut found);
        }
        slots.sort_unstable();
        slots
    }

    /// The matchers of a list that the stored labels of a tenant's streams decide; `None` if no
    /// stream of the tenant can match. A stream that these matchers select need not match all of
    /// the list.
    pub(crate) fn stored_matchers<'m>(
        &self,
        tenant: &TenantId,
        matchers: &'m [CompiledMatcher],
    ) -> Option<Vec<&'m CompiledMatcher>> {
        if self.view == View::Plain {
            return Some(matchers.iter().collect());
        }
        let mut of_tenant = matchers.iter().filter(|m| m.name() == TENANT_LABEL);
        if !of_tenant.all(|m| m.matches(tenant.as_str())) {
            return None;
        }
        let is_seen =
            |m: &&CompiledMatcher| [TENANT_LABEL, ORIGINAL_TENANT_LABEL].contains(&m.name());
        Some(matchers.iter().filter(|m| !is_seen(m)).collect())
    }

    /// The labels that a stream is shown with.
    pub fn shown(&self, tenant: &TenantId, labels: &Arc<Labels>) -> Arc<Labels> {
        if self.view != View::Labelled {
            return Arc::clone(labels);
        }
        let mut shown = LabelsBuilder::from_labels(labels);
        if let Some(own) = labels.get(TENANT_LABEL) {
            shown.set(ORIGINAL_TENANT_LABEL, own);
        }
        shown.set(TENANT_LABEL, tenant.as_str());
        Arc::new(shown.build_result())
    }

    /// The name under which a label of a stream is shown.
    pub(crate) fn shown_name<'a>(&self, name: &'a str) -> &'a str {
        match (self.view, name) {
            (View::Labelled, TENANT_LABEL) => ORIGINAL_TENANT_LABEL,
            _ => name,
        }
    }

    /// Whether the values of a label cannot be taken from the index, but only from
    /// each stream: see [`TenantScope::shown`].
    pub(crate) fn is_made_up(&self, name: &str) -> bool {
        self.view == View::Labelled && [TENANT_LABEL, ORIGINAL_TENANT_LABEL].contains(&name)
    }
}

/// The value of [`ORIGINAL_TENANT_LABEL`] for a stream.
fn original(labels: &Labels) -> Option<&str> {
    labels.get(TENANT_LABEL).or_else(|| labels.get(ORIGINAL_TENANT_LABEL))
}

#[cfg(test)]
mod tests {
    use logsvc_logql::syntax;

    use super::*;

    fn tenants(names: &[&str]) -> Arc<[TenantId]> {
        names.iter().map(|name| TenantId::new(name).expect("a tenant")).collect()
    }

    fn labels(pairs: &[(&str, &str)]) -> Arc<Labels> {
        Arc::new(Labels::from_pairs(pairs.iter().copied()).expect("labels"))
    }

    fn matchers(text: &str) -> Vec<CompiledMatcher> {
        let selector = syntax::parse_matchers(text).expect("matchers");
        selector.matchers.iter().map(|m| CompiledMatcher::new(m).expect("a matcher")).collect()
    }

    /// Streams of three tenants, some with labels that look like ours.
    fn streams() -> Vec<(TenantId, Arc<Labels>)> {
        let [a, b, c] = [0, 1, 2].map(|at| tenants(&["a", "b", "c"])[at].clone());
        vec![
            (a.clone(), labels(&[("app", "x")])),
            (b.clone(), labels(&[("app", "x"), (TENANT_LABEL, "a")])),
            (c, labels(&[("app", "x")])),
            (b.clone(), labels(&[("app", "y"), (ORIGINAL_TENANT_LABEL, "z")])),
            (b, labels(&[("app", "y"), (ORIGINAL_TENANT_LABEL, "z"), (TENANT_LABEL, "w")])),
            (a, labels(&[("env", "p")])),
        ]
    }

    #[test]
    fn selecting_and_showing_agree() {
        let streams = streams();
        let mut index = LabelIndex::default();
        for (slot, (tenant, labels)) in streams.iter().enumerate() {
            index.insert(tenant, slot as Slot, labels);
        }
        let stream_of = |slot: Slot| (&streams[slot as usize].0, &*streams[slot as usize].1);
        let cases: [(&str, &[Slot]); 12] = [
            (r#"{app=~".+"}"#, &[0, 1, 3, 4]),
            (r#"{app="x", __tenant_id__="a"}"#, &[0]),
            (r#"{app="x", __tenant_id__="c"}"#, &[]),
            (r#"{app="x", __tenant_id__!="a"}"#, &[1]),
            (r#"{app=~".+", __tenant_id__=~"b|c"}"#, &[1, 3, 4]),
            (r#"{app=~".+", __tenant_id__!~"b|c"}"#, &[0]),
            (r#"{__tenant_id__="a"}"#, &[0, 5]),
            (r#"{original___tenant_id__="a"}"#, &[1]),
            (r#"{original___tenant_id__=~"z|w"}"#, &[3, 4]),
            (r#"{original___tenant_id__="w", __tenant_id__=~".+"}"#, &[4]),
            (r#"{app="x", original___tenant_id__=""}"#, &[0]),
            (r#"{app="y", __tenant_id__="a", __tenant_id__="b"}"#, &[]),
        ];
        for scope in
            [TenantScope::labelled(tenants(&["a", "b"])), TenantScope::merged(tenants(&["a", "b"]))]
        {
            for (text, expected) in cases {
                let matchers = matchers(text);
                assert_eq!(scope.select(&index, &matchers, stream_of), expected, "{text}");
                for (slot, (tenant, labels)) in streams.iter().enumerate() {
                    let accepts = scope.accepts(tenant, labels, &matchers);
                    assert_eq!(accepts, expected.contains(&(slot as Slot)), "{text} {slot}");
                    // Matchers apply to the labels that are shown.
                    let shown = TenantScope::labelled(tenants(&["a", "b"])).shown(tenant, labels);
                    let holds =
                        |m: &CompiledMatcher| m.matches(shown.get(m.name()).unwrap_or_default());
                    let is_ours = tenant.as_str() != "c";
                    assert_eq!(accepts, is_ours && matchers.iter().all(holds), "{text} {shown}");
                }
            }
        }
    }

    #[test]
    fn one_tenant_is_seen_as_it_is() {
        let streams = streams();
        let (b, own) = &streams[1];
        for scope in [TenantScope::from(b.clone()), TenantScope::labelled(tenants(&["b"]))] {
            assert!(Arc::ptr_eq(&scope.shown(b, own), own));
            assert!(scope.accepts(b, own, &matchers(r#"{__tenant_id__="a"}"#)));
            assert!(!scope.accepts(&streams[0].0, own, &matchers(r#"{app="x"}"#)));
        }
        let shown = TenantScope::labelled(tenants(&["a", "b"])).shown(b, own).canonical();
        assert_eq!(shown, r#"{__tenant_id__="b", app="x", original___tenant_id__="a"}"#);
        let merged = TenantScope::merged(tenants(&["a", "b"]));
        assert!(Arc::ptr_eq(&merged.shown(b, own), own));
    }
}
