//! `ready`, `metrics`, `status/buildinfo`, and the end of caches outside of the node.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use http::header::ACCEPT;
use logsvc_http::{Request, RequestHead, Response};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_rules::messages::{RulesReply, RulesRequest};
use logsvc_runtime::{CoreId, DiskSpace, Runtime};
use logsvc_shards::deletion::{DeletionReply, DeletionRequest};
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::config::targets::Part;
use crate::front::operate::Operator;
use crate::metrics::{ExpositionFormat, Gauges, GroupLabels, Upkeep};
use crate::version;

/// Grafana switches features on by the version that it reads here, so the answer
/// names the release of the reference whose interface this server speaks.
pub(super) const API_VERSION: &str = "3.8.0";

/// A log that could not be written is tried with a small file after so long.
const INTAKE_TRIED_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// With less room the next write of the log may fail.
const ROOM_FOR_LOG_BYTES: u64 = 1 << 20;

/// `health`: the process lives, whatever its state.
pub(crate) fn alive() -> Response {
    Response::text(StatusCode::OK, "OK\n")
}

/// Before the log is replayed.
pub(crate) fn not_ready() -> ApiError {
    ApiError::unavailable("Ingester not ready: ingester not ready: Starting")
}

impl<R: Runtime> Operator<R> {
    /// `ready`: whether the node takes pushes and queries, and if not, why.
    pub(crate) async fn ready(&self) -> Result<Response, ApiError> {
        if self.core.node.stop.is_triggered() {
            return Err(ApiError::unavailable("Application is stopping").with_newline());
        }
        if let Some(counts) = self.core.node.services.not_running() {
            let counts = counts.iter().map(|(state, count)| format!("{state}: {count}\n"));
            let text = format!("Some services are not Running:\n{}", counts.collect::<String>());
            return Err(ApiError::unavailable(text).with_newline());
        }
        if !self.core.node.recovered.is_complete() {
            let mut error = not_ready();
            if let Some(progress) = self.core.node.replay.progress.get() {
                let (done, total) = (progress.done_bytes(), progress.total_bytes());
                let percent = progress.percent();
                error.message += &format!(
                    ": replaying the write-ahead log: {done} of {total} bytes, {percent} %"
                );
            }
            return Err(error.with_newline());
        }
        self.knows_owners()?;
        if let Some(age) = self.core.node.intake.fault_age(self.core.runtime.now()) {
            let disk = self.core.runtime.disk_space(&self.core.config().data_dir).await.ok();
            if age < INTAKE_TRIED_AGAIN_AFTER || !self.can_write(disk).await {
                return Err(self.intake_fault(disk).with_newline());
            }
            self.core.node.intake.forgive();
        }
        Ok(Response::text(StatusCode::OK, "ready\n"))
    }

    /// A node that stores no entries needs to know who does. Once it knows, it stays ready, whatever
    /// becomes of the others.
    fn knows_owners(&self) -> Result<(), ApiError> {
        let parts = self.core.config().parts();
        // A node without others has all parts.
        if parts.has(Part::Ingester) {
            return Ok(());
        }
        let routes = self.core.routes();
        let joined = routes.filter(|routes| routes.map.members.contains_key(&routes.me));
        let text = match joined {
            Some(routes) if routes.map.slots.iter().all(|slot| slot.owner.is_some()) => {
                return Ok(());
            }
            Some(_) => {
                "no node stores entries yet: start one whose target is write, ingester or all"
            }
            None => "it has not joined the cluster yet",
        };
        let names = [
            (Part::QueryFrontend, "Query Frontend"),
            (Part::Querier, "Querier"),
            (Part::Distributor, "Distributor"),
            (Part::Ruler, "Ruler"),
            (Part::Compactor, "Compactor"),
        ];
        let named = names.iter().find(|(part, _)| parts.has(*part));
        let name = named.map_or("Node", |(_, name)| name);
        Err(ApiError::unavailable(format!("{name} not ready: not ready: {text}")).with_newline())
    }

    /// Whether the data folder takes a small file. A node that is not ready gets no pushes, so no
    /// push can find out.
    async fn can_write(&self, disk: Option<DiskSpace>) -> bool {
        if disk.is_some_and(|disk| disk.available_bytes < ROOM_FOR_LOG_BYTES) {
            return false;
        }
        let path = self.core.config().data_dir.join("READY_PROBE");
        let written = self.core.runtime.replace_file(&path, b"a test\n".to_vec()).await;
        written.is_ok() && self.core.runtime.remove_file(&path).await.is_ok()
    }

    fn intake_fault(&self, disk: Option<DiskSpace>) -> ApiError {
        let folder = self.core.config().data_dir.display();
        let text = match disk {
            Some(disk) if disk.available_bytes < ROOM_FOR_LOG_BYTES => format!(
                "Ingester not ready: pushes cannot be stored: {} of {} bytes are free in the data \
                 folder {folder}; make room, or let old entries go before the disk is full with \
                 retention.max_disk_percent",
                disk.available_bytes, disk.total_bytes
            ),
            _ => format!(
                "Ingester not ready: pushes cannot be stored: the write-ahead log in the data \
                 folder {folder} (data_dir) cannot be written; the server's log says why"
            ),
        };
        ApiError::unavailable(text)
    }

    /// `/-/reload`: reads the files of the settings, certificates, limits and rules again.
    pub(crate) async fn reload(&self) -> Result<Response, ApiError> {
        match self.core.node.surroundings.reload.ask().await {
            Ok(()) => Ok(Response::text(StatusCode::OK, "reloaded\n")),
            Err(error) => {
                Err(ApiError::internal(format!("failed to reload: {error}")).with_newline())
            }
        }
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
        let bucket = self.core.config().bucket.as_ref();
        let bucket = bucket.map(|_| self.core.node.bucket.numbers(self.core.runtime.now()));
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
            reloads: &self.core.node.reloads,
            files_sha256,
            started_ns: self.started_ns,
            upkeep: Upkeep {
                compacts: self.core.config().compaction_enabled,
                expires: self.core.config().retention_enabled,
                now: self.core.runtime.now(),
            },
            append_failures: &self.core.node.intake.failures(),
            replay: Duration::from_micros(self.core.node.replay.slowest_us.load(Ordering::Acquire)),
            disk,
            bucket,
            cluster: self.core.cluster().map(|cluster| cluster.numbers()),
            is_ready: self.ready().await.is_ok(),
            replay_bytes: self
                .core
                .node
                .replay
                .progress
                .get()
                .map_or((0, 0), |progress| (progress.done_bytes(), progress.total_bytes())),
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
        ("revision", version::COMMIT),
        ("branch", concat!("logsvc-", env!("CARGO_PKG_VERSION"))),
        ("buildUser", ""),
        ("buildDate", version::DATE),
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
