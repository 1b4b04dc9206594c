//! The task that owns the engine.
//!
//! Guarantees: a node that was stopped for a while hears what has come meanwhile before it judges
//! others by the clock. No borrow is held across an await.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use logsvc_runtime::{Dial, Latch, Monotonic, Runtime};

use super::packets::Packets;
use super::{Event, Links, Met, exchange};
use crate::engine::Engine;
use crate::members::View;
use crate::membership::Command;
use crate::settings::Settings;

/// Members that are asked for their state at a time.
const ASKING_MAX: usize = 4;
/// Members that are told over TCP that this node leaves.
const FAREWELLS: usize = 3;
/// How often the list is published for the ages in it, and partners of exchanges are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A timer that is later than this shows that the process was stopped.
const STOPPED_FOR: Duration = Duration::from_millis(500);
/// How long it then listens before it looks at timers.
const LISTEN_FIRST: Duration = Duration::from_millis(100);

/// The queues of the owner.
pub(super) struct Queues {
    pub(super) events: flume::Sender<Event>,
    pub(super) coming: flume::Receiver<Event>,
    pub(super) orders: flume::Receiver<Command>,
    /// Datagrams that found the queue full.
    pub(super) overrun: Rc<Cell<u64>>,
}

/// How the owner reaches members.
pub(super) struct Ways<R: Runtime, D: Dial> {
    /// For states.
    pub(super) links: Rc<Links<D>>,
    /// For packets.
    pub(super) packets: Packets<R, D>,
}

/// See the module.
pub(super) struct Owner<R: Runtime, D: Dial> {
    runtime: R,
    engine: Engine,
    ways: Ways<R, D>,
    settings: Rc<Settings>,
    queues: Queues,
    view: View,
    stop: Latch,
    asking: Rc<Cell<usize>>,
    look_due: Monotonic,
    published: u64,
}

enum Woken {
    Event(Event),
    Order(Command),
    Time,
    Stopped,
}

impl<R: Runtime, D: Dial> Owner<R, D> {
    pub(super) fn new(
        runtime: R,
        engine: Engine,
        ways: Ways<R, D>,
        settings: Rc<Settings>,
        queues: Queues,
        view: View,
        stop: Latch,
    ) -> Owner<R, D> {
        let look_due = runtime.now();
        Owner {
            runtime,
            engine,
            ways,
            settings,
            queues,
            view,
            stop,
            asking: Rc::default(),
            look_due,
            published: 0,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.send();
            self.look();
            let due = self.engine.wake().min(self.look_due);
            match self.wait(due).await {
                Woken::Event(event) => self.take(event),
                Woken::Order(Command::Leave { reply }) => {
                    self.leave().await;
                    // Who asked may have gone.
                    let _ = reply.send(());
                    return;
                }
                Woken::Order(order) => self.obey(order),
                Woken::Time => {}
                Woken::Stopped => return,
            }
            if self.runtime.now().since(due) > STOPPED_FOR {
                self.runtime.sleep_until(self.runtime.now().after(LISTEN_FIRST)).await;
            }
            while let Ok(event) = self.queues.coming.try_recv() {
                self.take(event);
            }
            if self.runtime.now() >= due {
                self.engine.tick(self.runtime.now());
            }
        }
    }

    async fn wait(&self, due: Monotonic) -> Woken {
        let mut event = pin!(self.queues.coming.recv_async());
        let mut order = pin!(self.queues.orders.recv_async());
        let mut time = pin!(self.runtime.sleep_until(due));
        let mut stopped = pin!(self.stop.wait());
        // Nobody can give orders any more once all handles are gone. The node goes on.
        let mut has_orders = true;
        poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Woken::Stopped);
            }
            if let Poll::Ready(Ok(event)) = event.as_mut().poll(cx) {
                return Poll::Ready(Woken::Event(event));
            }
            if has_orders && let Poll::Ready(order) = order.as_mut().poll(cx) {
                match order {
                    Ok(order) => return Poll::Ready(Woken::Order(order)),
                    Err(_) => has_orders = false,
                }
            }
            time.as_mut().poll(cx).map(|()| Woken::Time)
        })
        .await
    }

    /// Sends all packets that wait.
    fn send(&mut self) {
        while let Some((to, bytes)) = self.engine.outbox().pop_front() {
            let is_sent = self.ways.packets.send(bytes, to);
            let traffic = self.engine.traffic();
            match is_sent {
                true => traffic.sent += 1,
                false => traffic.unsent += 1,
            }
        }
    }

    /// Publishes the list if it is another one, and once a second for the ages in it.
    fn look(&mut self) {
        let now = self.runtime.now();
        let is_due = now >= self.look_due;
        if is_due {
            self.look_due = now.after(LOOK_EVERY);
            if self.asking.get() < ASKING_MAX
                && let Some(partner) = self.engine.exchange_partner(now)
            {
                self.ask(partner, None);
            }
        }
        if is_due || self.engine.version() != self.published {
            self.engine.traffic().overrun = self.queues.overrun.get();
            self.published = self.engine.version();
            self.view.publish(self.engine.members());
        }
    }

    fn take(&mut self, event: Event) {
        let now = self.runtime.now();
        match event {
            Event::Datagram(message) => {
                if let Err(reason) = self.engine.datagram(now, &message) {
                    tracing::debug!(%reason, "a datagram of gossip was refused");
                }
            }
            Event::State { message, reply } => {
                let answer = self.engine.state(now, &message);
                if let Err(reason) = &answer {
                    tracing::debug!(%reason, "a state was refused");
                }
                // The other side may have gone.
                let _ = reply.send(answer.ok().flatten());
            }
            Event::Join { address, reply } => {
                if self.engine.identity().address == address {
                    let _ = reply.send(Met::Myself);
                } else if self.engine.knows(address) {
                    let _ = reply.send(Met::Member);
                } else {
                    self.ask(address, Some(reply));
                }
            }
            Event::Asked { answer, reply } => {
                let taken = match answer {
                    Ok(message) => {
                        self.engine.state(now, &message).map(|_| ()).map_err(|e| e.to_string())
                    }
                    Err(error) => Err(error.to_string()),
                };
                let traffic = self.engine.traffic();
                let met = match taken {
                    Ok(()) => {
                        traffic.asked += 1;
                        // Behind a shared address a node may have met itself.
                        if self.engine.has_others() { Met::Member } else { Met::Myself }
                    }
                    Err(reason) => {
                        traffic.ask_failed += 1;
                        tracing::debug!(reason, "a member did not give its state");
                        Met::Nobody
                    }
                };
                if let Some(reply) = reply {
                    let _ = reply.send(met);
                }
            }
        }
    }

    fn obey(&mut self, order: Command) {
        let now = self.runtime.now();
        match order {
            Command::Change(change) => self.engine.change(now, change),
            Command::Forget { instance, reply } => {
                // Who asked may have gone.
                let _ = reply.send(self.engine.forget(now, &instance));
            }
            // The loop does that.
            Command::Leave { .. } => {}
        }
    }

    /// Asks a member for its state, in a task of its own.
    fn ask(&self, address: SocketAddr, reply: Option<flume::Sender<Met>>) {
        self.asking.set(self.asking.get() + 1);
        let (runtime, settings) = (self.runtime.clone(), Rc::clone(&self.settings));
        let (asking, events) = (Rc::clone(&self.asking), self.queues.events.clone());
        let (message, links) = (self.engine.ask(), Rc::clone(&self.ways.links));
        drop(self.runtime.spawn(async move {
            let answer = exchange::ask(&runtime, &links, address, &message, &settings).await;
            asking.set(asking.get() - 1);
            // The owner may have stopped.
            let _ = events.send_async(Event::Asked { answer, reply }).await;
        }));
    }

    /// Tells others that this node leaves: some at once by packets, and some for sure by states.
    async fn leave(&mut self) {
        let mut told = Vec::new();
        for _ in 0..FAREWELLS * 4 {
            match self.engine.random_member() {
                Some(address) if !told.contains(&address) && told.len() < FAREWELLS => {
                    told.push(address);
                }
                _ => {}
            }
        }
        self.engine.leave(self.runtime.now());
        self.send();
        let message = self.engine.ask();
        let timeout = self.settings.leave_timeout;
        let mut settings = (*self.settings).clone();
        settings.packet_dial_timeout = settings.packet_dial_timeout.min(timeout / 2);
        settings.stream_timeout = settings.stream_timeout.min(timeout / 2);
        let (runtime, links) = (&self.runtime, &self.ways.links);
        let asked = told
            .into_iter()
            .map(|address| exchange::ask(runtime, links, address, &message, &settings));
        for result in join_all(asked).await {
            if let Err(error) = result {
                tracing::debug!(%error, "a member was not told that this node leaves");
            }
        }
        self.view.publish(self.engine.members());
        self.stop.trigger();
    }
}
