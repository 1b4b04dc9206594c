//! Keeps memory that is costly to allocate, for its next use.
//!
//! Guarantees: the memory is released after [`KEPT_FOR`] unless it was taken. So a store that
//! seals all the time does without the system's clearing of fresh memory, and a store that seals
//! every half hour holds nothing in between.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::Runtime;

/// How long something is kept.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Spare<T>(Rc<RefCell<Kept<T>>>);

struct Kept<T> {
    value: Option<T>,
    /// How often something was kept, which tells one time from another.
    times: u64,
}

impl<T> Default for Spare<T> {
    fn default() -> Spare<T> {
        Spare(Rc::new(RefCell::new(Kept { value: None, times: 0 })))
    }
}

impl<T> fmt::Debug for Spare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spare").field("is_there", &self.0.borrow().value.is_some()).finish()
    }
}

impl<T: 'static> Spare<T> {
    /// The value that was kept, if it is there.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.borrow_mut().value.take()
    }

    /// Keeps a value for a while.
    pub(crate) fn keep<R: Runtime>(&self, runtime: &R, value: T) {
        let mut kept = self.0.borrow_mut();
        kept.value = Some(value);
        kept.times += 1;
        let (times, there) = (kept.times, Rc::downgrade(&self.0));
        let released_at = runtime.now().after(KEPT_FOR);
        let own_runtime = runtime.clone();
        drop(runtime.spawn(async move {
            own_runtime.sleep_until(released_at).await;
            if let Some(there) = there.upgrade()
                && there.borrow().times == times
            {
                there.borrow_mut().value = None;
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::sim::Simulation;

    use super::*;

    #[test]
    fn what_is_not_wanted_soon_is_released() {
        Simulation::new(1).block_on(|runtime| async move {
            let spare = Spare::default();
            let wait = async |part: u32| {
                runtime.sleep_until(runtime.now().after(KEPT_FOR * part / 4)).await;
            };
            spare.keep(&runtime, 1);
            wait(3).await;
            assert_eq!(spare.take(), Some(1));
            spare.keep(&runtime, 2);
            wait(3).await;
            // The time of the first one is over.
            assert_eq!(spare.take(), Some(2));
            spare.keep(&runtime, 3);
            wait(5).await;
            assert_eq!(spare.take(), None);
        });
    }
}
