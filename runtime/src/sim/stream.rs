//! Connections of the simulation: two pipes, and an endpoint at either side.
//!
//! Modelled: bounded socket buffers, so that a writer waits for its peer;
//! bytes that arrive in other pieces than they were sent in, late, but in order;
//! short reads; half-close; a reset if an endpoint closes before it has read
//! everything or if bytes reach a closed one, which may destroy bytes that have
//! arrived but were not read; the end of the own reading some time after a
//! shutdown, as on the real backends; cut links, which hold what is sent until they are whole.
//!
//! Not modelled: lost peers (every close arrives in the end), changed bytes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use super::network::Network;
use super::timer::Timer;
use super::world::{NodeId, World};
use crate::socket::LINGER;
use crate::{Monotonic, OwnedBytes, Reader, Writer};

/// One read or write in so many moves less than it could.
const SHORT_ONE_IN: u64 = 3;

/// How often what a cut link holds is sent again.
const RESEND_NANOS: u64 = 200_000_000;

/// One direction of a connection. Fields hold the state at its far end (where bytes arrive) unless
/// they say otherwise.
#[derive(Default)]
struct Pipe {
    arrived: VecDeque<u8>,
    travelling_bytes: usize,
    /// What a cut link holds.
    held: VecDeque<Parcel>,
    capacity_bytes: usize,
    /// When the last parcel arrives; none may overtake it.
    last_arrival_nanos: u64,
    ended: bool,
    reset: bool,
    /// The local reader shall see the end, whatever else arrives.
    stopped: bool,
    receiver_closed: bool,
    /// State of the near end: written bytes have nowhere to go.
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake_reader(this: &RefCell<Pipe>) {
        let waker = this.borrow_mut().reader.take();
        waker.into_iter().for_each(Waker::wake);
    }

    fn wake_writer(this: &RefCell<Pipe>) {
        let waker = this.borrow_mut().writer.take();
        waker.into_iter().for_each(Waker::wake);
    }
}

enum Parcel {
    Bytes(Vec<u8>),
    End,
    Reset,
}

/// One side of a connection; closes it when both halves are dropped.
pub(super) struct Endpoint {
    world: Rc<World>,
    network: Rc<Network>,
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
    /// The sending side is closed already.
    has_ended: Cell<bool>,
    /// The own node, and that of the other side.
    link: (NodeId, NodeId),
    /// To close with a reset, because the connection was never accepted.
    pub(super) unaccepted: Cell<bool>,
}

/// Both sides of a new connection between two nodes.
pub(super) fn connection(
    world: &Rc<World>,
    network: &Rc<Network>,
    link: (NodeId, NodeId),
) -> (Endpoint, Endpoint) {
    let pipe = || {
        let capacity_bytes = network.buffer_bytes();
        Rc::new(RefCell::new(Pipe { capacity_bytes, ..Pipe::default() }))
    };
    let (there, back) = (pipe(), pipe());
    let endpoint = |incoming: &Rc<RefCell<Pipe>>, outgoing: &Rc<RefCell<Pipe>>, link| Endpoint {
        world: Rc::clone(world),
        network: Rc::clone(network),
        incoming: Rc::clone(incoming),
        outgoing: Rc::clone(outgoing),
        has_ended: Cell::new(false),
        unaccepted: Cell::new(false),
        link,
    };
    (endpoint(&back, &there, link), endpoint(&there, &back, (link.1, link.0)))
}

impl Endpoint {
    pub(super) fn split(self) -> (SimReader, SimWriter) {
        let endpoint = Rc::new(self);
        let reader = SimReader { endpoint: Rc::clone(&endpoint), timed_out: false };
        (reader, SimWriter { endpoint, timed_out: false })
    }

    /// The time by the right clock of a time by the own node's.
    fn right(&self, own: Monotonic) -> Monotonic {
        self.world.clocks.right(self.link.0, own)
    }

    fn send(&self, parcel: Parcel) {
        let now = self.world.now_nanos();
        let arrival = {
            let mut pipe = self.outgoing.borrow_mut();
            if let Parcel::Bytes(bytes) = &parcel {
                pipe.travelling_bytes += bytes.len();
            }
            let earliest = now + self.network.delay_nanos();
            pipe.last_arrival_nanos = earliest.max(pipe.last_arrival_nanos + 1);
            pipe.last_arrival_nanos
        };
        let way = Way {
            world: Rc::clone(&self.world),
            network: Rc::clone(&self.network),
            there: Rc::clone(&self.outgoing),
            back: Rc::clone(&self.incoming),
            link: self.link,
        };
        // Bytes on the wire outlive the node that sent them: no node is named.
        self.world.schedule(None, arrival - now, move |_| way.arrive(parcel));
    }

    /// Sends the end of the stream, once.
    fn end(&self) {
        if !self.has_ended.replace(true) {
            self.send(Parcel::End);
        }
    }

    fn stop_reading(incoming: &RefCell<Pipe>) {
        incoming.borrow_mut().stopped = true;
        Pipe::wake_reader(incoming);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let has_unread = {
            let mut incoming = self.incoming.borrow_mut();
            incoming.receiver_closed = true;
            !incoming.arrived.is_empty()
        };
        if has_unread || self.unaccepted.get() {
            self.send(Parcel::Reset);
        } else {
            self.end();
        }
    }
}

/// The way from one side to the other.
struct Way {
    world: Rc<World>,
    network: Rc<Network>,
    there: Rc<RefCell<Pipe>>,
    back: Rc<RefCell<Pipe>>,
    link: (NodeId, NodeId),
}

impl Way {
    /// A parcel has come to the far end, unless the link is cut or holds earlier ones.
    fn arrive(self, parcel: Parcel) {
        let is_cut = self.network.is_cut(self.link.0, self.link.1);
        let waits = !self.there.borrow().held.is_empty();
        if is_cut || waits {
            self.there.borrow_mut().held.push_back(parcel);
            if !waits {
                self.send_again_later();
            }
            return;
        }
        deliver(&self.world, &self.network, parcel, &self.there, &self.back);
    }

    fn send_again_later(self) {
        let world = Rc::clone(&self.world);
        world.schedule(None, RESEND_NANOS, move |_| {
            if self.network.is_cut(self.link.0, self.link.1) {
                return self.send_again_later();
            }
            let held = std::mem::take(&mut self.there.borrow_mut().held);
            for parcel in held {
                deliver(&self.world, &self.network, parcel, &self.there, &self.back);
            }
        });
    }
}

/// A parcel arrives at the far end of `there`; `back` leads to its sender.
fn deliver(
    world: &Rc<World>,
    network: &Rc<Network>,
    parcel: Parcel,
    there: &Rc<RefCell<Pipe>>,
    back: &Rc<RefCell<Pipe>>,
) {
    let mut pipe = there.borrow_mut();
    match parcel {
        Parcel::Bytes(bytes) => {
            world.note(bytes.len() as u64);
            pipe.travelling_bytes -= bytes.len();
            if !pipe.receiver_closed {
                pipe.arrived.extend(bytes);
            } else if !pipe.broken {
                // A closed socket answers with a reset.
                let (there, back) = (Rc::clone(there), Rc::clone(back));
                let discards_unread = network.coin();
                world.schedule(None, network.delay_nanos(), move |_| {
                    reset(&back, &there, discards_unread);
                });
            }
        }
        Parcel::End => pipe.ended = true,
        Parcel::Reset => {
            drop(pipe);
            reset(there, back, network.coin());
            return;
        }
    }
    drop(pipe);
    Pipe::wake_reader(there);
}

/// An endpoint that receives from `incoming` and sends to `outgoing` hears that
/// the connection is gone.
fn reset(incoming: &RefCell<Pipe>, outgoing: &RefCell<Pipe>, discards_unread: bool) {
    {
        let mut pipe = incoming.borrow_mut();
        pipe.reset = true;
        if discards_unread {
            pipe.arrived.clear();
        }
        outgoing.borrow_mut().broken = true;
    }
    Pipe::wake_reader(incoming);
    Pipe::wake_writer(outgoing);
}

/// The receiving half of a simulated connection.
pub struct SimReader {
    endpoint: Rc<Endpoint>,
    timed_out: bool,
}

impl Reader for SimReader {
    async fn read(
        &mut self,
        mut buffer: Vec<u8>,
        deadline: Monotonic,
    ) -> (io::Result<usize>, Vec<u8>) {
        let endpoint = &*self.endpoint;
        let deadline = endpoint.right(deadline);
        if self.timed_out || endpoint.world.now_nanos() >= deadline.0 {
            return (Err(io::ErrorKind::TimedOut.into()), buffer);
        }
        let room = buffer.capacity() - buffer.len();
        if room == 0 {
            return (Ok(0), buffer);
        }
        endpoint.network.step_aside().await;
        let mut timer = Timer::new(Rc::clone(&endpoint.world));
        let result: io::Result<usize> = poll_fn(|cx| {
            let mut pipe = endpoint.incoming.borrow_mut();
            if !pipe.arrived.is_empty() {
                let count = endpoint.network.piece(room.min(pipe.arrived.len()), SHORT_ONE_IN);
                buffer.extend(pipe.arrived.drain(..count));
                drop(pipe);
                Pipe::wake_writer(&endpoint.incoming);
                return Poll::Ready(Ok(count));
            }
            if pipe.reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if pipe.ended || pipe.stopped {
                return Poll::Ready(Ok(0));
            }
            pipe.reader = Some(cx.waker().clone());
            timer.poll(deadline, cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
        })
        .await;
        self.timed_out = matches!(&result, Err(error) if error.kind() == io::ErrorKind::TimedOut);
        (result, buffer)
    }
}

/// The sending half of a simulated connection.
pub struct SimWriter {
    endpoint: Rc<Endpoint>,
    timed_out: bool,
}

impl Writer for SimWriter {
    async fn write_all<B: OwnedBytes>(
        &mut self,
        buffer: B,
        deadline: Monotonic,
    ) -> (io::Result<()>, B) {
        let endpoint = &*self.endpoint;
        let deadline = endpoint.right(deadline);
        endpoint.network.step_aside().await;
        let mut timer = Timer::new(Rc::clone(&endpoint.world));
        let mut done = 0;
        let bytes = buffer.as_ref();
        let result: io::Result<()> = poll_fn(|cx| {
            while done < bytes.len() {
                if self.timed_out || endpoint.world.now_nanos() >= deadline.0 {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                let mut pipe = endpoint.outgoing.borrow_mut();
                if pipe.broken || endpoint.has_ended.get() {
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
                let held = pipe.arrived.len() + pipe.travelling_bytes;
                let room = pipe.capacity_bytes.saturating_sub(held);
                if room == 0 {
                    pipe.writer = Some(cx.waker().clone());
                    drop(pipe);
                    return timer.poll(deadline, cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
                }
                drop(pipe);
                let count = endpoint.network.piece(room.min(bytes.len() - done), SHORT_ONE_IN);
                endpoint.send(Parcel::Bytes(bytes[done..done + count].to_vec()));
                done += count;
            }
            Poll::Ready(Ok(()))
        })
        .await;
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::TimedOut) {
            // Half a message must not be followed by others.
            self.timed_out = true;
            endpoint.end();
            Endpoint::stop_reading(&endpoint.incoming);
        }
        (result, buffer)
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        let endpoint = &*self.endpoint;
        if endpoint.outgoing.borrow().broken {
            return Err(io::ErrorKind::NotConnected.into());
        }
        endpoint.end();
        let incoming: Weak<RefCell<Pipe>> = Rc::downgrade(&endpoint.incoming);
        let linger_nanos = LINGER.as_nanos() as u64;
        self.endpoint.world.schedule(None, linger_nanos, move |_| {
            if let Some(incoming) = incoming.upgrade() {
                Endpoint::stop_reading(&incoming);
            }
        });
        Ok(())
    }
}
