//! The state of alerts as a file that nodes have in common, `rules/state/ALERTS`. The one that
//! evaluates writes it, and reads it when its term begins.
//!
//! Guarantees:
//! - Evaluations wait for no write. A change of a state is written within [`PACE`] and a second, unless
//!   the bucket is slow, and the time of an evaluation that leaves an alert pending within
//!   [`WAITING_PACE`] and a second. Other times are written often enough that [`crate::config::EvaluationConfig::for_outage_tolerance`] never
//!   takes a node that is alive for one that was down. Without news nothing is written.
//! - [`CommonState::stop`] writes what is new, unless the term is over.
//! - A file that is damaged costs the alerts behind the damage their age, and nothing else.
//!
//! What can go wrong: the node is killed, and the changes of some seconds are lost. The next one
//! evaluates them anew, so an Alertmanager may be told again what it knows.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use logsvc_runtime::{Bell, Latch, Monotonic, Runtime};

use super::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header, write_frame};
use super::image::StateImage;
use super::load::decode;
use super::log::Snapshot;
use super::log::rewrite::each_run;
use super::{FILE_NAME, FOLDER_NAME, News, StateCounters};
use crate::common::{CommonFiles, ReadError};

/// The longest file in bytes. Alerts beyond lose their age at a takeover.
pub const STATE_MAX_BYTES: usize = 32 << 20;

/// The shortest pause between two writes.
const PACE: Duration = Duration::from_secs(5);

/// The same before a write that tells nothing but how long alerts have waited.
const WAITING_PACE: Duration = Duration::from_secs(15);

/// How long it is waited for further changes.
const GATHER: Duration = Duration::from_secs(1);

/// A write is followed by a pause of so many times its length.
const PAUSE_FACTOR: u32 = 4;

/// The pause after a read that has failed.
const READ_PAUSE: Duration = Duration::from_secs(1);

fn path() -> String {
    format!("{FOLDER_NAME}/{FILE_NAME}")
}

/// The state that an earlier term has left. Waits as long as the bucket does not answer. Nothing that
/// is in the file, or wrong with it, is an error; the log tells of it.
pub async fn load_common<R: Runtime>(runtime: &R, common: &dyn CommonFiles) -> StateImage {
    let path = path();
    loop {
        let Some(number) = common.number(&path) else { return StateImage::default() };
        let fault = match common.read(&path, number).await {
            Ok(bytes) => {
                let (image, report) = decode(runtime, &bytes).await;
                if let Some(fault) = report.fault {
                    let (good_bytes, lost_bytes) = (report.good_bytes, report.lost_bytes);
                    tracing::error!(
                        good_bytes,
                        lost_bytes,
                        "the state of alerts is damaged; alerts that are lost become pending again: \
                         {fault}"
                    );
                }
                return image;
            }
            Err(ReadError::Unusable(fault)) => fault,
            Err(error @ ReadError::Away(_)) => {
                tracing::warn!(%error, "cannot read the state of alerts; trying again");
                runtime.sleep_until(runtime.now().after(READ_PAUSE)).await;
                continue;
            }
        };
        tracing::error!("the state of alerts is lost; alerts become pending again: {fault}");
        return StateImage::default();
    }
}

#[derive(Default)]
struct Shared {
    news: Cell<News>,
    /// Since when there are news.
    since: Cell<Option<Monotonic>>,
    bell: Bell,
    stop: Latch,
    counters: Cell<StateCounters>,
}

/// Writes the file. See the module.
pub struct CommonState<R: Runtime> {
    runtime: R,
    shared: Rc<Shared>,
    task: Cell<Option<R::Task<()>>>,
}

impl<R: Runtime> std::fmt::Debug for CommonState<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommonState").field("news", &self.shared.news.get()).finish_non_exhaustive()
    }
}

impl<R: Runtime> CommonState<R> {
    /// Starts the writer. A node that was not heard of for `tolerance` is taken for one that was down.
    pub fn start(
        runtime: &R,
        common: Rc<dyn CommonFiles>,
        tolerance: Duration,
        snapshot: Snapshot,
    ) -> CommonState<R> {
        let shared = Rc::new(Shared::default());
        let writer = Writer {
            runtime: runtime.clone(),
            common,
            time_interval: (tolerance / 4).max(WAITING_PACE),
            snapshot,
            shared: Rc::clone(&shared),
            written_at: runtime.now(),
            pause: Duration::ZERO,
            has_failed: false,
            is_cut: false,
        };
        let task = Cell::new(Some(runtime.spawn(writer.run())));
        CommonState { runtime: runtime.clone(), shared, task }
    }

    /// Says what is new.
    pub fn note(&self, news: News) {
        let shared = &self.shared;
        if news > shared.news.get() {
            shared.news.set(news);
            shared.since.set(Some(self.runtime.now()));
            shared.bell.ring();
        }
    }

    /// Numbers of the file.
    pub fn counters(&self) -> StateCounters {
        self.shared.counters.get()
    }

    /// Writes what is new, and ends the writer.
    pub async fn stop(&self) {
        self.shared.stop.trigger();
        if let Some(task) = self.task.take() {
            task.await;
        }
    }
}

struct Writer<R> {
    runtime: R,
    common: Rc<dyn CommonFiles>,
    time_interval: Duration,
    snapshot: Snapshot,
    shared: Rc<Shared>,
    /// The end of the last write.
    written_at: Monotonic,
    /// The pause behind it, if it is longer than [`PACE`].
    pause: Duration,
    has_failed: bool,
    /// Whether the last file had not all alerts.
    is_cut: bool,
}

impl<R: Runtime> Writer<R> {
    async fn run(mut self) {
        loop {
            if self.shared.stop.is_triggered() {
                if self.shared.news.get() > News::None {
                    self.write().await;
                }
                return;
            }
            let due = self.due();
            if self.runtime.now() >= due {
                self.write().await;
                continue;
            }
            let slept = pin!(async {
                match due {
                    Monotonic::NEVER => std::future::pending().await,
                    due => self.runtime.sleep_until(due).await,
                }
            });
            let told = pin!(self.shared.bell.wait());
            let stopped = pin!(self.shared.stop.wait());
            select(pin!(select(told, slept)), stopped).await;
        }
    }

    fn due(&self) -> Monotonic {
        let pace = match self.shared.news.get() {
            News::None => return Monotonic::NEVER,
            News::Time => self.time_interval,
            News::Waiting => WAITING_PACE,
            News::State => PACE,
        };
        let since = self.shared.since.get().unwrap_or(self.written_at);
        self.written_at.after(pace.max(self.pause)).max(since.after(GATHER))
    }

    async fn write(&mut self) {
        let begun = self.runtime.now();
        let news = self.shared.news.take();
        if self.common.is_over() {
            // Another node writes it now.
            return;
        }
        let content = self.content().await;
        let (path, len_bytes) = (path(), content.as_ref().map_or(0, Vec::len));
        let based_on = self.common.number(&path);
        let written = match content {
            None if based_on.is_none() => Ok(None),
            content => self.common.replace(&path, based_on, content).await,
        };
        self.written_at = self.runtime.now();
        self.pause = self.written_at.since(begun) * PAUSE_FACTOR;
        let mut counters = self.shared.counters.get();
        match written {
            Ok(_) => {
                self.has_failed = false;
                counters.file_bytes = len_bytes as u64;
                counters.rewrites += 1;
            }
            Err(error) => {
                counters.failures += 1;
                self.shared.news.set(self.shared.news.get().max(news));
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(
                        "cannot write the state of alerts; until this works, alerts lose their age \
                         when another node takes over: {error}"
                    );
                }
            }
        }
        self.shared.counters.set(counters);
    }

    /// The bytes of the file; `None` if there are no alerts.
    async fn content(&mut self) -> Option<Vec<u8>> {
        let groups = (self.snapshot)();
        if groups.is_empty() {
            return None;
        }
        let header =
            Header { nonce: self.runtime.random_u64(), created_ns: self.runtime.unix_nanos() };
        let mut bytes = header.encode().to_vec();
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        let mut is_cut = false;
        let runtime = &self.runtime;
        let taken = each_run(&groups, async |run| {
            if is_cut || bytes.len() + FRAME_HEADER_BYTES + run.len() > STATE_MAX_BYTES {
                is_cut = true;
                return Ok(());
            }
            write_frame(header.nonce, run, &mut bytes);
            runtime.yield_now().await;
            Ok(())
        });
        // Nothing fails in memory.
        drop(taken.await);
        if is_cut && !std::mem::replace(&mut self.is_cut, is_cut) {
            tracing::error!(
                max_bytes = STATE_MAX_BYTES,
                "there are so many alerts that some lose their age when another node takes over"
            );
        }
        self.is_cut = is_cut;
        Some(bytes)
    }
}
