//! A bell that any thread rings and one task waits for.
//!
//! Guarantees: a ring during, before or after a wait is heard by this wait or by the next one. Rings
//! that nobody has heard are one.

use std::fmt;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Bell {
    sender: flume::Sender<()>,
    receiver: flume::Receiver<()>,
}

impl Bell {
    /// A bell that has not been rung.
    pub fn new() -> Bell {
        let (sender, receiver) = flume::bounded(1);
        Bell { sender, receiver }
    }

    /// Rings. Never waits.
    pub fn ring(&self) {
        // One that has not been heard stands for this one, too.
        let _ = self.sender.try_send(());
    }

    /// Waits until it is rung.
    pub async fn wait(&self) {
        if self.receiver.recv_async().await.is_err() {
            // The sender lives in this value.
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Bell {
    fn default() -> Bell {
        Bell::new()
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_heard(bell: &Bell) -> bool {
        pin!(bell.wait()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn rings_are_kept_until_one_hears_them() {
        let bell = Bell::new();
        assert!(!is_heard(&bell));
        bell.ring();
        bell.clone().ring();
        assert!(is_heard(&bell));
        assert!(!is_heard(&bell), "two rings that nobody heard are one");
    }
}
