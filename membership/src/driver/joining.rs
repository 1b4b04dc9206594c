//! Looks for members to join, at the start and for ever.
//!
//! Guarantees: a node without others tries again and again, with pauses that double up to
//! `max_join_backoff`. One that has others still tries addresses at which no member is known, so two
//! clusters that were one find together, however long they were apart.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;

use logsvc_runtime::{LOOK_UP_TIMEOUT, Latch, Runtime, look_up_srv};

use super::stopping::unless_stopped;
use super::{Event, Met};
use crate::identity::plain;
use crate::join_address::JoinAddress;
use crate::membership::Joined;
use crate::settings::Settings;

/// Addresses that are tried in one round.
const ADDRESSES_MAX: usize = 256;

/// See the module.
pub(super) struct Look {
    pub(super) addresses: Vec<JoinAddress>,
    /// The port of addresses that name none.
    pub(super) port: u16,
    pub(super) settings: Rc<Settings>,
}

impl Look {
    pub(super) async fn run<R: Runtime>(
        self,
        runtime: R,
        events: flume::Sender<Event>,
        joined: Joined,
        stop: Latch,
    ) {
        if self.addresses.is_empty() {
            return joined.succeed();
        }
        let mut backoff = self.settings.join.min_join_backoff;
        let (mut failures, mut has_joined) = (0_u32, false);
        loop {
            let Some(met) = unless_stopped(self.round(&runtime, &events), &stop).await else {
                return;
            };
            if met.contains(&Met::Myself) || met.contains(&Met::Member) {
                has_joined = true;
                joined.succeed();
            } else if has_joined {
                tracing::warn!("re-joining memberlist cluster failed");
            } else {
                failures = failures.saturating_add(1);
                tracing::warn!(failures, "joining memberlist cluster failed");
                if failures == self.settings.join.max_join_retries {
                    tracing::error!(failures, "failed to join memberlist cluster on startup");
                    joined.fail();
                }
            }
            let pause = if met.contains(&Met::Member) {
                backoff = self.settings.join.min_join_backoff;
                let interval = self.settings.join.rejoin_interval;
                if interval.is_zero() { self.settings.join.max_join_backoff } else { interval }
            } else {
                let pause = backoff;
                backoff = backoff.saturating_mul(2).min(self.settings.join.max_join_backoff);
                pause
            };
            // Up to a quarter less, so that nodes that start together do not come together.
            let part = u32::try_from(runtime.random_u64() % 256).unwrap_or(0);
            let pause = pause.saturating_sub(pause / 1_024 * part);
            let until = runtime.now().after(pause);
            if unless_stopped(runtime.sleep_until(until), &stop).await.is_none() {
                return;
            }
        }
    }

    /// Tries all addresses, one after the other.
    async fn round<R: Runtime>(&self, runtime: &R, events: &flume::Sender<Event>) -> Vec<Met> {
        let mut found = BTreeSet::new();
        for address in &self.addresses {
            match self.resolve(runtime, address).await {
                Ok(addresses) => found.extend(addresses),
                Err(error) => {
                    tracing::warn!(%address, error, "cannot look up members to join");
                }
            }
        }
        let mut met = Vec::new();
        for address in found.into_iter().take(ADDRESSES_MAX) {
            let (reply, answer) = flume::bounded(1);
            if events.send_async(Event::Join { address, reply }).await.is_ok() {
                met.push(answer.recv_async().await.unwrap_or(Met::Nobody));
            }
        }
        met
    }

    /// The addresses of members, within [`LOOK_UP_TIMEOUT`].
    async fn resolve<R: Runtime>(
        &self,
        runtime: &R,
        address: &JoinAddress,
    ) -> Result<Vec<SocketAddr>, String> {
        let until = runtime.now().after(LOOK_UP_TIMEOUT);
        let hosts = match address {
            JoinAddress::Host { host, port } => vec![(host.clone(), port.unwrap_or(self.port))],
            JoinAddress::Service(name) => {
                let records = look_up_srv(runtime, name).await.map_err(|e| e.to_string())?;
                records.into_iter().map(|record| (record.host, record.port)).collect()
            }
        };
        let mut addresses = Vec::new();
        let mut fault = None;
        for (host, port) in hosts.into_iter().take(ADDRESSES_MAX) {
            match runtime.resolve(&host, until).await {
                Ok(ips) => {
                    addresses.extend(ips.into_iter().map(|ip| plain(SocketAddr::new(ip, port))));
                }
                Err(error) => fault = Some(format!("{host}: {error}")),
            }
        }
        match fault {
            Some(fault) if addresses.is_empty() => Err(fault),
            _ => Ok(addresses),
        }
    }
}
