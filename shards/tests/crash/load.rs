//! Clients that push to a node and keep the ledger.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::SimRuntime;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::messages::{AppendError, AppendOutcome, AppendRequest};
use logsvc_shards::types::Layout;
use logsvc_testkit::Rng;

use crate::cluster::{Cluster, ShardCaller, append_outcome, send_append, sleep};
use crate::ledger::{Entry, Ledger, Outcome};

/// The state that all clients of a seed share.
pub(crate) struct Load {
    pub(crate) ledger: RefCell<Ledger>,
    rng: RefCell<Rng>,
    next_line: Cell<u64>,
    /// Whether an acknowledgement promises durability.
    pub(crate) acknowledgement_is_durable: Cell<bool>,
    stop: Cell<bool>,
    running: Cell<u32>,
    /// Pushes that were acknowledged and that were not, over all starts.
    pub(crate) acknowledged_pushes: Cell<u64>,
    pub(crate) failed_pushes: Cell<u64>,
    /// Merges of segments, as far as they were counted before the node ended.
    pub(crate) merges: Cell<u64>,
}

/// Timestamps count from here.
const START_NS: i64 = 1_767_225_600_000_000_000;

impl Load {
    pub(crate) fn new(ledger: Ledger, seed: u64) -> Rc<Load> {
        Rc::new(Load {
            ledger: RefCell::new(ledger),
            rng: RefCell::new(Rng::new(seed)),
            next_line: Cell::new(0),
            acknowledgement_is_durable: Cell::new(true),
            stop: Cell::new(false),
            running: Cell::new(0),
            acknowledged_pushes: Cell::new(0),
            failed_pushes: Cell::new(0),
            merges: Cell::new(0),
        })
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    fn one_in(&self, count: u64) -> bool {
        self.rng.borrow_mut().one_in(count)
    }

    /// Starts clients on random cores.
    pub(crate) fn begin(self: &Rc<Self>, cluster: &Cluster<'_>, clients: u64) {
        self.stop.set(false);
        self.running.set(clients as u32);
        for _ in 0..clients {
            let core = self.below(u64::from(cluster.shards)) as u16;
            let runtime = cluster.node.runtime(CoreId(core)).clone();
            let client = Client {
                load: Rc::clone(self),
                caller: cluster.caller(core),
                layout: cluster.layout,
                runtime: runtime.clone(),
                known: RefCell::default(),
            };
            drop(runtime.spawn(client.run()));
        }
    }

    /// Lets the clients end and waits for their last answers.
    pub(crate) fn end(&self, cluster: &Cluster<'_>) {
        self.stop.set(true);
        let run = cluster.simulation.run_until(|| self.running.get() == 0);
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
    }

    /// The node has died under the clients.
    pub(crate) fn killed(&self) {
        self.running.set(0);
    }

    /// Pushes to every shard until it is stored, to prove that no restart is
    /// needed.
    ///
    /// # Panics
    /// If a shard goes on refusing.
    pub(crate) fn prove_writable(self: &Rc<Self>, cluster: &Cluster<'_>) {
        let client = Client {
            load: Rc::clone(self),
            caller: cluster.caller(0),
            layout: cluster.layout,
            runtime: cluster.node.runtime(CoreId(0)).clone(),
            known: RefCell::default(),
        };
        cluster.run(async move {
            let streams = client.load.ledger.borrow().streams.len();
            for stream in 0..streams {
                let mut attempts = 0;
                let entry = client.new_entry(stream);
                while !client.push(vec![entry.clone()], None).await {
                    attempts += 1;
                    assert!(attempts < 40, "stream {stream} is refused for good");
                    sleep(&client.runtime, Duration::from_millis(100)).await;
                }
            }
        });
    }

    /// Compares the entries that the node shows with the ledger.
    pub(crate) fn check(&self, cluster: &Cluster<'_>) {
        let ledger = self.ledger.borrow();
        for tenant in ledger.tenants() {
            ledger.check(&tenant, &cluster.everything(&tenant));
        }
    }
}

struct Client {
    load: Rc<Load>,
    caller: ShardCaller,
    layout: Layout,
    runtime: SimRuntime,
    /// Streams that were defined in this start, as far as the client knows.
    known: RefCell<Vec<usize>>,
}

impl Client {
    async fn run(self) {
        let load = &self.load;
        while !load.stop.get() {
            let entries = self.random_entries();
            let window_ns = load.one_in(3).then(|| load.below(2_000) as i64);
            if !self.push(entries, window_ns).await {
                // Give the disk some time, as clients do.
                sleep(&self.runtime, Duration::from_micros(load.below(10_000))).await;
            } else if load.one_in(2) {
                sleep(&self.runtime, Duration::from_micros(load.below(4_000))).await;
            }
        }
        load.running.set(load.running.get() - 1);
    }

    fn random_entries(&self) -> Vec<Entry> {
        let load = &self.load;
        let streams = load.ledger.borrow().streams.len() as u64;
        let mut entries = Vec::new();
        for _ in 0..=load.below(3) {
            let stream = load.below(streams) as usize;
            for _ in 0..=load.below(3) {
                let known = load.ledger.borrow().len() as u64;
                let repeated = if known > 0 && load.one_in(8) {
                    load.ledger.borrow().nth(load.below(known) as usize).cloned()
                } else {
                    None
                };
                let mut entry = repeated.unwrap_or_else(|| self.new_entry(stream));
                if load.one_in(16) {
                    // Like one that may be there, but not the same.
                    entry.metadata = vec![("other".into(), load.below(1000).to_string())];
                }
                entries.push(entry);
            }
        }
        // Runs of one stream, some of them interrupted by others.
        if load.one_in(2) {
            entries.sort_by_key(|entry| entry.stream);
        }
        entries
    }

    fn new_entry(&self, stream: usize) -> Entry {
        let load = &self.load;
        let number = load.next_line.get();
        load.next_line.set(number + 1);
        let padding = match load.below(20) {
            0 => load.below(3_000),
            1..4 => load.below(300),
            _ => load.below(20),
        };
        let mut line = format!("line {number} ").into_bytes();
        line.resize(line.len() + padding as usize, b'a' + (number % 26) as u8);
        let offset_ns = match load.below(6) {
            // Late, early, and equal to others.
            0 => number as i64 * 100 - load.below(5_000) as i64,
            1 => number as i64 / 16 * 1_600,
            _ => number as i64 * 100,
        };
        let mut metadata = Vec::new();
        if let Some(level) = ["info", "warn", "error"].get(number as usize % 4) {
            metadata.push(("level".to_owned(), (*level).to_owned()));
        }
        if load.one_in(4) {
            metadata.push(("trace".to_owned(), number.to_string()));
        }
        Entry { stream, timestamp_ns: START_NS + offset_ns, line, metadata }
    }

    /// Pushes entries, to all shards at once, and notes the outcome. Returns whether everything was
    /// stored.
    async fn push(&self, entries: Vec<Entry>, window_ns: Option<i64>) -> bool {
        let mut by_shard: BTreeMap<u16, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            let id = self.load.ledger.borrow().streams[entry.stream].id;
            by_shard.entry(self.layout.core_of(id)).or_default().push(entry);
        }
        let mut waiting = Vec::new();
        let mut all_stored = true;
        for (shard, entries) in by_shard {
            let define_all = self.load.one_in(4);
            let request = self.request(&entries, window_ns, define_all);
            entries.iter().for_each(|entry| self.load.ledger.borrow_mut().sent(entry));
            match send_append(&self.caller, shard, request) {
                Some(reply) => waiting.push((shard, entries, reply)),
                None => {
                    self.note(&entries, |_| Outcome::Refused);
                    all_stored = false;
                }
            }
        }
        for (shard, entries, reply) in waiting {
            let mut outcome = append_outcome(reply).await;
            if let Some(Err(AppendError::UnknownStream)) = outcome {
                let request = self.request(&entries, window_ns, true);
                outcome = match send_append(&self.caller, shard, request) {
                    Some(reply) => append_outcome(reply).await,
                    None => Some(Err(AppendError::Stopping)),
                };
            }
            all_stored &= self.settle(&entries, outcome);
        }
        let load = &self.load;
        let count = if all_stored { &load.acknowledged_pushes } else { &load.failed_pushes };
        count.set(count.get() + 1);
        all_stored
    }

    fn request(
        &self,
        entries: &[Entry],
        window_ns: Option<i64>,
        define_all: bool,
    ) -> AppendRequest {
        let ledger = self.load.ledger.borrow();
        let mut known = self.known.borrow_mut();
        let mut builder = BatchBuilder::new(Vec::new());
        let mut definitions = Vec::new();
        let mut open = None;
        let shares = entries.len().is_multiple_of(2);
        for entry in entries {
            if open != Some(entry.stream) {
                builder.end();
                builder.begin(ledger.streams[entry.stream].id);
                open = Some(entry.stream);
                let is_known = known.contains(&entry.stream);
                if !is_known || define_all {
                    definitions.push(ledger.streams[entry.stream].clone());
                }
                // The client may be wrong: the push that defines it may fail.
                if !is_known {
                    known.push(entry.stream);
                }
            }
            // In either form, also when it is pushed again.
            let (shared, own): (Vec<_>, Vec<_>) = (entry.metadata.iter())
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
                .partition(|(name, _)| shares && *name == b"level");
            builder.push_sharing(entry.timestamp_ns, &entry.line, &shared, own.into_iter());
        }
        AppendRequest {
            batch: builder.finish(),
            definitions,
            out_of_order_window_ns: window_ns,
            is_replayed: false,
        }
    }

    fn settle(
        &self,
        entries: &[Entry],
        outcome: Option<Result<AppendOutcome, AppendError>>,
    ) -> bool {
        let stored = Outcome::Stored {
            durable: self.load.acknowledgement_is_durable.get(),
            at_ns: self.runtime.now().0,
        };
        match outcome {
            Some(Ok(outcome)) => {
                let refused: u64 = outcome.too_far_behind.iter().map(|r| r.refused).sum();
                assert_eq!(outcome.accepted + refused, entries.len() as u64);
                let streams = &self.load.ledger.borrow().streams.clone();
                let count = |entry: &Entry| {
                    let is_same = |other: &&Entry| {
                        (other.stream, other.timestamp_ns) == (entry.stream, entry.timestamp_ns)
                    };
                    let sent = entries.iter().filter(is_same).count();
                    let refusals = outcome.too_far_behind.iter();
                    let of_stream = refusals.filter(|r| r.stream == streams[entry.stream].id);
                    let times = of_stream.flat_map(|r| &r.entries);
                    let refused = times.filter(|(ts, _)| *ts == entry.timestamp_ns).count();
                    (sent, refused)
                };
                self.note(entries, |entry| match count(entry) {
                    (_, 0) => stored,
                    (sent, refused) if sent == refused => Outcome::Refused,
                    // The push has several of that time, and not all were refused.
                    _ => Outcome::Unknown,
                });
                refused == 0
            }
            Some(Err(error)) => {
                let outcome = match error {
                    AppendError::Disk(_) => Outcome::Failed,
                    AppendError::Bucket(_) => Outcome::Unknown,
                    AppendError::Malformed(text) => panic!("{text}"),
                    AppendError::UnknownStream => panic!("all streams were defined"),
                    AppendError::Log(_) | AppendError::HeadsFull | AppendError::Stopping => {
                        Outcome::Refused
                    }
                };
                self.note(entries, |_| outcome);
                false
            }
            None => {
                self.note(entries, |_| Outcome::Unknown);
                false
            }
        }
    }

    fn note(&self, entries: &[Entry], outcome: impl Fn(&Entry) -> Outcome) {
        let mut ledger = self.load.ledger.borrow_mut();
        entries.iter().for_each(|entry| ledger.ended(entry, outcome(entry)));
    }
}
