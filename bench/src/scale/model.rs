//! The write path as a queueing network, in simulated time.
//!
//! A core does one thing at a time, in order of arrival. A push costs its front CPU time
//! by its bytes; each shard that it touches gets a message; the shard copies the batch to
//! the frame of its log and commits if no commit is under way; the disk takes commits in
//! the order in which they come, each for its share of what the disk can do, and answers
//! after its latency; then the shard appends to its heads and answers, and the push ends
//! with the last answer. Sealing takes the CPU time that is left, and pushes wait while a
//! shard has more to seal than a bound.
//!
//! Nothing is random besides the bodies: each connection starts with another one.

use anyhow::{Result, bail};
use clap::Args;
use logsvc_proto::StreamId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What the parts cost.
#[derive(Args, Clone, Debug)]
pub(crate) struct Costs {
    /// CPU-seconds of the front per raw GB: receive, decompress, check, write batches
    #[arg(long, default_value_t = 3.0)]
    pub(crate) front_cpu: f64,
    /// CPU-seconds of the shard per raw GB until the answer: log and heads
    #[arg(long, default_value_t = 1.5)]
    pub(crate) shard_cpu: f64,
    /// CPU-seconds per raw GB of sealing
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seal_cpu: f64,
    /// Raw MB that a shard may have to seal before its pushes wait
    #[arg(long, default_value_t = 64.0)]
    pub(crate) seal_backlog: f64,
    /// CPU microseconds of a message, on the core that gets it
    #[arg(long, default_value_t = 1.0)]
    pub(crate) message_us: f64,
    /// CPU microseconds of waking a core that waits, on that core
    #[arg(long, default_value_t = 5.0)]
    pub(crate) wake_up_us: f64,
    /// Latency of a durable write, in microseconds
    #[arg(long, default_value_t = 100.0)]
    pub(crate) commit_us: f64,
    /// Durable writes that the disk ends in a second, over all queues
    #[arg(long, default_value_t = 100_000.0)]
    pub(crate) commits_per_second: f64,
    /// MB that the disk writes in a second
    #[arg(long, default_value_t = 3000.0)]
    pub(crate) disk_mb_per_second: f64,
}

impl Costs {
    /// Refuses numbers that mean nothing.
    pub(super) fn check(&self) -> Result<()> {
        let costs = [
            self.front_cpu,
            self.shard_cpu,
            self.seal_cpu,
            self.message_us,
            self.wake_up_us,
            self.commit_us,
        ];
        let rates = [self.seal_backlog, self.commits_per_second, self.disk_mb_per_second];
        let is_cost = |cost: &f64| (0.0..1e9).contains(cost);
        if !costs.iter().all(is_cost) || !rates.iter().all(|rate| is_cost(rate) && *rate > 0.0) {
            bail!("costs must be numbers from zero on, and rates above zero");
        }
        Ok(())
    }
}

/// Simulated nanoseconds.
type Nanos = u64;

fn nanos_of(bytes: u64, cpu_seconds_per_gb: f64) -> Nanos {
    // Seconds per 10^9 bytes are nanoseconds per byte.
    (bytes as f64 * cpu_seconds_per_gb) as Nanos
}

/// Bytes by stream.
pub(crate) struct Body {
    pub(super) streams: Vec<(StreamId, u64)>,
}

impl Body {
    fn bytes_by_shard(&self, shards: u16) -> BTreeMap<u16, u64> {
        let mut by_shard = BTreeMap::new();
        for (stream, bytes) in &self.streams {
            *by_shard.entry(stream.shard(shards)).or_default() += bytes;
        }
        by_shard
    }
}

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    nanos: Nanos,
    raw_bytes: u64,
    pushes: u64,
    batches: u64,
    pub(super) messages: u64,
    pub(super) wake_ups: u64,
    pub(super) commits: u64,
    /// Of every push, sorted.
    latencies: Vec<Nanos>,
    busy: Vec<Nanos>,
    disk_nanos: Nanos,
}

impl Outcome {
    pub(super) fn megabytes(&self) -> f64 {
        self.raw_bytes as f64 / 1e6
    }

    pub(super) fn mb_per_second(&self) -> f64 {
        self.raw_bytes as f64 * 1e3 / self.nanos.max(1) as f64
    }

    pub(super) fn shards_per_body(&self) -> f64 {
        self.batches as f64 / self.pushes.max(1) as f64
    }

    pub(super) fn latency_ms(&self, quantile: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * quantile).round() as usize;
        self.latencies.get(at).map_or(0.0, |&nanos| nanos as f64 / 1e6)
    }

    pub(super) fn busiest_to_mean(&self) -> f64 {
        let most = self.busy.iter().copied().max().unwrap_or(0);
        let all: Nanos = self.busy.iter().sum();
        most as f64 * self.busy.len() as f64 / all.max(1) as f64
    }

    pub(super) fn disk_busy(&self) -> f64 {
        self.disk_nanos as f64 / self.nanos.max(1) as f64
    }
}

/// A piece of work for a core.
#[derive(Clone, Copy)]
enum Job {
    /// A body has come.
    Front { push: usize },
    /// A batch for this shard has come.
    Append { push: usize, bytes: u64 },
    /// The commit of this shard has ended.
    Apply,
    /// A shard has answered.
    Answer { push: usize },
    /// Sealing of so many bytes.
    Seal { bytes: u64 },
}

/// Bytes that are sealed before other work is looked at again: sealing has threads of its
/// own, which give way at once.
const SEAL_STEP_BYTES: u64 = 16 << 10;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    CoreDone(u16),
    CommitDone(u16),
}

#[derive(Default)]
struct Core {
    queue: VecDeque<(Job, Nanos)>,
    /// What it does now.
    running: Option<Job>,
    busy: Nanos,
    /// Batches that wait for the next commit, and bytes of them.
    waiting: Vec<(usize, u64)>,
    /// Batches of the commit under way.
    committing: Vec<(usize, u64)>,
    unsealed_bytes: u64,
    /// Batches that wait until something is sealed.
    held_back: VecDeque<(usize, u64)>,
}

struct Push {
    connection: usize,
    began: Nanos,
    bytes: u64,
    answers_missing: usize,
}

struct Model<'a> {
    costs: &'a Costs,
    bodies: Vec<BTreeMap<u16, u64>>,
    cores: Vec<Core>,
    pushes: Vec<Push>,
    pushes_wanted: usize,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    /// Keeps events of one moment in the order in which they were made.
    event_count: u64,
    now: Nanos,
    disk_free_at: Nanos,
    outcome: Outcome,
}

/// Pushes `pushes` bodies over so many connections, each of which sends the next body
/// when the one before is answered.
pub(super) fn run(
    costs: &Costs,
    bodies: &[Body],
    cores: u16,
    connections: usize,
    pushes: usize,
) -> Outcome {
    let mut model = Model {
        costs,
        bodies: bodies.iter().map(|body| body.bytes_by_shard(cores)).collect(),
        cores: (0..cores).map(|_| Core::default()).collect(),
        pushes: Vec::with_capacity(pushes),
        pushes_wanted: pushes,
        events: BinaryHeap::new(),
        event_count: 0,
        now: 0,
        disk_free_at: 0,
        outcome: Outcome::default(),
    };
    for connection in 0..connections {
        model.send(connection);
    }
    while let Some(Reverse((at, _, event))) = model.events.pop() {
        model.now = at;
        match event {
            Event::CoreDone(core) => model.core_done(core),
            Event::CommitDone(core) => model.give(core, Job::Apply, true),
        }
    }
    let mut outcome = model.outcome;
    outcome.latencies.sort_unstable();
    outcome.busy = model.cores.iter().map(|core| core.busy).collect();
    outcome
}

impl Model<'_> {
    fn at(&mut self, after: Nanos, event: Event) {
        self.event_count += 1;
        self.events.push(Reverse((self.now + after, self.event_count, event)));
    }

    /// A connection sends its next body, if there is one left.
    fn send(&mut self, connection: usize) {
        let push = self.pushes.len();
        if push == self.pushes_wanted {
            return;
        }
        let body = &self.bodies[push % self.bodies.len()];
        let (bytes, shards) = (body.values().sum(), body.len());
        self.pushes.push(Push { connection, began: self.now, bytes, answers_missing: shards });
        let core = (connection % self.cores.len()) as u16;
        self.give(core, Job::Front { push }, true);
    }

    /// Gives a core something to do. `is_message` if it comes from elsewhere, so that a
    /// core that waits has to be woken for it.
    fn give(&mut self, core: u16, job: Job, is_message: bool) {
        let target = &mut self.cores[usize::from(core)];
        let is_idle = target.running.is_none() && target.queue.is_empty();
        let mut cost = self.cost_of(core, job);
        if is_message {
            if is_idle {
                self.outcome.wake_ups += 1;
                cost += (self.costs.wake_up_us * 1e3) as Nanos;
            }
            if matches!(job, Job::Append { .. } | Job::Answer { .. }) {
                self.outcome.messages += 1;
                cost += (self.costs.message_us * 1e3) as Nanos;
            }
        }
        let target = &mut self.cores[usize::from(core)];
        // Sealing has the lowest priority.
        let sealing =
            target.queue.iter().rev().take_while(|(job, _)| matches!(job, Job::Seal { .. }));
        let behind = target.queue.len() - sealing.count();
        let place = if matches!(job, Job::Seal { .. }) { target.queue.len() } else { behind };
        target.queue.insert(place, (job, cost));
        self.start_next(core);
    }

    fn cost_of(&self, core: u16, job: Job) -> Nanos {
        let half_of_shard = self.costs.shard_cpu / 2.0;
        match job {
            Job::Front { push } => nanos_of(self.pushes[push].bytes, self.costs.front_cpu),
            Job::Append { bytes, .. } => nanos_of(bytes, half_of_shard),
            Job::Apply => {
                let committing = &self.cores[usize::from(core)].committing;
                nanos_of(committing.iter().map(|(_, bytes)| bytes).sum(), half_of_shard)
            }
            Job::Answer { .. } => 0,
            Job::Seal { bytes } => nanos_of(bytes, self.costs.seal_cpu),
        }
    }

    fn start_next(&mut self, core: u16) {
        let target = &mut self.cores[usize::from(core)];
        if target.running.is_some() {
            return;
        }
        if let Some((job, cost)) = target.queue.pop_front() {
            target.running = Some(job);
            target.busy += cost;
            self.at(cost, Event::CoreDone(core));
        }
    }

    fn core_done(&mut self, core: u16) {
        if let Some(job) = self.cores[usize::from(core)].running.take() {
            match job {
                Job::Front { push } => {
                    let body = self.bodies[push % self.bodies.len()].clone();
                    for (shard, bytes) in body {
                        self.outcome.batches += 1;
                        self.give(shard, Job::Append { push, bytes }, true);
                    }
                }
                Job::Append { push, bytes } => self.append(core, push, bytes),
                Job::Apply => self.apply(core),
                Job::Answer { push } => self.answer(push),
                Job::Seal { bytes } => self.sealed(core, bytes),
            }
        }
        self.start_next(core);
    }

    fn append(&mut self, core: u16, push: usize, bytes: u64) {
        let backlog_bytes = (self.costs.seal_backlog * 1e6) as u64;
        let shard = &mut self.cores[usize::from(core)];
        if shard.unsealed_bytes >= backlog_bytes {
            shard.held_back.push_back((push, bytes));
            return;
        }
        shard.waiting.push((push, bytes));
        self.commit(core);
    }

    /// Begins a commit with all that waits, unless one is under way.
    fn commit(&mut self, core: u16) {
        let shard = &mut self.cores[usize::from(core)];
        if !shard.committing.is_empty() || shard.waiting.is_empty() {
            return;
        }
        shard.committing = std::mem::take(&mut shard.waiting);
        let bytes: u64 = shard.committing.iter().map(|(_, bytes)| bytes).sum();
        let transfer = bytes as f64 * 1e3 / self.costs.disk_mb_per_second;
        let share = (1e9 / self.costs.commits_per_second).max(transfer) as Nanos;
        let begin = self.disk_free_at.max(self.now);
        self.disk_free_at = begin + share;
        self.outcome.disk_nanos += share;
        self.outcome.commits += 1;
        let latency = (self.costs.commit_us * 1e3) as Nanos;
        self.at(self.disk_free_at - self.now + latency, Event::CommitDone(core));
    }

    fn apply(&mut self, core: u16) {
        let shard = &mut self.cores[usize::from(core)];
        let committed = std::mem::take(&mut shard.committing);
        let bytes: u64 = committed.iter().map(|(_, bytes)| bytes).sum();
        shard.unsealed_bytes += bytes;
        self.commit(core);
        for (push, _) in committed {
            let front = (self.pushes[push].connection % self.cores.len()) as u16;
            self.give(front, Job::Answer { push }, true);
        }
        let mut left = bytes;
        while left > 0 {
            let step = left.min(SEAL_STEP_BYTES);
            self.give(core, Job::Seal { bytes: step }, false);
            left -= step;
        }
    }

    fn sealed(&mut self, core: u16, bytes: u64) {
        let backlog_bytes = (self.costs.seal_backlog * 1e6) as u64;
        let shard = &mut self.cores[usize::from(core)];
        shard.unsealed_bytes -= bytes;
        if shard.unsealed_bytes < backlog_bytes && !shard.held_back.is_empty() {
            shard.waiting.extend(std::mem::take(&mut shard.held_back));
            self.commit(core);
        }
    }

    fn answer(&mut self, push: usize) {
        let pushed = &mut self.pushes[push];
        pushed.answers_missing -= 1;
        if pushed.answers_missing > 0 {
            return;
        }
        let connection = pushed.connection;
        self.outcome.pushes += 1;
        self.outcome.raw_bytes += pushed.bytes;
        self.outcome.latencies.push(self.now - pushed.began);
        // What is sealed behind the last answer is not waited for.
        self.outcome.nanos = self.now;
        self.send(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_proto::{Labels, TenantId};

    fn costs() -> Costs {
        Costs {
            front_cpu: 3.0,
            shard_cpu: 2.0,
            seal_cpu: 5.0,
            seal_backlog: 1e6,
            message_us: 0.0,
            wake_up_us: 0.0,
            commit_us: 100.0,
            commits_per_second: 1e6,
            disk_mb_per_second: 1e6,
        }
    }

    fn bodies(count: usize, streams: usize) -> Vec<Body> {
        let tenant = TenantId::new("t").unwrap();
        let stream = |number: usize| {
            let labels = Labels::from_pairs([("number", number.to_string())]).unwrap();
            (StreamId::new(&tenant, &labels), 1_000_000 / streams as u64)
        };
        let body =
            |at: usize| Body { streams: (at * streams..(at + 1) * streams).map(stream).collect() };
        (0..count).map(body).collect()
    }

    #[test]
    fn one_push_takes_the_sum_of_its_parts() {
        let outcome = run(&costs(), &bodies(1, 1), 1, 1, 1);
        // 3 ms in front, 1 ms before and 1 ms behind the commit, which takes 0.1 ms and
        // a microsecond for the disk.
        assert!((outcome.latency_ms(0.5) - 5.101).abs() < 1e-6, "{outcome:?}");
        assert_eq!((outcome.pushes, outcome.commits, outcome.raw_bytes), (1, 1, 1_000_000));
    }

    #[test]
    fn every_push_is_answered_once() {
        for cores in [1, 3, 8] {
            let outcome = run(&costs(), &bodies(7, 10), cores, 5, 100);
            assert_eq!((outcome.pushes, outcome.raw_bytes), (100, 100_000_000));
            assert_eq!(outcome.latencies.len(), 100);
            // A message to each shard and one back.
            assert_eq!(outcome.messages, 2 * outcome.batches);
        }
    }

    #[test]
    fn the_cpu_bounds_one_core() {
        // 3 + 2 + 5 CPU-seconds per GB; pushes wait for sealing.
        let few = Costs { seal_backlog: 2.0, ..costs() };
        let outcome = run(&few, &bodies(7, 10), 1, 8, 1000);
        assert!((95.0..105.0).contains(&outcome.mb_per_second()), "{}", outcome.mb_per_second());
        assert!(outcome.busiest_to_mean() == 1.0);
    }

    #[test]
    fn the_disk_bounds_many_cores() {
        let slow = Costs { disk_mb_per_second: 100.0, ..costs() };
        let outcome = run(&slow, &bodies(50, 20), 16, 64, 1000);
        assert!((95.0..101.0).contains(&outcome.mb_per_second()), "{}", outcome.mb_per_second());
        assert!(outcome.disk_busy() > 0.98);
    }

    #[test]
    fn load_joins_commits_and_saves_wake_ups() {
        let bodies = bodies(50, 20);
        let idle = run(&costs(), &bodies, 8, 1, 400);
        let busy = run(&costs(), &bodies, 8, 32, 400);
        assert!(busy.commits < idle.commits, "{} {}", busy.commits, idle.commits);
        assert!(busy.wake_ups < idle.wake_ups / 2, "{} {}", busy.wake_ups, idle.wake_ups);
    }
}
