//! Which Alertmanagers a tenant has: those of the settings, or the instances of services.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::{Latch, Runtime};

use super::bell::Bell;
use super::discover::Discover;
use super::limit::LogLimit;
use super::setup::Connect;
use super::tenant::{Counts, Receiver, Target};
use super::{SetupOf, Shared, TenantOf};

/// Shortest time between two look-ups of a service, and between attempts that fail.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// Longest time between attempts that fail.
const LONGEST_RETRY: Duration = Duration::from_secs(15);

impl<R: Runtime, C: Connect, D: Discover> Shared<R, C, D> {
    /// Finds the Alertmanagers of settings that have just come into force.
    pub(super) fn find_targets(
        self: &Rc<Self>,
        tenant: &Rc<TenantOf<R, C>>,
        setup: &Rc<SetupOf<R, C>>,
    ) {
        if setup.config.discovery && !setup.addresses.is_empty() {
            let discovery = self.clone().discover(tenant.clone(), setup.clone());
            self.spawn(discovery);
            return;
        }
        let targets = setup.addresses.iter().map(|address| Target {
            url: address.post_url(&address.host),
            authorization: address.authorization.clone(),
        });
        self.set_targets(tenant, targets.collect());
        if setup.addresses.is_empty() {
            self.with_queue(tenant, super::drop_all);
        }
    }

    /// Looks the services of settings up again and again while the settings are in force. A
    /// service that cannot be resolved keeps the instances of the last time.
    async fn discover(self: Rc<Self>, tenant: Rc<TenantOf<R, C>>, setup: Rc<SetupOf<R, C>>) {
        let refresh = setup.config.refresh_interval.max(SHORTEST_REFRESH);
        let mut found: Vec<Vec<String>> = vec![Vec::new(); setup.addresses.len()];
        let failures_log = LogLimit::default();
        let mut retry = SHORTEST_REFRESH;
        loop {
            let mut is_complete = true;
            for (address, instances) in setup.addresses.iter().zip(&mut found) {
                let looked_up = {
                    let look = pin!(self.discover.instances(&address.host));
                    match select(look, pin!(self.stop.wait())).await {
                        Either::Left((looked_up, _)) => looked_up,
                        Either::Right(_) => return,
                    }
                };
                match looked_up {
                    Ok(all) => *instances = all,
                    Err(error) => {
                        is_complete = false;
                        if let Some(earlier) = failures_log.admit(self.runtime.now()) {
                            let (tenant, service) = (tenant.id.as_str(), address.host.as_str());
                            tracing::warn!(
                                tenant,
                                service,
                                error,
                                earlier,
                                "cannot find the instances of a service of Alertmanagers"
                            );
                        }
                    }
                }
            }
            let current = tenant.setup.borrow().clone();
            let is_current = current.is_some_and(|current| Rc::ptr_eq(&current, &setup));
            if !is_current || tenant.is_removed.get() {
                return;
            }
            let targets = setup.addresses.iter().zip(&found).flat_map(|(address, instances)| {
                instances.iter().map(|host| Target {
                    url: address.post_url(host),
                    authorization: address.authorization.clone(),
                })
            });
            self.set_targets(&tenant, targets.collect());
            retry = if is_complete { SHORTEST_REFRESH } else { (retry * 2).min(LONGEST_RETRY) };
            let pause = if is_complete { refresh } else { retry.min(refresh) };
            let slept = pin!(self.runtime.sleep_until(self.runtime.now().after(pause)));
            if let Either::Right(_) = select(slept, pin!(self.stop.wait())).await {
                return;
            }
        }
    }

    /// Starts and ends receivers so that there is one for each address.
    pub(super) fn set_targets(self: &Rc<Self>, tenant: &Rc<TenantOf<R, C>>, targets: Vec<Target>) {
        let mut receivers = tenant.receivers.borrow_mut();
        let mut kept = Vec::new();
        let mut added = Vec::new();
        for target in targets {
            let is_same = |receiver: &Rc<Receiver>| *receiver.url == *target.url;
            if kept.iter().chain(&added).any(is_same) {
                continue;
            }
            if let Some(at) = receivers.iter().position(is_same) {
                let receiver = receivers.swap_remove(at);
                receiver.authorization.replace(target.authorization);
                kept.push(receiver);
                continue;
            }
            let id = self.next_receiver.get();
            self.next_receiver.set(id + 1);
            added.push(Rc::new(Receiver {
                id,
                url: target.url.into(),
                authorization: RefCell::new(target.authorization),
                bell: Bell::default(),
                removed: Latch::new(),
                counts: Cell::new(Counts::default()),
                failures_log: LogLimit::default(),
            }));
        }
        let removed = std::mem::take(&mut *receivers);
        receivers.extend(kept.into_iter().chain(added.iter().cloned()));
        drop(receivers);
        self.with_queue(tenant, |queue| {
            for receiver in &removed {
                queue.remove_reader(receiver.id);
            }
            queue.add_readers(&added.iter().map(|receiver| receiver.id).collect::<Vec<_>>());
        });
        for receiver in removed {
            receiver.removed.trigger();
            receiver.bell.ring();
        }
        for receiver in added {
            let sender = self.clone().send_all(tenant.clone(), receiver);
            self.spawn(sender);
        }
    }
}
