//! TCP of the glommio backend.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use glommio::net::TcpStream;

use super::sleep_until;
use crate::race::race;
use crate::{Listener, Monotonic, Reader, Writer, clock, socket};

/// A listening socket of the glommio backend.
pub struct GlommioListener {
    listener: net::TcpListener,
}

impl GlommioListener {
    pub(super) fn bind(address: SocketAddr) -> io::Result<GlommioListener> {
        Ok(GlommioListener { listener: socket::listen(address)? })
    }

    /// Waits until a connection may be there.
    async fn readable(&self) -> io::Result<()> {
        // glommio offers readiness as a part of reading a stream only. A stream
        // over a second descriptor of the socket polls it; the read that follows
        // fails, as it must on a listener, and tells that the poll has ended.
        let mut poller = stream(self.listener.try_clone()?);
        poll_fn(|cx| Pin::new(&mut poller).poll_read(cx, &mut [0])).await.ok();
        Ok(())
    }
}

impl Listener for GlommioListener {
    type Reader = GlommioReader;
    type Writer = GlommioWriter;

    async fn accept(&self) -> io::Result<(GlommioReader, GlommioWriter, SocketAddr)> {
        loop {
            if let Some((accepted, address)) = socket::accept(&self.listener)? {
                let (reader, writer) = split(stream(accepted));
                return Ok((reader, writer, address));
            }
            self.readable().await?;
        }
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Gives an open socket to the executor.
fn stream(socket: impl IntoRawFd) -> TcpStream {
    // SAFETY: the descriptor is open, and `into_raw_fd` gives up its ownership.
    unsafe { TcpStream::from_raw_fd(socket.into_raw_fd()) }
}

pub(super) async fn connect(
    address: SocketAddr,
    deadline: Monotonic,
) -> io::Result<(GlommioReader, GlommioWriter)> {
    // Dropping the attempt at the deadline closes its socket and loses nothing.
    let attempt = pin!(TcpStream::connect(address));
    let stream = if deadline == Monotonic::NEVER {
        attempt.await?
    } else {
        race(attempt, || sleep_until(deadline)).await.ok_or(io::ErrorKind::TimedOut)??
    };
    // Fails only if the peer has gone already, which the next read tells.
    let _ = stream.set_nodelay(true);
    Ok(split(stream))
}

/// glommio's stream waits for reading and for writing apart, so both halves may
/// wait at the same time. It is borrowed within a poll, never across one.
type Shared = Rc<RefCell<TcpStream>>;

fn split(stream: TcpStream) -> (GlommioReader, GlommioWriter) {
    let stream = Rc::new(RefCell::new(stream));
    let reader = GlommioReader { stream: Rc::clone(&stream), timed_out: false };
    (reader, GlommioWriter { stream })
}

/// The receiving half of a connection.
pub struct GlommioReader {
    stream: Shared,
    timed_out: bool,
}

impl GlommioReader {
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        // Straight into spare capacity. glommio's own read wants initialised
        // bytes; it serves to wait.
        match socket::receive(&*stream, buffer) {
            Ok(None) => {}
            Ok(Some(count)) => return Poll::Ready(Ok(count)),
            Err(error) => return Poll::Ready(Err(error)),
        }
        let mut byte = [0];
        match Pin::new(&mut *stream).poll_read(cx, &mut byte) {
            Poll::Ready(Ok(1)) => {
                // It came between the two calls; the rest may be there too.
                buffer.push(byte[0]);
                let rest = socket::receive(&*stream, buffer).ok().flatten().unwrap_or(0);
                Poll::Ready(Ok(1 + rest))
            }
            other => other,
        }
    }
}

impl Reader for GlommioReader {
    async fn read(
        &mut self,
        mut buffer: Vec<u8>,
        deadline: Monotonic,
    ) -> (io::Result<usize>, Vec<u8>) {
        if self.timed_out || clock::has_passed(deadline) {
            return (Err(io::ErrorKind::TimedOut.into()), buffer);
        }
        if buffer.len() == buffer.capacity() {
            return (Ok(0), buffer);
        }
        let mut operation = pin!(poll_fn(|cx| self.poll_read(cx, &mut buffer)));
        let outcome = if deadline == Monotonic::NEVER {
            Some(operation.await)
        } else {
            race(operation.as_mut(), || sleep_until(deadline)).await
        };
        let Some(result) = outcome else {
            self.timed_out = true;
            socket::stop_reading(self.stream.borrow().as_raw_fd());
            return (Err(io::ErrorKind::TimedOut.into()), buffer);
        };
        (result, buffer)
    }
}

/// The sending half of a connection.
pub struct GlommioWriter {
    stream: Shared,
}

impl Writer for GlommioWriter {
    async fn write_all(
        &mut self,
        buffer: Vec<u8>,
        deadline: Monotonic,
    ) -> (io::Result<()>, Vec<u8>) {
        let mut done = 0;
        while done < buffer.len() {
            let mut operation = pin!(poll_fn(|cx| {
                Pin::new(&mut *self.stream.borrow_mut()).poll_write(cx, &buffer[done..])
            }));
            let outcome = if deadline == Monotonic::NEVER {
                Some(operation.await)
            } else if clock::has_passed(deadline) {
                None
            } else {
                race(operation.as_mut(), || sleep_until(deadline)).await
            };
            match outcome {
                None => {
                    // Half a message must not be followed by others.
                    socket::stop_both(self.stream.borrow().as_raw_fd());
                    return (Err(io::ErrorKind::TimedOut.into()), buffer);
                }
                Some(Ok(0)) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Some(Ok(count)) => done += count,
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(Err(error)) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        socket::finish_writing(self.stream.borrow().as_raw_fd())?;
        let stream = Rc::downgrade(&self.stream);
        let queue = glommio::TaskQueueHandle::default();
        let linger = async move {
            glommio::timer::Timer::new(socket::LINGER).await;
            if let Some(stream) = stream.upgrade() {
                socket::stop_reading(stream.borrow().as_raw_fd());
            }
        };
        glommio::spawn_local_into(linger, queue).map_err(io::Error::from)?.detach();
        Ok(())
    }
}
