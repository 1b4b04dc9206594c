//! Pauses between attempts, which grow and differ between nodes.

use std::time::Duration;

use crate::settings::Settings;

/// Counts failures in a row.
#[derive(Debug)]
pub(crate) struct Pause {
    failures: u32,
    salt: u64,
}

impl Pause {
    /// `salt` is a random number of the node.
    pub(crate) fn new(salt: u64) -> Pause {
        Pause { failures: 0, salt }
    }

    /// An attempt has succeeded.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// An attempt has failed: how long to wait. Between a half of the doubled pause and all of it.
    pub(crate) fn next(&mut self, settings: &Settings) -> Duration {
        let factor = 1u32 << self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        let pause = settings.pause_min.saturating_mul(factor).min(settings.pause_max);
        // The steps of a linear congruential generator (Knuth, MMIX), of which the upper bits count.
        self.salt = self
            .salt
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let share = (self.salt >> 56) as u32;
        pause / 2 + (pause / 512).saturating_mul(share)
    }
}
