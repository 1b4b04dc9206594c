//! Times, steps and limits as they stand in request parameters.
//!
//! Everything here works on nanoseconds since the Unix epoch in `i64`, years
//! 1678 to 2262. Texts outside that range are refused, never wrapped.

mod params;

pub use crate::go::calendar::{
    date_of_day, days_from_epoch, parse_rfc3339_ns, write_go_time, write_rfc3339,
    write_rfc3339_nano,
};
pub use crate::go::duration::{
    DurationError, format_go_duration, format_model_duration, parse_go_duration_ns,
    parse_model_duration_ns,
};
pub use crate::go::size::{format_byte_size, parse_byte_size};
pub use params::{
    TimeError, parse_limit, parse_since_param_ns, parse_step_ns, parse_time_ns, parse_time_param_ns,
};
