//! The task that speaks with etcd, and obeys the handle of the node.
//!
//! Guarantees: a round renews the lease before anything else, and makes a new one if it was lost. What the
//! node says of itself is written again whenever it has changed. No borrow is held across an await.

use std::net::SocketAddr;
use std::pin::pin;

use futures_util::future::{Either, select};
use logsvc_runtime::{Dial, Latch, Monotonic, Runtime};

use super::api::{self, LeaseId};
use super::client::{EtcdClient, EtcdError};
use super::roster::Roster;
use super::settings::EtcdSettings;
use super::{LEASE, ROUND_EVERY};
use crate::identity::Identity;
use crate::members::View;
use crate::membership::{Command, Joined, Membership};
use crate::settings::MEMBERS_MAX;
use crate::vitals::{Report, State, Vitals, VitalsError};

/// Requests of this node that wait for the task.
const COMMANDS_MAX: usize = 64;

/// Most keys that are read: members, and those that are to be forgotten.
const KEYS_MAX: usize = 2 * MEMBERS_MAX;

/// Failures in a row that are told, besides the first one.
const TELL_EVERY: u64 = 60;

/// Why membership cannot start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EtcdStartError {
    /// No node can run with these settings.
    #[error("etcd: {0}")]
    Settings(String),
    /// The vitals cannot be told.
    #[error("{0}")]
    Vitals(#[from] VitalsError),
}

/// Starts to take part. The node runs until it leaves or stops. `address` tells this process from others.
/// [`Membership::joined`] ends when etcd has answered, however long that takes.
///
/// # Errors
/// The settings or vitals are wrong.
pub fn start<R: Runtime, D: Dial>(
    runtime: &R,
    settings: &EtcdSettings,
    vitals: Vitals,
    address: SocketAddr,
    dialer: D,
) -> Result<Membership, EtcdStartError> {
    settings.check().map_err(EtcdStartError::Settings)?;
    let urls = settings.urls().map_err(EtcdStartError::Settings)?;
    vitals.check()?;
    let me = Identity::at_start(address, runtime.unix_nanos(), runtime.random_u64());
    let report = Report { number: 1, vitals };
    let roster = Roster::new(me, report, settings.heartbeat_timeout, runtime.now());
    let view = View::new(roster.members(runtime.now()));
    let (commands, orders) = flume::bounded(COMMANDS_MAX);
    let (joined, stop) = (Joined::default(), Latch::new());
    let task = Task {
        client: EtcdClient::new(runtime.clone(), dialer, settings, urls),
        runtime: runtime.clone(),
        prefix: settings.prefix.clone(),
        roster,
        lease: None,
        is_written: false,
        failures: 0,
        view: view.clone(),
        joined: joined.clone(),
        stop: stop.clone(),
    };
    drop(runtime.spawn(task.run(orders)));
    Ok(Membership::driven(view, commands, joined, stop))
}

struct Task<R: Runtime, D: Dial> {
    client: EtcdClient<R, D>,
    runtime: R,
    prefix: String,
    roster: Roster,
    lease: Option<LeaseId>,
    /// Whether etcd has what the node says of itself, under its lease.
    is_written: bool,
    /// Rounds in a row that have failed.
    failures: u64,
    view: View,
    joined: Joined,
    stop: Latch,
}

impl<R: Runtime, D: Dial> Task<R, D> {
    async fn run(mut self, orders: flume::Receiver<Command>) {
        let stop = self.stop.clone();
        let mut stopped = pin!(stop.wait());
        // Nobody can give orders any more once all handles are gone. The node goes on.
        let mut has_orders = true;
        loop {
            let begun = self.runtime.now();
            {
                let round = pin!(self.round());
                if let Either::Left(_) = select(&mut stopped, round).await {
                    return;
                }
            }
            self.joined.note_blind(self.failures > 0);
            self.view.publish(self.roster.members(self.runtime.now()));
            let next = begun.after(ROUND_EVERY).max(self.runtime.now());
            match next_order(&self.runtime, &orders, has_orders, next, &mut stopped).await {
                Woken::Order(Command::Leave { reply }) => {
                    {
                        let clock = self.runtime.clone();
                        let late = clock.sleep_until(clock.now().after(LEASE));
                        let leaving = pin!(self.leave());
                        select(leaving, pin!(late)).await;
                    }
                    self.view.publish(self.roster.members(self.runtime.now()));
                    self.stop.trigger();
                    // Who asked may have gone.
                    let _ = reply.send(());
                    return;
                }
                Woken::Order(order) => self.obey(order).await,
                Woken::NoOrders => has_orders = false,
                Woken::Time => {}
                Woken::Stopped => return,
            }
        }
    }

    async fn obey(&mut self, order: Command) {
        match order {
            Command::Change(change) => {
                change.apply(&mut self.roster.report.vitals);
                self.roster.report.number += 1;
                self.roster.note_change();
                self.is_written = false;
            }
            Command::Forget { instance, reply } => {
                let named = self.roster.forget(&instance);
                if let (Ok(named), Some(lease)) = (&named, self.lease) {
                    for identity in named {
                        let body = api::put_forgotten(&self.prefix, *identity, lease);
                        if let Err(error) = self.client.ask("/v3/kv/put", &body).await {
                            tracing::warn!(%error, "others were not told to forget {instance}");
                        }
                    }
                }
                // Who asked may have gone.
                let _ = reply.send(named.map(drop));
            }
            // The loop does that.
            Command::Leave { .. } => {}
        }
    }

    /// Asks all endpoints in turn until one has done everything.
    async fn round(&mut self) {
        for _ in 0..self.client.endpoints() {
            let error = match self.attempt().await {
                Ok(()) => {
                    if self.failures > 0 {
                        tracing::info!(failures = self.failures, "etcd answers again");
                    }
                    self.failures = 0;
                    self.roster.traffic.asked += 1;
                    self.joined.succeed();
                    return;
                }
                Err(error) => error,
            };
            self.roster.traffic.ask_failed += 1;
            if self.failures.is_multiple_of(TELL_EVERY) {
                tracing::warn!(%error, "etcd does not answer; the list of members stays as it is");
            }
            self.client.turn_to_next();
        }
        self.failures += 1;
    }

    async fn attempt(&mut self) -> Result<(), EtcdError> {
        if let Some(lease) = self.lease {
            let kept = self.client.ask("/v3/lease/keepalive", &api::keep_alive(lease)).await?;
            if !api::is_kept(&kept)? {
                tracing::warn!("the lease of this node has ended; it makes a new one");
                (self.lease, self.is_written) = (None, false);
            }
        }
        let lease = match self.lease {
            Some(lease) => lease,
            None => {
                let granted =
                    self.client.ask("/v3/lease/grant", &api::grant(LEASE.as_secs())).await?;
                *self.lease.insert(api::granted(&granted)?)
            }
        };
        if !self.is_written {
            self.write(lease).await?;
            self.is_written = true;
        }
        let asked = api::range(&self.prefix, KEYS_MAX);
        let listed = api::listed(&self.client.ask("/v3/kv/range", &asked).await?)?;
        let name = &self.roster.report.vitals.instance;
        let mut named = listed.members.iter().filter(|(_, report)| report.vitals.instance == *name);
        match named.next() {
            Some((identity, _)) if *identity != self.roster.me => {
                tracing::debug!(%name, "another process has the name of this node");
            }
            Some(_) => {}
            // Somebody has removed the key.
            None => self.is_written = false,
        }
        self.roster.take(self.runtime.now(), listed);
        Ok(())
    }

    async fn write(&self, lease: LeaseId) -> Result<(), EtcdError> {
        let body = api::put_member(&self.prefix, self.roster.me, &self.roster.report, lease);
        self.client.ask("/v3/kv/put", &body).await.map(drop)
    }

    /// Says that the node has left. The key goes with its lease.
    async fn leave(&mut self) {
        self.roster.report.vitals.state = State::Left;
        self.roster.report.number += 1;
        self.roster.note_change();
        let Some(lease) = self.lease else { return };
        for _ in 0..self.client.endpoints() {
            match self.write(lease).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "etcd was not told that this node leaves"),
            }
            self.client.turn_to_next();
        }
    }
}

enum Woken {
    Order(Command),
    NoOrders,
    Time,
    Stopped,
}

async fn next_order<R: Runtime>(
    runtime: &R,
    orders: &flume::Receiver<Command>,
    has_orders: bool,
    due: Monotonic,
    stopped: &mut (impl Future<Output = ()> + Unpin),
) -> Woken {
    let time = pin!(runtime.sleep_until(due));
    if !has_orders {
        return match select(stopped, time).await {
            Either::Left(_) => Woken::Stopped,
            Either::Right(_) => Woken::Time,
        };
    }
    let order = pin!(orders.recv_async());
    match select(stopped, select(order, time)).await {
        Either::Left(_) => Woken::Stopped,
        Either::Right((Either::Left((Ok(order), _)), _)) => Woken::Order(order),
        Either::Right((Either::Left((Err(_), _)), _)) => Woken::NoOrders,
        Either::Right((Either::Right(_), _)) => Woken::Time,
    }
}
