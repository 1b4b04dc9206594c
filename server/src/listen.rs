//! The HTTP server of one core: its listener, its limits, and TLS where that is set.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use logsvc_http::{ConnectionLimit, ServerConfig, serve};
use logsvc_runtime::{Listener, Runtime};

use crate::config::Config;
#[cfg(feature = "tls")]
use crate::config::TlsAcceptor;
use crate::dialer::dialer;
use crate::front::Front;
use crate::node::NodeState;
use crate::services::{Component, State};

/// Fewest and most open files that are kept for other uses than connections.
const OWN_FILES: RangeInclusive<u64> = 64..=4096;

/// One connection for so much of the memory: eight times the memory of an idle one.
const MEMORY_BYTES_PER_CONNECTION: u64 = 64 << 10;

/// How long questions of other nodes may take when the node has left: it owns nothing any more.
const PEER_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Listens and begins to serve; the task ends when the node stops. `None` if the port
/// cannot be had, which ends the node.
pub(crate) fn start<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    front: &Rc<Front<R>>,
) -> Option<R::Task<()>> {
    let listener = listen(runtime, node)?;
    let config = Rc::new(http_config(node));
    #[cfg(feature = "tls")]
    if let Some(acceptor) = node.entrance.tls.of_clients() {
        let listener = encrypted(runtime, node, front, listener, acceptor);
        return Some(spawn(runtime, node, front, listener, config));
    }
    Some(spawn(runtime, node, front, listener, config))
}

/// The listener with TLS. Connections that fail are told to the front.
#[cfg(feature = "tls")]
fn encrypted<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    front: &Rc<Front<R>>,
    listener: R::Listener,
    acceptor: &TlsAcceptor,
) -> logsvc_tls::TlsListener<R> {
    let timeout = http_config(node).head_timeout;
    // Handshakes have a memory of their own, so that they neither wait for bodies nor bodies for
    // them.
    let budget = node.budgets.handshakes.clone();
    let listener =
        logsvc_tls::TlsListener::new(runtime.clone(), listener, acceptor, timeout, budget);
    let told = Rc::clone(front);
    listener.watched_by(Rc::new(move |peer, why: &str| told.encryption_failed(peer, why)))
}

/// Begins to answer other nodes, if there are some; the task ends when the node has given everything to
/// them. `None` if there are none, or if the port cannot be had, which ends the node.
pub(crate) async fn start_for_peers<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    front: &Rc<Front<R>>,
) -> Option<R::Task<()>> {
    let (cluster, settings) = (node.cluster.as_ref()?, node.config.cluster.as_ref()?);
    let dialer_of_peers = async || {
        cluster.encryption.load(runtime, &settings.tls).await?;
        match cluster.encryption.messages(runtime) {
            Some(encrypting) => Ok((encrypting, true)),
            None => Ok::<_, String>((dialer(runtime).await?, false)),
        }
    };
    match dialer_of_peers().await {
        Ok((dialer, is_secure)) => front.meet_peers(dialer, is_secure),
        Err(error) => node.fail(format!("cannot reach other nodes: {error}")),
    }
    let mut address = settings.peer_listen;
    // With port 0 the first core to listen chooses for all.
    if address.port() == 0
        && let Some(chosen) = cluster.peer_address()
    {
        address = chosen;
    }
    let listener = runtime.listen(address).and_then(|listener| {
        let local = listener.local_address()?;
        let chosen = cluster.choose_peer_address(local);
        if chosen.port() == local.port() { Ok(listener) } else { runtime.listen(chosen) }
    });
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => {
            node.fail(format!("cannot listen for other nodes on {address}: {error}"));
            return None;
        }
    };
    let mut config = http_config(node);
    // A question takes as long as its query.
    config.drain_timeout = PEER_DRAIN_TIMEOUT;
    let service = Rc::new(front.peer_service());
    let (stop, config) = (cluster.peers_stop.clone(), Rc::new(config));
    #[cfg(feature = "tls")]
    if let Some(acceptor) = node.entrance.tls.of_peers() {
        let listener = encrypted(runtime, node, front, listener, acceptor);
        return Some(runtime.spawn(serve(runtime.clone(), listener, service, config, stop)));
    }
    Some(runtime.spawn(serve(runtime.clone(), listener, service, config, stop)))
}

fn spawn<R: Runtime, L: Listener>(
    runtime: &R,
    node: &NodeState,
    front: &Rc<Front<R>>,
    listener: L,
    config: Rc<ServerConfig>,
) -> R::Task<()> {
    runtime.spawn(serve(runtime.clone(), listener, Rc::clone(front), config, node.stop.clone()))
}

fn listen<R: Runtime>(runtime: &R, node: &NodeState) -> Option<R::Listener> {
    let (core, services) = (runtime.core(), &node.services);
    services.set(core, Component::Server, State::Starting);
    let mut address = node.surroundings.inherited.unwrap_or(node.config.http_address);
    // With port 0 the first core to listen chooses for all.
    if address.port() == 0
        && let Some(chosen) = node.address()
    {
        address = chosen;
    }
    let listener = runtime.listen(address).and_then(|listener| {
        let local = listener.local_address()?;
        let chosen = node.choose_address(local);
        if chosen.port() == local.port() { Ok(listener) } else { runtime.listen(chosen) }
    });
    match listener {
        Ok(listener) => {
            services.set(core, Component::Server, State::Running);
            Some(listener)
        }
        Err(error) => {
            services.set(core, Component::Server, State::Failed);
            node.fail(format!("cannot listen on {address}: {error}"));
            None
        }
    }
}

fn http_config(node: &NodeState) -> ServerConfig {
    let config = &node.config;
    let mut http = ServerConfig::new(node.budgets.bodies.clone());
    http.body_timeout = config.http_read_timeout;
    http.write_timeout = config.http_write_timeout;
    http.idle_timeout = config.http_idle_timeout;
    http.drain_timeout = config.graceful_stop_timeout;
    http.connections = node.entrance.connections.clone();
    http
}

/// How many connections a node may have, if the process may have `open_files` files.
///
/// An idle connection takes 8 KiB, and twice as much with TLS, which no budget counts;
/// so by default an eighth of the memory bounds them, beside the files that segments
/// and logs need.
pub(crate) fn connection_limit(config: &Config, open_files: u64) -> ConnectionLimit {
    let set = config.http_listen_conn_limit;
    if set > 0 {
        return ConnectionLimit::new(set);
    }
    let own_files = (open_files / 4).clamp(*OWN_FILES.start(), *OWN_FILES.end());
    let by_memory = config.memory_max_bytes / MEMORY_BYTES_PER_CONNECTION;
    // Where there are next to none, half of them are for connections.
    let max = by_memory.min(open_files - own_files.min(open_files / 2));
    ConnectionLimit::new(usize::try_from(max).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_from_memory_and_files() {
        let max = |memory_mib: u64, open_files, set| {
            let config = Config {
                memory_max_bytes: memory_mib << 20,
                http_listen_conn_limit: set,
                ..Config::default()
            };
            connection_limit(&config, open_files).max()
        };
        assert_eq!(max(64, 1 << 20, 0), 1024);
        assert_eq!(max(1024, 1 << 20, 0), 16384);
        assert_eq!(max(1024, 1024, 0), 768);
        assert_eq!(max(1024, 20_000, 0), 15_904);
        assert_eq!(max(64, 1024, 5000), 5000);
        assert_eq!(max(64, 200, 0), 136);
        assert_eq!(max(64, 64, 0), 32);
    }
}
