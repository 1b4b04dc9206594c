//! How many connections may be open.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A ceiling on open connections. Clones share the count, so that cores whose
/// listeners get uneven shares of the connections need no shares of the ceiling.
#[derive(Clone)]
pub struct ConnectionLimit {
    max: usize,
    open: Arc<AtomicUsize>,
}

impl ConnectionLimit {
    /// At most `max` connections.
    pub fn new(max: usize) -> ConnectionLimit {
        ConnectionLimit { max, open: Arc::new(AtomicUsize::new(0)) }
    }

    /// The ceiling.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Counts one more connection until the permit is dropped; `None` if there are
    /// enough.
    pub(crate) fn try_enter(&self) -> Option<ConnectionPermit> {
        // The count guards no other memory.
        let entered = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < self.max).then_some(open + 1)
        });
        entered.is_ok().then(|| ConnectionPermit { open: Arc::clone(&self.open) })
    }
}

impl fmt::Debug for ConnectionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} connections", self.open.load(Ordering::Relaxed), self.max)
    }
}

/// One connection that is counted.
pub(crate) struct ConnectionPermit {
    open: Arc<AtomicUsize>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_count() {
        let limit = ConnectionLimit::new(2);
        let (one, two) = (limit.try_enter(), limit.clone().try_enter());
        assert!(one.is_some() && two.is_some() && limit.try_enter().is_none());
        drop(one);
        assert_eq!(format!("{limit:?}"), "1 of 2 connections");
        assert!(limit.try_enter().is_some());
        assert!(ConnectionLimit::new(0).try_enter().is_none());
    }
}
