//! Sends alerts to the Alertmanagers of their tenants.
//!
//! Each tenant has a queue, which all its Alertmanagers read at their own pace, and each of them
//! has a task that sends one request at a time. So an Alertmanager gets the alerts of a tenant in
//! the order in which they came, and a slow one holds up no other.
//!
//! Guarantees: [`AlertSink::send`] never waits. While there is room, no alert is lost between it
//! and the first request. Without room the oldest alerts go first, of the tenant whose queue is
//! too long, or of the tenant with the most bytes when the node's bound is reached. All that is
//! lost is counted. For each Alertmanager
//! `given = sent + errors + dropped + queue_length + in_flight`.
//!
//! A request that fails in passing (no answer, 408, 429, 5xx) is tried [`ATTEMPTS`] times within
//! some seconds, then given up; any other answer but 2xx ends it at once. A lasting queue for what
//! failed is not needed: an alert that fires comes again each `resend_delay`, and one that was
//! resolved for 15 minutes. So an Alertmanager that was away for less than that misses no state,
//! and what comes behind a failed request is newer.
//!
//! Bounds: the queues hold at most [`NotifierConfig::max_queued_bytes`]. Requests under way hold
//! at most a quarter of that, and two copies of one alert for each Alertmanager beside it.

mod address;
mod bell;
mod body;
mod discover;
mod limit;
mod queue;
mod sender;
mod setup;
mod targets;
mod tenant;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::{Latch, Monotonic, Runtime};

pub use self::address::AddressError;
pub use self::discover::{Discover, FixedServices, NameServers};
pub use self::sender::ATTEMPTS;
pub use self::setup::{Connect, NotifyConfigError, check_config};

use self::bell::Bell;
use self::body::alert_json;
use self::queue::{Queue, cost};
use self::setup::Setup;
use self::tenant::Tenant;
use crate::config::AlertmanagerConfig;
use crate::messages::NotificationNumbers;
use crate::sink::{AlertSink, Notification};

/// Gives the settings of a tenant.
pub type SettingsOf = Box<dyn Fn(&TenantId) -> Arc<AlertmanagerConfig>>;

/// What a [`Notifier`] is told.
pub struct NotifierConfig {
    /// The settings of a tenant at this moment. It is asked whenever the tenant sends alerts, so
    /// a change is in force from the next alerts on. The same `Arc` stands for the same settings.
    pub settings: SettingsOf,
    /// Labels that alerts get unless they have one of the name.
    pub external_labels: Vec<(String, String)>,
    /// Most bytes of all alerts that wait, on the node.
    pub max_queued_bytes: u64,
}

impl fmt::Debug for NotifierConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifierConfig")
            .field("external_labels", &self.external_labels)
            .field("max_queued_bytes", &self.max_queued_bytes)
            .finish_non_exhaustive()
    }
}

/// See the module. Clones share everything; they stay on one core.
pub struct Notifier<R: Runtime, C: Connect, D: Discover> {
    shared: Rc<Shared<R, C, D>>,
}

struct Shared<R: Runtime, C: Connect, D: Discover> {
    runtime: R,
    config: NotifierConfig,
    connect: C,
    discover: D,
    tenants: RefCell<BTreeMap<TenantId, Rc<TenantOf<R, C>>>>,
    setups: RefCell<Vec<Weak<SetupOf<R, C>>>>,
    /// Of all queues.
    queued_bytes: Cell<u64>,
    /// Of all requests under way.
    body_bytes: Cell<u64>,
    next_receiver: Cell<u64>,
    stop: Latch,
    /// When requests end after the latch was triggered.
    stop_at: Cell<Monotonic>,
    tasks: Cell<usize>,
    /// Rings when a task has ended.
    task_ended: Bell,
}

type TenantOf<R, C> = Tenant<R, <C as Connect>::Transport>;
type SetupOf<R, C> = Setup<R, <C as Connect>::Transport>;

impl<R: Runtime, C: Connect, D: Discover> Clone for Notifier<R, C, D> {
    fn clone(&self) -> Self {
        Notifier { shared: self.shared.clone() }
    }
}

impl<R: Runtime, C: Connect, D: Discover> fmt::Debug for Notifier<R, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl<R: Runtime, C: Connect, D: Discover> Notifier<R, C, D> {
    /// A notifier without tenants. Tasks start on the core of the runtime with the first alerts.
    pub fn new(runtime: R, config: NotifierConfig, connect: C, discover: D) -> Self {
        let shared = Shared {
            runtime,
            config,
            connect,
            discover,
            tenants: RefCell::default(),
            setups: RefCell::default(),
            queued_bytes: Cell::new(0),
            body_bytes: Cell::new(0),
            next_receiver: Cell::new(0),
            stop: Latch::new(),
            stop_at: Cell::new(Monotonic::NEVER),
            tasks: Cell::new(0),
            task_ended: Bell::default(),
        };
        Notifier { shared: Rc::new(shared) }
    }

    /// The numbers of all tenants that have sent alerts.
    pub fn numbers(&self) -> Vec<NotificationNumbers> {
        self.shared.tenants.borrow().values().map(|tenant| tenant.numbers()).collect()
    }

    /// Bytes of all alerts that wait, and of all requests under way.
    pub fn held_bytes(&self) -> (u64, u64) {
        (self.shared.queued_bytes.get(), self.shared.body_bytes.get())
    }

    /// Forgets tenants that have no rules any more, with what waits.
    pub fn retain(&self, has_rules: impl Fn(&TenantId) -> bool) {
        let shared = &self.shared;
        let mut gone = Vec::new();
        shared.tenants.borrow_mut().retain(|id, tenant| {
            let is_kept = has_rules(id);
            if !is_kept {
                gone.push(tenant.clone());
            }
            is_kept
        });
        for tenant in gone {
            tenant.is_removed.set(true);
            shared.set_targets(&tenant, Vec::new());
            shared.with_queue(&tenant, drop_all);
        }
    }

    /// Takes no alerts from this moment on, sends what waits for at most so long, and ends all
    /// tasks. What is left then is dropped.
    pub async fn stop(&self, patience: Duration) {
        let shared = &self.shared;
        shared.stop_at.set(shared.runtime.now().after(patience).min(shared.stop_at.get()));
        shared.stop.trigger();
        for tenant in shared.tenants.borrow().values() {
            tenant.ring_all();
        }
        while shared.tasks.get() > 0 {
            shared.task_ended.heard().await;
        }
        let tenants: Vec<_> = shared.tenants.borrow().values().cloned().collect();
        for tenant in tenants {
            let left = tenant.queue.borrow().len();
            if left > 0 {
                let tenant_id = tenant.id.as_str();
                tracing::warn!(tenant = tenant_id, alerts = left, "dropped alerts at the stop");
                shared.with_queue(&tenant, drop_all);
            }
        }
    }
}

impl<R: Runtime, C: Connect, D: Discover> AlertSink for Notifier<R, C, D> {
    fn send(&self, tenant: &TenantId, alerts: Vec<Notification>) {
        if alerts.is_empty() {
            return;
        }
        let shared = &self.shared;
        let tenant = shared.tenant(tenant);
        let setup = tenant.setup.borrow().clone();
        let Some(setup) = setup.filter(|_| !shared.stop.is_triggered()) else {
            let count = alerts.len() as u64;
            shared.with_queue(&tenant, |queue| queue.count_refused(count));
            shared.log_drops(&tenant, count, "there are no valid settings, or the node stops");
            return;
        };
        if setup.addresses.is_empty() {
            return;
        }
        shared.enqueue(&tenant, &setup, alerts);
        tenant.ring_all();
    }
}

fn drop_all(queue: &mut Queue) {
    while queue.len() > 0 {
        queue.drop_oldest();
    }
}

impl<R: Runtime, C: Connect, D: Discover> Shared<R, C, D> {
    /// The tenant, with the settings of this moment in force.
    fn tenant(self: &Rc<Self>, id: &TenantId) -> Rc<TenantOf<R, C>> {
        let mut tenants = self.tenants.borrow_mut();
        let tenant = tenants.entry(id.clone()).or_insert_with(|| Rc::new(Tenant::new(id.clone())));
        let tenant = tenant.clone();
        drop(tenants);
        self.refresh(&tenant);
        tenant
    }

    /// Puts the tenant's settings into force if they have changed. Those that cannot be used
    /// leave the earlier ones in force.
    fn refresh(self: &Rc<Self>, tenant: &Rc<TenantOf<R, C>>) {
        let config = (self.config.settings)(&tenant.id);
        let is_known =
            |known: &Arc<AlertmanagerConfig>| Arc::ptr_eq(known, &config) || **known == *config;
        if tenant.setup.borrow().as_ref().is_some_and(|setup| is_known(&setup.config)) {
            tenant.refused.replace(None);
            return;
        }
        if self.stop.is_triggered() || tenant.refused.borrow().as_ref().is_some_and(is_known) {
            return;
        }
        match self.setup(config.clone()) {
            Ok(setup) => {
                tenant.refused.replace(None);
                tenant.setup.replace(Some(setup.clone()));
                self.find_targets(tenant, &setup);
            }
            Err(error) => {
                let tenant_id = tenant.id.as_str();
                tracing::error!(tenant = tenant_id, %error, "invalid settings of notifications");
                tenant.refused.replace(Some(config));
            }
        }
    }

    /// Settings made ready, by those that other tenants use already.
    fn setup(
        &self,
        config: Arc<AlertmanagerConfig>,
    ) -> Result<Rc<SetupOf<R, C>>, NotifyConfigError> {
        let mut setups = self.setups.borrow_mut();
        setups.retain(|setup| setup.strong_count() > 0);
        let mut known = setups.iter().filter_map(Weak::upgrade);
        if let Some(setup) = known.find(|setup| Arc::ptr_eq(&setup.config, &config)) {
            return Ok(setup);
        }
        drop(known);
        let setup = Rc::new(Setup::new(&self.runtime, config)?);
        setups.push(Rc::downgrade(&setup));
        Ok(setup)
    }

    fn enqueue(
        &self,
        tenant: &Rc<TenantOf<R, C>>,
        setup: &SetupOf<R, C>,
        alerts: Vec<Notification>,
    ) {
        let now_ns = self.runtime.unix_nanos();
        let max_bytes = self.config.max_queued_bytes;
        let dropped = self.with_queue(tenant, |queue| {
            let before = queue.dropped();
            for mut alert in alerts {
                match setup.relabelled(&alert.labels, &self.config.external_labels) {
                    Some(labels) => alert.labels = labels,
                    None => continue,
                }
                let json = alert_json(&alert, now_ns);
                if cost(&json) > max_bytes {
                    queue.count_refused(1);
                    continue;
                }
                queue.push(json);
                // A burst does not take more memory than it may have in the end.
                while queue.len() > setup.config.queue_capacity || queue.bytes() > max_bytes {
                    queue.drop_oldest();
                }
            }
            queue.dropped() - before
        });
        if dropped > 0 {
            self.log_drops(tenant, dropped, "the queue of notifications is full");
        }
        self.keep_bound();
    }

    /// Drops the oldest alerts of the tenant with the most bytes until the node's bound holds.
    fn keep_bound(&self) {
        let max_bytes = self.config.max_queued_bytes;
        while self.queued_bytes.get() > max_bytes {
            let tenants = self.tenants.borrow();
            let largest = tenants.values().max_by_key(|tenant| tenant.queue.borrow().bytes());
            let Some(tenant) = largest.cloned() else { return };
            drop(tenants);
            let others = self.queued_bytes.get() - tenant.queue.borrow().bytes();
            let dropped = self.with_queue(&tenant, |queue| {
                let before = queue.dropped();
                while queue.len() > 0 && others + queue.bytes() > max_bytes {
                    queue.drop_oldest();
                }
                queue.dropped() - before
            });
            if dropped == 0 {
                // Nothing waits, so the count itself would be wrong.
                return;
            }
            self.log_drops(&tenant, dropped, "the node's notifications take too many bytes");
        }
    }

    /// Changes a queue and keeps the node's count.
    fn with_queue<U>(&self, tenant: &TenantOf<R, C>, change: impl FnOnce(&mut Queue) -> U) -> U {
        let mut queue = tenant.queue.borrow_mut();
        let before = queue.bytes();
        let result = change(&mut queue);
        self.queued_bytes.set(self.queued_bytes.get() - before + queue.bytes());
        result
    }

    fn log_drops(&self, tenant: &TenantOf<R, C>, alerts: u64, reason: &str) {
        if let Some(earlier) = tenant.drops_log.admit(self.runtime.now()) {
            let tenant = tenant.id.as_str();
            tracing::warn!(tenant, alerts, reason, earlier, "dropped alerts");
        }
    }

    /// Runs a task that [`Notifier::stop`] waits for.
    fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        let shared = self.clone();
        self.tasks.set(self.tasks.get() + 1);
        drop(self.runtime.spawn(async move {
            task.await;
            shared.tasks.set(shared.tasks.get() - 1);
            shared.task_ended.ring();
        }));
    }
}
