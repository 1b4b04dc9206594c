//! Options that say which server to talk to, shared by all subcommands.

use crate::http::{Client, Target, parse_target};
use crate::units::parse_duration_nanos;
use clap::Args;
use std::time::Duration;

/// The server under load.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetArgs {
    /// The server
    #[arg(long, default_value = "http://127.0.0.1:3100", value_parser = parse_target)]
    pub(crate) url: Target,
    /// Tenant (X-Scope-OrgID)
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// How long to wait for a connection, and for each read and write on it
    #[arg(long, default_value = "60s", value_parser = parse_duration_nanos)]
    pub(crate) timeout: u64,
}

impl TargetArgs {
    /// A client without a connection.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.url.clone(), Duration::from_nanos(self.timeout.max(1)))
    }

    /// The bytes of a GET request.
    pub(crate) fn get(&self, path_and_query: &str, headers: &str) -> Vec<u8> {
        self.url.request("GET", path_and_query, self.tenant.as_deref(), headers, None)
    }
}
