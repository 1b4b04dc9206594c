//! TCP of the monoio backend.

use std::cell::Cell;
use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;
use std::rc::Rc;

use monoio::buf::IoBufMut;
use monoio::io::{AsyncReadRent, AsyncWriteRent, Splitable};
use monoio::net::TcpStream;
use monoio::net::tcp::{TcpOwnedReadHalf, TcpOwnedWriteHalf};

use super::{ChosenDriver, MonoioRuntime, sleep_once};
use crate::balance::{Accepted, BalancedListener, OpenConnection};
use crate::coop::CoopBudget;
use crate::file_ops::LONGEST_TRANSFER;
use crate::race::race;
use crate::{
    Listener, Monotonic, OwnedBytes, Reader, Runtime, SpareConnection, Writer, clock, socket,
};

/// A listening socket of the monoio backend. One task at a time may accept.
pub struct MonoioListener {
    listener: net::TcpListener,
    /// The same socket, registered with the driver.
    readiness: monoio::net::TcpListener,
    balanced: BalancedListener,
    coop: CoopBudget,
    runtime: MonoioRuntime,
}

impl MonoioListener {
    pub(super) fn bind(address: SocketAddr, runtime: MonoioRuntime) -> io::Result<MonoioListener> {
        let listener = socket::listen(address)?;
        let readiness = monoio::net::TcpListener::from_std(listener.try_clone()?)?;
        let balanced = runtime.shared.context.balance.listener(listener.local_addr()?);
        Ok(MonoioListener { listener, readiness, balanced, coop: CoopBudget::default(), runtime })
    }

    fn take(&self, accepted: Accepted) -> io::Result<(MonoioReader, MonoioWriter, SocketAddr)> {
        self.coop.add();
        let Accepted { stream, address, open_connection } = accepted;
        // epoll needs a non-blocking socket; a ring would give up on one with EAGAIN
        // instead of waiting for it.
        if self.runtime.shared.driver == ChosenDriver::Epoll {
            stream.set_nonblocking(true)?;
        }
        let stream = TcpStream::from_std(stream)?;
        let (reader, writer) = split(stream, Some(open_connection), self.runtime.clone());
        Ok((reader, writer, address))
    }
}

impl Listener for MonoioListener {
    type Reader = MonoioReader;
    type Writer = MonoioWriter;

    async fn accept(&self) -> io::Result<(MonoioReader, MonoioWriter, SocketAddr)> {
        if self.coop.is_spent() {
            self.runtime.yield_now().await;
        }
        let mut arrived = self.balanced.arrived();
        loop {
            if let Some(accepted) = arrived.take() {
                return self.take(accepted);
            }
            match self.balanced.spare().accept_if_all(&self.listener)? {
                Some((stream, address)) => arrived = self.balanced.assign(stream, address),
                None => {
                    // Not relaxed: on epoll that would report the readiness of the last
                    // connection for ever.
                    let readable = pin!(self.readiness.readable(false));
                    race(readable, || self.balanced.wait(&mut arrived)).await.transpose()?;
                }
            }
        }
    }

    async fn accept_with_spare(&self) -> io::Result<SpareConnection<MonoioReader, MonoioWriter>> {
        self.balanced.spare().refill();
        let mut arrived = self.balanced.arrived();
        loop {
            if let Some(accepted) = arrived.take() {
                let has_descriptor = self.balanced.spare().refill();
                let (reader, writer, peer) = self.take(accepted)?;
                return Ok(SpareConnection { reader, writer, peer, has_descriptor });
            }
            match self.balanced.spare().accept(&self.listener)? {
                Some((stream, address)) => arrived = Some(self.balanced.keep(stream, address)),
                None => {
                    let readable = pin!(self.readiness.readable(false));
                    race(readable, || self.balanced.wait(&mut arrived)).await.transpose()?;
                }
            }
        }
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

pub(super) async fn connect(
    runtime: &MonoioRuntime,
    address: SocketAddr,
    deadline: Monotonic,
) -> io::Result<(MonoioReader, MonoioWriter)> {
    // Dropping the attempt at the deadline closes its socket and loses nothing.
    let attempt = pin!(TcpStream::connect_addr(address));
    let stream = if deadline == Monotonic::NEVER {
        attempt.await?
    } else {
        race(attempt, || sleep_once(deadline)).await.ok_or(io::ErrorKind::TimedOut)??
    };
    socket::set_up(&stream);
    Ok(split(stream, None, runtime.clone()))
}

/// The socket of both halves, which both keep alive.
struct Connection {
    fd: RawFd,
    /// The writer's half after the writer is gone: dropping it would send the
    /// end of the stream while the reader is still there.
    parked: Cell<Option<TcpOwnedWriteHalf>>,
    runtime: MonoioRuntime,
    _open: Option<OpenConnection>,
}

fn split(
    stream: TcpStream,
    open_connection: Option<OpenConnection>,
    runtime: MonoioRuntime,
) -> (MonoioReader, MonoioWriter) {
    let (fd, parked) = (stream.as_raw_fd(), Cell::new(None));
    let connection = Rc::new(Connection { fd, parked, runtime, _open: open_connection });
    let (read_half, write_half) = stream.into_split();
    let reader = MonoioReader {
        half: read_half,
        connection: Rc::clone(&connection),
        coop: CoopBudget::default(),
        timed_out: false,
    };
    let coop = CoopBudget::default();
    (reader, MonoioWriter { half: Some(write_half), connection, coop })
}

/// The receiving half of a connection.
pub struct MonoioReader {
    half: TcpOwnedReadHalf,
    connection: Rc<Connection>,
    coop: CoopBudget,
    timed_out: bool,
}

impl Reader for MonoioReader {
    async fn read(&mut self, buffer: Vec<u8>, deadline: Monotonic) -> (io::Result<usize>, Vec<u8>) {
        if self.coop.is_spent() {
            self.connection.runtime.yield_now().await;
        }
        if self.timed_out || clock::has_passed(deadline) {
            return (Err(io::ErrorKind::TimedOut.into()), buffer);
        }
        let start = buffer.len();
        let end = buffer.capacity().min(start.saturating_add(LONGEST_TRANSFER));
        if start == end {
            return (Ok(0), buffer);
        }
        let read = self.half.read(buffer.slice_mut(start..end));
        let mut operation = pin!(self.coop.count(read));
        let (result, slice) = if deadline == Monotonic::NEVER {
            operation.await
        } else if let Some(outcome) = race(operation.as_mut(), || sleep_once(deadline)).await {
            outcome
        } else {
            // The kernel owns the buffer until the operation ends.
            self.timed_out = true;
            socket::stop_reading(self.connection.fd);
            let (_, slice) = operation.await;
            (Err(io::ErrorKind::TimedOut.into()), slice)
        };
        (result, slice.into_inner())
    }
}

/// The sending half of a connection.
pub struct MonoioWriter {
    half: Option<TcpOwnedWriteHalf>,
    connection: Rc<Connection>,
    coop: CoopBudget,
}

const HALF_IS_THERE: &str = "the half is there until the writer is dropped";

impl Writer for MonoioWriter {
    async fn write_all<B: OwnedBytes>(
        &mut self,
        mut buffer: B,
        deadline: Monotonic,
    ) -> (io::Result<()>, B) {
        let fd = self.connection.fd;
        let half = self.half.as_mut().expect(HALF_IS_THERE);
        let mut done = 0;
        let len = buffer.as_ref().len();
        while done < len {
            if self.coop.is_spent() {
                self.connection.runtime.yield_now().await;
            }
            if clock::has_passed(deadline) {
                socket::stop_both(fd);
                return (Err(io::ErrorKind::TimedOut.into()), buffer);
            }
            let end = len.min(done + LONGEST_TRANSFER);
            let mut operation = pin!(self.coop.count(half.write(buffer.slice(done..end))));
            let outcome = if deadline == Monotonic::NEVER {
                Some(operation.as_mut().await)
            } else {
                race(operation.as_mut(), || sleep_once(deadline)).await
            };
            let Some((result, slice)) = outcome else {
                // As for reads. Also, no other bytes may follow half a message.
                socket::stop_both(fd);
                let (_, slice) = operation.await;
                return (Err(io::ErrorKind::TimedOut.into()), slice.into_inner());
            };
            buffer = slice.into_inner();
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        self.half.as_mut().expect(HALF_IS_THERE).shutdown().await?;
        let connection = Rc::downgrade(&self.connection);
        monoio::spawn(async move {
            monoio::time::sleep(socket::LINGER).await;
            if let Some(connection) = connection.upgrade() {
                socket::stop_reading(connection.fd);
            }
        });
        Ok(())
    }
}

impl Drop for MonoioWriter {
    fn drop(&mut self) {
        self.connection.parked.set(self.half.take());
    }
}
