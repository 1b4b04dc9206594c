//! Limits and timeouts of a client.

use std::time::Duration;

use super::decode::ResponseLimits;
use super::proxy::Proxies;

/// Limits and timeouts of the client of one core.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Time to open a connection: the look-up of the name, TCP, the proxy's tunnel and TLS.
    pub connect_timeout: Duration,
    /// Time from the last byte of the request to the end of the answer's head.
    pub head_timeout: Duration,
    /// Longest time in which no byte of a body moves.
    pub progress_timeout: Duration,
    /// A write that moves fewer bytes per second than this, besides `progress_timeout`, fails.
    pub min_rate_bytes_per_s: u64,
    /// Limits of answers. A request may have another limit of its body.
    pub answer: ResponseLimits,
    /// How long a connection is kept for the next request.
    pub idle_timeout: Duration,
    /// Most connections of one destination that are kept.
    pub max_idle_per_destination: usize,
    /// Most connections that are kept.
    pub max_idle: usize,
    /// Bodies of this length or more, and those of unknown length, are sent only when the server
    /// says `100 Continue`, or after `continue_timeout`. `None`: no body waits.
    pub expect_continue_min_bytes: Option<u64>,
    /// How long `100 Continue` is waited for.
    pub continue_timeout: Duration,
    /// The header `User-Agent` of requests that have none.
    pub user_agent: String,
    /// Which requests go through a proxy.
    pub proxies: Proxies,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            connect_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(60),
            progress_timeout: Duration::from_secs(30),
            min_rate_bytes_per_s: 10_000,
            answer: ResponseLimits::default(),
            idle_timeout: Duration::from_secs(60),
            max_idle_per_destination: 16,
            max_idle: 256,
            expect_continue_min_bytes: None,
            continue_timeout: Duration::from_secs(1),
            user_agent: concat!("logsvc/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxies: Proxies::default(),
        }
    }
}
