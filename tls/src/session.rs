//! The shared part of the two halves of a TLS connection: the state of the protocol, and the
//! sending half of the transport.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Write};

use logsvc_runtime::{Budget, Monotonic, Reservation, Writer};
use rustls::{Connection, Error};

/// Most that a peer may send before its handshake is done. A hello takes less than
/// 2 KiB; chains of client certificates of 10 KiB have been seen.
pub const MAX_HANDSHAKE_BYTES: usize = 64 * 1024;

/// Bytes that a handshake may hold without asking the budget: as much as the buffer of an idle
/// connection.
const FREE_HANDSHAKE_BYTES: usize = 4096;

/// Plaintext that is encrypted for one write of the transport; the limit that `rustls`
/// has for records that wait.
const WRITE_BYTES: usize = 64 * 1024;

/// Bytes that records add to [`WRITE_BYTES`] of plaintext: at most 29 for each record of 16 KiB,
/// and room for an answer to a request for new keys.
const RECORD_OVERHEAD_BYTES: usize = 256;

pub(crate) struct Session<W> {
    tls: RefCell<Connection>,
    /// Taken by the task that sends. `None` for good if a send was given up midway.
    transport: Cell<Option<W>>,
    established: Cell<bool>,
    failed: Cell<bool>,
    handshake: RefCell<Handshake>,
}

/// The bytes of a peer during its handshake.
struct Handshake {
    received_bytes: usize,
    budget: Budget,
    reservation: Option<Reservation>,
}

/// The result of a decryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plain {
    /// So many bytes of plaintext.
    Bytes(usize),
    /// More has to come first.
    Nothing,
    /// The peer has said `close_notify`.
    Closed,
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The peer broke the protocol, or cannot agree with this side.
    Protocol(Error),
    /// The handshake is longer than it may be.
    TooLong,
    /// There is no memory for a handshake of this length.
    NoMemory,
}

impl<W: Writer> Session<W> {
    pub(crate) fn new(tls: Connection, transport: W, budget: Budget) -> Session<W> {
        Session {
            tls: RefCell::new(tls),
            transport: Cell::new(Some(transport)),
            established: Cell::new(false),
            failed: Cell::new(false),
            handshake: RefCell::new(Handshake { received_bytes: 0, budget, reservation: None }),
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        self.established.get()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Gives up: only last words are sent from here on.
    pub(crate) fn fail(&self) {
        self.failed.set(true);
    }

    pub(crate) fn take_transport(&self) -> Option<W> {
        self.transport.take()
    }

    /// Moves decrypted bytes into spare capacity.
    pub(crate) fn take_plain(&self, buffer: &mut Vec<u8>) -> Plain {
        let mut tls = self.tls.borrow_mut();
        let mut reader = tls.reader();
        let start = buffer.len();
        loop {
            let room = buffer.capacity() - buffer.len();
            let taken = match reader.fill_buf() {
                // All was read, and no more comes.
                Ok([]) if buffer.len() == start => return Plain::Closed,
                Ok(chunk) => {
                    let count = chunk.len().min(room);
                    buffer.extend_from_slice(&chunk[..count]);
                    count
                }
                // No plaintext is ready. The session never learns of the transport's end, so the
                // error has no other meaning.
                Err(_) => 0,
            };
            if taken == 0 {
                let count = buffer.len() - start;
                return if count == 0 { Plain::Nothing } else { Plain::Bytes(count) };
            }
            reader.consume(taken);
        }
    }

    /// Decrypts some of `cipher` and returns the number of bytes that were taken. All plaintext of
    /// earlier calls must have been read.
    pub(crate) fn decrypt(&self, cipher: &[u8]) -> Result<usize, Fault> {
        let mut tls = self.tls.borrow_mut();
        let mut rest = cipher;
        let taken = tls.read_tls(&mut rest).map_err(|error| {
            Fault::Protocol(Error::General(format!("records do not fit: {error}")))
        })?;
        if !self.established.get() {
            self.handshake.borrow_mut().count(taken)?;
        }
        let state = tls.process_new_packets().map_err(Fault::Protocol)?;
        if !self.established.get() && !tls.is_handshaking() {
            self.established.set(true);
            // The certificates of a client stay as long as the connection.
            if tls.peer_certificates().is_none() {
                self.handshake.borrow_mut().reservation = None;
            }
        }
        // Bytes after `close_notify` do not count.
        let closed = taken == 0 || state.peer_has_closed();
        Ok(if closed { cipher.len() } else { taken })
    }

    /// Shrinks the buffer of records to its first size. Meant for an idle connection; a busy one
    /// loses nothing by it.
    pub(crate) fn shrink(&self) {
        // A read of nothing makes the empty buffer small, and it is an error that
        // means "not now", so that the session does not take it for the end.
        struct NotNow;
        impl io::Read for NotNow {
            fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
        let _ = self.tls.borrow_mut().read_tls(&mut NotNow);
    }

    /// Appends the records that wait to be sent.
    pub(crate) fn take_records(&self, out: &mut Vec<u8>) {
        put_records(&mut self.tls.borrow_mut(), out);
    }

    /// The records that wait to be sent, if any.
    pub(crate) fn waiting_records(&self) -> Option<Vec<u8>> {
        let mut tls = self.tls.borrow_mut();
        tls.wants_write().then(|| {
            let mut out = Vec::new();
            put_records(&mut tls, &mut out);
            out
        })
    }

    /// Sends records while no handshake is under way on the other half.
    pub(crate) async fn send(&self, records: Vec<u8>, deadline: Monotonic) -> io::Result<()> {
        let mut transport = self.transport.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (result, _) = transport.write_all(records, deadline).await;
        self.transport.set(Some(transport));
        result
    }

    /// Encrypts and sends `plain`.
    pub(crate) async fn send_plain(&self, plain: &[u8], deadline: Monotonic) -> io::Result<()> {
        let mut transport = self.transport.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut records = Vec::with_capacity(plain.len().min(WRITE_BYTES) + RECORD_OVERHEAD_BYTES);
        let mut rest = plain;
        let result = loop {
            if rest.is_empty() {
                break Ok(());
            }
            records.clear();
            match self.encrypt(rest, &mut records) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) => break Err(error),
            }
            let (result, returned) = transport.write_all(records, deadline).await;
            records = returned;
            if result.is_err() {
                break result;
            }
        };
        self.transport.set(Some(transport));
        result
    }

    fn encrypt(&self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let mut tls = self.tls.borrow_mut();
        // Answers to the peer's messages may wait; they go first.
        let count = tls.writer().write(&plain[..plain.len().min(WRITE_BYTES)])?;
        put_records(&mut tls, out);
        Ok(count)
    }

    /// Sends `close_notify`, if the handshake is done and the session has not failed.
    pub(crate) async fn say_goodbye(&self, deadline: Monotonic) -> io::Result<()> {
        if !self.established.get() || self.failed.get() {
            return Ok(());
        }
        self.tls.borrow_mut().send_close_notify();
        match self.waiting_records() {
            Some(records) => self.send(records, deadline).await,
            None => Ok(()),
        }
    }

    /// Ends the transport's sending side.
    pub(crate) async fn shut_down_transport(&self) -> io::Result<()> {
        let mut transport = self.transport.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let result = transport.shutdown().await;
        self.transport.set(Some(transport));
        result
    }
}

fn put_records(tls: &mut Connection, out: &mut Vec<u8>) {
    while tls.wants_write() {
        // Writing into memory cannot fail, and takes all.
        if tls.write_tls(out).is_err() {
            return;
        }
    }
}

impl Handshake {
    /// Counts received bytes before they are parsed.
    fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.received_bytes += bytes;
        if self.received_bytes > MAX_HANDSHAKE_BYTES {
            return Err(Fault::TooLong);
        }
        if self.received_bytes <= FREE_HANDSHAKE_BYTES {
            return Ok(());
        }
        let granted = match &mut self.reservation {
            Some(held) => held.try_grow(bytes as u64),
            None => {
                self.reservation = self.budget.try_reserve(self.received_bytes as u64);
                self.reservation.is_some()
            }
        };
        if granted { Ok(()) } else { Err(Fault::NoMemory) }
    }
}
