//! The HTTP server of one core: its listener, its limits, and TLS where that is set.

use std::rc::Rc;

use logsvc_http::{ServerConfig, serve};
use logsvc_runtime::{Listener, Runtime};

use crate::app::Boot;
use crate::front::Front;
use crate::services::{Part, State};

/// Listens and begins to serve; the task ends when the node stops. `None` if the port
/// cannot be had, which ends the node.
pub(crate) fn start<R: Runtime>(
    runtime: &R,
    boot: &Boot,
    front: &Rc<Front<R>>,
) -> Option<R::Task<()>> {
    let listener = listen(runtime, boot)?;
    let config = Rc::new(http_config(boot));
    #[cfg(feature = "tls")]
    if let Some(acceptor) = &boot.tls {
        let listener = logsvc_tls::TlsListener::new(
            runtime.clone(),
            listener,
            acceptor,
            config.head_timeout,
            boot.bodies.clone(),
        );
        return Some(spawn(runtime, boot, front, listener, config));
    }
    Some(spawn(runtime, boot, front, listener, config))
}

fn spawn<R: Runtime, L: Listener>(
    runtime: &R,
    boot: &Boot,
    front: &Rc<Front<R>>,
    listener: L,
    config: Rc<ServerConfig>,
) -> R::Task<()> {
    runtime.spawn(serve(runtime.clone(), listener, Rc::clone(front), config, boot.stop.clone()))
}

fn listen<R: Runtime>(runtime: &R, boot: &Boot) -> Option<R::Listener> {
    let (core, services) = (runtime.core(), &boot.services);
    services.set(core, Part::Server, State::Starting);
    let mut address = boot.config.http_address;
    // With port 0 the first core to listen chooses for all.
    if address.port() == 0
        && let Some(chosen) = boot.address()
    {
        address = chosen;
    }
    let listener = runtime.listen(address).and_then(|listener| {
        let local = listener.local_address()?;
        let chosen = boot.choose_address(local);
        if chosen.port() == local.port() { Ok(listener) } else { runtime.listen(chosen) }
    });
    match listener {
        Ok(listener) => {
            services.set(core, Part::Server, State::Running);
            Some(listener)
        }
        Err(error) => {
            services.set(core, Part::Server, State::Failed);
            boot.fail(format!("cannot listen on {address}: {error}"));
            None
        }
    }
}

fn http_config(boot: &Boot) -> ServerConfig {
    let config = &boot.config;
    let mut http = ServerConfig::new(boot.bodies.clone());
    http.body_timeout = config.http_read_timeout;
    http.write_timeout = config.http_write_timeout;
    http.idle_timeout = config.http_idle_timeout;
    http.drain_timeout = config.graceful_stop_timeout;
    http
}
