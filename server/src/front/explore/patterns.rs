//! `patterns`: the templates that the lines of streams follow, with counts over time.
//!
//! A request mines them from the stored lines ([`Plan::patterns`]), so they cover all lines,
//! whenever the node was started.

use http::StatusCode;
use logsvc_http::{Request, Response};
use logsvc_logql::engine::{Estimate, MatrixSeries, Plan, QueryResult};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::scan::PartAllowance;

use crate::front::explore::Explorer;
use crate::front::query::answer::AnswerMemory;
use crate::front::query::encode::labels_bytes;
use crate::front::query::limits::check_length;
use crate::front::query::params;

/// Most patterns in an answer; the most frequent ones come first.
const PATTERNS_MAX: usize = 300;

impl<R: Runtime> Explorer<R> {
    pub(crate) async fn patterns(&self, request: Request) -> Result<Response, ApiError> {
        let context = self.querier.query_context(&request)?;
        if !self.core.config().patterns_enabled {
            return Ok(Response::new(StatusCode::NOT_FOUND));
        }
        let params = params::of(&request)?;
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::open_time_range(&params, now_ns)?;
        let step_ns = params::step(&params, range)?;
        let text = params.get("query").unwrap_or_default();
        let selector = self.querier.parse_selector(text).await?;
        check_length(&context.limits, range)?;
        context.tenants.check_selector(&selector)?;
        // A range that ends before it begins holds nothing.
        let seen =
            self.querier.visible(&context.limits, range).filter(|seen| seen.start_ns < seen.end_ns);
        let executed = match seen {
            None => None,
            Some(seen) => {
                let estimate = Estimate::of_matchers(&selector.matchers);
                let (selector, bounds_ns) = (selector.clone(), (seen.start_ns, seen.end_ns));
                let plan = move |_: &PartAllowance| Plan::patterns(&selector, bounds_ns, step_ns);
                let plan =
                    self.querier.bounded(&context, self.querier.planned(estimate, plan)).await?;
                Some(self.querier.run(&context, &context.tenants.merged(), &plan).await?)
            }
        };
        let (mut series, memory) = match executed.map(|executed| (executed.result, executed.memory))
        {
            None => (Vec::new(), None),
            Some((QueryResult::Matrix(series), memory)) => (series, memory),
            Some(_) => return Err(ApiError::internal("patterns are no matrix")),
        };
        series.truncate(PATTERNS_MAX);
        let count = series.iter().map(|one| 1 + one.points.len()).sum();
        self.written(&context, count, move |room| {
            let _memory = memory;
            let mut out = br#"{"status":"success","data":["#.to_vec();
            write_patterns(&series, room, &mut out)?;
            out.extend_from_slice(b"]}\n");
            Ok(out)
        })
        .await
    }
}

/// The most bytes of a sample: two numbers of up to twenty digits.
const SAMPLE_BYTES: usize = 48;

fn write_patterns(
    series: &[MatrixSeries],
    room: &mut AnswerMemory,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    for (number, one) in series.iter().enumerate() {
        let points_bytes = one.points.len() * SAMPLE_BYTES;
        room.reserve_for(out, labels_bytes(&one.labels) + points_bytes + SAMPLE_BYTES)?;
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use logsvc_logql::engine::ResultPoint;
    use logsvc_proto::Labels;
    use logsvc_runtime::Budget;

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
        let mut room = AnswerMemory::new(&Budget::new("queries", 1 << 20), 0);
        write_patterns(&[series("a \"<_>\""), series("b")], &mut room, &mut out).expect("room");
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
