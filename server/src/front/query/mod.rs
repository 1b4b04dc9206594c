//! The query room: from the text of a query to the bytes of its answer.

pub(super) mod answer;
pub(super) mod compile;
pub(super) mod encode;
pub(super) mod endpoints;
pub(super) mod execute;
pub(super) mod leaves;
pub(super) mod limits;
pub(super) mod params;
pub(super) mod parquet;
pub(crate) mod queue;
mod request_limits;
pub(crate) mod results;
pub(crate) mod sharing;
pub(super) mod tenants;
