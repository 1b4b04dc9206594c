//! Settings of the intake that speaks Elasticsearch's bulk protocol.

use super::LabelMap;

/// What becomes of documents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ElasticsearchSettings {
    /// The version that clients are told.
    pub(crate) version: String,
    /// The label that has the name of the index; empty: none.
    pub(crate) index_label: String,
    /// Fields that become labels.
    pub(crate) label_fields: LabelMap,
    /// Fields for the line, in order of preference.
    pub(crate) message_fields: Vec<String>,
    /// Fields for the time, in order of preference.
    pub(crate) time_fields: Vec<String>,
    /// Fields that are not kept.
    pub(crate) ignored_fields: Vec<String>,
}

impl Default for ElasticsearchSettings {
    fn default() -> ElasticsearchSettings {
        ElasticsearchSettings {
            version: "8.17.0".to_owned(),
            index_label: "index".to_owned(),
            label_fields: LabelMap::default_of(&["host=host.name", "service_name=service.name"]),
            message_fields: ["message", "log", "event.original", "msg"].map(str::to_owned).to_vec(),
            time_fields: vec!["@timestamp".to_owned()],
            ignored_fields: Vec::new(),
        }
    }
}
