//! The service that a stream belongs to.

use crate::labels::Labels;

/// The label that names the service of a stream.
pub const SERVICE_NAME: &str = "service_name";

/// Its value where nothing tells.
pub const UNKNOWN_SERVICE: &str = "unknown_service";

/// The labels that tell the service unless configured otherwise, most telling first.
pub const DEFAULT_SERVICE_LABELS: [&str; 13] = [
    "service",
    "app",
    "application",
    "app_name",
    "name",
    "app_kubernetes_io_name",
    "container",
    "container_name",
    "k8s_container_name",
    "component",
    "workload",
    "job",
    "k8s_job_name",
];

/// The service that labels tell of by `names`: the value of the first of them that is
/// there and not empty. `get` looks a label up.
pub fn service_name<'v, N: AsRef<str>>(
    names: &[N],
    get: impl Fn(&str) -> Option<&'v str>,
) -> &'v str {
    let told = names.iter().find_map(|name| get(name.as_ref()).filter(|value| !value.is_empty()));
    told.unwrap_or(UNKNOWN_SERVICE)
}

/// Adds `service_name` to a set that does not have it. Nothing is added if `names` is
/// empty, which switches discovery off.
pub fn with_service_name<N: AsRef<str>>(labels: Labels, names: &[N]) -> Labels {
    if names.is_empty() || labels.get(SERVICE_NAME).is_some() {
        return labels;
    }
    let service = service_name(names, |name| labels.get(name));
    let pairs = labels.iter().chain([(SERVICE_NAME, service)]);
    Labels::from_pairs(pairs).expect("the names of a set are valid and the new one is not in it")
}
