//! An HTTP/1.1 server and an HTTP/1.1 client: sans-I/O state machines over `httparse`, connection
//! drivers over [`logsvc_runtime::Runtime`], and WebSocket on the server's side.
//!
//! # Layers
//!
//! - State machines without I/O: [`HeadDecoder`], [`BodyReader`],
//!   [`ChunkedDecoder`] and [`websocket::MessageDecoder`] turn bytes, in pieces
//!   of any size, into requests and messages. Their output does not depend on
//!   where the pieces were cut.
//! - The driver: [`serve`] accepts connections, reads requests, hands them to a
//!   [`Service`], and sends its responses.
//! - Helpers for services: [`Params`], [`Router`].
//! - The client ([`client`]) has state machines and a driver of its own.
//!
//! # Guarantees
//!
//! - A request reaches the service only if there is exactly one way to read it.
//! - No client makes the server hold more memory than its budget, its buffers
//!   per connection, and the limits of [`ServerConfig`] allow; and none holds a
//!   connection without making progress at the slowest rate configured.
//! - Responses go out in the order of the requests.
//!
//! What must be absent: this crate knows nothing of logs or tenants, and names no runtime backend.
//! There is no HTTP/2. TLS is a listener like any other. 411 is never answered: a request without a
//! length has no body, as in every common server.

mod accept;
mod body;
mod chunked;
pub mod client;
mod config;
mod connection;
mod date;
mod encode;
mod framing;
mod gzip;
mod head;
mod inbound;
mod input;
mod limit;
mod params;
mod percent;
mod pieces;
mod receiving;
mod refusal;
mod response;
mod router;
mod scan;
mod server;
mod service;
mod signal;
mod stream;
mod turn_away;
pub mod websocket;

pub use accept::{accepts_coding, accepts_gzip};
pub use body::{Body, BodyReader, FIRST_BYTES, FIRST_STEP_BYTES};
pub use chunked::{ChunkedDecoder, Decoded, MAX_EXTENSION_BYTES, MAX_TRAILER_BYTES};
pub use config::{IDLE_BUFFER_BYTES, ServerConfig};
pub use date::{DATE_LEN_BYTES, format_date};
pub use framing::Framing;
pub use head::{HeadDecoder, RequestHead};
pub use input::InputBuffer;
pub use limit::ConnectionLimit;
pub use params::{MAX_PARAMS, Params, ParamsError, escape};
pub use pieces::BodyPieces;
pub use refusal::Refusal;
pub use response::{ChunkError, ChunkSource, Response, ResponseBody};
pub use router::{Match, PathParams, Router, clean_path};
pub use scan::HeadLimits;
pub use server::serve;
pub use service::{Admission, Observation, Request, Service};
pub use signal::{Disconnect, Signal, SignalWait};
pub use stream::{BodyStream, PIECE_BYTES, StreamFault};
