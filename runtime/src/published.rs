//! A value that all cores see, and that is replaced as a whole.
//!
//! Guarantees: a value never changes; a newer one takes its place. Who waits for a change misses none.
//!
//! A mutex guards the pointer to the value (ARCHITECTURE.md, *Locks*). It is held for a copy of the
//! pointer or for [`Published::update`], and never while a waker runs. Who looks often compares
//! versions first, which takes no lock.

#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crate::latch::Latch;

/// See the module. Cheap to clone.
#[derive(Debug)]
pub struct Published<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    current: Mutex<Current<T>>,
    version: AtomicU64,
}

#[derive(Debug)]
struct Current<T> {
    value: Arc<T>,
    /// Triggered when another value takes the place of this one.
    replaced: Latch,
}

impl<T> Clone for Published<T> {
    fn clone(&self) -> Published<T> {
        Published(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Published<T> {
    fn default() -> Published<T> {
        Published::new(T::default())
    }
}

impl<T> Published<T> {
    /// Publishes a first value.
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    pub fn new(value: T) -> Published<T> {
        let current = Current { value: Arc::new(value), replaced: Latch::new() };
        Published(Arc::new(Shared { current: Mutex::new(current), version: AtomicU64::new(0) }))
    }

    fn with<U>(&self, with: impl FnOnce(&mut Current<T>) -> U) -> U {
        // A panic ends the process, so poison says nothing here.
        with(&mut self.0.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        self.with(|current| Arc::clone(&current.value))
    }

    /// How often the value was replaced.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Puts a value in the place of the former one.
    pub fn replace(&self, value: T) {
        let value = Arc::new(value);
        self.changed_by(|current| current.value = value);
    }

    /// Puts the value that `change` makes of the former one in its place.
    pub fn update(&self, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        self.changed_by(|current| change(Arc::make_mut(&mut current.value)));
    }

    fn changed_by(&self, change: impl FnOnce(&mut Current<T>)) {
        let replaced = self.with(|current| {
            change(current);
            self.0.version.fetch_add(1, Ordering::Release);
            std::mem::take(&mut current.replaced)
        });
        replaced.trigger();
    }

    /// The newest value as soon as `is_wanted` says yes to one.
    pub async fn when(&self, is_wanted: impl Fn(&T) -> bool) -> Arc<T> {
        loop {
            let (value, replaced) =
                self.with(|current| (Arc::clone(&current.value), current.replaced.clone()));
            if is_wanted(&value) {
                return value;
            }
            replaced.wait().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Simulation;
    use crate::traits::Runtime;

    #[test]
    fn who_waits_misses_no_change() {
        Simulation::new(1).block_on(|runtime| async move {
            let published = Published::new(1);
            let (seen, old) = (published.clone(), published.get());
            let waiting = runtime.spawn(async move { *seen.when(|value| *value > 2).await });
            runtime.sleep_until(runtime.now().after(std::time::Duration::from_millis(1))).await;
            published.replace(2);
            runtime.sleep_until(runtime.now().after(std::time::Duration::from_millis(1))).await;
            published.update(|value| *value += 5);
            assert_eq!(waiting.await, 7);
            assert_eq!((*old, *published.get(), published.version()), (1, 7, 2));
            // What is there already is not waited for.
            assert_eq!(*published.when(|value| *value == 7).await, 7);
        });
    }
}
