//! An HTTP/1.1 client: state machines without I/O, and a driver with a pool of connections.
//!
//! # Layers
//!
//! - [`Target`]: an address, taken apart. [`ResponseDecoder`] turns bytes, in pieces of any size,
//!   into answers; what it gives does not depend on where the pieces were cut.
//! - [`Client`] sends requests over connections of a [`logsvc_runtime::Dial`], keeps connections
//!   for later requests, and hands the bodies of answers out piece by piece.
//! - [`Proxies`]: which requests go through a proxy.
//!
//! # Guarantees
//!
//! - An answer reaches the caller only if there is exactly one way to find its end. A body that is
//!   cut off is an error and never a short body, except where the end of the connection is the
//!   only mark.
//! - No server makes the client hold more than a head, a read, and what the caller keeps. No
//!   request takes longer than its timeouts.
//! - A request is sent at most once, unless it may be repeated: then once more, on a new
//!   connection, if a kept one turns out to be closed before any byte of the answer.
//! - A request, an answer, or a wait for a piece of it may be dropped at any moment. A connection
//!   in an unknown state is closed and never used again.
//!
//! # What can go wrong
//!
//! A server that closes a connection just when a request goes out that must not be repeated: that
//! request fails, and its sender decides.
//!
//! What must be absent: redirects are answers like others. There are no cookies, no compression,
//! no upgrades, and no TLS: the dialer has it.

mod config;
mod decode;
mod encode;
mod exchange;
mod fault;
mod link;
mod pool;
mod proxy;
mod request;
mod response;
mod sending;
mod target;

pub use config::ClientConfig;
pub use decode::{Piece, ResponseDecoder, ResponseHead, ResponseLimits};
pub use exchange::Client;
pub use fault::{AnswerError, ClientError, Fault};
pub use proxy::{Proxies, ProxyError};
pub use request::{ClientRequest, RequestBody};
pub use response::ClientResponse;
pub use target::{Target, UrlError};
