//! Keeps a rewrite from slowing down pushes and queries.
//!
//! The shard tells its activity through a [`Throttle`]. The rewrite asks after each batch of steps
//! on a side thread; side threads rest by themselves while cores, sealing or short queries want the
//! CPU. While pushes come, the rewrite takes half of the remaining time, so it makes progress under
//! constant load. While the shard seals, the rewrite waits, because sealing frees memory. When
//! there are too many drafts, it neither rests nor waits: at their bound, generations are encoded
//! before they leave memory, and pushes wait for that. A heavy query beside the rewrite could cause
//! this.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};

/// How long a rewrite sleeps at a time while it has to wait.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The shard's work, as far as a rewrite depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Activity {
    /// Nothing.
    #[default]
    Idle = 0,
    /// The shard commits pushes.
    Busy = 1,
    /// The shard seals.
    Sealing = 2,
    /// The shard stops: the rewrite gives up.
    Stopping = 3,
    /// The shard takes more pushes than are merged meanwhile, and can do so for a short time only.
    Overtaken = 4,
}

/// Shared by a shard and its rewrite.
#[derive(Debug, Default)]
pub struct Throttle(AtomicU8);

impl Throttle {
    /// Tells the activity of the shard from this moment on.
    pub fn set(&self, activity: Activity) {
        self.0.store(activity as u8, Ordering::Relaxed);
    }

    /// The last [`Throttle::set`].
    pub(crate) fn get(&self) -> Activity {
        match self.0.load(Ordering::Relaxed) {
            0 => Activity::Idle,
            1 => Activity::Busy,
            2 => Activity::Sealing,
            4 => Activity::Overtaken,
            _ => Activity::Stopping,
        }
    }
}

/// The shard is stopping.
#[derive(Debug)]
pub(super) struct Stopped;

/// A rewrite's own clock.
#[derive(Debug)]
pub(super) struct Pace<'a> {
    throttle: &'a Throttle,
    since: Monotonic,
}

impl<'a> Pace<'a> {
    pub(super) fn new<R: Runtime>(runtime: &R, throttle: &'a Throttle) -> Pace<'a> {
        Pace { throttle, since: runtime.now() }
    }

    /// To be called after each batch of steps: lets others have the core, and rests for as long
    /// as the steps took while the shard is busy.
    pub(super) async fn rest<R: Runtime>(&mut self, runtime: &R) -> Result<(), Stopped> {
        let worked = runtime.now().since(self.since);
        runtime.yield_now().await;
        loop {
            match self.throttle.get() {
                Activity::Stopping => return Err(Stopped),
                Activity::Idle | Activity::Overtaken => break,
                Activity::Busy => {
                    runtime.sleep_until(runtime.now().after(worked)).await;
                    break;
                }
                Activity::Sealing => runtime.sleep_until(runtime.now().after(POLL_INTERVAL)).await,
            }
        }
        self.since = runtime.now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::sim::Simulation;

    use super::*;

    #[test]
    fn what_the_shard_does_says_how_long_a_rewrite_rests() {
        const WORK: Duration = Duration::from_millis(3);
        for (activity, rests) in
            [(Activity::Idle, false), (Activity::Busy, true), (Activity::Overtaken, false)]
        {
            Simulation::new(1).block_on(|runtime| async move {
                let throttle = Throttle::default();
                throttle.set(activity);
                let mut pace = Pace::new(&runtime, &throttle);
                runtime.sleep_until(runtime.now().after(WORK)).await;
                let done = runtime.now();
                pace.rest(&runtime).await.unwrap();
                assert_eq!(runtime.now().since(done) >= WORK, rests, "{activity:?}");
            });
        }
    }

    #[test]
    fn a_rewrite_waits_for_sealing_and_ends_with_the_shard() {
        Simulation::new(1).block_on(|runtime| async move {
            let throttle = std::rc::Rc::new(Throttle::default());
            throttle.set(Activity::Sealing);
            let (sealing, clock) = (throttle.clone(), runtime.clone());
            let until = runtime.now().after(20 * POLL_INTERVAL);
            drop(runtime.spawn(async move {
                clock.sleep_until(until).await;
                sealing.set(Activity::Idle);
            }));
            let mut pace = Pace::new(&runtime, &throttle);
            pace.rest(&runtime).await.unwrap();
            assert!(runtime.now() >= until);
            throttle.set(Activity::Stopping);
            assert!(pace.rest(&runtime).await.is_err());
        });
    }
}
