//! Proof of ownership: a request that was sent at a time has shown that nobody could have claimed
//! anything from this node before that time.
//!
//! Two kinds of requests show it. A read has found that the next map does not exist: so no claim had
//! been made when the read was sent. An object of the own write-ahead log was created: so the log
//! was not fenced yet, and claims come after fences.
//!
//! What is proven is the past. It holds for [`Settings::proof_max`], because every heir waits longer
//! than that after its claim. This is the only rule that depends on clocks, and only on their rates.
//!
//! [`Settings::proof_max`]: crate::settings::Settings::proof_max

use std::time::Duration;

use logsvc_runtime::Monotonic;

/// The newest proof.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Proof {
    sent: Option<Monotonic>,
}

impl Proof {
    /// A request that was sent at `sent` has shown it.
    pub(crate) fn shown(&mut self, sent: Monotonic) {
        self.sent = self.sent.max(Some(sent));
    }

    /// Whether it still holds.
    pub(crate) fn holds(&self, now: Monotonic, longest: Duration) -> bool {
        self.sent.is_some_and(|sent| now <= sent.after(longest))
    }
}
