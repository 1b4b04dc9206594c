//! Whether a node reaches what it needs to store entries, so that others can help if they do.
//!
//! Guarantees: a node that has asked nothing is not cut off. Nothing depends on what is said here but
//! who is taken for dead, which is a hint.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use logsvc_runtime::Monotonic;

/// How long a request waits without any answer of the bucket, or writes to the log fail without a success
/// between, until the node takes itself for cut off.
pub const CUT_OFF_AFTER: Duration = Duration::from_secs(8);

/// How long the bucket has to have answered a node before it believes that others are cut off: all of
/// them are while the bucket is away, and some notice its return a little later.
pub const WELL_AFTER: Duration = Duration::from_secs(10);

/// An answer that is later than this begins the time anew in which the bucket has answered.
const LATE: Duration = Duration::from_secs(2);

/// What a node lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOff {
    /// The bucket does not answer.
    Bucket,
    /// The local log cannot be written, as on a full disk.
    Log,
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CutOff::Bucket => "the bucket does not answer",
            CutOff::Log => "the write-ahead log cannot be written to the disk",
        })
    }
}

/// When the bucket has answered requests about the map.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// When the first request was sent that nothing has answered.
    asked: Cell<Option<Monotonic>>,
    /// From when on no answer was late.
    well_since: Cell<Option<Monotonic>>,
}

impl Reach {
    /// A request is sent.
    pub(super) fn note_asked(&self, now: Monotonic) {
        self.asked.set(self.asked.get().or(Some(now)));
    }

    /// The bucket has answered one.
    pub(super) fn note_answered(&self, now: Monotonic) {
        let was_late = self.asked.take().is_some_and(|asked| now > asked.after(LATE));
        if was_late || self.well_since.get().is_none() {
            self.well_since.set(Some(now));
        }
    }

    /// Whether the node does not reach the bucket.
    pub(super) fn is_cut_off(&self, now: Monotonic) -> bool {
        self.asked.get().is_some_and(|asked| now >= asked.after(CUT_OFF_AFTER))
    }

    /// Whether the node has reached the bucket for long enough to judge others.
    pub(super) fn is_well(&self, now: Monotonic) -> bool {
        let is_late = self.asked.get().is_some_and(|asked| now > asked.after(LATE));
        !is_late && self.well_since.get().is_some_and(|since| now >= since.after(WELL_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64) -> Monotonic {
        Monotonic(0).after(Duration::from_secs(at))
    }

    #[test]
    fn a_node_is_cut_off_while_nothing_answers() {
        let reach = Reach::default();
        assert!(!reach.is_cut_off(second(100)) && !reach.is_well(second(100)), "it has not asked");
        reach.note_asked(second(100));
        reach.note_answered(second(101));
        assert!(!reach.is_well(second(110)) && reach.is_well(second(111)));
        reach.note_asked(second(120));
        assert!(reach.is_well(second(122)));
        assert!(!reach.is_well(second(123)) && !reach.is_cut_off(second(127)));
        reach.note_asked(second(127));
        assert!(reach.is_cut_off(second(128)), "a further request is no answer");
        reach.note_answered(second(140));
        assert!(!reach.is_cut_off(second(200)) && !reach.is_well(second(149)));
        assert!(reach.is_well(second(150)));
    }
}
