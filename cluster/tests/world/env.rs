//! Everything but the processes: time, chance, the bucket, the network, and the ledger.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;

use logsvc_cluster::asker::AskReply;
use logsvc_cluster::map::{Ends, Epoch, Partition};
use logsvc_cluster::member::{CreateOutcome, ReadOutcome};
use logsvc_cluster::router::PushReply;
use logsvc_testkit::Rng;

use super::Mutant;
use super::ledger::{Ledger, Tally};
use super::store::{Copy, Edit, Put, Store};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;

/// What a process is told.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Tick,
    Hint,
    Work,
    Leave,
    MapRead { number: u64, outcome: ReadOutcome },
    MapCreated { number: u64, outcome: CreateOutcome },
    FenceDone { epoch: Epoch, ends: Option<Ends> },
    FlushWal,
    WalDone { put: Put },
    EditDone { put: Put },
    Recover { partition: Partition, since: u64, from: BTreeSet<Epoch> },
    ClientPush { id: u64, partition: Partition },
    ClientQuery { query: u64, partitions: Vec<Partition> },
    Push { from: Epoch, task: u64, attempt: u64, id: u64, partition: Partition, number: u64 },
    PushReply { task: u64, attempt: u64, reply: PushReply },
    PushTimer { task: u64 },
    Ask { from: Epoch, task: u64, partitions: Vec<Partition>, number: u64 },
    AskReply { task: u64, from: Epoch, by: u64, reply: AskReply<Vec<Copy>> },
    AskTimer { task: u64 },
}

/// A request to the bucket.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    ReadMap(u64),
    CreateMap(u64, Rc<Vec<u8>>),
    Fence(Epoch),
    FenceWal(Epoch),
    Edit(u64, Rc<Edit>),
    Wal(u64, Rc<Vec<Copy>>),
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    To(Epoch, Message),
    /// A request arrives; whether its answer is lost.
    AtStore {
        from: Epoch,
        request: Request,
        is_lost: bool,
    },
    Resume(Epoch),
    Start(usize),
    ClientPush {
        id: u64,
    },
    Query,
    Fault,
}

/// One machine: its clock and its links.
pub(crate) struct Machine {
    pub(crate) offset: u64,
    /// Nanoseconds of its clock per thousand of the world.
    pub(crate) rate: u64,
    pub(crate) process: Option<Epoch>,
    /// No request to the bucket comes through before this time.
    pub(crate) no_store_until: u64,
    /// No client comes through before this time, and no answer to one.
    pub(crate) no_clients_until: u64,
    pub(crate) is_wanted: bool,
    /// Whether a process on it may be a guest.
    pub(crate) has_guests: bool,
}

impl Machine {
    pub(crate) fn local(&self, now: u64) -> u64 {
        self.offset + (u128::from(now) * u128::from(self.rate) / 1000) as u64
    }

    /// The first time of the world at which the clock shows at least `local`.
    pub(crate) fn world(&self, local: u64) -> u64 {
        let elapsed = local.saturating_sub(self.offset);
        (u128::from(elapsed) * 1000).div_ceil(u128::from(self.rate)).try_into().unwrap_or(u64::MAX)
    }
}

pub(crate) struct Env {
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) store: Store,
    pub(crate) machines: Vec<Machine>,
    /// Which machine a process runs on.
    pub(crate) homes: BTreeMap<Epoch, usize>,
    pub(crate) paused: BTreeSet<Epoch>,
    /// Until when messages from one machine to another are lost.
    pub(crate) cuts: BTreeMap<(usize, usize), u64>,
    pub(crate) lies_until: u64,
    /// A process that lives, and that hints call dead while they lie; without one they say anything.
    pub(crate) victim: Option<Epoch>,
    pub(crate) heal_at: u64,
    pub(crate) ledger: Ledger,
    pub(crate) tally: Tally,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) fault: Option<String>,
    pub(crate) partitions: Partition,
    /// Everything but the network and the bucket is fast, so that changes follow each other closely.
    pub(crate) is_quick: bool,
    /// Processes notice the ends of others before membership does.
    pub(crate) notices_ends: bool,
    pub(crate) is_at_rest: bool,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    sequence: u64,
}

impl Env {
    pub(crate) fn new(seed: u64, partitions: Partition, mutant: Option<Mutant>) -> Env {
        Env {
            now: SECOND,
            rng: Rng::new(seed),
            store: Store::default(),
            machines: Vec::new(),
            homes: BTreeMap::new(),
            paused: BTreeSet::new(),
            cuts: BTreeMap::new(),
            lies_until: 0,
            victim: None,
            heal_at: u64::MAX,
            ledger: Ledger::default(),
            tally: Tally::default(),
            mutant,
            fault: None,
            partitions,
            is_quick: false,
            notices_ends: false,
            is_at_rest: false,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
        }
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(crate) fn is_faulty(&self) -> bool {
        self.now < self.heal_at
    }

    pub(crate) fn unique(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Notes what is wrong; the run ends.
    pub(crate) fn wrong(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        let number = self.unique();
        self.queue.push(Reverse((time.max(self.now), number)));
        self.events.insert(number, event);
    }

    pub(crate) fn after(&mut self, min: u64, max: u64, event: Event) {
        let pause = self.rng.between(min, max);
        self.at(self.now + pause, event);
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        let Reverse((time, number)) = self.queue.pop()?;
        self.now = time;
        self.events.remove(&number)
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|until| *until > self.now)
    }

    /// Whether messages go both ways.
    pub(crate) fn is_reachable(&self, from: Epoch, to: Epoch) -> bool {
        match (self.homes.get(&from), self.homes.get(&to)) {
            (Some(a), Some(b)) => !self.is_cut(*a, *b) && !self.is_cut(*b, *a),
            _ => false,
        }
    }

    /// Whether clients reach a process.
    pub(crate) fn has_clients(&self, process: Epoch) -> bool {
        let home = self.homes.get(&process).and_then(|home| self.machines.get(*home));
        home.is_some_and(|machine| machine.no_clients_until <= self.now)
    }

    /// A message between processes: it comes late, or never.
    pub(crate) fn send(&mut self, from: Epoch, to: Epoch, message: Message) {
        let (Some(a), Some(b)) = (self.homes.get(&from), self.homes.get(&to)) else { return };
        let is_lost = self.is_faulty() && self.rng.one_in(50);
        if from != to && (self.is_cut(*a, *b) || is_lost) {
            return;
        }
        let slowest = if self.is_faulty() && self.rng.one_in(20) { 2_500 } else { 8 };
        self.after(MS / 4, slowest * MS, Event::To(to, message));
    }

    /// A request to the bucket: it fails before or after it has come true, or comes true long after
    /// its sender was told nothing.
    pub(crate) fn request(&mut self, from: Epoch, request: Request) {
        let Some(home) = self.homes.get(&from) else { return };
        let is_out = self.machines.get(*home).is_some_and(|it| it.no_store_until > self.now);
        let slowest = if self.is_faulty() && self.rng.one_in(12) { 1_500 } else { 40 };
        if !self.is_faulty() {
            return self.after(
                2 * MS,
                slowest * MS,
                Event::AtStore { from, request, is_lost: false },
            );
        }
        let chance = self.rng.below(100);
        if is_out || chance < 3 {
            // Nothing comes of it, or much later.
            if self.rng.one_in(3) {
                let late = Event::AtStore { from, request: request.clone(), is_lost: true };
                self.after(SECOND, 40 * SECOND, late);
            }
            let told = self.unknown(&request);
            return self.after(100 * MS, 2 * SECOND, Event::To(from, told));
        }
        let is_lost = chance < 8;
        if is_lost {
            let told = self.unknown(&request);
            self.after(20 * MS, 2 * SECOND, Event::To(from, told));
        }
        self.after(2 * MS, slowest * MS, Event::AtStore { from, request, is_lost });
    }

    fn unknown(&mut self, request: &Request) -> Message {
        match request {
            Request::ReadMap(number) => {
                Message::MapRead { number: *number, outcome: ReadOutcome::Failed }
            }
            Request::CreateMap(number, _) => {
                self.tally.unknown_maps += 1;
                // A store says "there is one already" for "try again", too.
                let is_taken = self.rng.one_in(4);
                let hint = if is_taken { CreateOutcome::Taken } else { CreateOutcome::Unknown };
                Message::MapCreated { number: *number, outcome: self.hint(hint) }
            }
            Request::Fence(epoch) | Request::FenceWal(epoch) => {
                Message::FenceDone { epoch: *epoch, ends: None }
            }
            Request::Edit(..) => Message::EditDone { put: Put::Unknown },
            Request::Wal(..) => {
                self.tally.unknown_wals += 1;
                Message::WalDone { put: Put::Unknown }
            }
        }
    }

    fn hint(&self, outcome: CreateOutcome) -> CreateOutcome {
        let believes = self.is(Mutant::TakenIsMine) && outcome == CreateOutcome::Taken;
        if believes { CreateOutcome::Created } else { outcome }
    }

    /// A request comes true.
    pub(crate) fn arrive(&mut self, from: Epoch, request: Request, is_lost: bool) {
        if !self.homes.contains_key(&from) && !matches!(request, Request::ReadMap(_)) {
            self.tally.requests_of_the_dead += 1;
        }
        let told = match request {
            Request::ReadMap(number) => {
                let bytes = self.store.map(number).map(|bytes| bytes.as_ref().clone());
                let outcome = bytes.map_or(ReadOutcome::Absent, ReadOutcome::Entry);
                Message::MapRead { number, outcome }
            }
            Request::CreateMap(number, bytes) => {
                let is_new = match self.store.create_map(number, &bytes) {
                    Ok(is_new) => is_new,
                    Err(what) => return self.wrong(what),
                };
                if is_new {
                    self.ledger.map_created(&bytes, &mut self.tally, self.now);
                    if is_lost {
                        self.tally.lost_answers_of_maps += 1;
                    }
                } else {
                    self.tally.lost_races += 1;
                }
                let hint = if is_new { CreateOutcome::Created } else { CreateOutcome::Taken };
                Message::MapCreated { number, outcome: self.hint(hint) }
            }
            Request::Fence(epoch) => {
                if self.is(Mutant::ClaimBeforeFence) {
                    let ends = Some(self.store.ends_without_fence(epoch));
                    Message::FenceDone { epoch, ends }
                } else {
                    self.tally.fences_found += u64::from(self.store.fence_log(epoch));
                    // The second part may be lost, like any request.
                    if !is_lost {
                        return self.request(from, Request::FenceWal(epoch));
                    }
                    return;
                }
            }
            Request::FenceWal(epoch) => {
                self.tally.fences += 1;
                Message::FenceDone { epoch, ends: Some(self.store.fence_wal(epoch)) }
            }
            Request::Edit(number, edit) => {
                Message::EditDone { put: self.store.create_edit(from, number, &edit) }
            }
            Request::Wal(number, copies) => {
                Message::WalDone { put: self.store.create_wal(from, number, &copies) }
            }
        };
        if !is_lost {
            self.after(MS, 20 * MS, Event::To(from, told));
        }
    }
}
