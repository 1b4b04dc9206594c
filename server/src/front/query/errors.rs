//! Errors of queries, as their clients read them.

use http::StatusCode;
use logsvc_logql::engine::{EvalError, PlanError, Stop};
use logsvc_logql::syntax::SelectorError;
use logsvc_proto::error::ApiError;

use crate::front::core::errors::too_busy;

/// There can never be so much memory for one answer.
pub(super) fn too_large(len_bytes: u64, max_bytes: u64) -> ApiError {
    let text = format!("response larger than the max message size ({len_bytes} vs {max_bytes})");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

/// Why a query is stopped, as its client reads it.
pub(crate) fn stopped(stop: Stop) -> ApiError {
    match stop {
        Stop::TooLarge { max_bytes } => too_large(max_bytes.saturating_add(1), max_bytes),
        Stop::Busy => too_busy(),
        Stop::Ended => ApiError::unavailable(stop.to_string()),
    }
}

/// Why a query has no answer, as its client reads it.
pub(super) fn failed(error: EvalError) -> ApiError {
    match error {
        EvalError::Stopped(stop) => stopped(stop),
        error => ApiError::bad_request(error.to_string()),
    }
}

/// Why a text is no selector, as its client reads it.
pub(crate) fn bad_selector(error: SelectorError) -> ApiError {
    ApiError::bad_request(error.to_string())
}

/// Why a query has no plan, as its client reads it.
pub(super) fn unplanned(error: PlanError) -> ApiError {
    match error {
        // It can never be compiled; others that find no memory may try again.
        PlanError::Stopped(Stop::TooLarge { .. }) => ApiError::bad_request(error.to_string()),
        PlanError::Stopped(stop) => stopped(stop),
        // As the reference answers for a part of the language that it switches off.
        PlanError::ApproxTopkIsDisabled => ApiError::internal(error.to_string()),
        error => ApiError::bad_request(error.to_string()),
    }
}

/// Nobody reads this answer; it is counted under its status.
pub(super) fn client_gone() -> ApiError {
    let status = StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST);
    ApiError::new(status, "the request was cancelled by the client")
}
