//! The task that works on a tenant's log: appends in the order in which they came, and upkeep.
//!
//! One worker at a time runs for a tenant, so that files have one writer. It is a task of its own:
//! an append whose caller has gone is done all the same.

use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};

use super::node::{Node, Tenant};
use super::sender;
use super::signal::Signal;
use super::state::{Drop, Receiver};
use crate::config::{RemoteClientConfig, RemoteWriteConfig};
use crate::notify::Connect;
use crate::relabel::Relabeller;
use crate::remote_numbers::ReceiverNumbers;
use crate::shown_url::shown_url;
use crate::sink::AppendError;

/// How often upkeep is done: files are synced, settings are looked at, old samples are dropped.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How often series without samples are looked for.
const FORGET_INTERVAL: Duration = Duration::from_secs(300);

impl<R: Runtime, C: Connect> Node<R, C> {
    /// Does upkeep of all tenants again and again, until the node stops.
    pub(super) async fn keep(self: Rc<Self>) {
        let mut next = self.runtime.now();
        while !self.stop.is_triggered() {
            next = next.after(UPKEEP_INTERVAL).max(self.runtime.now());
            let tenants: Vec<Rc<Tenant>> = self.tenants.borrow().values().cloned().collect();
            for tenant in tenants {
                tenant.wants_upkeep.set(true);
                self.work(&tenant).await;
            }
            let sleep = std::pin::pin!(self.runtime.sleep_until(next));
            futures_util::future::select(sleep, self.stop.wait()).await;
        }
    }

    /// Works on the tenant until nothing is left to do. Returns at once if another task does.
    pub(super) async fn work(self: &Rc<Self>, tenant: &Rc<Tenant>) {
        if tenant.is_busy.replace(true) {
            return;
        }
        loop {
            if tenant.wants_upkeep.replace(false) {
                self.upkeep(tenant).await;
            }
            let next = tenant.queue.borrow_mut().pop_front();
            let Some(append) = next else {
                if tenant.wants_upkeep.get() {
                    continue;
                }
                break;
            };
            let result = match self.prepare(tenant).await {
                Ok(()) => self.append_now(tenant, append.samples).await,
                Err(error) => Err(AppendError::Io(error.to_string())),
            };
            // Whoever asked may have gone.
            let _: Result<(), _> = append.done.send(result);
        }
        tenant.is_busy.set(false);
    }

    /// Reads the log if that was not done, and gives the receivers their settings.
    async fn prepare(self: &Rc<Self>, tenant: &Rc<Tenant>) -> io::Result<()> {
        self.load(tenant).await?;
        let settings = (self.settings)(&tenant.id);
        let is_same = tenant
            .settings
            .borrow()
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &settings) || *known == settings);
        if !is_same {
            self.set_receivers(tenant, &settings).await?;
            tenant.settings.replace(Some(settings));
        }
        Ok(())
    }

    async fn upkeep(self: &Rc<Self>, tenant: &Rc<Tenant>) {
        let now = self.runtime.now();
        if let Err(error) = self.prepare(tenant).await {
            if tenant.troubles.count(now, 1).is_some() {
                tracing::error!(
                    tenant = tenant.id.as_str(), %error,
                    "the log of samples for remote write cannot be used; this is tried again"
                );
            }
            return;
        }
        self.drop_old(tenant, now);
        self.remove_garbage(tenant).await;
        let is_dirty = {
            let mut state = tenant.state.borrow_mut();
            if now >= tenant.forget_at.get() {
                tenant.forget_at.set(now.after(FORGET_INTERVAL));
                state.forget_series(now);
            }
            state.drop_passed(now);
            state.is_dirty || state.is_folder_dirty
        };
        if is_dirty {
            self.sync(tenant).await;
        }
    }

    /// Drops segments whose newest sample has waited too long, and ends a segment that would make
    /// others wait for it.
    fn drop_old(&self, tenant: &Tenant, now: Monotonic) {
        let max_age = self.config.max_age;
        let mut state = tenant.state.borrow_mut();
        if state.is_aged(now, tenant.begun.get(), max_age) {
            state.seal();
            self.files.borrow_mut().close(&tenant.id);
        }
        let mut dropped = 0;
        while state.segments.front().is_some_and(|oldest| oldest.age(now) > max_age) {
            dropped += state.drop_oldest(Drop::Age);
        }
        drop(state);
        self.note_drops(tenant, dropped, "they have waited longer than the log keeps them");
    }

    /// Gives receivers their settings; adds those that are new, and removes those that are gone.
    async fn set_receivers(
        self: &Rc<Self>,
        tenant: &Rc<Tenant>,
        settings: &RemoteWriteConfig,
    ) -> io::Result<()> {
        let mut ids = BTreeSet::new();
        for config in &settings.clients {
            if !ids.insert(config.id.as_str()) {
                continue;
            }
            if !self.change_receiver(tenant, config, settings) {
                self.add_receiver(tenant, config, settings).await?;
            }
        }
        // While remote write is off the positions stay.
        if settings.enabled {
            self.remove_receivers(tenant, &ids).await?;
        } else {
            for receiver in &mut tenant.state.borrow_mut().receivers {
                receiver.is_paused = true;
                receiver.signal.set();
            }
        }
        Ok(())
    }

    /// Gives a receiver that is there its settings; false if it is not there.
    fn change_receiver(
        &self,
        tenant: &Tenant,
        config: &RemoteClientConfig,
        settings: &RemoteWriteConfig,
    ) -> bool {
        let mut state = tenant.state.borrow_mut();
        let there = state.receivers.iter_mut().find(|receiver| receiver.config.id == config.id);
        let Some(receiver) = there else { return false };
        apply(tenant, receiver, config, settings);
        true
    }

    async fn add_receiver(
        self: &Rc<Self>,
        tenant: &Rc<Tenant>,
        config: &RemoteClientConfig,
        settings: &RemoteWriteConfig,
    ) -> io::Result<()> {
        let (position, passed) = self.load_position(tenant, &config.id).await?;
        let key = self.next_key.get();
        self.next_key.set(key + 1);
        let signal = Rc::new(Signal::default());
        let mut receiver = Receiver {
            key,
            config: Rc::new(config.clone()),
            relabeller: Arc::default(),
            adds_org_id: false,
            generation: 0,
            is_paused: false,
            position,
            passed,
            pending: 0,
            since: self.runtime.now(),
            claimed: None,
            overtaken: None,
            signal,
            numbers: ReceiverNumbers::new(tenant.id.clone()),
        };
        apply(tenant, &mut receiver, config, settings);
        {
            let mut state = tenant.state.borrow_mut();
            let behind = state.segments.iter().filter(|meta| meta.number >= position.place.segment);
            let all: u64 = behind.map(|meta| meta.samples).sum();
            receiver.pending = all.saturating_sub(passed);
            state.receivers.push(receiver);
        }
        let run = sender::run(Rc::clone(self), Rc::clone(tenant), key);
        drop(self.runtime.spawn(run));
        Ok(())
    }

    async fn remove_receivers(&self, tenant: &Tenant, ids: &BTreeSet<&str>) -> io::Result<()> {
        let gone: Vec<Receiver> = {
            let mut state = tenant.state.borrow_mut();
            let gone = state
                .receivers
                .extract_if(.., |receiver| !ids.contains(receiver.config.id.as_str()));
            gone.collect()
        };
        for receiver in &gone {
            receiver.signal.set();
        }
        // Those of earlier processes, too.
        let kept: BTreeSet<_> = ids.iter().map(|id| tenant.position_path(id)).collect();
        let entries = match self.runtime.read_dir(&tenant.folder).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = tenant.folder.join(&entry.name);
            if entry.name.ends_with(".position") && !kept.contains(&path) {
                self.runtime.remove_file(&path).await?;
            }
        }
        Ok(())
    }
}

/// Puts settings into force.
fn apply(
    tenant: &Tenant,
    receiver: &mut Receiver,
    config: &RemoteClientConfig,
    settings: &RemoteWriteConfig,
) {
    receiver.is_paused = !settings.enabled;
    match Relabeller::new(&config.write_relabel_configs) {
        Ok(relabeller) => receiver.relabeller = Arc::new(relabeller),
        Err(error) => {
            tracing::error!(
                tenant = tenant.id.as_str(), receiver = config.id, %error,
                "nothing is sent to a receiver of remote write: its relabelling is invalid"
            );
            receiver.is_paused = true;
        }
    }
    receiver.config = Rc::new(config.clone());
    receiver.adds_org_id = settings.add_org_id_header;
    receiver.generation += 1;
    let numbers = &mut receiver.numbers;
    numbers.name = if config.name.is_empty() { config.id.clone() } else { config.name.clone() };
    numbers.url = shown_url(&config.url);
    numbers.max_samples_per_send = config.queue.max_samples_per_send as u64;
    receiver.signal.set();
}
