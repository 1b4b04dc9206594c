//! What the gossip engine asks for: messages, timers.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use foca::{Notification, Timer};
use logsvc_runtime::Monotonic;

use crate::identity::Identity;
use crate::members::Traffic;
use crate::wire::envelope::{Kind, seal};

/// Datagrams that wait to be sent. More are dropped, as the network would.
const OUTBOX_MAX: usize = 4_096;

/// Takes what the engine asks for.
pub(super) struct Sink {
    pub(super) now: Monotonic,
    pub(super) own_address: SocketAddr,
    pub(super) label: String,
    pub(super) outbox: VecDeque<(SocketAddr, Vec<u8>)>,
    pub(super) traffic: Traffic,
    timers: BTreeMap<(Monotonic, u64), Timer<Identity>>,
    next_timer: u64,
}

impl Sink {
    pub(super) fn new(now: Monotonic, own_address: SocketAddr, label: String) -> Sink {
        Sink {
            now,
            own_address,
            label,
            outbox: VecDeque::new(),
            traffic: Traffic::default(),
            timers: BTreeMap::new(),
            next_timer: 0,
        }
    }

    /// When the first timer is due.
    pub(super) fn next_due(&self) -> Monotonic {
        self.timers.first_key_value().map_or(Monotonic::NEVER, |((at, _), _)| *at)
    }

    /// A timer that is due.
    pub(super) fn pop_due(&mut self) -> Option<Timer<Identity>> {
        if self.next_due() > self.now {
            return None;
        }
        self.timers.pop_first().map(|(_, timer)| timer)
    }
}

impl foca::Runtime<Identity> for Sink {
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        if matches!(notification, Notification::Rejoin(_)) {
            self.traffic.renewed += 1;
        }
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        // Former lives of this node are among the dead to whom the engine speaks.
        if to.address == self.own_address {
            return;
        }
        if self.outbox.len() >= OUTBOX_MAX {
            self.traffic.unsent += 1;
            return;
        }
        self.outbox.push_back((to.address, seal(Kind::Gossip, &self.label, data)));
    }

    fn submit_after(&mut self, event: Timer<Identity>, after: Duration) {
        self.timers.insert((self.now.after(after), self.next_timer), event);
        self.next_timer += 1;
    }
}
