//! The engine's allowance for one shard's part of a query: memory and time.

use std::any::Any;

use logsvc_logql::engine::{Allowance, Stop};
use logsvc_runtime::{Denied, Grant, give_way};

use crate::types::Cancellation;

/// The engine's allowance for a part of a query: memory of the query's account, and time until the
/// query is cancelled.
#[derive(Debug)]
pub struct PartAllowance {
    /// The memory.
    pub grant: Grant,
    /// Says that the query is cancelled.
    pub cancellation: Cancellation,
}

impl PartAllowance {
    /// The memory that was taken from an allowance of this type.
    pub(in crate::scan) fn into_grant(allowance: Box<dyn Allowance>) -> Grant {
        let own: Box<dyn Any> = allowance;
        own.downcast::<PartAllowance>().expect("parts have these").grant
    }
}

/// The reason to stop a part whose memory is denied.
pub fn stop_of(denied: Denied) -> Stop {
    match denied {
        Denied::TooLarge { max_bytes } => Stop::TooLarge { max_bytes },
        Denied::Busy => Stop::Busy,
    }
}

impl Allowance for PartAllowance {
    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        self.grant.grow(bytes).map_err(stop_of)
    }

    fn give_back(&mut self, bytes: u64) {
        self.grant.shrink_to(self.grant.bytes().saturating_sub(bytes));
    }

    fn check(&mut self) -> Result<(), Stop> {
        give_way();
        if self.cancellation.is_cancelled() { Err(Stop::Ended) } else { Ok(()) }
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        let (grant, cancellation) = (self.grant.sibling(), self.cancellation.clone());
        Box::new(PartAllowance { grant, cancellation })
    }
}
