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

use super::{GlommioRuntime, sleep_until, spawn_as_it_is};
use crate::balance::{Accepted, BalancedListener, OpenConnection};
use crate::coop::CoopBudget;
use crate::race::race;
use crate::spare::is_lack_of_descriptors;
use crate::{
    Listener, Monotonic, OwnedBytes, Reader, Runtime, SpareConnection, Writer, clock, socket,
};

/// A listening socket of the glommio backend.
pub struct GlommioListener {
    listener: net::TcpListener,
    balanced: BalancedListener,
    coop: CoopBudget,
    runtime: GlommioRuntime,
}

impl GlommioListener {
    pub(super) fn bind(
        address: SocketAddr,
        runtime: GlommioRuntime,
    ) -> io::Result<GlommioListener> {
        let listener = socket::listen(address)?;
        Ok(GlommioListener {
            balanced: runtime.shared.context.balance.listener(listener.local_addr()?),
            listener,
            coop: CoopBudget::default(),
            runtime,
        })
    }

    fn take(&self, accepted: Accepted) -> (GlommioReader, GlommioWriter, SocketAddr) {
        let Accepted { stream: accepted, address, open_connection } = accepted;
        self.coop.add();
        let (reader, writer) = split(stream(accepted), Some(open_connection), self.runtime.clone());
        (reader, writer, address)
    }

    /// Waits until a connection may be there.
    async fn readable(&self) -> io::Result<()> {
        // glommio offers readiness as a part of reading a stream only. A stream
        // over a second descriptor of the socket polls it; the read that follows
        // fails, as it must on a listener, and tells that the poll has ended.
        let mut second = self.listener.try_clone();
        if second.as_ref().is_err_and(is_lack_of_descriptors) && self.balanced.spare().release() {
            second = self.listener.try_clone();
        }
        let mut poller = stream(second?);
        poll_fn(|cx| Pin::new(&mut poller).poll_read(cx, &mut [0])).await.ok();
        Ok(())
    }
}

impl Listener for GlommioListener {
    type Reader = GlommioReader;
    type Writer = GlommioWriter;

    async fn accept(&self) -> io::Result<(GlommioReader, GlommioWriter, SocketAddr)> {
        if self.coop.is_spent() {
            self.runtime.yield_now().await;
        }
        let mut arrived = self.balanced.arrived();
        loop {
            if let Some(accepted) = arrived.take() {
                return Ok(self.take(accepted));
            }
            match self.balanced.spare().accept_if_all(&self.listener)? {
                Some((stream, address)) => arrived = self.balanced.assign(stream, address),
                None => {
                    let readable = pin!(self.readable());
                    race(readable, || self.balanced.wait(&mut arrived)).await.transpose()?;
                }
            }
        }
    }

    async fn accept_with_spare(&self) -> io::Result<SpareConnection<GlommioReader, GlommioWriter>> {
        self.balanced.spare().refill();
        let mut arrived = self.balanced.arrived();
        loop {
            if let Some(accepted) = arrived.take() {
                let has_descriptor = self.balanced.spare().refill();
                let (reader, writer, peer) = self.take(accepted);
                return Ok(SpareConnection { reader, writer, peer, has_descriptor });
            }
            match self.balanced.spare().accept(&self.listener)? {
                Some((stream, address)) => arrived = Some(self.balanced.keep(stream, address)),
                None => {
                    let readable = pin!(self.readable());
                    race(readable, || self.balanced.wait(&mut arrived)).await.transpose()?;
                    self.balanced.spare().refill();
                }
            }
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
    runtime: &GlommioRuntime,
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
    socket::set_up(&stream);
    Ok(split(stream, None, runtime.clone()))
}

/// glommio's stream waits for reading and for writing apart, so both halves may
/// wait at the same time. It is borrowed within a poll, never across one.
type Shared = Rc<RefCell<TcpStream>>;

fn split(
    stream: TcpStream,
    open_connection: Option<OpenConnection>,
    runtime: GlommioRuntime,
) -> (GlommioReader, GlommioWriter) {
    let stream = Rc::new(RefCell::new(stream));
    let open_connection = open_connection.map(Rc::new);
    let reader = GlommioReader {
        stream: Rc::clone(&stream),
        runtime: runtime.clone(),
        coop: CoopBudget::default(),
        timed_out: false,
        _open: open_connection.clone(),
    };
    (reader, GlommioWriter { stream, runtime, coop: CoopBudget::default(), _open: open_connection })
}

/// The receiving half of a connection.
pub struct GlommioReader {
    stream: Shared,
    runtime: GlommioRuntime,
    coop: CoopBudget,
    timed_out: bool,
    _open: Option<Rc<OpenConnection>>,
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

    /// `None` at the deadline.
    async fn read_some(
        &self,
        buffer: &mut Vec<u8>,
        deadline: Monotonic,
    ) -> Option<io::Result<usize>> {
        let read = pin!(self.coop.count(poll_fn(|cx| self.poll_read(cx, buffer))));
        if deadline == Monotonic::NEVER {
            return Some(read.await);
        }
        race(read, || sleep_until(deadline)).await
    }
}

impl Reader for GlommioReader {
    async fn read(
        &mut self,
        mut buffer: Vec<u8>,
        deadline: Monotonic,
    ) -> (io::Result<usize>, Vec<u8>) {
        if self.coop.is_spent() {
            self.runtime.yield_now().await;
        }
        if self.timed_out || clock::has_passed(deadline) {
            return (Err(io::ErrorKind::TimedOut.into()), buffer);
        }
        if buffer.len() == buffer.capacity() {
            return (Ok(0), buffer);
        }
        let outcome = self.read_some(&mut buffer, deadline).await;
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
    runtime: GlommioRuntime,
    coop: CoopBudget,
    _open: Option<Rc<OpenConnection>>,
}

impl GlommioWriter {
    /// `None` at the deadline.
    async fn write_some(&self, bytes: &[u8], deadline: Monotonic) -> Option<io::Result<usize>> {
        if clock::has_passed(deadline) {
            return None;
        }
        let write = pin!(self.coop.count(poll_fn(|cx| {
            Pin::new(&mut *self.stream.borrow_mut()).poll_write(cx, bytes)
        })));
        if deadline == Monotonic::NEVER {
            return Some(write.await);
        }
        race(write, || sleep_until(deadline)).await
    }
}

impl Writer for GlommioWriter {
    async fn write_all<B: OwnedBytes>(
        &mut self,
        buffer: B,
        deadline: Monotonic,
    ) -> (io::Result<()>, B) {
        let mut done = 0;
        while done < buffer.as_ref().len() {
            if self.coop.is_spent() {
                self.runtime.yield_now().await;
            }
            let outcome = self.write_some(&buffer.as_ref()[done..], deadline).await;
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
        let linger = async move {
            glommio::timer::Timer::new(socket::LINGER).await;
            if let Some(stream) = stream.upgrade() {
                socket::stop_reading(stream.borrow().as_raw_fd());
            }
        };
        drop(spawn_as_it_is(linger));
        Ok(())
    }
}
