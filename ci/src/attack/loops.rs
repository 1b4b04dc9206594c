//! Other programs of the machine: threads that only compute.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Two busy threads; they end when this is dropped.
pub(super) struct BusyLoops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    pub(super) fn start(count: usize) -> BusyLoops {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count)
            .map(|_| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        (0..10_000_u32).for_each(|number| {
                            black_box(number);
                        });
                    }
                })
            })
            .collect();
        BusyLoops { stop, threads }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a loop does not panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_end() {
        assert_eq!(BusyLoops::start(2).threads.len(), 2);
    }
}
