//! Bodies over the files of the ruler.

pub use logsvc_rules::fuzz::{group_yaml, sample_position, sample_segment, stored_group};
pub use logsvc_rules::state::fuzz::rule_state;
