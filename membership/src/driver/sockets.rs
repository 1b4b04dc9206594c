//! Receives datagrams and connections of other nodes, and hands them to the owner.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::{Datagrams, Latch, Listener, Reader, Runtime, Writer};

use super::Event;
use super::exchange::{self, Frames};
use super::stopping::unless_stopped;
use super::streams::{CONFIRMED, KEPT, MEMBERS_MAX};
use crate::settings::Settings;
use crate::wire::envelope::{self, DATAGRAM_MAX_BYTES, Kind, STREAM_MAX_BYTES};

/// Connections that are served at a time. Further ones are closed.
const SERVED_MAX: usize = 16;
/// The same if packets come over connections: as many as other nodes keep open, and states.
const STREAMS_MAX: usize = 2 * MEMBERS_MAX;
/// The pause after a failure of a socket.
const FAULT_PAUSE: Duration = Duration::from_millis(100);

/// Lets a passing fault pass.
async fn pause<R: Runtime>(runtime: &R, stop: &Latch) {
    let _ = unless_stopped(runtime.sleep_until(runtime.now().after(FAULT_PAUSE)), stop).await;
}

/// Hands the datagrams of a socket to the owner.
pub(super) async fn receive<R: Runtime>(
    runtime: R,
    socket: Rc<R::Datagrams>,
    events: flume::Sender<Event>,
    overrun: Rc<Cell<u64>>,
    stop: Latch,
) {
    loop {
        // One more byte than a message may have tells a longer datagram from one that fits.
        let buffer = Vec::with_capacity(DATAGRAM_MAX_BYTES + 1);
        let Some((result, bytes)) = unless_stopped(socket.receive(buffer), &stop).await else {
            return;
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a datagram of gossip was not received");
            pause(&runtime, &stop).await;
        } else if events.try_send(Event::Datagram(bytes)).is_err() {
            overrun.set(overrun.get() + 1);
        }
    }
}

/// Serves connections to a listener.
pub(super) struct Serving<R: Runtime> {
    pub(super) runtime: R,
    pub(super) settings: Rc<Settings>,
    pub(super) events: flume::Sender<Event>,
    /// Packets that found the queue full.
    pub(super) overrun: Rc<Cell<u64>>,
    /// Whether packets come over connections, and not as datagrams.
    pub(super) takes_packets: bool,
    pub(super) stop: Latch,
}

impl<R: Runtime> Serving<R> {
    pub(super) async fn accept<L: Listener>(self, listener: L) {
        let served = Rc::new(Cell::new(0));
        let served_max = if self.takes_packets { STREAMS_MAX } else { SERVED_MAX };
        let this = Rc::new(self);
        while let Some(accepted) = unless_stopped(listener.accept(), &this.stop).await {
            match accepted {
                Ok((reader, writer, _)) if served.get() < served_max => {
                    let place = Place::take(&served);
                    let serving = Rc::clone(&this);
                    drop(this.runtime.spawn(async move {
                        let served = serving.serve(reader, writer);
                        if let Some(Err(error)) = unless_stopped(served, &serving.stop).await {
                            tracing::debug!(%error, "a connection for gossip has failed");
                        }
                        drop(place);
                    }));
                }
                Ok(_) => tracing::debug!("too many nodes exchange states at a time"),
                Err(error) => {
                    tracing::debug!(%error, "a connection for gossip was not accepted");
                    pause(&this.runtime, &this.stop).await;
                }
            }
        }
    }

    /// Takes a state and answers with the own one, or takes packets until there are no more.
    async fn serve<Rd: Reader, W: Writer>(&self, mut reader: Rd, mut writer: W) -> io::Result<()> {
        let until = self.runtime.now().after(self.settings.stream_timeout);
        let mut frames = Frames::default();
        let first = frames.next(&mut reader, STREAM_MAX_BYTES, until).await?;
        let Some(message) = first else { return Ok(()) };
        if self.takes_packets && is_packet(&message) {
            return self.take_packets(message, frames, reader, writer).await;
        }
        if !frames.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (reply, answer) = flume::bounded(1);
        if self.events.send_async(Event::State { message, reply }).await.is_err() {
            return Ok(());
        }
        // Nothing is said to who sends something else, or is of another cluster.
        let Ok(Some(answer)) = answer.recv_async().await else { return Ok(()) };
        exchange::write(&mut writer, &answer, until).await?;
        writer.shutdown().await
    }

    /// Hands packets to the owner, and confirms them.
    async fn take_packets<Rd: Reader, W: Writer>(
        &self,
        first: Vec<u8>,
        mut frames: Frames,
        mut reader: Rd,
        mut writer: W,
    ) -> io::Result<()> {
        let mut packet = first;
        loop {
            if self.events.try_send(Event::Datagram(packet)).is_err() {
                self.overrun.set(self.overrun.get() + 1);
            }
            let until = self.runtime.now().after(self.settings.packet_dial_timeout);
            writer.write_all(vec![CONFIRMED], until).await.0?;
            let until = self.runtime.now().after(KEPT);
            packet = match frames.next(&mut reader, DATAGRAM_MAX_BYTES, until).await? {
                Some(next) if is_packet(&next) => next,
                Some(_) => return Err(io::ErrorKind::InvalidData.into()),
                None => return writer.shutdown().await,
            };
        }
    }
}

/// Whether a message is one that may come as a datagram.
fn is_packet(message: &[u8]) -> bool {
    let is_gossip = || envelope::open(message).is_ok_and(|opened| opened.kind == Kind::Gossip);
    message.len() <= DATAGRAM_MAX_BYTES && is_gossip()
}

/// A place among those that are served.
struct Place {
    served: Rc<Cell<usize>>,
}

impl Place {
    fn take(served: &Rc<Cell<usize>>) -> Place {
        served.set(served.get() + 1);
        Place { served: Rc::clone(served) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.served.set(self.served.get() - 1);
    }
}
