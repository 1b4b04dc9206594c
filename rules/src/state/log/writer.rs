//! The task that writes.

use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use logsvc_runtime::{File, Monotonic, Runtime};

use super::rewrite::{Rewritten, rewrite};
use super::{Batch, Queue, REWRITE_SLACK_BYTES, Snapshot};
use crate::state::format::write_frame;
use crate::state::{FILE_NAME, FOLDER_NAME};

/// The shortest time between two syncs, and so the most that a loss of power costs.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// The first pause after a failure; pauses double.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// The file that frames go to.
struct Current<R: Runtime> {
    file: Rc<R::File>,
    nonce: u64,
    len_bytes: u64,
    /// The length that makes it be rewritten.
    rewrite_at_bytes: u64,
    /// Whether it has bytes that no sync has begun for.
    is_dirty: bool,
}

/// A rewrite that runs, and the frames that came since it has begun.
struct Running<R: Runtime> {
    work: Work<io::Result<Rewritten<R>>>,
    payloads: Vec<Vec<u8>>,
    /// Those that wait for the rewrite, since there is no other file.
    batches: Vec<Rc<Batch>>,
}

pub(super) struct Writer<R: Runtime> {
    runtime: R,
    folder: PathBuf,
    path: PathBuf,
    queue: Rc<Queue>,
    snapshot: Snapshot,
    /// None while no file works.
    current: Option<Current<R>>,
    rewriting: Option<Running<R>>,
    syncing: Option<Work<io::Result<()>>>,
    next_sync: Monotonic,
    /// No rewrite begins before.
    paused_until: Monotonic,
    pause: Duration,
}

enum Event<R: Runtime> {
    Wakeup,
    Rewritten(Box<io::Result<Rewritten<R>>>),
    Synced(io::Result<()>),
    Timer,
}

impl<R: Runtime> Writer<R> {
    pub(super) fn new(
        runtime: R,
        data_dir: &Path,
        queue: Rc<Queue>,
        snapshot: Snapshot,
    ) -> Writer<R> {
        let folder = data_dir.join(FOLDER_NAME);
        let now = runtime.now();
        Writer {
            path: folder.join(FILE_NAME),
            folder,
            queue,
            snapshot,
            current: None,
            rewriting: None,
            syncing: None,
            next_sync: now,
            paused_until: now,
            pause: FIRST_PAUSE,
            runtime,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            // Before the queue is looked at: what comes later triggers the new latch.
            self.queue.wakeup.replace(Default::default());
            self.begin_work();
            while let Some(batch) = self.queue.take() {
                self.write(batch).await;
            }
            if self.queue.stop.is_triggered() && self.is_done() {
                return;
            }
            match self.wait().await {
                Event::Wakeup | Event::Timer => {}
                Event::Rewritten(result) => {
                    if let Some(running) = self.rewriting.take() {
                        self.end_rewrite(*result, running).await;
                    }
                }
                Event::Synced(result) => {
                    self.syncing = None;
                    match result {
                        Ok(()) => self.queue.count(|counters| counters.syncs += 1),
                        Err(error) => self.fail("sync", &error),
                    }
                }
            }
        }
    }

    /// Whether the writer may end: all is synced, or cannot be.
    fn is_done(&self) -> bool {
        let is_idle = self.syncing.is_none() && self.rewriting.is_none();
        is_idle && self.current.as_ref().is_none_or(|current| !current.is_dirty)
    }

    fn begin_work(&mut self) {
        let now = self.runtime.now();
        let is_stopping = self.queue.stop.is_triggered();
        let is_due = now >= self.next_sync || is_stopping;
        if let Some(current) = &mut self.current
            && current.is_dirty
            && self.syncing.is_none()
            && is_due
        {
            current.is_dirty = false;
            self.next_sync = now.after(SYNC_INTERVAL);
            let file = Rc::clone(&current.file);
            self.syncing = Some(Box::pin(async move { file.sync_data().await }));
        }
        let is_long = self
            .current
            .as_ref()
            .is_none_or(|current| current.len_bytes >= current.rewrite_at_bytes);
        // A process that stops before its first rewrite keeps the file of the process before.
        let may_begin = self.rewriting.is_none() && now >= self.paused_until && !is_stopping;
        if is_long && may_begin {
            let work = rewrite(self.runtime.clone(), self.path.clone(), (self.snapshot)());
            self.rewriting =
                Some(Running { work: Box::pin(work), payloads: Vec::new(), batches: Vec::new() });
        }
    }

    async fn wait(&mut self) -> Event<R> {
        let wakeup = self.queue.wakeup.borrow().clone();
        let mut wakeup = pin!(wakeup.wait());
        let until = self.next_look();
        let mut timer = pin!(self.runtime.sleep_until(until));
        let (rewriting, syncing) = (&mut self.rewriting, &mut self.syncing);
        poll_fn(|context| {
            if let Some(running) = rewriting
                && let Poll::Ready(result) = running.work.as_mut().poll(context)
            {
                return Poll::Ready(Event::Rewritten(Box::new(result)));
            }
            if let Some(work) = syncing
                && let Poll::Ready(result) = work.as_mut().poll(context)
            {
                return Poll::Ready(Event::Synced(result));
            }
            if wakeup.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Wakeup);
            }
            timer.as_mut().poll(context).map(|()| Event::Timer)
        })
        .await
    }

    fn next_look(&self) -> Monotonic {
        let mut until = Monotonic::NEVER;
        if self.syncing.is_none() && self.current.as_ref().is_some_and(|one| one.is_dirty) {
            until = until.min(self.next_sync);
        }
        if self.rewriting.is_none() && self.current.is_none() {
            until = until.min(self.paused_until);
        }
        // An idle timer costs nothing, and a far one is no timer for some backends.
        until.min(self.runtime.now().after(Duration::from_secs(3600)))
    }

    /// Writes frames to the file, and keeps them for the file that is being made.
    async fn write(&mut self, batch: Rc<Batch>) {
        let payloads = batch.payloads.take();
        let mut is_kept = false;
        if self.current.is_none()
            && let Some(running) = &mut self.rewriting
        {
            running.payloads.extend(payloads);
            running.batches.push(batch);
            return;
        }
        if let Some(current) = &mut self.current {
            let mut bytes = Vec::new();
            payloads.iter().for_each(|payload| write_frame(current.nonce, payload, &mut bytes));
            let count = bytes.len() as u64;
            match current.file.write_all_at(bytes, current.len_bytes).await.0 {
                Ok(()) => {
                    current.len_bytes += count;
                    current.is_dirty = true;
                    is_kept = true;
                    let len_bytes = current.len_bytes;
                    self.queue.count(|counters| counters.file_bytes = len_bytes);
                }
                Err(error) => self.fail("write", &error),
            }
        }
        if let Some(running) = &mut self.rewriting {
            running.payloads.extend(payloads);
        }
        batch.is_kept.set(is_kept);
        batch.done.trigger();
    }

    async fn end_rewrite(&mut self, result: io::Result<Rewritten<R>>, running: Running<R>) {
        let swapped = match result {
            Ok(rewritten) => self.swap(rewritten, running.payloads).await,
            Err(error) => Err(error),
        };
        match &swapped {
            Ok(()) => {
                self.pause = FIRST_PAUSE;
                self.queue.count(|counters| {
                    counters.rewrites += 1;
                    counters.syncs += 1;
                });
            }
            Err(error) => self.fail("rewrite", error),
        }
        for batch in running.batches {
            batch.is_kept.set(swapped.is_ok());
            batch.done.trigger();
        }
    }

    /// Puts the new file in the place of the old one. Frames wait meanwhile, so that all that was
    /// acknowledged is in the file that has the name.
    async fn swap(&mut self, new: Rewritten<R>, payloads: Vec<Vec<u8>>) -> io::Result<()> {
        let held_bytes = new.len_bytes;
        let mut len_bytes = held_bytes;
        let mut bytes = Vec::new();
        payloads.iter().for_each(|payload| write_frame(new.nonce, payload, &mut bytes));
        if !bytes.is_empty() {
            let count = bytes.len() as u64;
            new.file.write_all_at(bytes, len_bytes).await.0?;
            len_bytes += count;
        }
        self.runtime.rename(&new.temporary, &self.path).await?;
        // The old file has no name from here on.
        self.current = Some(Current {
            file: new.file,
            nonce: new.nonce,
            len_bytes,
            rewrite_at_bytes: held_bytes.saturating_mul(2).saturating_add(REWRITE_SLACK_BYTES),
            is_dirty: len_bytes > held_bytes,
        });
        self.syncing = None;
        self.queue.count(|counters| counters.file_bytes = len_bytes);
        self.runtime.sync_dir(&self.folder).await
    }

    /// After a failed write the file may hold anything behind its last good frame, and after a
    /// failed sync it is poisoned, so it is given up. A failed rewrite leaves the file as it is.
    fn fail(&mut self, action: &str, error: &io::Error) {
        if action != "rewrite" {
            self.current = None;
            self.syncing = None;
        }
        tracing::error!(
            path = %self.path.display(),
            "cannot {action} the state of alerts; until this works, alerts lose their age at a \
             restart: {error}"
        );
        self.paused_until = self.runtime.now().after(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let file_bytes = self.current.as_ref().map_or(0, |current| current.len_bytes);
        self.queue.count(|counters| {
            counters.failures += 1;
            counters.file_bytes = file_bytes;
        });
    }
}
