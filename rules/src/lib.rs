//! The ruler: rule groups of tenants, their storage, their evaluation, and what they send.
//!
//! # Layers
//!
//! - Values and texts without I/O: rule groups ([`model`]), their YAML, their checks, templates,
//!   relabelling, settings ([`config`]).
//! - State machines without I/O: the alerts of a rule, the samples of a recording rule, the state
//!   of a group.
//! - Files: the stored groups, the state of alerts, the log of samples that wait to be sent.
//! - Drivers over [`logsvc_runtime::Runtime`]: notifications to Alertmanagers, samples to
//!   receivers of remote write, and the ruler itself on core 0, which is the only owner of all of
//!   it.
//!
//! Queries are evaluated by whoever gives an [`evaluator::Evaluator`], and requests are sent by
//! whoever gives a [`transport::Transport`]. What several nodes have in common comes from whoever gives
//! [`common::CommonFiles`].
//!
//! What must be absent: this crate knows no shards, no other nodes, no routes and no TLS.

pub mod alert;
pub mod auth;
pub mod catalogue;
pub mod common;
pub mod config;
pub mod duration;
pub mod evaluation;
pub mod evaluator;
pub mod expand;
pub mod fuzz;
pub mod group;
mod label_sets;
pub mod lanes;
pub mod messages;
pub mod model;
pub mod notify;
pub mod record;
pub mod relabel;
pub mod remote;
pub mod remote_numbers;
pub mod rule_error;
pub mod ruler;
pub mod schedule;
mod shown_url;
pub mod sink;
pub mod state;
pub mod store;
pub mod transport;
pub mod validate;
pub mod yaml;
