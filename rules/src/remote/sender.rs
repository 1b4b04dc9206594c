//! Sends the samples of a tenant's log to one receiver.
//!
//! Guarantees: one request at a time, in the order of the log; nothing newer overtakes a batch that
//! has to be sent again. A batch that was begun is sent again with the same samples, after a
//! failure as well as after the end of the process. A batch is passed over only when the receiver
//! has answered, or when the log has dropped it. What can go wrong: a crash of the machine loses
//! positions of the last second; then samples that the receiver has are sent again, unchanged.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use logsvc_runtime::{File, KeyBounds, Monotonic, OpenMode, Runtime, SideQueue};

use super::answer::{Backoff, Verdict, judge};
use super::batch::{Batch, BatchInput, build};
use super::node::{Limiter, Node, Tenant};
use super::position::Position;
use super::request::Requests;
use super::state::{End, Work};
use super::wire::Version;
use crate::config::RemoteClientConfig;
use crate::notify::Connect;

/// Attempts to read a segment, after which it counts as damaged.
const READ_ATTEMPTS: u32 = 10;

/// Runs until the receiver is removed, or the node stops.
pub(super) async fn run<R: Runtime, C: Connect>(
    node: Rc<Node<R, C>>,
    tenant: Rc<Tenant>,
    key: u64,
) {
    node.senders.set(node.senders.get() + 1);
    let mut sender = Sender {
        node: Rc::clone(&node),
        tenant,
        key,
        generation: 0,
        requests: None,
        version: Version::V1,
        backoff: Backoff::default(),
        retry_at: None,
        failed_reads: 0,
        is_told: false,
        lines: Limiter::default(),
        refusals: Limiter::default(),
        last_refused: None,
    };
    sender.run().await;
    node.senders.set(node.senders.get() - 1);
    node.sender_ended.set();
}

struct Sender<R: Runtime, C: Connect> {
    node: Rc<Node<R, C>>,
    tenant: Rc<Tenant>,
    key: u64,
    /// The settings that the fields below belong to.
    generation: u64,
    requests: Option<Requests<R, C::Transport>>,
    version: Version,
    backoff: Backoff,
    retry_at: Option<Monotonic>,
    failed_reads: u32,
    /// Whether it was said that the receiver does not speak version 2.
    is_told: bool,
    lines: Limiter,
    refusals: Limiter,
    last_refused: Option<http::StatusCode>,
}

enum Step {
    /// The receiver is gone.
    End,
    /// Until a signal.
    Wait,
    /// Until a signal or a time.
    WaitUntil(Monotonic),
    Send(Work, Rc<RemoteClientConfig>),
}

impl<R: Runtime, C: Connect> Sender<R, C> {
    async fn run(&mut self) {
        let signal = match self.tenant.state.borrow_mut().receiver(self.key) {
            Some(receiver) => Rc::clone(&receiver.signal),
            None => return,
        };
        while !self.node.stop.is_triggered() {
            match self.step() {
                Step::End => return,
                Step::Wait => {
                    select(pin!(signal.wait()), self.node.stop.wait()).await;
                }
                Step::WaitUntil(at) => {
                    let signal = pin!(signal.wait());
                    let sleep = pin!(self.node.runtime.sleep_until(at));
                    select(select(signal, self.node.stop.wait()), sleep).await;
                }
                Step::Send(work, config) => self.send(work, &config).await,
            }
        }
    }

    fn step(&mut self) -> Step {
        let now = self.node.runtime.now();
        let mut state = self.tenant.state.borrow_mut();
        let Some(receiver) = state.receiver(self.key) else { return Step::End };
        if receiver.generation != self.generation {
            self.generation = receiver.generation;
            self.requests = None;
            self.version = if receiver.config.prefers_v2 { Version::V2 } else { Version::V1 };
            self.backoff.reset();
            self.retry_at = None;
            self.is_told = false;
        }
        if receiver.is_paused {
            return Step::Wait;
        }
        if let Some(at) = self.retry_at.filter(|at| now < *at) {
            return Step::WaitUntil(at);
        }
        let config = Rc::clone(&receiver.config);
        let is_due =
            receiver.repeats() || receiver.pending >= config.queue.max_samples_per_send as u64;
        let due_at = receiver.since.after(config.queue.batch_send_deadline);
        match state.work(self.key) {
            None => Step::Wait,
            Some(work) if is_due || now >= due_at => Step::Send(work, config),
            Some(_) => Step::WaitUntil(due_at),
        }
    }

    /// Reads a batch, sends it and notes what has become of it.
    async fn send(&mut self, work: Work, config: &RemoteClientConfig) {
        let bounds = KeyBounds::default();
        let Ok(ticket) = self.node.sends.enter(self.tenant.id.clone(), bounds) else { return };
        let Some(_permit) = self.unless_stopped(ticket).await else { return };
        let batch = match self.batch(work, config).await {
            Ok(Some(batch)) => batch,
            Ok(None) => return,
            Err(error) => return self.cannot_read(work, &error),
        };
        self.failed_reads = 0;
        let Some((position, missing)) = self.claim(work, &batch) else { return };
        let at = end_of(&batch, work);
        let damaged = batch.damaged + missing;
        if batch.samples == 0 {
            let end = End::Taken { sent: 0, relabelled: batch.relabelled, damaged };
            return self.resolve(end, at).await;
        }
        self.write_position(position).await;
        let (samples, relabelled) = (batch.samples, batch.relabelled);
        let newest_ms = batch.newest_ms;
        let verdict = self.ask(batch, config).await;
        let now = self.node.runtime.now();
        match verdict {
            Verdict::Taken => {
                self.backoff.reset();
                self.retry_at = None;
                self.with_numbers(|numbers| {
                    numbers.highest_sent_ms = numbers.highest_sent_ms.max(newest_ms);
                });
                self.resolve(End::Taken { sent: samples, relabelled, damaged }, at).await;
            }
            Verdict::Refused { status, reason } => {
                self.backoff.reset();
                self.retry_at = None;
                self.tell_refusal(status, &reason, samples, config);
                self.resolve(End::Failed { sent: samples, relabelled, damaged }, at).await;
            }
            Verdict::Downgrade => {
                self.version = Version::V1;
                if !std::mem::replace(&mut self.is_told, true) {
                    tracing::info!(
                        tenant = self.tenant.id.as_str(),
                        receiver = config.id,
                        "a receiver of remote write does not take version 2; it gets version 1"
                    );
                }
                self.count_retry(samples);
                self.resolve(End::Again, at).await;
            }
            Verdict::Retry { reason, pause } => {
                self.retry_at = Some(self.backoff.next(now, &config.queue, pause));
                self.count_retry(samples);
                if let Some(requests) = self.lines.count(now, 1) {
                    tracing::warn!(
                        tenant = self.tenant.id.as_str(),
                        receiver = config.id,
                        requests,
                        samples,
                        "samples cannot be sent to a receiver of remote write and are sent again \
                         later: {reason}"
                    );
                }
                self.resolve(End::Again, at).await;
            }
        }
    }

    /// The output, unless the node stops before.
    async fn unless_stopped<O>(&self, future: impl Future<Output = O>) -> Option<O> {
        match select(pin!(future), self.node.stop.wait()).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// The next batch; `None` if the node stops.
    async fn batch(&self, work: Work, config: &RemoteClientConfig) -> io::Result<Option<Batch>> {
        let Ok(ticket) = self.node.builds.enter(self.tenant.id.clone(), KeyBounds::default())
        else {
            return Ok(None);
        };
        let Some(_permit) = self.unless_stopped(ticket).await else { return Ok(None) };
        let bytes =
            if self.failed_reads >= READ_ATTEMPTS { Vec::new() } else { self.read(work).await? };
        let input = {
            let mut state = self.tenant.state.borrow_mut();
            let Some(receiver) = state.receiver(self.key) else { return Ok(None) };
            BatchInput {
                bytes,
                from: (work.place.offset, work.place.index),
                until: receiver.position.under_way,
                max_samples: config.queue.max_samples_per_send,
                version: self.version,
                relabeller: receiver.relabeller.clone(),
            }
        };
        Ok(Some(self.node.runtime.offload_to(SideQueue::Upkeep, move || build(input)).await))
    }

    /// The segment up to the length that the log knows, or less if its file is shorter.
    async fn read(&self, work: Work) -> io::Result<Vec<u8>> {
        let path = self.tenant.segment_path(work.place.segment);
        let file = self.node.runtime.open(&path, OpenMode::Read).await?;
        let len_bytes = usize::try_from(work.len_bytes).map_err(io::Error::other)?;
        let (result, bytes) = file.read_exact_at(Vec::new(), 0, len_bytes).await;
        match result {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(bytes),
        }
    }

    fn cannot_read(&mut self, work: Work, error: &io::Error) {
        let now = self.node.runtime.now();
        let is_there = {
            let state = self.tenant.state.borrow();
            state.segments.iter().any(|meta| meta.number == work.place.segment)
        };
        if !is_there {
            // The log has dropped it meanwhile.
            return;
        }
        self.failed_reads += 1;
        self.retry_at =
            Some(self.backoff.next(now, &crate::config::RemoteQueueConfig::default(), None));
        if self.lines.count(now, 1).is_some() {
            tracing::error!(
                tenant = self.tenant.id.as_str(), %error,
                "cannot read samples that wait for remote write; this is tried again"
            );
        }
    }

    /// Notes that the batch is being sent, unless the log has dropped it. Gives the record for the
    /// file, and how many samples the segment should have had besides.
    fn claim(&self, work: Work, batch: &Batch) -> Option<(Position, u64)> {
        let mut state = self.tenant.state.borrow_mut();
        let receiver = state.receiver(self.key)?;
        if receiver.position.place != work.place {
            return None;
        }
        let missing = if batch.is_segment_end {
            work.samples.saturating_sub(receiver.passed + batch.passed)
        } else {
            0
        };
        let position = state.claim(self.key, batch.passed + missing, end_of(batch, work))?;
        Some((position, missing))
    }

    async fn resolve(&self, end: End, at: (u32, u32)) {
        let now = self.node.runtime.now();
        let position = self.tenant.state.borrow_mut().resolve(self.key, end, at, now);
        if let Some(position) = position {
            self.write_position(position).await;
        }
    }

    /// Sends a request.
    async fn ask(&mut self, batch: Batch, config: &RemoteClientConfig) -> Verdict {
        let runtime = self.node.runtime.clone();
        let adds_org_id = {
            let mut state = self.tenant.state.borrow_mut();
            state.receiver(self.key).is_some_and(|receiver| receiver.adds_org_id)
        };
        if self.requests.is_none() {
            let made = Requests::new(&runtime, &self.node.connect, config).await;
            match made {
                Ok(requests) => self.requests = Some(requests),
                Err(reason) => return Verdict::Retry { reason, pause: None },
            }
        }
        let Some(requests) = &self.requests else {
            return Verdict::Retry { reason: String::new(), pause: None };
        };
        let org_id = adds_org_id.then_some(&self.tenant.id);
        let (samples, len_bytes) = (batch.samples, batch.body.len() as u64);
        self.with_numbers(|numbers| {
            numbers.samples_sent += samples;
            numbers.sent_bytes += len_bytes;
        });
        let begun = runtime.now();
        let answer = match requests.send(self.version, batch.body, config, org_id).await {
            Ok(answer) => answer,
            Err(reason) => return Verdict::Retry { reason, pause: None },
        };
        let took = runtime.now().since(begun);
        self.with_numbers(|numbers| numbers.observe(took));
        judge(self.version, &answer, &config.queue, runtime.unix_nanos())
    }

    fn with_numbers(&self, change: impl FnOnce(&mut crate::remote_numbers::ReceiverNumbers)) {
        if let Some(receiver) = self.tenant.state.borrow_mut().receiver(self.key) {
            change(&mut receiver.numbers);
        }
    }

    fn count_retry(&self, samples: u64) {
        self.with_numbers(|numbers| numbers.samples_retried += samples);
    }

    /// A line for the first refusal with a status, then one a minute.
    fn tell_refusal(
        &mut self,
        status: http::StatusCode,
        reason: &str,
        samples: u64,
        config: &RemoteClientConfig,
    ) {
        let now = self.node.runtime.now();
        if self.last_refused.replace(status) != Some(status) {
            self.refusals = Limiter::default();
        }
        if let Some(samples) = self.refusals.count(now, samples) {
            tracing::error!(
                tenant = self.tenant.id.as_str(),
                receiver = config.id,
                samples,
                status = status.as_u16(),
                "samples are given up because a receiver of remote write refuses them: {reason}"
            );
        }
    }

    /// Writes a record into the older slot of the receiver's file. Without it the receiver would
    /// get more samples again after a crash, so a failure stops nothing.
    async fn write_position(&self, position: Position) {
        let path = {
            let mut state = self.tenant.state.borrow_mut();
            let Some(receiver) = state.receiver(self.key) else { return };
            self.tenant.position_path(&receiver.config.id)
        };
        let (at, bytes) = position.encode();
        let written = async {
            let file = self.node.runtime.open(&path, OpenMode::ReadWrite).await?;
            file.write_all_at(bytes.to_vec(), at as u64).await.0
        };
        if let Err(error) = written.await
            && self.lines.count(self.node.runtime.now(), 1).is_some()
        {
            tracing::error!(
                tenant = self.tenant.id.as_str(), %error,
                "cannot write down what a receiver of remote write has"
            );
        }
    }
}

/// Offset and index of a batch's end.
fn end_of(batch: &Batch, work: Work) -> (u32, u32) {
    if batch.is_segment_end {
        (u32::try_from(work.len_bytes).unwrap_or(u32::MAX), 0)
    } else {
        batch.end
    }
}
