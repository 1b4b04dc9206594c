//! Keeps a rewrite from getting in anybody's way.
//!
//! The shard tells through a [`Throttle`] what it is doing; the rewrite asks after each turn
//! on a side thread, whose priority is lower than that of all that anybody waits for. So it
//! takes what is left of the CPU, and half of that while pushes come: it gets on under
//! constant load too. While heads are being sealed it waits, because sealing is what frees
//! memory.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};

/// How long a rewrite sleeps at a time while it has to wait.
const NAP: Duration = Duration::from_millis(5);

/// What the shard is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Activity {
    /// Nothing.
    #[default]
    Idle = 0,
    /// It commits pushes.
    Busy = 1,
    /// It seals.
    Sealing = 2,
    /// It stops: the rewrite gives up.
    Stopping = 3,
}

/// Shared by a shard and its rewrite.
#[derive(Debug, Default)]
pub struct Throttle(AtomicU8);

impl Throttle {
    /// Tells what the shard is doing from now on.
    pub fn set(&self, activity: Activity) {
        self.0.store(activity as u8, Ordering::Relaxed);
    }

    fn get(&self) -> Activity {
        match self.0.load(Ordering::Relaxed) {
            0 => Activity::Idle,
            1 => Activity::Busy,
            2 => Activity::Sealing,
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

    /// To be called after each turn: lets others have the core, and while the shard is busy
    /// rests for as long as the turn took.
    pub(super) async fn turn<R: Runtime>(&mut self, runtime: &R) -> Result<(), Stopped> {
        let worked = runtime.now().since(self.since);
        runtime.yield_now().await;
        loop {
            match self.throttle.get() {
                Activity::Stopping => return Err(Stopped),
                Activity::Idle => break,
                Activity::Busy => {
                    runtime.sleep_until(runtime.now().after(worked)).await;
                    break;
                }
                Activity::Sealing => runtime.sleep_until(runtime.now().after(NAP)).await,
            }
        }
        self.since = runtime.now();
        Ok(())
    }
}
