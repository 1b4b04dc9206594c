//! Receives datagrams and connections of other nodes, and hands them to the owner.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::{Datagrams, Latch, Listener, Runtime, Writer};

use super::stopping::unless_stopped;
use super::{Event, exchange};
use crate::settings::Settings;
use crate::wire::envelope::DATAGRAM_MAX_BYTES;

/// Connections that are served at a time. Further ones are closed.
const SERVED_MAX: usize = 16;
/// The pause after a failure of a socket.
const FAULT_PAUSE: Duration = Duration::from_millis(100);

/// Lets a passing fault pass.
async fn pause<R: Runtime>(runtime: &R, stop: &Latch) {
    let _ = unless_stopped(runtime.sleep_until(runtime.now().after(FAULT_PAUSE)), stop).await;
}

/// Hands the datagrams of a socket to the owner.
pub(super) async fn receive<R: Runtime>(
    runtime: R,
    socket: Rc<R::Datagrams>,
    events: flume::Sender<Event>,
    overrun: Rc<Cell<u64>>,
    stop: Latch,
) {
    loop {
        // One more byte than a message may have tells a longer datagram from one that fits.
        let buffer = Vec::with_capacity(DATAGRAM_MAX_BYTES + 1);
        let Some((result, bytes)) = unless_stopped(socket.receive(buffer), &stop).await else {
            return;
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a datagram of gossip was not received");
            pause(&runtime, &stop).await;
        } else if events.try_send(Event::Datagram(bytes)).is_err() {
            overrun.set(overrun.get() + 1);
        }
    }
}

/// Serves connections to a listener.
pub(super) async fn accept<R: Runtime>(
    runtime: R,
    listener: R::Listener,
    settings: Rc<Settings>,
    events: flume::Sender<Event>,
    stop: Latch,
) {
    let served = Rc::new(Cell::new(0));
    while let Some(accepted) = unless_stopped(listener.accept(), &stop).await {
        match accepted {
            Ok(connection) if served.get() < SERVED_MAX => {
                let place = Place::take(&served);
                let (running, settings) = (runtime.clone(), Rc::clone(&settings));
                let events = events.clone();
                drop(runtime.spawn(async move {
                    let (reader, writer, _) = connection;
                    serve(&running, reader, writer, &settings, &events).await;
                    drop(place);
                }));
            }
            Ok(_) => tracing::debug!("too many nodes exchange states at a time"),
            Err(error) => {
                tracing::debug!(%error, "a connection for gossip was not accepted");
                pause(&runtime, &stop).await;
            }
        }
    }
}

/// Takes a state and answers with the own one.
async fn serve<R: Runtime>(
    runtime: &R,
    mut reader: R::Reader,
    mut writer: R::Writer,
    settings: &Settings,
    events: &flume::Sender<Event>,
) {
    let until = runtime.now().after(settings.stream_timeout);
    let message = match exchange::read(&mut reader, until).await {
        Ok(message) => message,
        Err(error) => return tracing::debug!(%error, "a state did not come"),
    };
    let (reply, answer) = flume::bounded(1);
    if events.send_async(Event::State { message, reply }).await.is_err() {
        return;
    }
    // Nothing is said to who sends something else, or is of another cluster.
    let Ok(Some(answer)) = answer.recv_async().await else { return };
    if let Err(error) = exchange::write(&mut writer, &answer, until).await {
        tracing::debug!(%error, "a state was not sent");
    }
    let _ = writer.shutdown().await;
}

/// A place among those that are served.
struct Place {
    served: Rc<Cell<usize>>,
}

impl Place {
    fn take(served: &Rc<Cell<usize>>) -> Place {
        served.set(served.get() + 1);
        Place { served: Rc::clone(served) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.served.set(self.served.get() - 1);
    }
}
