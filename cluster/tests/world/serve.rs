//! What a process does for clients and for other nodes: routes pushes, asks owners, answers.

use logsvc_cluster::asker::{AskReply, AskStep, Question, Snapshot};
use logsvc_cluster::map::{Epoch, Partition};
use logsvc_cluster::member::{Accept, Answer, Input};
use logsvc_cluster::router::{Push, PushReply, PushStep};
use logsvc_runtime::Monotonic;

use super::Mutant;
use super::env::{Env, Event, MS, Message, SECOND};
use super::process::{Accepted, Process};
use super::store::Copy;

pub(crate) struct PushTask {
    id: u64,
    partition: Partition,
    push: Push,
    attempt: u64,
}

pub(crate) struct AskTask {
    pub(crate) begun: u64,
    partitions: Vec<Partition>,
    question: Question<Vec<Copy>>,
}

/// A question that waits for a proof.
pub(crate) struct Parked {
    from: Epoch,
    task: u64,
    partitions: Vec<Partition>,
    number: u64,
    until: Monotonic,
}

const PATIENCE: u64 = 1_500 * MS;

impl Process {
    pub(crate) fn client_pushes(&mut self, env: &mut Env, id: u64, partition: Partition) {
        let deadline = Monotonic(self.local(env).0 + 4 * SECOND);
        let push = Push::new(partition, deadline, env.rng.next_u64());
        let task = env.unique();
        self.pushes.insert(task, PushTask { id, partition, push, attempt: 0 });
        self.go_on_push(env, task, None);
    }

    /// `attempt` tells the attempt that is answered.
    pub(crate) fn push_replied(
        &mut self,
        env: &mut Env,
        task: u64,
        attempt: u64,
        reply: PushReply,
    ) {
        if self.pushes.get(&task).is_some_and(|it| it.attempt == attempt) {
            self.go_on_push(env, task, Some(reply));
        }
    }

    pub(crate) fn go_on_push(&mut self, env: &mut Env, task: u64, reply: Option<PushReply>) {
        let now = self.local(env);
        let Some(it) = self.pushes.get_mut(&task) else { return };
        // Between a request and its answer nothing is to be done.
        if it.attempt % 2 == 1 && reply.is_none() {
            return;
        }
        if reply.is_some() {
            it.attempt += 1;
        }
        let known = (self.member.number(), self.member.map());
        match it.push.step(&self.settings, now, known, reply) {
            PushStep::Send { to, number } => {
                it.attempt += 1;
                let (attempt, id, partition) = (it.attempt, it.id, it.partition);
                let from = self.me;
                let message = Message::Push { from, task, attempt, id, partition, number };
                env.send(from, to, message);
                let reply = PushReply::NoAnswer;
                let timeout = Message::PushReply { task, attempt, reply };
                env.after(PATIENCE, PATIENCE + 10, Event::To(self.me, timeout));
            }
            PushStep::Wait { until, look } => {
                self.timer(env, until, Message::PushTimer { task });
                if look > self.member.number() {
                    self.step(env, Input::Heard(look));
                }
            }
            PushStep::Stored => {
                let id = it.id;
                self.pushes.remove(&task);
                if env.has_clients(self.me) && !(env.is_faulty() && env.rng.one_in(20)) {
                    env.ledger.done.insert(id);
                }
            }
            PushStep::GiveUp => {
                self.pushes.remove(&task);
            }
        }
    }

    fn timer(&mut self, env: &mut Env, until: Monotonic, message: Message) {
        let time = env.machines.get(self.machine).map_or(0, |machine| machine.world(until.0));
        env.at(time.max(env.now + MS), Event::To(self.me, message));
    }

    /// The map has changed: everything that waits may go on.
    pub(crate) fn wake_tasks(&mut self, env: &mut Env) {
        let pushes: Vec<u64> = self.pushes.keys().copied().collect();
        for task in pushes {
            self.go_on_push(env, task, None);
        }
        let asks: Vec<u64> = self.asks.keys().copied().collect();
        for task in asks {
            self.go_on_ask(env, task, None);
        }
    }

    pub(crate) fn pushed(&mut self, env: &mut Env, accepted: Accepted, number: u64) {
        if number > self.member.number() {
            self.step(env, Input::Heard(number));
        }
        match self.member.may_accept(accepted.partition, self.local(env)) {
            Accept::Yes => return self.accept(env, accepted),
            Accept::NotYet => env.tally.early_pushes += 1,
            Accept::Moving(_) => env.tally.moved_pushes += 1,
            Accept::NotOwner => {}
        }
        let reply = PushReply::Refused { newest: self.member.number() };
        let (task, attempt) = (accepted.task, accepted.attempt);
        env.send(self.me, accepted.from, Message::PushReply { task, attempt, reply });
    }

    pub(crate) fn client_asks(&mut self, env: &mut Env, begun: u64, partitions: Vec<Partition>) {
        let deadline = Monotonic(self.local(env).0 + 6 * SECOND);
        let question = Question::new(partitions.clone(), deadline, env.rng.next_u64());
        let task = env.unique();
        self.asks.insert(task, AskTask { begun, partitions, question });
        self.go_on_ask(env, task, None);
    }

    pub(crate) fn go_on_ask(
        &mut self,
        env: &mut Env,
        task: u64,
        reply: Option<(Epoch, u64, AskReply<Vec<Copy>>)>,
    ) {
        let now = self.local(env);
        let Some(it) = self.asks.get_mut(&task) else { return };
        let known = (self.member.number(), self.member.map());
        for step in it.question.step(&self.settings, now, known, reply) {
            match step {
                AskStep::Ask { to, partitions, number } => {
                    let from = self.me;
                    env.send(from, to, Message::Ask { from, task, partitions, number });
                    let reply = AskReply::NoAnswer;
                    let timeout = Message::AskReply { task, from: to, by: number, reply };
                    env.after(PATIENCE, PATIENCE + 10, Event::To(self.me, timeout));
                }
                AskStep::Wait { until, look } => {
                    self.timer(env, until, Message::AskTimer { task });
                    if look > self.member.number() {
                        return self.step(env, Input::Heard(look));
                    }
                }
                AskStep::Done(snapshot) => {
                    if let Some(it) = self.asks.remove(&task) {
                        env.tally.answers_of_guests += u64::from(self.is_guest);
                        judge(env, &it, snapshot);
                    }
                    return;
                }
                AskStep::GiveUp => {
                    env.tally.failed_queries += 1;
                    self.asks.remove(&task);
                    return;
                }
            }
        }
    }

    pub(crate) fn asked(
        &mut self,
        env: &mut Env,
        from: Epoch,
        task: u64,
        partitions: Vec<Partition>,
        number: u64,
    ) {
        let until = Monotonic(self.local(env).0 + SECOND);
        let parked = Parked { from, task, partitions, number, until };
        self.answer(env, parked, true);
    }

    /// Questions that waited for a proof, or for a map.
    pub(crate) fn ask_parked(&mut self, env: &mut Env) {
        for parked in std::mem::take(&mut self.parked) {
            self.answer(env, parked, false);
        }
    }

    fn answer(&mut self, env: &mut Env, parked: Parked, is_new: bool) {
        let now = self.local(env);
        let may = self.member.may_answer(&parked.partitions, parked.number, now);
        let reply = match may {
            Answer::Yes => {
                let mut content = Vec::new();
                for partition in &parked.partitions {
                    for part in [&self.heads, &self.sealing] {
                        content.extend(part.get(partition).into_iter().flatten().copied());
                    }
                }
                let is_merged = env.is(Mutant::MergedPosition);
                let position = self.position.saturating_sub(u64::from(is_merged));
                AskReply::Answer { position, content }
            }
            Answer::Newer(number) => AskReply::Newer(number),
            Answer::NotOwner => AskReply::NoAnswer,
            Answer::Wait => {
                env.tally.waits += 1;
                AskReply::Wait
            }
            Answer::ReadOn | Answer::Unproven if now < parked.until => {
                let number = parked.number;
                self.parked.push(parked);
                if is_new && may == Answer::Unproven {
                    env.tally.unproven_questions += 1;
                    self.step(env, Input::ProofWanted);
                } else if is_new {
                    self.step(env, Input::Heard(number));
                }
                return;
            }
            Answer::ReadOn | Answer::Unproven => AskReply::Wait,
        };
        let (task, by) = (parked.task, parked.number);
        let message = Message::AskReply { task, from: self.me, by, reply };
        env.send(self.me, parked.from, message);
    }
}

fn judge(env: &mut Env, it: &AskTask, snapshot: Snapshot<Vec<Copy>>) {
    let mut copies: Vec<Copy> = snapshot.contents.into_values().flatten().collect();
    for partition in &it.partitions {
        match env.store.fold(*partition, &snapshot.positions) {
            Ok(segments) => {
                copies.extend(segments.iter().flat_map(|segment| segment.copies.iter().copied()));
            }
            Err(what) => return env.wrong(what),
        }
    }
    env.tally.answers += 1;
    env.tally.answers_beside_changes += u64::from(env.ledger.is_changing(env.now));
    let times = (it.begun, env.now);
    if env.is(Mutant::BrokenClocksAtRest) && !env.is_at_rest {
        return;
    }
    if let Err(what) = env.ledger.answered(times, &it.partitions, &copies) {
        env.wrong(format!("{what}; by map {} {:?}", snapshot.number, snapshot.positions));
    }
}
