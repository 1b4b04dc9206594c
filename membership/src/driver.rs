//! The tasks that give the engine sockets and time.
//!
//! One task owns the engine (`driver/owner.rs`). Others receive datagrams, take connections, ask
//! members for their state and look for members to join; they talk to the owner through a bounded
//! queue.
//!
//! Guarantees: all tasks run on the core that started them. They end when the node leaves or stops.
//! Time, chance and names come from the runtime.
//!
//! [`start`] has packets go as datagrams. [`start_encrypted`] has them go over connections of a dialer
//! and listeners that encrypt, and binds no UDP.
//!
//! What can go wrong: packets that come faster than the owner takes them are dropped and counted.
//! A network that drops all UDP lets every member look dead, over and over; states still travel.

mod exchange;
mod joining;
mod owner;
mod packets;
mod sockets;
mod stopping;
mod streams;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use logsvc_runtime::{Dial, Latch, Listener, Monotonic, PlainDialer, Runtime};

use crate::engine::Engine;
use crate::identity::Identity;
use crate::members::View;
use crate::membership::{Joined, Membership};
use crate::settings::{Settings, SettingsError};
use crate::vitals::{Vitals, VitalsError};

/// Messages that wait for the owner.
const EVENTS_MAX: usize = 256;
/// Requests of this node that wait for the owner.
const COMMANDS_MAX: usize = 64;
/// Memory that the kernel is asked to keep for datagrams.
const KERNEL_BUFFER_BYTES: usize = 1 << 20;

/// Why membership cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No node can run with these settings.
    #[error("memberlist: {0}")]
    Settings(#[from] SettingsError),
    /// The vitals cannot be told.
    #[error("{0}")]
    Vitals(#[from] VitalsError),
    /// An address cannot be used.
    #[error("cannot listen for gossip on {address}: {error}")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
}

/// What other tasks have for the owner.
enum Event {
    Datagram(Vec<u8>),
    /// Another node asks for the state.
    State {
        message: Vec<u8>,
        reply: flume::Sender<Option<Vec<u8>>>,
    },
    /// A member is to be asked to let this node in.
    Join {
        address: SocketAddr,
        reply: flume::Sender<Met>,
    },
    /// A member was asked for its state.
    Asked {
        answer: io::Result<Vec<u8>>,
        reply: Option<flume::Sender<Met>>,
    },
}

/// Who is at an address that a node wants to join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    /// This node itself.
    Myself,
    /// A member that is known, or has let this node in.
    Member,
    Nobody,
}

/// How connections to members come about.
struct Links<D> {
    dialer: D,
    is_secure: bool,
}

impl<D: Dial> Links<D> {
    async fn dial(
        &self,
        address: SocketAddr,
        until: Monotonic,
    ) -> io::Result<(D::Reader, D::Writer)> {
        let host = address.ip().to_string();
        self.dialer.dial(&host, address.port(), self.is_secure, until).await
    }
}

/// Starts to take part, over UDP and TCP. The node runs until it leaves or stops.
///
/// # Errors
/// The settings or vitals are wrong, or the addresses cannot be used.
pub fn start<R: Runtime>(
    runtime: &R,
    settings: Settings,
    vitals: Vitals,
) -> Result<Membership, StartError> {
    let (listeners, port) = listen(runtime, &settings)?;
    let mut sockets = Vec::new();
    for ip in settings.bound() {
        let address = SocketAddr::new(ip, port);
        let socket = runtime.bind_datagrams(address, KERNEL_BUFFER_BYTES);
        sockets.push(Rc::new(socket.map_err(|error| StartError::Listen { address, error })?));
    }
    let links = Links { dialer: PlainDialer::new(runtime.clone()), is_secure: false };
    let way = Way { links, listeners, sockets, port, is_encrypted: false };
    take_part(runtime, settings, vitals, way)
}

/// Starts to take part, over TCP alone: `dialer` makes secure connections to the addresses of members,
/// and `encrypted` makes listeners of them. The node runs until it leaves or stops.
///
/// A connection that does not finish its handshake soon has to be ended by the listener.
///
/// # Errors
/// The settings or vitals are wrong, or the addresses cannot be used.
pub fn start_encrypted<R: Runtime, D: Dial, L: Listener + 'static>(
    runtime: &R,
    settings: Settings,
    vitals: Vitals,
    dialer: D,
    encrypted: impl Fn(R::Listener) -> L,
) -> Result<Membership, StartError> {
    let (listeners, port) = listen(runtime, &settings)?;
    let listeners = listeners.into_iter().map(encrypted).collect();
    let links = Links { dialer, is_secure: true };
    let way = Way { links, listeners, sockets: Vec::new(), port, is_encrypted: true };
    take_part(runtime, settings, vitals, way)
}

/// How a node speaks with others.
struct Way<R: Runtime, D, L> {
    links: Links<D>,
    listeners: Vec<L>,
    sockets: Vec<Rc<R::Datagrams>>,
    /// The port of all of them.
    port: u16,
    is_encrypted: bool,
}

/// Listeners on all addresses, and their port.
fn listen<R: Runtime>(
    runtime: &R,
    settings: &Settings,
) -> Result<(Vec<R::Listener>, u16), StartError> {
    settings.check()?;
    let mut port = settings.bind_port;
    let mut listeners = Vec::new();
    for ip in settings.bound() {
        let address = SocketAddr::new(ip, port);
        let fault = |error| StartError::Listen { address, error };
        let listener = runtime.listen(address).map_err(fault)?;
        // Of port 0 the first listener decides for all.
        port = listener.local_address().map_err(fault)?.port();
        listeners.push(listener);
    }
    Ok((listeners, port))
}

fn take_part<R: Runtime, D: Dial, L: Listener + 'static>(
    runtime: &R,
    settings: Settings,
    vitals: Vitals,
    Way { links, listeners, sockets, port, is_encrypted }: Way<R, D, L>,
) -> Result<Membership, StartError> {
    let join_addresses = settings.check()?;
    let advertise_port = if settings.advertise_port == 0 { port } else { settings.advertise_port };
    let address = SocketAddr::new(settings.advertised(), advertise_port);
    let identity = Identity::at_start(address, runtime.unix_nanos(), runtime.random_u64());
    let engine =
        Engine::new(settings.clone(), identity, vitals, runtime.random_u64(), runtime.now())?;

    let view = View::new(engine.members());
    let (events, coming) = flume::bounded(EVENTS_MAX);
    let (commands, orders) = flume::bounded(COMMANDS_MAX);
    let (joined, stop) = (Joined::default(), Latch::new());
    let overrun = Rc::default();
    for socket in &sockets {
        let (socket, events) = (Rc::clone(socket), events.clone());
        let received =
            sockets::receive(runtime.clone(), socket, events, Rc::clone(&overrun), stop.clone());
        drop(runtime.spawn(received));
    }
    let (settings, links) = (Rc::new(settings), Rc::new(links));
    for listener in listeners {
        let serving = sockets::Serving {
            runtime: runtime.clone(),
            settings: Rc::clone(&settings),
            events: events.clone(),
            overrun: Rc::clone(&overrun),
            takes_packets: is_encrypted,
            stop: stop.clone(),
        };
        drop(runtime.spawn(serving.accept(listener)));
    }
    let look = joining::Look { addresses: join_addresses, port, settings: Rc::clone(&settings) };
    drop(runtime.spawn(look.run(runtime.clone(), events.clone(), joined.clone(), stop.clone())));
    let packets = match is_encrypted {
        true => {
            let (links, settings) = (Rc::clone(&links), Rc::clone(&settings));
            packets::Packets::Streams(streams::Streams::new(runtime.clone(), links, settings))
        }
        false => packets::Packets::Datagrams(sockets),
    };
    let owner = owner::Owner::new(
        runtime.clone(),
        engine,
        owner::Ways { links, packets },
        settings,
        owner::Queues { events, coming, orders, overrun },
        view.clone(),
        stop.clone(),
    );
    drop(runtime.spawn(owner.run()));
    Ok(Membership::driven(view, commands, joined, stop))
}
