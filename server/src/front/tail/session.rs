//! The connection of one tail: sends its frames, pings, and ends it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use logsvc_http::websocket::{WebSocket, code};
use logsvc_runtime::{Reservation, Runtime};

use super::TailRequest;
use super::hub::{Hub, Inbox};
use super::outbox::Outbox;
use crate::metrics::Metric;

/// So often the client is asked whether it is there. It need not answer.
const PING_EVERY: Duration = Duration::from_secs(1);

/// When there was no memory for a frame.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Tells the group that the client has left.
struct Leaving<R: Runtime> {
    hub: Rc<Hub<R>>,
    outbox: Rc<Outbox>,
    inbox: Rc<Inbox>,
}

impl<R: Runtime> Drop for Leaving<R> {
    fn drop(&mut self) {
        self.outbox.leave();
        self.inbox.notice();
        self.hub.count_tails(-1);
    }
}

enum Wake {
    Closed,
    Room,
    Frame,
    Time,
}

/// Serves a client until it leaves or its tail ends.
pub(super) async fn serve<R: Runtime>(hub: Rc<Hub<R>>, socket: WebSocket, request: TailRequest) {
    let limit = request.max_tails;
    let _counted = match hub.counts.add(&request.key.tenant, limit) {
        Ok(counted) => counted,
        Err(count) => {
            let reason = format!(
                "max concurrent tail requests limit exceeded, count > limit ({count} > {limit})"
            );
            socket.close(code::INTERNAL_ERROR, reason);
            return;
        }
    };
    let outbox = Rc::new(Outbox::new(request.key.form));
    hub.count_tails(1);
    let inbox = hub.join(&request, &outbox);
    let _leaving = Leaving { hub: Rc::clone(&hub), outbox: Rc::clone(&outbox), inbox };
    let runtime = &hub.core.runtime;
    let end = runtime.now().after(hub.core.config().tail_max_duration);
    let mut next_ping = runtime.now().after(PING_EVERY);
    // Memory of the frame that is being written.
    let mut writing: Option<Reservation> = None;
    let mut retry = None;
    let mut closed = pin!(socket.closed());
    loop {
        let waits_for_room = writing.is_some() || outbox.next_bytes().is_some();
        let wakeup = next_ping.min(end).min(retry.unwrap_or(end));
        let mut sleep = pin!(runtime.sleep_until(wakeup));
        let wake = poll_fn(|cx| {
            if closed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Wake::Closed);
            }
            if retry.is_none() && waits_for_room {
                match socket.poll_room(cx) {
                    Poll::Ready(Ok(())) => return Poll::Ready(Wake::Room),
                    Poll::Ready(Err(_)) => return Poll::Ready(Wake::Closed),
                    Poll::Pending => {}
                }
            } else if !waits_for_room && outbox.poll(cx).is_ready() {
                return Poll::Ready(Wake::Frame);
            }
            sleep.as_mut().poll(cx).map(|()| Wake::Time)
        })
        .await;
        let now = runtime.now();
        retry = None;
        match wake {
            Wake::Closed => return,
            Wake::Room => {
                writing = None;
                if let Some(bytes) = outbox.next_bytes() {
                    writing = hub.core.budgets().tails.try_reserve(bytes as u64);
                    match &writing {
                        Some(_) if send_next(&hub, &socket, &outbox).is_err() => return,
                        Some(_) => {}
                        None => retry = Some(now.after(RETRY_AFTER)),
                    }
                }
            }
            Wake::Frame => {
                if let Some(reason) = outbox.ended() {
                    socket.close(code::INTERNAL_ERROR, reason);
                    return;
                }
            }
            Wake::Time => {
                if now >= end {
                    socket.close(code::INTERNAL_ERROR, "reached tail max duration limit");
                    return;
                }
                if now >= next_ping {
                    socket.ping(b"");
                    next_ping = now.after(PING_EVERY);
                }
            }
        }
    }
}

fn send_next<R: Runtime>(
    hub: &Hub<R>,
    socket: &WebSocket,
    outbox: &Outbox,
) -> Result<(), logsvc_http::websocket::Closed> {
    let Some(next) = outbox.take() else { return Ok(()) };
    next.frame.with_text(&next.missed_text, |pieces| socket.send_pieces(pieces))?;
    let counters = hub.core.counters();
    counters.numbers.add(Metric::TailedBytes, next.len_bytes() as u64);
    counters.numbers.add(Metric::TailMissed, next.missed_count + next.frame.missed_count());
    Ok(())
}
