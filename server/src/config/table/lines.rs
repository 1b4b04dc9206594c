//! The rows of the settings for plain lines and newline-delimited JSON.

use super::{Field, Setting};

/// Settings of the node.
pub(super) const NODE: &[Setting] = settings! {
    "intake.lines.label_fields", "intake.lines.label-fields",
        |c| Labels(&mut c.lines.label_fields),
        "Fields of objects that become labels. The field c in the object b is b.c. A name alone \
         is a field whose label has the same name.";
    "intake.lines.message_fields", "intake.lines.message-fields",
        |c| Words(&mut c.lines.message_fields),
        "Fields for the line, in order of preference. An object without any of them is the line \
         itself.";
    "intake.lines.time_fields", "intake.lines.time-fields",
        |c| Words(&mut c.lines.time_fields),
        "Fields for the time, in order of preference. An object without any of them gets the time \
         of its arrival.";
    "intake.lines.ignored_fields", "intake.lines.ignored-fields",
        |c| Words(&mut c.lines.ignored_fields),
        "Fields that are not kept. A star at the end of a name stands for any text.";
};
