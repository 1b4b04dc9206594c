//! Streams, labels, fields and patterns of tenants, and the volume of streams.

mod catalogue;
mod detected;
mod index;
mod patterns;
mod volume;

use std::rc::Rc;

use logsvc_runtime::Runtime;

use super::core::Core;
use super::query::Querier;

/// Answers questions about the streams of tenants.
pub(super) struct Explorer<R: Runtime> {
    core: Rc<Core<R>>,
    querier: Rc<Querier<R>>,
}

impl<R: Runtime> Explorer<R> {
    /// One that asks with the querier of its core.
    pub(super) fn new(querier: Rc<Querier<R>>) -> Explorer<R> {
        Explorer { core: Rc::clone(&querier.core), querier }
    }
}
