//! A group of equal tails on one core: one subscription, one run of the pipeline, and
//! frames that all of its clients share.
//!
//! A client that joins gets the history first. Entries that come meanwhile wait until
//! the history is there. Each join begins an epoch in all shards; a client is shown the
//! entries of its epoch and of later ones, the others are in its history. With several nodes
//! a group has one client, so there is one epoch.

mod catch_up;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use logsvc_logql::engine::Estimate;
use logsvc_logql::syntax::ast::LogExpr;
use logsvc_runtime::{Account, Monotonic, Runtime, SideQueue};
use logsvc_shards::scan::PartAllowance;
use logsvc_shards::tail::{TailBatch, TailPart};
use logsvc_shards::types::Cancellation;

use super::evaluate::{RUN_ENTRIES, TailPipeline, shared};
use super::frame::{Entry, Frame, missed_list};
use super::history::{self, Ask, History, Shown};
use super::hub::{Hub, Inbox, Join};
use super::missed::{Missed, MissedEntry};
use super::others::Others;
use super::outbox::Outbox;
use super::seen::Seen;
use super::timeline::Timeline;
use super::{GroupKey, params};
use crate::front::query::execute::CancelOnDrop;
use crate::front::query::leaves::inline_or_offloaded;

/// New entries are sent together, at most once in this time: more rarely to many.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_OF_MANY: Duration = Duration::from_millis(500);
const MANY: usize = 100;

/// A turn that takes longer has too much to do.
const TURN_MAX: Duration = Duration::from_millis(50);

/// Bytes of the queue for the group in each shard: at first, least and most.
const QUEUE_BYTES: usize = 1 << 20;
const QUEUE_MIN_BYTES: usize = 64 << 10;
const QUEUE_MAX_BYTES: usize = 4 << 20;

/// The share of sent bytes that may list missed entries: one in so many.
const MISSED_SHARE: i64 = 4;
const MISSED_MAX_BYTES: i64 = 128 << 10;

/// A client that is shown new entries.
struct Member {
    epoch: u64,
    outbox: Rc<Outbox>,
}

/// Clients that are not shown all of their history yet.
struct Joining {
    epoch: u64,
    outboxes: Vec<Rc<Outbox>>,
    /// `None` once it is there.
    history: Option<History>,
    /// History that is not due yet, and later entries.
    timeline: Timeline,
}

struct Group<R: Runtime> {
    hub: Rc<Hub<R>>,
    key: GroupKey,
    log: Arc<LogExpr>,
    id: u64,
    inbox: Rc<Inbox>,
    live: TailPipeline,
    epoch: u64,
    members: Vec<Member>,
    joining: Vec<Joining>,
    timeline: Timeline,
    missed: Missed,
    /// The other nodes, if there are any.
    others: Option<Others<R>>,
    /// What is to come of what was missed.
    missed_history: Option<History>,
    /// What was shown, if there are other nodes.
    seen: Seen,
    queue_max_bytes: usize,
    /// Something was missed because this core had too much to do or to send.
    overloaded: bool,
    /// Shards had no room for something.
    starved: bool,
    next_turn: Monotonic,
}

/// Serves a group until its last client has left.
pub(super) async fn run<R: Runtime>(
    hub: Rc<Hub<R>>,
    key: GroupKey,
    log: Arc<LogExpr>,
    id: u64,
    inbox: Rc<Inbox>,
) {
    let (expr, form, now_ns) = (Arc::clone(&log), key.form, hub.core.runtime.unix_nanos());
    let queue = (!Estimate::of_stages(&log).is_short()).then_some(SideQueue::Queries);
    let places = hub.core.cluster().is_some();
    let live = inline_or_offloaded(&hub.core.runtime, queue, move || {
        TailPipeline::new(&expr, form, places, now_ns)
    })
    .await;
    let live = match live {
        Ok(live) => live,
        Err(reason) => {
            inbox.take_joins().iter().for_each(|join| join.outbox.end(reason.clone()));
            hub.end_group(&key, id);
            return;
        }
    };
    let mut group = Group {
        timeline: Timeline::new(key.delay_s, &hub.core.budgets().tails),
        seen: Seen::new(&hub.core.budgets().tails),
        next_turn: hub.core.runtime.now(),
        hub,
        key,
        log,
        id,
        inbox,
        live,
        epoch: 0,
        members: Vec::new(),
        joining: Vec::new(),
        missed: Missed::default(),
        others: None,
        missed_history: None,
        queue_max_bytes: QUEUE_BYTES,
        overloaded: false,
        starved: false,
    };
    loop {
        group.begin_joins();
        group.follow_others();
        if group.hub.core.runtime.now() >= group.next_turn {
            group.turn().await;
        }
        group.forget_gone();
        if group.members.is_empty() && group.joining.is_empty() && !group.inbox.has_joins() {
            // No wait between the question and this: nobody can join a group that ends.
            group.hub.end_group(&group.key, group.id);
            return;
        }
        group.wait().await;
    }
}

impl<R: Runtime> Group<R> {
    /// Asks for the histories of new clients, once for all that want the same.
    fn begin_joins(&mut self) {
        let mut joins = self.inbox.take_joins();
        while let Some(first) = joins.first() {
            let (start_ns, limit) = (first.start_ns, first.limit);
            let is_equal = |join: &Join| (join.start_ns, join.limit) == (start_ns, limit);
            let (equal, others): (Vec<_>, Vec<_>) = joins.into_iter().partition(is_equal);
            joins = others;
            let outboxes = equal.into_iter().map(|join| join.outbox).collect();
            self.begin(start_ns, limit, outboxes);
        }
    }

    fn begin(&mut self, start_ns: Option<i64>, limit: u32, outboxes: Vec<Rc<Outbox>>) {
        self.epoch += 1;
        let now_ns = self.hub.core.runtime.unix_nanos();
        let lookback_ns = self.hub.core.limits(&self.key.tenant).max_query_lookback_ns;
        let oldest_ns = if lookback_ns > 0 { now_ns.saturating_sub(lookback_ns) } else { i64::MIN };
        let start_ns = start_ns.unwrap_or(now_ns.saturating_sub(params::QUERY_RANGE_NS));
        let ask = Ask {
            key: &self.key,
            log: &self.log,
            start_ns: start_ns.max(oldest_ns),
            limit,
            subscription: self.id,
            epoch: self.epoch,
            queue_max_bytes: self.queue_max_bytes,
        };
        let history = match self.hub.core.cluster() {
            Some(_) => ask_others(&self.hub, &ask, &self.inbox, &mut self.others),
            None => history::ask(&self.hub, &ask),
        };
        match history {
            Ok(history) => self.joining.push(Joining {
                epoch: self.epoch,
                outboxes,
                history: Some(history),
                timeline: Timeline::new(self.key.delay_s, &self.hub.core.budgets().tails),
            }),
            Err(reason) => outboxes.iter().for_each(|outbox| outbox.end(reason.clone())),
        }
    }

    /// Takes new entries, and sends the due ones.
    async fn turn(&mut self) {
        let begun = self.hub.core.runtime.now();
        let (batches, is_too_much) = self.inbox.take_batches();
        self.overloaded |= is_too_much;
        let has_batches = !batches.is_empty();
        for batch in batches {
            if let Err(reason) = self.batch(batch).await {
                self.end_all(&reason);
                return;
            }
        }
        let has_sent = self.send_due();
        if has_batches || has_sent {
            let now = self.hub.core.runtime.now();
            self.overloaded |= now.since(begun) > TURN_MAX;
            self.adapt_queue();
            let pause = if self.members.len() < MANY { PAUSE } else { PAUSE_OF_MANY };
            self.next_turn = now.after(pause);
        }
    }

    /// Entries that cannot be sent anyway should be dropped before they are copied; others should
    /// not be dropped.
    fn adapt_queue(&mut self) {
        let before = self.queue_max_bytes;
        if std::mem::take(&mut self.overloaded) {
            self.queue_max_bytes = (before / 2).max(QUEUE_MIN_BYTES);
        } else if self.starved {
            self.queue_max_bytes = (before * 2).min(QUEUE_MAX_BYTES);
        }
        self.starved = false;
        if self.queue_max_bytes != before {
            self.hub.bound_queue(self.id, self.queue_max_bytes);
        }
    }

    /// Runs the pipeline over a batch.
    async fn batch(&mut self, batch: TailBatch) -> Result<(), String> {
        if batch.dropped_count > 0 {
            self.starved = true;
            let list = batch.dropped.into_iter().map(|dropped| MissedEntry {
                timestamp_ns: dropped.timestamp_ns,
                labels: dropped.labels,
            });
            self.missed.add(&list.collect(), batch.dropped_count);
        }
        let mut rest = &batch.parts[..];
        while let Some(first) = rest.first() {
            let mut entries = 0;
            let same_run = |part: &&TailPart| {
                entries += part.block.entry_count();
                part.epoch == first.epoch && entries <= RUN_ENTRIES
            };
            let taken = rest.iter().take_while(same_run).count().max(1);
            let (parts, later) = rest.split_at(taken);
            rest = later;
            let now_ns = self.hub.core.runtime.unix_nanos();
            let entries = shared(self.entries_of(parts, now_ns).await?);
            self.take_new(entries, first.epoch, now_ns);
            self.hub.core.runtime.yield_now().await;
        }
        Ok(())
    }

    /// Takes entries that the group shows, unless it has shown them.
    fn take_new(&mut self, entries: Vec<Rc<Entry>>, epoch: u64, now_ns: i64) {
        for entry in entries {
            if !is_new(&mut self.seen, &entry) {
                continue;
            }
            if let Err(entry) = self.timeline.push(entry, epoch, now_ns) {
                self.overloaded = true;
                self.missed.add(&missed_list(&[entry]), 1);
            }
        }
    }

    /// The entries of parts that pass the pipeline.
    async fn entries_of(&mut self, parts: &[TailPart], now_ns: i64) -> Result<Vec<Entry>, String> {
        let queries = &self.hub.core.budgets().queries;
        let busy = || "too many outstanding requests".to_owned();
        let account = Account::open(queries, 0, queries.max_bytes()).ok_or_else(busy)?;
        let cancellation = CancelOnDrop(Cancellation::default());
        let allowance =
            PartAllowance { grant: account.grant(), cancellation: cancellation.0.clone() };
        let run = self.live.run(now_ns)?;
        if !self.live.is_long(parts) {
            return run.over(parts, &allowance);
        }
        let parts = parts.to_vec();
        let work = move || run.over(&parts, &allowance);
        self.hub.core.runtime.offload_to(SideQueue::Queries, work).await
    }

    /// Sends everything that is due. Returns whether there was anything.
    fn send_due(&mut self) -> bool {
        let now_ns = self.hub.core.runtime.unix_nanos();
        let released = self.timeline.release(now_ns);
        for joining in &mut self.joining {
            for (epoch, entry) in released.iter().filter(|(epoch, _)| *epoch >= joining.epoch) {
                if let Err(entry) = joining.timeline.push_due(Rc::clone(entry), *epoch, now_ns) {
                    self.missed.add(&missed_list(&[entry]), 1);
                }
            }
        }
        let has_sent = !released.is_empty();
        if has_sent && !self.members.is_empty() {
            self.send_released(&released);
        }
        self.send_to_joining(now_ns) || has_sent
    }

    /// Most clients see the same; those whose epoch began among the entries do not.
    fn send_released(&mut self, released: &[(u64, Rc<Entry>)]) {
        let oldest = released.iter().map(|(epoch, _)| *epoch).min().unwrap_or(0);
        let mut late: Vec<u64> = self.members.iter().map(|member| member.epoch).collect();
        late.retain(|&epoch| epoch > oldest);
        late.sort_unstable();
        late.dedup();
        let is_common = |member: &&Member| member.epoch <= oldest;
        let outboxes = |members: Vec<&Member>| -> Vec<Rc<Outbox>> {
            members.iter().map(|member| Rc::clone(&member.outbox)).collect()
        };
        let common = outboxes(self.members.iter().filter(is_common).collect());
        let entries: Vec<_> = released.iter().map(|(_, entry)| Rc::clone(entry)).collect();
        if !common.is_empty() {
            self.send(&common, &entries, true);
        }
        for epoch in late {
            let of_epoch = outboxes(self.members.iter().filter(|m| m.epoch == epoch).collect());
            let entries = released.iter().filter(|(of_entry, _)| *of_entry >= epoch);
            let entries: Vec<_> = entries.map(|(_, entry)| Rc::clone(entry)).collect();
            self.send(&of_epoch, &entries, true);
        }
    }

    /// Sends due parts of histories; clients that have seen theirs become members.
    fn send_to_joining(&mut self, now_ns: i64) -> bool {
        let mut has_sent = false;
        for mut joining in std::mem::take(&mut self.joining) {
            if joining.history.is_some() {
                self.joining.push(joining);
                continue;
            }
            let due = joining.timeline.release(now_ns);
            let entries: Vec<_> = due.into_iter().map(|(_, entry)| entry).collect();
            has_sent |= !entries.is_empty();
            self.send(&joining.outboxes, &entries, false);
            if joining.timeline.is_empty() {
                let epoch = joining.epoch;
                let member = |outbox| Member { epoch, outbox };
                self.members.extend(joining.outboxes.into_iter().map(member));
            } else {
                self.joining.push(joining);
            }
        }
        has_sent
    }

    /// Sends entries to some clients, as far as this core may send; without a limit all
    /// of them.
    fn send(&mut self, outboxes: &[Rc<Outbox>], entries: &[Rc<Entry>], is_limited: bool) {
        let share = self.hub.output_share();
        let (mut rest, mut sent) = (entries, 0);
        while !rest.is_empty() && (!is_limited || (sent as i64) < share) {
            let missed_max_bytes = (share / MISSED_SHARE).clamp(1, MISSED_MAX_BYTES) as usize;
            let (form, missed) = (self.key.form, &mut self.missed);
            let frame = Frame::take(
                form,
                &mut rest,
                missed,
                missed_max_bytes,
                &self.hub.core.budgets().tails,
            );
            let Some(frame) = frame.map(Rc::new) else { break };
            sent += frame.len_bytes();
            outboxes.iter().for_each(|outbox| outbox.offer(&frame));
        }
        self.hub.charge_output(sent * outboxes.len());
        if !rest.is_empty() {
            self.overloaded = true;
            self.missed.add(&missed_list(rest), rest.len() as u64);
        }
    }

    /// A history has come, or has failed.
    fn take_history(&mut self, index: usize, result: Result<Vec<Entry>, String>) {
        let now_ns = self.hub.core.runtime.unix_nanos();
        let joining = &mut self.joining[index];
        joining.history = None;
        match result {
            Ok(entries) => {
                for entry in shared(entries) {
                    if !is_new(&mut self.seen, &entry) {
                        continue;
                    }
                    if let Err(entry) = joining.timeline.push(entry, joining.epoch, now_ns) {
                        self.missed.add(&missed_list(&[entry]), 1);
                    }
                }
                self.send_to_joining(now_ns);
            }
            Err(reason) => {
                let joining = self.joining.remove(index);
                joining.outboxes.iter().for_each(|outbox| outbox.end(reason.clone()));
            }
        }
    }

    fn end_all(&mut self, reason: &str) {
        let joining = self.joining.drain(..).flat_map(|joining| joining.outboxes);
        let members = self.members.drain(..).map(|member| member.outbox);
        joining.chain(members).for_each(|outbox| outbox.end(reason));
    }

    fn forget_gone(&mut self) {
        self.members.retain(|member| !member.outbox.has_left());
        self.joining.retain_mut(|joining| {
            joining.outboxes.retain(|outbox| !outbox.has_left());
            !joining.outboxes.is_empty()
        });
    }

    /// When there is something to do although nothing comes.
    fn next_due(&self) -> Monotonic {
        let timelines = self.joining.iter().filter(|joining| joining.history.is_none());
        let timelines = timelines.map(|joining| &joining.timeline).chain([&self.timeline]);
        let due_ns = timelines.filter_map(Timeline::next_due_ns).min();
        // What was missed is asked for once the history is there.
        let has_history = self.joining.iter().all(|joining| joining.history.is_none());
        let others = self.others.as_ref().filter(|_| has_history);
        let asks_again = others.map_or(Monotonic::NEVER, Others::next_due);
        let due_ns = match due_ns {
            _ if self.inbox.has_batches() => i64::MIN,
            Some(due_ns) => due_ns,
            None => return asks_again,
        };
        let left_ns = due_ns.saturating_sub(self.hub.core.runtime.unix_nanos());
        let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0));
        self.hub.core.runtime.now().after(left).max(self.next_turn).min(asks_again)
    }

    /// Waits for clients, entries, histories, or the time of the next turn.
    async fn wait(&mut self) {
        let due = self.next_due();
        let runtime = self.hub.core.runtime.clone();
        let mut sleep = pin!(async move {
            match due {
                Monotonic::NEVER => std::future::pending().await,
                due => runtime.sleep_until(due).await,
            }
        });
        let come = poll_fn(|cx| {
            for (index, joining) in self.joining.iter_mut().enumerate() {
                if let Some(history) = &mut joining.history
                    && let Poll::Ready(result) = history.as_mut().poll(cx)
                {
                    return Poll::Ready(Some((Some(index), result)));
                }
            }
            if let Some(missed) = &mut self.missed_history
                && let Poll::Ready(result) = missed.as_mut().poll(cx)
            {
                return Poll::Ready(Some((None, result)));
            }
            if self.inbox.poll_changed(cx).is_ready() || sleep.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await;
        match come {
            Some((Some(index), result)) => self.take_history(index, result),
            Some((None, result)) => self.take_missed(result),
            None => {}
        }
    }
}

/// Whether an entry was not shown before, as far as that is known.
fn is_new(seen: &mut Seen, entry: &Entry) -> bool {
    entry.place.is_none_or(|place| seen.is_new(entry.timestamp_ns, place))
}

/// Follows the shards of all nodes, and asks them for the history once they are followed.
fn ask_others<R: Runtime>(
    hub: &Rc<Hub<R>>,
    ask: &Ask<'_>,
    inbox: &Rc<Inbox>,
    others: &mut Option<Others<R>>,
) -> Result<History, String> {
    let question = history::question(hub, ask)?;
    let followed = Others::follow(hub, ask.subscription, inbox, question, ask.queue_max_bytes)?;
    let ready = others.insert(followed).ready();
    history::ask_owners(hub, ask, Shown::History, &ready)
}
