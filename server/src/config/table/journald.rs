//! The rows of the settings of journal entries.

use super::{Field, Setting};

/// Settings of the node.
pub(super) const NODE: &[Setting] = settings! {
    "intake.journald.labels", "intake.journald.labels",
        |c| Labels(&mut c.journald.labels),
        "Fields of journal entries that become labels. Of a unit that is made anew for each run, \
         such as session-12.scope, the label has the kind, session.scope. The field \
         PRIORITY_KEYWORD stands for the word of PRIORITY.";
    "intake.journald.dropped_fields", "intake.journald.dropped-fields",
        |c| Words(&mut c.journald.dropped_fields),
        "Fields of journal entries that do not become structured metadata. Fields whose names begin \
         with two underscores never do.";
    "intake.journald.source_time", "intake.journald.source-time",
        |c| Bool(&mut c.journald.prefers_source_time),
        "Whether _SOURCE_REALTIME_TIMESTAMP of a journal entry, which its sender names, counts \
         rather than the time at which journald received the entry.";
    "intake.journald.field_max_bytes", "intake.journald.field-max-bytes",
        |c| MemoryBytes(&mut c.journald.field_max_bytes),
        "Longest value of a field of a journal entry. A longer one is left out of the entry; a \
         message has the limit of lines.";
};
