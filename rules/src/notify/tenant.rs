//! What the notifier keeps of a tenant and of its Alertmanagers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use logsvc_proto::TenantId;
use logsvc_runtime::Latch;

use super::bell::Bell;
use super::limit::LogLimit;
use super::queue::Queue;
use super::setup::Setup;
use crate::config::AlertmanagerConfig;
use crate::messages::{AlertmanagerNumbers, NotificationNumbers};

pub(super) struct Tenant<R, T> {
    pub(super) id: TenantId,
    /// The settings in use; `None` until valid ones have come.
    pub(super) setup: RefCell<Option<Rc<Setup<R, T>>>>,
    /// Settings that cannot be used, so that the log says so once.
    pub(super) refused: RefCell<Option<Arc<AlertmanagerConfig>>>,
    pub(super) queue: RefCell<Queue>,
    pub(super) receivers: RefCell<Vec<Rc<Receiver>>>,
    pub(super) is_removed: Cell<bool>,
    pub(super) drops_log: LogLimit,
}

/// An Alertmanager of a tenant.
pub(super) struct Receiver {
    /// Of its reader in the queue.
    pub(super) id: u64,
    pub(super) url: Arc<str>,
    /// Of the name and password in the address.
    pub(super) authorization: RefCell<Option<HeaderValue>>,
    /// Rings for new alerts, for the removal, and for the stop.
    pub(super) bell: Bell,
    /// Triggered when it is no Alertmanager of the tenant any more.
    pub(super) removed: Latch,
    pub(super) counts: Cell<Counts>,
    pub(super) failures_log: LogLimit,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) errors: u64,
    pub(super) in_flight: u64,
    pub(super) requests: u64,
    pub(super) latency: Duration,
}

/// An Alertmanager as settings or discovery name it.
pub(super) struct Target {
    pub(super) url: String,
    pub(super) authorization: Option<HeaderValue>,
}

impl<R, T> Tenant<R, T> {
    pub(super) fn new(id: TenantId) -> Tenant<R, T> {
        Tenant {
            id,
            setup: RefCell::default(),
            refused: RefCell::default(),
            queue: RefCell::default(),
            receivers: RefCell::default(),
            is_removed: Cell::new(false),
            drops_log: LogLimit::default(),
        }
    }

    pub(super) fn ring_all(&self) {
        for receiver in &*self.receivers.borrow() {
            receiver.bell.ring();
        }
    }

    pub(super) fn numbers(&self) -> NotificationNumbers {
        let queue = self.queue.borrow();
        let receivers = self.receivers.borrow();
        let alertmanagers = receivers.iter().map(|receiver| {
            let Counts { sent, errors, in_flight, requests, latency } = receiver.counts.get();
            let reader = queue.reader(receiver.id);
            AlertmanagerNumbers {
                address: receiver.url.clone(),
                given: reader.given,
                sent,
                errors,
                dropped: reader.dropped,
                queue_length: queue.waiting(receiver.id),
                in_flight,
                requests,
                latency,
            }
        });
        let mut alertmanagers: Vec<_> = alertmanagers.collect();
        alertmanagers.sort_by(|a, b| a.address.cmp(&b.address));
        let setup = self.setup.borrow();
        NotificationNumbers {
            tenant: self.id.clone(),
            queue_length: queue.len() as u64,
            queue_capacity: setup.as_ref().map_or(0, |setup| setup.config.queue_capacity as u64),
            dropped: queue.dropped(),
            alertmanagers,
        }
    }
}

impl Receiver {
    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}
