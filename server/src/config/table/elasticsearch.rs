//! The rows of the settings for Elasticsearch's bulk protocol.

use super::{Field, Setting};

/// Settings of the node.
pub(super) const NODE: &[Setting] = settings! {
    "intake.elasticsearch.version", "intake.elasticsearch.version",
        |c| Text(&mut c.elasticsearch.version),
        "Version of Elasticsearch that clients are told. Some send only to versions that they know.";
    "intake.elasticsearch.index_label", "intake.elasticsearch.index-label",
        |c| Text(&mut c.elasticsearch.index_label),
        "Label that gets the name of the index, without a date at its end. Empty means none.";
    "intake.elasticsearch.label_fields", "intake.elasticsearch.label-fields",
        |c| Labels(&mut c.elasticsearch.label_fields),
        "Fields of documents that become labels. The field c in the object b is b.c. A name alone \
         is a field whose label has the same name.";
    "intake.elasticsearch.message_fields", "intake.elasticsearch.message-fields",
        |c| Words(&mut c.elasticsearch.message_fields),
        "Fields for the line, in order of preference. A document without any of them is the line \
         itself.";
    "intake.elasticsearch.time_fields", "intake.elasticsearch.time-fields",
        |c| Words(&mut c.elasticsearch.time_fields),
        "Fields for the time, in order of preference. A document without any of them gets the \
         time of its arrival.";
    "intake.elasticsearch.ignored_fields", "intake.elasticsearch.ignored-fields",
        |c| Words(&mut c.elasticsearch.ignored_fields),
        "Fields that are not kept. A star at the end of a name stands for any text.";
};
