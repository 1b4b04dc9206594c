//! TLS over the runtime's connections: `rustls`, driven by the same read and write
//! operations that everything else uses.
//!
//! [`TlsListener`] wraps a listener and is one itself. It accepts readers and writers
//! like any other, so a server needs to know nothing of TLS. The
//! handshake happens in the first read, on the connection's own task, never in the
//! accept loop. [`TlsDialer`] opens connections to hosts by name, plain or with TLS, for clients.
//! Certificates of both sides can be replaced while connections go on ([`TlsAcceptor`], [`ClientTls`]).
//!
//! # Guarantees
//!
//! - TLS 1.2 and 1.3, with the suites of `ring` only: ECDHE with AES-GCM or ChaCha20.
//!   ALPN offers `http/1.1` and nothing else.
//! - A connection that has not finished its handshake ends at its handshake deadline;
//!   its memory beyond 4 KiB counts against the given budget, and is at most
//!   [`MAX_HANDSHAKE_BYTES`]. An idle connection holds one buffer of 4 KiB and the
//!   keys.
//! - An alert tells the peer about every failure of the protocol, and the connection
//!   is closed so that the alert arrives. A peer that speaks HTTP gets an answer in HTTP.
//! - [`logsvc_runtime::Writer::close`] and `shutdown` send `close_notify`.
//!
//! # What can go wrong
//!
//! A connection that ends without `close_notify` reads as ended, like one that ends
//! with it: the protocol above must know the length of its messages, as HTTP does.
//!
//! Sessions are not resumed. Clients of a log server keep their connections, and
//! resumption would need either a memory of sessions that all cores lock, or tickets
//! whose key is as valuable as all sessions of a day.
//!
//! What must be absent: this crate knows no HTTP beyond the one answer to a client
//! that forgot TLS, and names no runtime backend.

mod any_client;
mod any_server;
mod client_settings;
mod client_tls;
mod connector;
mod dialer;
mod listener;
mod session;
mod settings;
mod stream;
mod suites;

pub use client_settings::{ClientTlsError, ClientTlsSettings};
pub use client_tls::ClientTls;
pub use connector::connect;
pub use dialer::{DialedReader, DialedWriter, TlsDialer};
pub use listener::{TlsAcceptor, TlsListener};
pub use session::MAX_HANDSHAKE_BYTES;
pub use settings::{ClientAuth, MinVersion, SettingsError, TlsSettings};
pub use stream::{FailureWatch, TlsReader, TlsWriter};
pub use suites::CipherSuites;
