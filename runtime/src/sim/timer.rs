//! A wake at a point of the virtual clock.

use std::rc::Rc;
use std::task::{Context, Poll};

use super::world::{EventKey, World};
use crate::Monotonic;

/// A timer that renews its wake at each poll and cancels it when dropped.
pub(super) struct Timer {
    world: Rc<World>,
    key: Option<EventKey>,
}

impl Timer {
    pub(super) fn new(world: Rc<World>) -> Timer {
        Timer { world, key: None }
    }

    /// Ready once the clock has reached `deadline`, which must be the same at
    /// each poll.
    pub(super) fn poll(&mut self, deadline: Monotonic, cx: &mut Context<'_>) -> Poll<()> {
        if self.world.now_nanos() >= deadline.0 {
            return Poll::Ready(());
        }
        if deadline != Monotonic::NEVER {
            self.world.set_timer(&mut self.key, deadline.0, cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.world.cancel_timer(key);
        }
    }
}
