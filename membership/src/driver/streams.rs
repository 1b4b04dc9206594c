//! Packets of gossip over connections that stay open, one to each member that is spoken to. The other
//! side confirms each packet with a byte.
//!
//! Guarantees: a packet goes at once, or is dropped, as with datagrams: nobody waits for a slow member.
//! There are at most [`MEMBERS_MAX`] connections, each with [`WAITING_MAX`] packets. A connection ends
//! when it has carried nothing for [`IDLE`], or when a packet is not confirmed within
//! `packet_dial_timeout`: what was broken by the network is not waited for.
//!
//! What can go wrong: nobody listens, or the other side is not who it should be. Then the packets that
//! wait are lost, and the next one tries anew.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::{Dial, Monotonic, Reader, Runtime, Writer};

use super::{Links, exchange};
use crate::settings::Settings;

/// Members with an open connection. The one that was used longest ago makes room for another one.
pub(super) const MEMBERS_MAX: usize = 256;
/// Packets that wait for one member.
const WAITING_MAX: usize = 64;
/// How long a connection may carry nothing.
const IDLE: Duration = Duration::from_secs(30);
/// When the other side gives up an idle connection, so that this side does first.
pub(super) const KEPT: Duration = Duration::from_secs(60);
/// What confirms a packet.
pub(super) const CONFIRMED: u8 = 1;
/// Confirmations that are read at once.
const CONFIRMATIONS: usize = 64;

/// The connections of a node to others.
pub(super) struct Streams<R: Runtime, D: Dial> {
    runtime: R,
    links: Rc<Links<D>>,
    settings: Rc<Settings>,
    lanes: BTreeMap<SocketAddr, Lane>,
    /// Packets so far.
    sent: u64,
}

struct Lane {
    packets: flume::Sender<Vec<u8>>,
    /// The number of the last packet.
    used: u64,
}

impl<R: Runtime, D: Dial> Streams<R, D> {
    pub(super) fn new(runtime: R, links: Rc<Links<D>>, settings: Rc<Settings>) -> Streams<R, D> {
        Streams { runtime, links, settings, lanes: BTreeMap::new(), sent: 0 }
    }

    /// Gives a packet to the connection to a member. False if too many wait for it.
    pub(super) fn send(&mut self, packet: Vec<u8>, to: SocketAddr) -> bool {
        self.sent += 1;
        let packet = match self.lanes.get_mut(&to) {
            Some(lane) => {
                lane.used = self.sent;
                match lane.packets.try_send(packet) {
                    Ok(()) => return true,
                    Err(flume::TrySendError::Full(_)) => return false,
                    // The connection has ended.
                    Err(flume::TrySendError::Disconnected(packet)) => packet,
                }
            }
            None => packet,
        };
        self.make_room(to);
        let (packets, waiting) = flume::bounded(WAITING_MAX);
        let is_taken = packets.try_send(packet).is_ok();
        self.lanes.insert(to, Lane { packets, used: self.sent });
        let (runtime, links) = (self.runtime.clone(), Rc::clone(&self.links));
        let settings = Rc::clone(&self.settings);
        drop(self.runtime.spawn(async move {
            if let Err(error) = carry(&runtime, &links, to, waiting, &settings).await {
                tracing::debug!(%to, %error, "a connection for packets of gossip has ended");
            }
        }));
        is_taken
    }

    fn make_room(&mut self, to: SocketAddr) {
        self.lanes.remove(&to);
        if self.lanes.len() < MEMBERS_MAX {
            return;
        }
        self.lanes.retain(|_, lane| !lane.packets.is_disconnected());
        while self.lanes.len() >= MEMBERS_MAX {
            let oldest = self.lanes.iter().min_by_key(|(_, lane)| lane.used);
            let Some((&oldest, _)) = oldest else { return };
            self.lanes.remove(&oldest);
        }
    }
}

/// Connects and sends packets, until there are no more or the connection fails.
async fn carry<R: Runtime, D: Dial>(
    runtime: &R,
    links: &Links<D>,
    to: SocketAddr,
    waiting: flume::Receiver<Vec<u8>>,
    settings: &Settings,
) -> io::Result<()> {
    let timeout = settings.packet_dial_timeout;
    let (reader, writer) = links.dial(to, runtime.now().after(timeout)).await?;
    // When packets were sent that are not confirmed.
    let unconfirmed = RefCell::new(VecDeque::new());
    let confirming = pin!(confirm(reader, &unconfirmed));
    let sending = pin!(send(runtime, writer, &waiting, &unconfirmed, timeout));
    match select(confirming, sending).await {
        Either::Left((ended, _)) | Either::Right((ended, _)) => ended,
    }
}

/// Reads confirmations to the end of the connection.
async fn confirm<Rd: Reader>(
    mut reader: Rd,
    unconfirmed: &RefCell<VecDeque<Monotonic>>,
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(CONFIRMATIONS);
    loop {
        buffer.clear();
        let (result, returned) = reader.read(buffer, Monotonic::NEVER).await;
        buffer = returned;
        let count = result?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut unconfirmed = unconfirmed.borrow_mut();
        let known = count.min(unconfirmed.len());
        unconfirmed.drain(..known);
    }
}

async fn send<R: Runtime, W: Writer>(
    runtime: &R,
    mut writer: W,
    waiting: &flume::Receiver<Vec<u8>>,
    unconfirmed: &RefCell<VecDeque<Monotonic>>,
    timeout: Duration,
) -> io::Result<()> {
    let mut idle_at = runtime.now().after(IDLE);
    loop {
        let overdue_at = unconfirmed.borrow().front().map(|sent: &Monotonic| sent.after(timeout));
        let until = overdue_at.map_or(idle_at, |at| at.min(idle_at));
        let next = pin!(waiting.recv_async());
        match select(next, pin!(runtime.sleep_until(until))).await {
            Either::Left((Ok(packet), _)) => {
                exchange::write(&mut writer, &packet, runtime.now().after(timeout)).await?;
                unconfirmed.borrow_mut().push_back(runtime.now());
                idle_at = runtime.now().after(IDLE);
            }
            // Somebody else has the place.
            Either::Left((Err(_), _)) => return writer.shutdown().await,
            Either::Right(_) => {
                let now = runtime.now();
                let first = unconfirmed.borrow().front().copied();
                if first.is_some_and(|sent| now >= sent.after(timeout)) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                if now >= idle_at {
                    return writer.shutdown().await;
                }
            }
        }
    }
}
