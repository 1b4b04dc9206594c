//! `patterns`: the templates that the lines of streams follow, with counts over time.
//!
//! They are mined from what is stored when somebody asks ([`Plan::patterns`]), so the
//! endpoint knows all lines, also those from before a restart.

use http::StatusCode;
use logsvc_http::{Request, Response};
use logsvc_logql::engine::{MatrixSeries, Plan, QueryResult};
use logsvc_logql::syntax;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::answer::json_response;
use super::query_limits::check_length;
use super::{Front, params};

/// Most patterns in an answer; the most frequent ones come first.
const PATTERNS_MAX: usize = 300;

impl<R: Runtime> Front<R> {
    pub(super) async fn patterns(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        if !self.config.patterns_enabled {
            return Ok(Response::new(StatusCode::NOT_FOUND));
        }
        let params = params::of(&request)?;
        let now_ns = self.runtime.unix_nanos();
        let range = params::open_time_range(&params, now_ns)?;
        let step_ns = params::step(&params, range)?;
        let text = params.get("query").unwrap_or_default();
        let selector = syntax::parse_selector(text)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        check_length(&inquiry.limits, range)?;
        inquiry.tenants.check_selector(&selector)?;
        let mut out = br#"{"status":"success","data":["#.to_vec();
        // A range that ends before it begins holds nothing.
        let seen = self.visible(&inquiry.limits, range).filter(|seen| seen.start_ns < seen.end_ns);
        if let Some(seen) = seen {
            let plan = Plan::patterns(&selector, (seen.start_ns, seen.end_ns), step_ns)
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            let executed = self.run(&inquiry, &inquiry.tenants.merged(), &plan).await?;
            let QueryResult::Matrix(series) = &executed.result else {
                return Err(ApiError::internal("patterns are no matrix"));
            };
            write_patterns(series, &mut out);
        }
        out.extend_from_slice(b"]}\n");
        json_response(out, &self.queries)
    }
}

fn write_patterns(series: &[MatrixSeries], out: &mut Vec<u8>) {
    for (number, one) in series.iter().take(PATTERNS_MAX).enumerate() {
        out.extend_from_slice(if number == 0 { b"{\"pattern\":" } else { b",{\"pattern\":" });
        write_json_text(one.labels.get("pattern").unwrap_or_default(), out);
        out.extend_from_slice(b",\"level\":");
        write_json_text(one.labels.get("level").unwrap_or_default(), out);
        out.extend_from_slice(b",\"samples\":[");
        for (number, point) in one.points.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            // Counts are whole numbers.
            let (time_s, count) = (point.timestamp_ms.div_euclid(1000), point.value as u64);
            out.extend_from_slice(format!("[{time_s},{count}]").as_bytes());
        }
        out.extend_from_slice(b"]}");
    }
}

#[cfg(test)]
mod tests {
    use logsvc_logql::engine::ResultPoint;
    use logsvc_proto::Labels;

    use super::*;

    #[test]
    fn patterns_are_written_with_level_and_samples() {
        let series = |pattern: &str| MatrixSeries {
            labels: Labels::from_result_pairs([("pattern", pattern), ("level", "info")])
                .expect("two names"),
            points: vec![
                ResultPoint { timestamp_ms: 10_000, value: 3.0 },
                ResultPoint { timestamp_ms: 24_500, value: 1e15 },
            ],
        };
        let mut out = Vec::new();
        write_patterns(&[series("a \"<_>\""), series("b")], &mut out);
        let json: serde_json::Value =
            serde_json::from_slice(&[b"[", out.as_slice(), b"]"].concat()).expect("JSON");
        let samples = serde_json::json!([[10, 3], [24, 1_000_000_000_000_000_u64]]);
        let expected = serde_json::json!([
            {"pattern": "a \"<_>\"", "level": "info", "samples": samples},
            {"pattern": "b", "level": "info", "samples": samples},
        ]);
        assert_eq!(json, expected);
    }
}
