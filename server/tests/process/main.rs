//! The built `logsvc`, driven from outside: real processes, real files, real sockets. These tests
//! show facts that the simulation cannot show: that a killed process keeps all acknowledged
//! entries, that the binary does what its documentation says, and that a hostile client cannot take
//! it down.
//!
//! Environment: `LOGSVC_SEED` repeats the random choices of a run; `LOGSVC_KILLS`
//! sets how often the crash test kills the server; `LOGSVC_RUNTIME` restricts it
//! to one backend.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests drive a real process from plain threads; nothing of them is simulated"
)]

mod access;
mod answers;
mod backup;
mod bad_input;
mod bucket;
mod cluster;
mod crash;
mod deletion;
#[cfg(feature = "tls")]
mod encrypted_cluster;
mod etcd_cluster;
mod full_disk;
mod health;
mod intake_elasticsearch;
mod intake_lines;
mod journald;
mod old_versions;
mod queue;
mod reference;
mod restarts;
mod rules;
mod runtime_config;
mod settings;
mod starts;
mod support;
mod syslog;
mod syslog_udp;
mod tails;
#[cfg(feature = "tls")]
mod tls;
mod tools;
mod transfer;
mod web_page;
