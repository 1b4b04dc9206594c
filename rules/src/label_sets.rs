//! Label sets of alerts and of recorded series.

use logsvc_proto::{Labels, LabelsBuilder};

/// The set of a builder, without labels that are empty: an empty label is the same as an absent
/// one.
pub(crate) fn without_empty(mut builder: LabelsBuilder<'_>) -> Labels {
    let full = builder.build_result();
    if full.iter().all(|(_, value)| !value.is_empty()) {
        return full;
    }
    for (name, _) in full.iter().filter(|(_, value)| value.is_empty()) {
        builder.del(name);
    }
    builder.build_result()
}
