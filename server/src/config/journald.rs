//! What becomes of the fields of journal entries (`intake.journald`).

use super::LabelMap;

/// Fields that most hosts have in each entry and that few people look for.
const DROPPED: [&str; 14] = [
    "_BOOT_ID",
    "_MACHINE_ID",
    "_SYSTEMD_INVOCATION_ID",
    "_SYSTEMD_CGROUP",
    "_CAP_EFFECTIVE",
    "_RUNTIME_SCOPE",
    "_STREAM_ID",
    "_SELINUX_CONTEXT",
    "_SOURCE_REALTIME_TIMESTAMP",
    "_SOURCE_MONOTONIC_TIMESTAMP",
    "_SOURCE_BOOTTIME_TIMESTAMP",
    "SYSLOG_TIMESTAMP",
    "SYSLOG_RAW",
    "COREDUMP",
];

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JournaldSettings {
    /// Fields that become labels.
    pub(crate) labels: LabelMap,
    /// Fields that do not become structured metadata.
    pub(crate) dropped_fields: Vec<String>,
    /// Whether the time that the sender of an entry names counts.
    pub(crate) prefers_source_time: bool,
    /// Longest value of a field that is no message.
    pub(crate) field_max_bytes: usize,
}

impl Default for JournaldSettings {
    fn default() -> JournaldSettings {
        let labels = ["host=_HOSTNAME", "unit=_SYSTEMD_UNIT", "identifier=SYSLOG_IDENTIFIER"];
        JournaldSettings {
            labels: LabelMap::default_of(&labels),
            dropped_fields: DROPPED.map(str::to_owned).to_vec(),
            prefers_source_time: false,
            field_max_bytes: 4 << 10,
        }
    }
}
