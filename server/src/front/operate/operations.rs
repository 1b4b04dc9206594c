//! `ready`, `metrics`, `status/buildinfo` and `format_query`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use http::header::ACCEPT;
use logsvc_http::{Request, RequestHead, Response};
use logsvc_logql::syntax;
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::front::Front;
use crate::front::query::params;
use crate::metrics::{ExpositionFormat, Gauges};

/// Grafana switches features on by the version that it reads here, so the answer
/// names the release of the reference whose interface this server speaks.
pub(super) const API_VERSION: &str = "3.8.0";

pub(super) const JSON: &str = "application/json; charset=utf-8";

/// Before the log is replayed.
pub(crate) fn not_ready() -> ApiError {
    ApiError::unavailable("Ingester not ready: ingester not ready: Starting")
}

impl<R: Runtime> Front<R> {
    pub(crate) fn ready(&self) -> Result<Response, ApiError> {
        if self.stopping.is_triggered() {
            return Err(ApiError::unavailable("Application is stopping").with_newline());
        }
        if let Some(counts) = self.services.not_running() {
            let counts = counts.iter().map(|(state, count)| format!("{state}: {count}\n"));
            let text = format!("Some services are not Running:\n{}", counts.collect::<String>());
            return Err(ApiError::unavailable(text).with_newline());
        }
        if !self.recovered.is_complete() {
            return Err(not_ready().with_newline());
        }
        Ok(Response::text(StatusCode::OK, "ready\n"))
    }

    /// `cache/generation_numbers`: caches of answers are worth nothing once the number is
    /// another one. One number serves all tenants: a cache may be told too early, not
    /// too late.
    pub(crate) fn cache_generation(&self, request: &Request) -> Result<Response, ApiError> {
        self.tenant(&request.head)?;
        let text = match self.cache_generation.load(Ordering::Acquire) {
            0 => "\"\"\n".to_owned(),
            number => format!("\"{number}\"\n"),
        };
        Ok(Response::new(StatusCode::OK)
            .with_content_type("text/plain; charset=utf-8")
            .with_body(text.into_bytes()))
    }

    /// `cache/generation_numbers/increase`.
    pub(crate) fn increase_cache_generation(
        &self,
        request: &Request,
    ) -> Result<Response, ApiError> {
        self.tenant(&request.head)?;
        let now_ns = self.runtime.unix_nanos();
        let greater = |known: i64| Some(now_ns.max(known.saturating_add(1)));
        let number = &self.cache_generation;
        number.fetch_update(Ordering::AcqRel, Ordering::Acquire, greater).map_or_else(
            |known| Err(ApiError::internal(format!("cannot increase {known}"))),
            |_| Ok(Response::new(StatusCode::NO_CONTENT)),
        )
    }

    pub(crate) async fn exposition(&self, head: &RequestHead) -> Response {
        let mut shards = Vec::new();
        if self.recovered.is_complete()
            && let Ok(replies) = self.gather(|| ShardRequest::Status).await
        {
            for reply in replies {
                if let ShardReply::Status(status) = reply {
                    shards.push(*status);
                }
            }
        }
        let cores = (0..self.runtime.core_count()).map(CoreId);
        let lane_depths: Vec<_> = cores.map(|core| self.caller.request_lane_depth(core)).collect();
        let files_sha256 = self.limits.current().files_sha256;
        let disk = self.runtime.disk_space(&self.config.data_dir).await.ok();
        let disk_used = disk.filter(|disk| disk.total_bytes > 0).map(|disk| {
            1.0 - disk.available_bytes.min(disk.total_bytes) as f64 / disk.total_bytes as f64
        });
        let gauges = Gauges {
            budgets: &[
                &self.bodies,
                &self.heads,
                &self.stream_memory,
                &self.directories,
                &self.queries,
                &self.cache,
                self.results.budget(),
                self.tails.memory(),
            ],
            queues: &self.queues.status(),
            lane_depths: &lane_depths,
            shards: &shards,
            driver: self.runtime.driver_name(),
            runtime_config: files_sha256.map(|sha256| (&*self.reloads, sha256)),
            started_ns: self.started_ns,
            compacts: self.config.compaction_enabled,
            replay: Duration::from_micros(self.replay_us.load(Ordering::Acquire)),
            disk_used,
        };
        let accept = head.header(ACCEPT).unwrap_or_default();
        let format = ExpositionFormat::of_accept(accept);
        Response::new(StatusCode::OK)
            .with_content_type(format.content_type())
            .with_body(self.metrics.expose(&gauges, format).into_bytes())
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

impl<R: Runtime> Front<R> {
    pub(crate) async fn format_query(&self, request: &Request) -> Result<Response, ApiError> {
        let params = params::of(request)?;
        let text = params.get("query").unwrap_or_default();
        let formatted = self.read(text, |text| Ok(formatted(text))).await?;
        let (status, fields) = &*formatted;
        let mut body = Vec::new();
        for (index, (name, value)) in fields.iter().enumerate() {
            body.push(if index == 0 { b'{' } else { b',' });
            write_json_text(name, &mut body);
            body.push(b':');
            write_json_text(value, &mut body);
        }
        body.extend_from_slice(b"}\n");
        Ok(Response::new(*status).with_content_type(JSON).with_body(body))
    }
}

/// What is said of the text of a query: its status, and what its fields say.
fn formatted(text: &str) -> (StatusCode, [(&'static str, String); 2]) {
    match syntax::parse(text) {
        Ok(expr) => {
            (StatusCode::OK, [("status", "success".into()), ("data", syntax::format(&expr))])
        }
        Err(error) => (
            StatusCode::BAD_REQUEST,
            [("status", "invalid-query".to_owned()), ("error", error.to_string())],
        ),
    }
}
