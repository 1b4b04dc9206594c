//! Errors that several rooms give, and how an error becomes an answer.

use http::header::{HeaderValue, RETRY_AFTER};
use logsvc_http::Response;
use logsvc_proto::error::ApiError;

/// An error as it goes to the client.
pub(crate) fn error_response(error: &ApiError) -> Response {
    let mut response = Response::text(error.status, "").with_body(error.body());
    if let Some(seconds) = error.retry_after_s {
        response.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// There is no room now for one more request, or for its memory: the client may try again in a
/// second.
pub(crate) fn too_busy() -> ApiError {
    ApiError::too_many_requests("too many outstanding requests", 1)
}

/// The memory for bodies has no room now.
pub(crate) fn too_many_bytes() -> ApiError {
    ApiError::too_many_requests("too many bytes of requests in flight", 1)
}

/// A shard has stopped answering: the node is going down.
pub(crate) fn shard_gone() -> ApiError {
    ApiError::unavailable("a shard of this node is not running")
}

/// A task of core 0, as the keeper of the requests for deletion, has stopped answering: the node is
/// going down.
pub(crate) fn node_stopping() -> ApiError {
    ApiError::unavailable("the node is stopping")
}
