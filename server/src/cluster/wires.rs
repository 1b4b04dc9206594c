//! Notices when the process of another node has ended: a connection to each of them, which carries nothing.
//!
//! The machine of a process that ends closes its connections, and refuses new ones. A node listens for
//! others from before it joins until it has left. So an address that has taken a connection, and then
//! refuses two that are [`APART`], says that the process is gone. Membership needs seconds to notice that.
//!
//! Where messages to other nodes are encrypted the connection is, too, since the other side ends one whose
//! handshake does not come.
//!
//! Guarantees: a process that stands still, a network that loses packets, and a machine that is off are
//! told of by membership alone, since none of them refuses a connection. No more than half of the members
//! are told to be gone within [`FORGET_AFTER`], so that who is cut off by a packet filter that refuses does
//! not take over from all others.
//!
//! What can go wrong: something between two nodes refuses connections while both live. Then one of them is
//! taken over, and has to be started again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_cluster::map::{Epoch, Map};
use logsvc_cluster::member::Input;
use logsvc_runtime::{Dial, Latch, Monotonic, Reader, Runtime};
use logsvc_shards::member::MemberHandle;

/// How far two refusals are apart that count, at least.
const APART: Duration = Duration::from_millis(300);

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection is kept. The other node ends it sooner if it hears nothing.
const KEPT: Duration = Duration::from_secs(60);

/// The least time between the beginnings of two connections, unless the first one is refused.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a member that was told to be gone counts among those that are.
const FORGET_AFTER: Duration = super::hints::CUT_OFF_PATIENCE;

/// How connections to other nodes come about.
pub(super) struct Reach<D> {
    pub(super) dialer: D,
    /// Whether they are encrypted.
    pub(super) is_secure: bool,
}

/// Watches the members of the newest map, and tells the member which of them are gone, until `stop` is
/// triggered.
pub(super) async fn watch<R: Runtime, D: Dial>(
    runtime: R,
    reach: Reach<D>,
    handle: MemberHandle,
    stop: Latch,
) {
    let reach = Rc::new(reach);
    let published = handle.routes().clone();
    let losses = Rc::new(RefCell::new(Losses::default()));
    let mut watched = BTreeSet::new();
    let mut stopped = pin!(stop.wait());
    loop {
        let routes = published.get();
        let members = &routes.map.members;
        watched.retain(|epoch| members.contains_key(epoch));
        for (&epoch, info) in members.iter().filter(|(epoch, _)| **epoch != routes.me) {
            if !watched.insert(epoch) {
                continue;
            }
            let Ok(address) = info.address.parse() else { continue };
            let (runtime, handle, losses) = (runtime.clone(), handle.clone(), Rc::clone(&losses));
            let (published, stop, name) = (published.clone(), stop.clone(), info.name.clone());
            let reach = Rc::clone(&reach);
            drop(runtime.clone().spawn(async move {
                let over = published.when(|newer| !newer.map.members.contains_key(&epoch));
                let (over, stopped) = (pin!(over), pin!(stop.wait()));
                let over = select(over, stopped);
                let tell = || {
                    let map = &published.get().map;
                    let may = losses.borrow_mut().may_tell(epoch, runtime.now(), map);
                    if may {
                        tracing::warn!(
                            "the process of the node {name} has ended: its address {address} refuses \
                             connections"
                        );
                        handle.tell(Input::Gone(epoch));
                    }
                    may
                };
                let watching = pin!(until_gone(&runtime, &reach, address, tell));
                select(over, watching).await;
            }));
        }
        for epoch in replaced(&routes.map).filter(|epoch| *epoch != routes.me) {
            handle.tell(Input::Gone(epoch));
        }
        let newer = pin!(published.when(|newer| newer.number > routes.number));
        if let Either::Left(_) = select(&mut stopped, newer).await {
            return;
        }
    }
}

/// Members at whose address a newer one listens: their processes have made room for it.
fn replaced(map: &Map) -> impl Iterator<Item = Epoch> {
    map.members.iter().filter_map(|(epoch, info)| {
        let mut newer = map.members.range(Epoch(epoch.0.saturating_add(1))..);
        newer.any(|(_, other)| other.address == info.address).then_some(*epoch)
    })
}

/// Ends when the process at an address is gone, and `tell` has told that.
async fn until_gone<R: Runtime, D: Dial>(
    runtime: &R,
    reach: &Reach<D>,
    address: SocketAddr,
    mut tell: impl FnMut() -> bool,
) {
    let host = address.ip().to_string();
    let mut wire = Wire::default();
    loop {
        let begun = runtime.now();
        let until = begun.after(CONNECT_TIMEOUT);
        let dialed = reach.dialer.dial(&host, address.port(), reach.is_secure, until).await;
        let pause = match dialed {
            Ok((mut reader, writer)) => {
                wire.note_connected();
                // Nobody says anything on it, so the first thing to happen is its end.
                let _ = reader.read(Vec::with_capacity(64), runtime.now().after(KEPT)).await;
                drop(writer);
                PAUSE.saturating_sub(runtime.now().since(begun))
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                match wire.note_refused(runtime.now()) {
                    Refused::Again(pause) => pause,
                    Refused::Gone if tell() => return,
                    Refused::Gone => PAUSE,
                }
            }
            Err(_) => {
                wire.note_silent();
                PAUSE
            }
        };
        if !pause.is_zero() {
            runtime.sleep_until(runtime.now().after(pause)).await;
        }
    }
}

/// What attempts to connect to an address have shown.
#[derive(Debug, Default)]
struct Wire {
    has_listened: bool,
    /// The first refusal since something else was seen.
    refused: Option<Monotonic>,
}

#[derive(PartialEq, Eq, Debug)]
enum Refused {
    /// Try again after this time.
    Again(Duration),
    /// The process is gone.
    Gone,
}

impl Wire {
    fn note_connected(&mut self) {
        *self = Wire { has_listened: true, refused: None };
    }

    /// Neither a connection nor a refusal.
    fn note_silent(&mut self) {
        self.refused = None;
    }

    fn note_refused(&mut self, now: Monotonic) -> Refused {
        if !self.has_listened {
            // Perhaps nobody ever reaches this address.
            return Refused::Again(PAUSE);
        }
        let first = *self.refused.get_or_insert(now);
        match APART.saturating_sub(now.since(first)) {
            Duration::ZERO => Refused::Gone,
            rest => Refused::Again(rest),
        }
    }
}

/// Who was told to be gone lately.
#[derive(Debug, Default)]
struct Losses(BTreeMap<Epoch, Monotonic>);

impl Losses {
    /// Whether at least half of the members remain without this one, too. Counts it among the lost then.
    fn may_tell(&mut self, epoch: Epoch, now: Monotonic, map: &Map) -> bool {
        self.0.retain(|_, told| now.since(*told) < FORGET_AFTER);
        let mut all: BTreeSet<Epoch> = self.0.keys().copied().collect();
        let lost = all.len() + usize::from(!all.contains(&epoch));
        all.extend(map.members.keys());
        let may = all.len() >= 2 * lost;
        if may {
            self.0.insert(epoch, now);
        }
        may
    }
}

#[cfg(test)]
mod tests;
