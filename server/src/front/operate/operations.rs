//! `ready`, `metrics`, `status/buildinfo`, and the end of caches outside of the node.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use http::header::ACCEPT;
use logsvc_http::{Request, RequestHead, Response};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_rules::messages::{RulesReply, RulesRequest};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::deletion::{DeletionReply, DeletionRequest};
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::front::operate::Operator;
use crate::metrics::{ExpositionFormat, Gauges, GroupLabels};

/// Grafana switches features on by the version that it reads here, so the answer
/// names the release of the reference whose interface this server speaks.
pub(super) const API_VERSION: &str = "3.8.0";

/// Before the log is replayed.
pub(crate) fn not_ready() -> ApiError {
    ApiError::unavailable("Ingester not ready: ingester not ready: Starting")
}

impl<R: Runtime> Operator<R> {
    pub(crate) fn ready(&self) -> Result<Response, ApiError> {
        if self.core.node.stop.is_triggered() {
            return Err(ApiError::unavailable("Application is stopping").with_newline());
        }
        if let Some(counts) = self.core.node.services.not_running() {
            let counts = counts.iter().map(|(state, count)| format!("{state}: {count}\n"));
            let text = format!("Some services are not Running:\n{}", counts.collect::<String>());
            return Err(ApiError::unavailable(text).with_newline());
        }
        if !self.core.node.recovered.is_complete() {
            return Err(not_ready().with_newline());
        }
        Ok(Response::text(StatusCode::OK, "ready\n"))
    }

    /// `cache/generation_numbers/increase`.
    pub(crate) fn increase_cache_generation(
        &self,
        request: &Request,
    ) -> Result<Response, ApiError> {
        self.core.tenant(&request.head)?;
        let now_ns = self.core.runtime.unix_nanos();
        let greater = |known: i64| Some(now_ns.max(known.saturating_add(1)));
        let number = &self.queries.cache_generation;
        number.fetch_update(Ordering::AcqRel, Ordering::Acquire, greater).map_or_else(
            |known| Err(ApiError::internal(format!("cannot increase {known}"))),
            |_| Ok(Response::new(StatusCode::NO_CONTENT)),
        )
    }

    pub(crate) async fn exposition(&self, head: &RequestHead) -> Response {
        let mut shards = Vec::new();
        if self.core.node.recovered.is_complete()
            && let Ok(replies) = self.core.gather(|| ShardRequest::Status).await
        {
            for reply in replies {
                if let ShardReply::Status(status) = reply {
                    shards.push(*status);
                }
            }
        }
        let mut deletions = None;
        if self.core.node.recovered.is_complete()
            && let Ok(DeletionReply::Status(status)) =
                self.core.ask_keeper(DeletionRequest::Status).await
        {
            deletions = Some(status);
        }
        let mut ruler = None;
        if self.core.node.recovered.is_complete()
            && let Ok(RulesReply::Metrics(numbers)) =
                self.core.ask_ruler(RulesRequest::Metrics).await
        {
            ruler = Some(numbers);
        }
        let cores = (0..self.core.runtime.core_count()).map(CoreId);
        let lane_depths: Vec<_> =
            cores.map(|core| self.core.lanes.request_lane_depth(core)).collect();
        let files_sha256 = self.core.node.limits.current().files_sha256;
        let disk = self.core.runtime.disk_space(&self.core.config().data_dir).await.ok();
        let disk_used = disk.filter(|disk| disk.total_bytes > 0).map(|disk| {
            1.0 - disk.available_bytes.min(disk.total_bytes) as f64 / disk.total_bytes as f64
        });
        let budgets = self.core.budgets();
        let gauges = Gauges {
            budgets: &[
                &budgets.bodies,
                &budgets.heads,
                &budgets.streams,
                &budgets.directories,
                &budgets.queries,
                &budgets.rules,
                &budgets.cache,
                &budgets.results,
                &budgets.windows,
                &budgets.tails,
            ],
            queues: &self.queries.queues.status(),
            lane_depths: &lane_depths,
            shards: &shards,
            deletions: deletions.as_deref(),
            ruler: ruler.as_deref(),
            group_labels: GroupLabels::of(&self.core.config().ruler),
            now_ns: self.core.runtime.unix_nanos(),
            driver: self.core.runtime.driver_name(),
            runtime_config: files_sha256.map(|sha256| (&self.core.node.reloads, sha256)),
            started_ns: self.started_ns,
            compacts: self.core.config().compaction_enabled,
            replay: Duration::from_micros(self.core.node.replay_us.load(Ordering::Acquire)),
            disk_used,
        };
        let accept = head.header(ACCEPT).unwrap_or_default();
        let format = ExpositionFormat::of_accept(accept);
        Response::new(StatusCode::OK)
            .with_content_type(format.content_type())
            .with_body(self.core.node.metrics.expose(&gauges, format).into_bytes())
            .compressible()
    }
}

pub(crate) fn build_info() -> Response {
    let mut body = Vec::new();
    let fields = [
        ("version", API_VERSION),
        ("revision", env!("CARGO_PKG_VERSION")),
        ("branch", "main"),
        ("buildUser", ""),
        ("buildDate", ""),
        ("goVersion", ""),
    ];
    for (index, (name, value)) in fields.into_iter().enumerate() {
        body.push(if index == 0 { b'{' } else { b',' });
        write_json_text(name, &mut body);
        body.push(b':');
        write_json_text(value, &mut body);
    }
    body.extend_from_slice(b"}\n");
    Response::new(StatusCode::OK).with_content_type("application/json").with_body(body)
}
