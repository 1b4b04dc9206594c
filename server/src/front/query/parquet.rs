//! Answers as Parquet files, for clients that ask for them by `Accept`.
//!
//! Guarantees: the header is taken literally, so a list of media types gets JSON; the file counts
//! against the memory for queries from its first bytes on, until the client has taken it; other
//! tasks of the core run between batches of rows. Failures: there is no memory for the file, or the
//! program was built without the feature `parquet`; then the query is refused.
//!
//! A file has no place for the statistics of a query. Its warnings are in the metadata of the file,
//! as a JSON array under `warnings`.

#[cfg(feature = "parquet")]
mod file;
#[cfg(feature = "parquet")]
pub(super) mod schema;
#[cfg(feature = "parquet")]
mod sink;
#[cfg(all(test, feature = "parquet"))]
mod tests;

use logsvc_http::{Request, RequestHead, Response};
use logsvc_logql::engine::QueryResult;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::Querier;

/// The media types of the interface and of real clients.
const MEDIA_TYPES: [&str; 2] =
    ["application/vnd.neutral.parquet", "application/vnd.apache.parquet"];

/// The media type of the file that a client asks for, if it does.
pub(crate) fn accepted(head: &RequestHead) -> Option<&'static str> {
    let accept = head.header("accept")?;
    MEDIA_TYPES.into_iter().find(|&media_type| media_type == accept)
}

impl<R: Runtime> Querier<R> {
    /// Refuses a request for a file where there is none, once its tenant is known.
    pub(crate) fn refuse_parquet(&self, request: &Request) -> Result<(), ApiError> {
        self.core.tenant(&request.head)?;
        Err(ApiError::bad_request("request does not support Parquet responses"))
    }

    /// The file of a result. Entries must have all their labels together, since a file
    /// has one column for them.
    ///
    /// # Errors
    /// There is no memory for it (429 or 413), or this build makes no files (400).
    #[cfg(feature = "parquet")]
    pub(crate) async fn parquet_response(
        &self,
        media_type: &'static str,
        result: QueryResult,
        warnings: &[String],
    ) -> Result<Response, ApiError> {
        use http::header::{CONTENT_TYPE, HeaderValue};

        let sink = sink::Sink::new(&self.core.budgets().queries)?;
        let pause = async || self.core.runtime.yield_now().await;
        let sink = file::write(result, warnings, sink, pause).await;
        let sink = sink.map_err(|error| sink::refusal(&error, &self.core.budgets().queries))?;
        let mut response = Response::new(http::StatusCode::OK).compressible();
        response.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        let (body, reservation) = sink.into_parts();
        Ok(super::answer::with_held_body(response, body, reservation))
    }

    /// See the other build.
    #[cfg(not(feature = "parquet"))]
    pub(crate) async fn parquet_response(
        &self,
        _media_type: &'static str,
        _result: QueryResult,
        _warnings: &[String],
    ) -> Result<Response, ApiError> {
        Err(ApiError::bad_request("support for Parquet encoded responses is not in this build"))
    }
}
