//! The model of the storage engine of a process: write-ahead log, heads, segments, recovery.

use std::collections::BTreeMap;
use std::rc::Rc;

use logsvc_cluster::map::Partition;
use logsvc_cluster::member::{Accept, Input};
use logsvc_cluster::router::PushReply;

use super::Mutant;
use super::env::{Env, Event, MS, Message, Request};
use super::process::{Accepted, Process};
use super::store::{Copy, Edit, Put, Segment};

impl Process {
    /// Takes an entry that may be accepted.
    pub(crate) fn accept(&mut self, env: &mut Env, accepted: Accepted) {
        if env.is(Mutant::AcknowledgeBeforeWal) {
            env.ledger.acknowledged(accepted.id, accepted.partition, env.now);
            self.confirm(env, &accepted);
        }
        self.wal_queue.push(accepted);
        if !self.wal_timer {
            self.wal_timer = true;
            env.after(5 * MS, 60 * MS, Event::To(self.me, Message::FlushWal));
        }
    }

    fn confirm(&mut self, env: &mut Env, accepted: &Accepted) {
        let (task, attempt) = (accepted.task, accepted.attempt);
        let reply = Message::PushReply { task, attempt, reply: PushReply::Stored };
        env.send(self.me, accepted.from, reply);
    }

    pub(crate) fn flush_wal(&mut self, env: &mut Env) {
        self.wal_timer = false;
        if self.wal_flight.is_some() || self.wal_queue.is_empty() {
            return;
        }
        let accepted = std::mem::take(&mut self.wal_queue);
        let copies = accepted.iter().zip(0..);
        let copies = copies.map(|(accepted, place)| Copy {
            id: accepted.id,
            partition: accepted.partition,
            at: (self.me, self.wal_next, place),
        });
        let copies: Rc<Vec<Copy>> = Rc::new(copies.collect());
        self.wal_flight = Some((accepted, Rc::clone(&copies), self.local(env)));
        env.request(self.me, Request::Wal(self.wal_next, copies));
    }

    pub(crate) fn wal_done(&mut self, env: &mut Env, put: Put) {
        let Some((accepted, copies, sent)) = self.wal_flight.take() else { return };
        match put {
            Put::Fenced => {
                env.tally.fenced_writes += 1;
                self.step(env, Input::Fenced);
                return;
            }
            Put::Unknown => {
                let again = Rc::clone(&copies);
                // What was created and removed may be created again: only the first attempt shows
                // that there was no fence.
                let is_last = env.is(Mutant::LastAttemptProves);
                let sent = if is_last { self.local(env) } else { sent };
                self.wal_flight = Some((accepted, copies, sent));
                env.request(self.me, Request::Wal(self.wal_next, again));
                return;
            }
            // Some request of these has made it; nobody knows which one.
            Put::Mine => {}
            Put::Created => {}
        }
        self.wal_next += 1;
        for copy in copies.iter() {
            let is_held = self.recovering.contains_key(&copy.partition);
            env.tally.held_pushes += u64::from(is_held);
            let place = if is_held { &mut self.held } else { &mut self.heads };
            place.entry(copy.partition).or_default().push(*copy);
            env.ledger.acknowledged(copy.id, copy.partition, env.now);
        }
        for accepted in &accepted {
            self.confirm(env, accepted);
        }
        if !self.wal_queue.is_empty() {
            self.flush_wal(env);
        }
        if put == Put::Created {
            self.step(env, Input::WalCreated { sent });
        } else {
            self.step(env, Input::Tick);
        }
    }

    pub(crate) fn edit_done(&mut self, env: &mut Env, put: Put) {
        self.edit_on_way = false;
        match put {
            Put::Fenced => {
                env.tally.fenced_writes += 1;
                return self.step(env, Input::Fenced);
            }
            Put::Unknown => return self.send_edit(env),
            Put::Created | Put::Mine => {}
        }
        let Some(edit) = self.edits.pop_front() else { return };
        // One instant: the heads lose what the position has gained.
        self.position += 1;
        if let Some(partition) = edit.partition.filter(|_| edit.is_seal) {
            self.sealing.remove(&partition);
            if !edit.settled.is_empty()
                && let Some((since, _)) = self.unsettled.remove(&partition)
            {
                self.step(env, Input::Settled { partition, since });
            }
        }
        env.store.remove_wal(self.me, edit.wal_from);
        if !edit.adopted.is_empty() {
            let (epochs, position) = (edit.adopted.clone(), self.position);
            self.step(env, Input::Adopted { epochs, position });
        }
        self.send_edit(env);
        self.step(env, Input::Tick);
    }

    pub(crate) fn recover(
        &mut self,
        env: &mut Env,
        partition: Partition,
        since: u64,
        mut from: std::collections::BTreeSet<logsvc_cluster::map::Epoch>,
    ) {
        if self.recovering.get(&partition) != Some(&since) {
            return;
        }
        let all = from.clone();
        if env.is(Mutant::HeritageForgotten) {
            from.retain(|epoch| Some(epoch) == all.last());
        }
        let ended = &self.member.map().ended;
        let ends = from.iter().filter_map(|epoch| Some((*epoch, *ended.get(epoch)?)));
        let ends: BTreeMap<_, _> = ends.collect();
        if ends.len() < from.len() {
            return env.wrong(format!("{}: a heritage of {partition} is unknown", self.me));
        }
        let copies = match env.store.replay(partition, &ends) {
            Ok(copies) => copies,
            Err(what) => {
                let newest = env.ledger.newest();
                let owner = newest.and_then(|entry| entry.map.owner(partition));
                if owner == Some(self.me) {
                    return env.wrong(what);
                }
                // An heir of this one has settled the heritage, and it was removed.
                let again = Message::Recover { partition, since, from: all };
                return env.after(500 * MS, 1_000 * MS, Event::To(self.me, again));
            }
        };
        env.tally.replayed_copies += copies.len() as u64;
        let heads = self.heads.entry(partition).or_default();
        heads.extend(copies);
        heads.extend(self.held.remove(&partition).unwrap_or_default());
        self.recovering.remove(&partition);
        self.unsettled.insert(partition, (since, all));
        self.step(env, Input::Recovered { partition, since });
    }

    fn has_edit_of(&self, partition: Partition) -> bool {
        self.edits.iter().any(|edit| edit.partition == Some(partition))
    }

    /// Begins to bring the heads of a partition into a segment.
    fn seal(&mut self, env: &mut Env, partition: Partition) {
        let copies = self.heads.remove(&partition).unwrap_or_default();
        let heritage = self.unsettled.get(&partition);
        let settled = heritage.iter().flat_map(|(_, from)| from.iter().map(|it| (partition, *it)));
        let mut edit = Edit {
            covers: vec![(partition, self.wal_next)],
            settled: settled.collect(),
            partition: Some(partition),
            is_seal: true,
            ..Edit::default()
        };
        if !copies.is_empty() {
            let segment = Segment { id: env.unique(), partition, copies: copies.clone() };
            edit.adds.push(Rc::new(segment));
        }
        env.tally.seals += 1;
        self.sealing.insert(partition, copies);
        self.append(env, edit);
    }

    /// Goes on with seals that the member has asked for.
    pub(crate) fn pump(&mut self, env: &mut Env) {
        let wanted: Vec<(Partition, u64)> =
            self.wanted_seals.iter().map(|(partition, ticket)| (*partition, *ticket)).collect();
        for (partition, ticket) in wanted {
            if env.is(Mutant::HandOverBeforeSeal) {
                self.wanted_seals.remove(&partition);
                let position = self.position;
                return self.step(env, Input::Sealed { partition, ticket, position });
            }
            let is_ours = |accepted: &Accepted| accepted.partition == partition;
            let is_on_way = self.wal_queue.iter().any(is_ours)
                || self.wal_flight.as_ref().is_some_and(|(list, ..)| list.iter().any(is_ours));
            if is_on_way || self.has_edit_of(partition) {
                continue;
            }
            if self.heads.get(&partition).is_some_and(|copies| !copies.is_empty()) {
                self.seal(env, partition);
                continue;
            }
            self.wanted_seals.remove(&partition);
            let position = self.position;
            return self.step(env, Input::Sealed { partition, ticket, position });
        }
    }

    /// What an engine does from time to time: seals, merges, removes what nobody needs.
    pub(crate) fn work(&mut self, env: &mut Env) {
        let slowest = if env.is_quick && env.is_faulty() { 100 } else { 2_500 };
        env.after(slowest * MS / 10, slowest * MS, Event::To(self.me, Message::Work));
        let owned: Vec<Partition> = (0..env.partitions)
            .filter(|partition| self.member.map().owner(*partition) == Some(self.me))
            .filter(|partition| !self.recovering.contains_key(partition))
            .collect();
        let now = self.local(env);
        for partition in owned {
            if self.has_edit_of(partition) {
                continue;
            }
            let has_heads = self.heads.get(&partition).is_some_and(|copies| !copies.is_empty());
            let is_unsettled = self.unsettled.contains_key(&partition);
            if (has_heads && env.rng.one_in(4))
                || (is_unsettled && (env.is_quick || env.rng.one_in(3)))
            {
                self.seal(env, partition);
                continue;
            }
            let may_merge = self.member.may_accept(partition, now) == Accept::Yes
                || env.is(Mutant::EditBehindHandOver);
            if may_merge && env.rng.one_in(3) {
                self.merge(env, partition);
            }
        }
        for epoch in self.member.map().unneeded() {
            if let Some(ends) = self.member.map().ended.get(&epoch) {
                env.store.remove_wal(epoch, ends.wal);
            }
        }
        self.step(env, Input::Tick);
    }

    fn merge(&mut self, env: &mut Env, partition: Partition) {
        let mut positions = self.member.map().positions();
        positions.insert(self.me, self.position);
        let segments = match env.store.fold(partition, &positions) {
            Ok(segments) => segments,
            Err(what) => return env.wrong(format!("{} merges: {what}", self.me)),
        };
        if segments.len() < 2 {
            return;
        }
        env.tally.merges += 1;
        let copies = segments.iter().flat_map(|segment| segment.copies.iter().copied()).collect();
        let merged = Segment { id: env.unique(), partition, copies };
        let edit = Edit {
            adds: vec![Rc::new(merged)],
            removes: segments.iter().map(|segment| segment.id).collect(),
            partition: Some(partition),
            ..Edit::default()
        };
        self.append(env, edit);
    }
}
