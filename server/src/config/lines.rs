//! Settings of the intake of plain lines and of newline-delimited JSON.

use super::LabelMap;

/// What becomes of objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinesSettings {
    /// Fields that become labels.
    pub(crate) label_fields: LabelMap,
    /// Fields for the line, in order of preference.
    pub(crate) message_fields: Vec<String>,
    /// Fields for the time, in order of preference.
    pub(crate) time_fields: Vec<String>,
    /// Fields that are not kept.
    pub(crate) ignored_fields: Vec<String>,
}

impl Default for LinesSettings {
    fn default() -> LinesSettings {
        LinesSettings {
            label_fields: LabelMap::default_of(&["app", "service_name=service.name"]),
            message_fields: ["_msg", "message", "msg", "log"].map(str::to_owned).to_vec(),
            time_fields: ["_time", "@timestamp", "timestamp"].map(str::to_owned).to_vec(),
            ignored_fields: Vec::new(),
        }
    }
}
