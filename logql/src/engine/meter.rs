//! The memory and the work that a leaf or a merge may still take.
//!
//! The caller of a leaf gives it an [`Allowance`]. The engine asks the allowance for memory
//! *before* it allocates, in steps, and asks at least once per [`CHECK_WORK`] whether the work may
//! go on. A [`Meter`] counts in between, so that memory within the current step costs one
//! comparison. Work is counted in bytes that are read or written, more where a byte costs more,
//! so that [`CHECK_WORK`] take about a tenth of a millisecond and never more than a few.
//!
//! Guarantees: after a refusal the meter is *stopped* and says so to every caller, and nothing is
//! written into memory that was refused. The state of a stopped leaf is consistent, but it is no
//! answer. What can go wrong: a meter counts the bytes that stages report. A test with a counting
//! allocator compares them with the bytes that are allocated.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;

/// Why a part of a query has to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    /// It would hold more memory than it may ever hold.
    #[error("the query holds more than {max_bytes} bytes of intermediate results")]
    TooLarge {
        /// How much it may hold, in bytes.
        max_bytes: u64,
    },
    /// There is no memory for it now.
    #[error("there is no memory for the query now")]
    Busy,
    /// Its time is up, or the client is gone.
    #[error("the query was cancelled")]
    Ended,
}

/// The source of memory for a part of a query, which also knows whether the part may go on.
/// Dropping it gives the memory back.
pub trait Allowance: Any + Send + fmt::Debug {
    /// Takes memory for the part before it is allocated.
    ///
    /// # Errors
    /// There is none: nothing has changed then.
    fn take(&mut self, bytes: u64) -> Result<(), Stop>;

    /// Gives back some of the memory.
    fn give_back(&mut self, bytes: u64);

    /// Checks whether the work may go on.
    ///
    /// # Errors
    /// It may not.
    fn check(&mut self) -> Result<(), Stop>;

    /// Another part's allowance of the same query.
    fn sibling(&self) -> Box<dyn Allowance>;
}

/// Unlimited memory and time: for tests, and for work that its caller bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Allowance for Unlimited {
    fn take(&mut self, _bytes: u64) -> Result<(), Stop> {
        Ok(())
    }

    fn give_back(&mut self, _bytes: u64) {}

    fn check(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Box::new(Self)
    }
}

/// Work between two checks, in bytes that are read or written.
const CHECK_WORK: usize = 256 << 10;

/// Memory is taken in steps of so many bytes.
const STEP_BYTES: usize = 64 << 10;

/// Memory beyond the used memory that is kept between blocks.
const SLACK_BYTES: usize = 256 << 10;

/// Buffers up to this size are kept from entry to entry.
const KEPT_BYTES: usize = 64 << 10;

/// A map of any hasher.
#[expect(clippy::disallowed_types, reason = "the maker of the map chooses its hasher")]
type StdMap<K, V, S> = std::collections::HashMap<K, V, S>;

/// Heap memory of a map's table, in bytes.
pub(crate) fn map_bytes<K, V, S>(map: &StdMap<K, V, S>) -> usize {
    table_bytes(map.capacity(), size_of::<(K, V)>())
}

/// Heap memory of a table that holds so many entries of a size: a power of two of places,
/// an eighth of them free, with a byte each beside the entry.
fn table_bytes(capacity: usize, entry_bytes: usize) -> usize {
    let places = match capacity {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        more => (more.saturating_mul(8) / 7).next_power_of_two(),
    };
    places.saturating_mul(entry_bytes + 1).saturating_add(16)
}

/// Counts the memory and work that one executor takes from its allowance.
#[derive(Debug)]
pub(crate) struct Meter {
    allowance: RefCell<Box<dyn Allowance>>,
    /// Bytes that were taken of the allowance.
    taken_bytes: Cell<usize>,
    /// Bytes of these that are in use.
    used_bytes: Cell<usize>,
    /// Bytes that were in use when the meter was last reconciled.
    reconciled_bytes: Cell<usize>,
    /// Work until the next check.
    work_left: Cell<usize>,
    stop: Cell<Option<Stop>>,
}

impl Meter {
    /// A meter that has taken nothing.
    pub(crate) fn new(allowance: Box<dyn Allowance>) -> Self {
        Self {
            allowance: RefCell::new(allowance),
            taken_bytes: Cell::new(0),
            used_bytes: Cell::new(0),
            reconciled_bytes: Cell::new(0),
            work_left: Cell::new(CHECK_WORK),
            stop: Cell::new(None),
        }
    }

    /// A meter of an allowance from which so many bytes are taken already, and in use.
    pub(crate) fn holding(allowance: Box<dyn Allowance>, taken_bytes: usize) -> Self {
        let meter = Self::new(allowance);
        meter.taken_bytes.set(taken_bytes);
        meter.used_bytes.set(taken_bytes);
        meter
    }

    /// Memory in use, in bytes.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    /// Notes that at most so many bytes are still in use.
    pub(crate) fn release_to(&self, bytes: usize) {
        self.used_bytes.set(self.used_bytes.get().min(bytes));
    }

    /// A meter of its own for another part of the same query.
    pub(crate) fn sibling(&self) -> Self {
        Self::new(self.allowance.borrow().sibling())
    }

    /// The reason to end the part, if there is one.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop.get()
    }

    /// Whether the part has to end.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.get().is_some()
    }

    /// An error if the part has to end.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        self.stop.get().map_or(Ok(()), Err)
    }

    /// Ends the part.
    pub(crate) fn end(&self, stop: Stop) {
        if self.stop.get().is_none() {
            self.stop.set(Some(stop));
        }
    }

    /// Asks for memory that is about to be allocated. False if there is none; then the
    /// meter is stopped.
    #[inline]
    #[must_use]
    pub(crate) fn admit(&self, bytes: usize) -> bool {
        let used_bytes = self.used_bytes.get().saturating_add(bytes);
        if used_bytes > self.taken_bytes.get() && !self.take(used_bytes) {
            return false;
        }
        self.used_bytes.set(used_bytes);
        true
    }

    #[cold]
    fn take(&self, used_bytes: usize) -> bool {
        if self.is_stopped() {
            return false;
        }
        let missing_bytes = used_bytes - self.taken_bytes.get();
        let mut allowance = self.allowance.borrow_mut();
        let mut take = |bytes: usize| allowance.take(bytes as u64).map(|()| bytes);
        match take(missing_bytes.max(STEP_BYTES)).or_else(|_| take(missing_bytes)) {
            Ok(bytes) => {
                self.taken_bytes.set(self.taken_bytes.get() + bytes);
                true
            }
            Err(stop) => {
                self.end(stop);
                false
            }
        }
    }

    /// Notes that so many of the bytes that were admitted are free again.
    #[inline]
    pub(crate) fn release(&self, bytes: usize) {
        self.used_bytes.set(self.used_bytes.get().saturating_sub(bytes));
    }

    /// Asks for memory for the lifetime of the reservation. `None` if there is none; then the
    /// meter is stopped.
    #[inline]
    pub(crate) fn hold(&self, bytes: usize) -> Option<Reservation<'_>> {
        self.admit(bytes).then_some(Reservation { meter: self, bytes })
    }

    /// Whether the bytes in use are the same as when the meter was reconciled.
    #[inline]
    pub(crate) fn is_reconciled(&self) -> bool {
        self.used_bytes.get() == self.reconciled_bytes.get()
    }

    /// Sets the bytes in use to the measured ones, for instance behind a block. Admissions since
    /// the last call are part of these. False without memory for them; then the meter is stopped.
    pub(crate) fn reconcile(&self, held_bytes: usize) -> bool {
        self.used_bytes.set(0);
        if !self.admit(held_bytes) {
            // The memory stays allocated until the leaf is dropped.
            self.used_bytes.set(self.taken_bytes.get());
            return false;
        }
        self.reconciled_bytes.set(held_bytes);
        let surplus_bytes = self.taken_bytes.get().saturating_sub(held_bytes);
        if surplus_bytes > SLACK_BYTES {
            let given_bytes = surplus_bytes - STEP_BYTES;
            self.allowance.borrow_mut().give_back(given_bytes as u64);
            self.taken_bytes.set(self.taken_bytes.get() - given_bytes);
        }
        true
    }

    /// As [`Meter::reconcile`], without slack, for a meter whose work is done.
    pub(crate) fn reconcile_exactly(&self, held_bytes: usize) {
        self.used_bytes.set(0);
        if !self.is_stopped() && self.admit(held_bytes) {
            let surplus_bytes = self.taken_bytes.get() - held_bytes;
            self.allowance.borrow_mut().give_back(surplus_bytes as u64);
            self.taken_bytes.set(held_bytes);
        }
    }

    /// The allowance, with its taken memory.
    ///
    /// # Errors
    /// The part had to end.
    pub(crate) fn into_allowance(self) -> Result<Box<dyn Allowance>, Stop> {
        match self.stop.get() {
            Some(stop) => Err(stop),
            None => Ok(self.allowance.into_inner()),
        }
    }

    /// Makes room for `more` items at the end of a buffer. False if there is no memory; the
    /// buffer is unchanged then.
    #[inline]
    #[must_use]
    pub(crate) fn make_room<T>(&self, buffer: &mut Vec<T>, more: usize) -> bool {
        buffer.capacity() - buffer.len() >= more || self.enlarge(buffer, more)
    }

    #[cold]
    fn enlarge<T>(&self, buffer: &mut Vec<T>, more: usize) -> bool {
        let (len, before) = (buffer.len(), buffer.capacity());
        let Some(needed) = len.checked_add(more) else {
            self.end(Stop::TooLarge { max_bytes: usize::MAX as u64 });
            return false;
        };
        let least = if size_of::<T>() > 1024 { 1 } else { (64 / size_of::<T>().max(1)).max(4) };
        let capacity = needed.max(before.saturating_mul(2)).max(least);
        // Both are there while one is copied to the other.
        if !self.admit(capacity.saturating_mul(size_of::<T>())) {
            return false;
        }
        buffer.reserve_exact(capacity - len);
        self.release(before * size_of::<T>());
        true
    }

    /// Adds an item to a buffer. False if there is no memory; the buffer is as it was then.
    #[inline]
    #[must_use]
    pub(crate) fn push<T>(&self, buffer: &mut Vec<T>, item: T) -> bool {
        let has_room = self.make_room(buffer, 1);
        if has_room {
            buffer.push(item);
        }
        has_room
    }

    /// Makes room for another entry of a map. False if there is no memory; the map is as it was
    /// then.
    #[inline]
    #[must_use]
    pub(crate) fn make_room_in_map<K, V, S>(&self, map: &mut StdMap<K, V, S>) -> bool
    where
        K: Eq + std::hash::Hash,
        S: std::hash::BuildHasher,
    {
        map.len() < map.capacity() || self.enlarge_map(map)
    }

    #[cold]
    fn enlarge_map<K, V, S>(&self, map: &mut StdMap<K, V, S>) -> bool
    where
        K: Eq + std::hash::Hash,
        S: std::hash::BuildHasher,
    {
        let before_bytes = map_bytes(map);
        // The next table has twice as many places.
        let after_bytes = table_bytes(map.capacity() + 1, size_of::<(K, V)>());
        if !self.admit(after_bytes) {
            return false;
        }
        map.reserve(1);
        self.release(before_bytes);
        true
    }

    /// Empties a buffer for the next entry. Gives the memory of a large buffer back, as few
    /// entries need a large one.
    pub(crate) fn recycle(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > KEPT_BYTES {
            self.release(buffer.capacity());
            *buffer = Vec::new();
        }
    }

    /// Appends to a buffer. False if there is no memory; the buffer is as it was then.
    #[inline]
    #[must_use]
    pub(crate) fn append(&self, buffer: &mut Vec<u8>, bytes: &[u8]) -> bool {
        let has_room = self.make_room(buffer, bytes.len());
        if has_room {
            buffer.extend_from_slice(bytes);
        }
        has_room
    }

    /// Counts work, in bytes that are read or written. False if the part has to end.
    #[inline]
    pub(crate) fn work(&self, bytes: usize) -> bool {
        match self.work_left.get().checked_sub(bytes) {
            Some(left) => {
                self.work_left.set(left);
                !self.is_stopped()
            }
            None => self.check_allowance(),
        }
    }

    /// Asks the allowance whether the part may go on. False if it has to end.
    #[cold]
    pub(crate) fn check_allowance(&self) -> bool {
        self.work_left.set(CHECK_WORK);
        if !self.is_stopped()
            && let Err(stop) = self.allowance.borrow_mut().check()
        {
            self.end(stop);
        }
        !self.is_stopped()
    }
}

/// Memory that was admitted and is released when this is dropped.
#[derive(Debug)]
#[must_use = "a dropped one releases its bytes at once"]
pub(crate) struct Reservation<'m> {
    meter: &'m Meter,
    bytes: usize,
}

impl Reservation<'_> {
    /// Releases the bytes beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let surplus_bytes = self.bytes.saturating_sub(bytes);
        self.meter.release(surplus_bytes);
        self.bytes -= surplus_bytes;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.meter.release(self.bytes);
    }
}

impl Default for Meter {
    /// A meter without limits.
    fn default() -> Self {
        Self::new(Box::new(Unlimited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// So many bytes for all parts together, and so many checks for each.
    #[derive(Clone, Debug)]
    struct Limited {
        left_bytes: Arc<AtomicU64>,
        checks: u32,
    }

    impl Limited {
        fn new(bytes: u64) -> Self {
            Self { left_bytes: Arc::new(AtomicU64::new(bytes)), checks: 2 }
        }
    }

    impl Allowance for Limited {
        fn take(&mut self, bytes: u64) -> Result<(), Stop> {
            let left_bytes = self.left_bytes.load(Ordering::Relaxed);
            let left_bytes = left_bytes.checked_sub(bytes).ok_or(Stop::Busy)?;
            self.left_bytes.store(left_bytes, Ordering::Relaxed);
            Ok(())
        }

        fn give_back(&mut self, bytes: u64) {
            self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
        }

        fn check(&mut self) -> Result<(), Stop> {
            self.checks = self.checks.checked_sub(1).ok_or(Stop::Ended)?;
            Ok(())
        }

        fn sibling(&self) -> Box<dyn Allowance> {
            Box::new(self.clone())
        }
    }

    #[test]
    fn memory_is_asked_for_before_it_is_allocated() {
        let limited = Limited::new(1 << 20);
        let meter = Meter::new(Box::new(limited.clone()));
        let mut buffer = Vec::new();
        assert!(meter.append(&mut buffer, &[b'x'; 400 << 10]));
        assert_eq!(limited.left_bytes.load(Ordering::Relaxed), (1 << 20) - (400 << 10));
        // Twice as much does not fit beside it.
        assert!(!meter.append(&mut buffer, b"y"));
        assert_eq!((buffer.len(), buffer.capacity()), (400 << 10, 400 << 10));
        assert_eq!(meter.stop(), Some(Stop::Busy));
        // A stopped meter stays stopped, whatever there is room for.
        assert!(!meter.admit(500 << 10) && !meter.work(1));
    }

    #[test]
    fn what_is_reconciled_goes_back_but_for_some_slack() {
        let limited = Limited::new(10 << 20);
        let meter = Meter::new(Box::new(limited.clone()));
        assert!(meter.admit(3 << 20) && meter.admit(1 << 20));
        meter.release(2 << 20);
        assert!(meter.reconcile(1000));
        let taken_bytes = (10 << 20) - limited.left_bytes.load(Ordering::Relaxed);
        assert_eq!(taken_bytes, 1000 + STEP_BYTES as u64);
        assert!(!meter.reconcile(11 << 20) && meter.stop() == Some(Stop::Busy));
    }

    #[test]
    fn the_last_bytes_are_found_although_steps_are_larger() {
        let meter = Meter::new(Box::new(Limited::new(100)));
        assert!(meter.admit(60) && meter.admit(40));
        assert!(!meter.admit(1));
    }

    #[test]
    fn work_is_looked_at_now_and_then() {
        let meter = Meter::new(Box::new(Limited::new(0)));
        let beside = meter.sibling();
        let works = (0..100).take_while(|_| meter.work(CHECK_WORK / 4)).count();
        assert!((12..=15).contains(&works), "{works}");
        assert_eq!((meter.stop(), beside.stop()), (Some(Stop::Ended), None));
        assert!(!beside.admit(1) && beside.stop() == Some(Stop::Busy));
    }

    #[test]
    fn lengths_do_not_overflow() {
        let meter = Meter::default();
        assert!(!meter.make_room(&mut vec![b'x'; 3], usize::MAX));
        assert!(meter.is_stopped());
        let meter = Meter::default();
        assert!(meter.admit(usize::MAX) && meter.admit(usize::MAX));
        meter.release(usize::MAX);
        assert!(meter.work(usize::MAX));
    }
}
