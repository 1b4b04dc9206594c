//! What nodes of a cluster ask each other: to store entries, to answer for their part of a query, and
//! to tell new entries as they come.
//!
//! [`frame`] has the bytes that all messages share, [`push`], [`question`] and [`tail`] the messages,
//! [`client`] sends them to a node, and [`service`] takes them from other nodes. All of it is on
//! HTTP/1.1: `POST /v1/push` and `POST /v1/question`, one frame in each direction, and `POST /v1/tail`,
//! whose answer has frames until one side ends it.
//! `docs/format.md` has the bytes (*Messages between nodes*).
//!
//! Guarantees: arbitrary bytes are refused without panic, and with memory in proportion to them. A
//! frame that was cut or changed on its way is noticed. Fields that a later version adds are passed
//! over, so nodes of two versions work together.
//!
//! What can go wrong: an answer that does not come tells nothing about what became of the request.
//! Whoever can connect to the port of this service can read and write everything: it belongs in a
//! private network, or behind certificates on both sides.

pub mod client;
pub mod forward;
pub mod frame;
pub mod push;
pub mod question;
pub mod removal;
pub mod service;
pub mod tail;
