//! The alerts of a tenant that wait, once for all Alertmanagers.
//!
//! Each Alertmanager has a reader with a place in the queue. An alert leaves when all readers have
//! taken it, or as the oldest one when there is no room: then each reader that has not taken it
//! counts it as dropped. So a slow Alertmanager neither delays the others nor needs a queue of its
//! own.
//!
//! Guarantees: a reader takes alerts in the order in which they came, each at most once. For each
//! reader `given = taken + dropped + waiting`.

use std::collections::{BTreeMap, VecDeque};

/// What an alert takes beside its text, in bytes.
pub(super) const ENTRY_OVERHEAD_BYTES: u64 = 32;

#[derive(Debug, Default)]
pub(super) struct Queue {
    alerts: VecDeque<Box<[u8]>>,
    /// The number of the oldest alert that is there, counted from the first one ever.
    first: u64,
    bytes: u64,
    readers: BTreeMap<u64, Reader>,
    dropped: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reader {
    /// The number of the alert that it takes next.
    next: u64,
    pub(super) given: u64,
    pub(super) dropped: u64,
}

/// Alerts for one request.
#[derive(Debug)]
pub(super) struct Batch {
    /// A JSON array.
    pub(super) body: Vec<u8>,
    pub(super) count: u64,
}

impl Queue {
    pub(super) fn push(&mut self, alert: Box<[u8]>) {
        self.bytes += cost(&alert);
        self.alerts.push_back(alert);
        for reader in self.readers.values_mut() {
            reader.given += 1;
        }
    }

    /// Removes the oldest alert.
    pub(super) fn drop_oldest(&mut self) {
        let Some(alert) = self.alerts.pop_front() else { return };
        self.bytes -= cost(&alert);
        self.dropped += 1;
        for reader in self.readers.values_mut().filter(|reader| reader.next == self.first) {
            reader.next += 1;
            reader.dropped += 1;
        }
        self.first += 1;
    }

    /// Counts alerts that never came in.
    pub(super) fn count_refused(&mut self, count: u64) {
        self.dropped += count;
        for reader in self.readers.values_mut() {
            reader.given += count;
            reader.dropped += count;
        }
    }

    /// The next alerts of a reader: at least one, else as many as fit. `None` if none waits.
    pub(super) fn take(&mut self, reader: u64, max_count: u64, max_bytes: u64) -> Option<Batch> {
        let place = self.readers.get_mut(&reader)?;
        let skipped = usize::try_from(place.next - self.first).ok()?;
        let mut batch = Batch { body: Vec::new(), count: 0 };
        for alert in self.alerts.range(skipped..) {
            let len_bytes = (batch.body.len() + alert.len() + 2) as u64;
            if batch.count == max_count || (batch.count > 0 && len_bytes > max_bytes) {
                break;
            }
            batch.body.push(if batch.count == 0 { b'[' } else { b',' });
            batch.body.extend_from_slice(alert);
            batch.count += 1;
        }
        if batch.count == 0 {
            return None;
        }
        batch.body.push(b']');
        place.next += batch.count;
        self.trim();
        Some(batch)
    }

    /// Adds readers of the alerts to come, and of those that wait if there is no other reader.
    pub(super) fn add_readers(&mut self, ids: &[u64]) {
        let end = self.first + self.alerts.len() as u64;
        let next = if self.readers.is_empty() { self.first } else { end };
        let reader = Reader { next, given: end - next, dropped: 0 };
        self.readers.extend(ids.iter().map(|id| (*id, reader)));
    }

    /// Removes a reader; what only it has not taken is dropped, unless it was the last one: then
    /// the alerts wait for another one.
    pub(super) fn remove_reader(&mut self, id: u64) {
        if self.readers.remove(&id).is_some() {
            let before = self.alerts.len();
            self.trim();
            self.dropped += (before - self.alerts.len()) as u64;
        }
    }

    pub(super) fn reader(&self, id: u64) -> Reader {
        self.readers.get(&id).copied().unwrap_or_default()
    }

    /// How many alerts a reader has still to take.
    pub(super) fn waiting(&self, id: u64) -> u64 {
        let end = self.first + self.alerts.len() as u64;
        self.readers.get(&id).map_or(0, |reader| end - reader.next)
    }

    pub(super) fn len(&self) -> usize {
        self.alerts.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Alerts that at least one Alertmanager has not got for want of room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn trim(&mut self) {
        let Some(next) = self.readers.values().map(|reader| reader.next).min() else { return };
        while self.first < next
            && let Some(alert) = self.alerts.pop_front()
        {
            self.bytes -= cost(&alert);
            self.first += 1;
        }
        if self.alerts.is_empty() {
            // The memory of a burst is not kept.
            self.alerts = VecDeque::new();
        }
    }
}

/// What the queue counts for an alert, in bytes.
pub(super) fn cost(alert: &[u8]) -> u64 {
    alert.len() as u64 + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    use super::*;

    /// The queue of each reader, kept apart.
    #[derive(Default)]
    struct Naive {
        queues: BTreeMap<u64, (Vec<u64>, Reader)>,
        all: Vec<u64>,
    }

    #[test]
    fn readers_see_what_queues_of_their_own_would_give() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut queue = Queue::default();
            let mut naive = Naive::default();
            for number in 0..200 {
                match rng.below(8) {
                    0 => {
                        let id = rng.below(3);
                        if naive.queues.contains_key(&id) {
                            queue.remove_reader(id);
                            naive.queues.remove(&id);
                        } else {
                            queue.add_readers(&[id]);
                            let is_first = naive.queues.is_empty();
                            let waiting = if is_first { naive.all.clone() } else { Vec::new() };
                            let given = waiting.len() as u64;
                            naive
                                .queues
                                .insert(id, (waiting, Reader { given, ..Reader::default() }));
                        }
                    }
                    1 => {
                        queue.drop_oldest();
                        if !naive.all.is_empty() {
                            let oldest = naive.all.remove(0);
                            for (waiting, reader) in naive.queues.values_mut() {
                                if waiting.first() == Some(&oldest) {
                                    waiting.remove(0);
                                    reader.dropped += 1;
                                }
                            }
                        }
                    }
                    2..=4 => {
                        queue.push(number.to_string().into_bytes().into_boxed_slice());
                        naive.all.push(number);
                        for (waiting, reader) in naive.queues.values_mut() {
                            waiting.push(number);
                            reader.given += 1;
                        }
                    }
                    _ => {
                        let id = rng.below(3);
                        let (count, bytes) = (rng.between(1, 5), rng.below(20));
                        let batch = queue.take(id, count, bytes);
                        let taken: Vec<u64> = batch.map_or(Vec::new(), |batch| {
                            assert!(batch.body.len() as u64 <= bytes || batch.count == 1);
                            serde_json::from_slice(&batch.body).expect("an array")
                        });
                        let waiting = naive.queues.get_mut(&id);
                        let waiting =
                            waiting.map_or(&mut Vec::new(), |(waiting, _)| waiting).clone();
                        assert_eq!(taken, waiting[..taken.len()]);
                        assert!(taken.len() as u64 <= count);
                        assert_eq!(taken.is_empty(), waiting.is_empty());
                        if let Some((waiting, _)) = naive.queues.get_mut(&id) {
                            waiting.drain(..taken.len());
                        }
                    }
                }
                if !naive.queues.is_empty() {
                    let held: Vec<_> =
                        naive.queues.values().flat_map(|(waiting, _)| waiting).collect();
                    naive.all.retain(|number| held.contains(&number));
                }
                assert_eq!(queue.len(), naive.all.len());
                let costs = naive.all.iter().map(|number| cost(number.to_string().as_bytes()));
                assert_eq!(queue.bytes(), costs.sum::<u64>());
                for (id, (waiting, expected)) in &naive.queues {
                    let found = queue.reader(*id);
                    assert_eq!(queue.waiting(*id), waiting.len() as u64);
                    assert_eq!((found.given, found.dropped), (expected.given, expected.dropped));
                }
            }
        }
    }
}
