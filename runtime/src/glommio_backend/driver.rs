//! Starting the executors.

use std::future::Future;
use std::io;
use std::time::Duration;

use glommio::{LocalExecutorBuilder, Placement};

use super::GlommioRuntime;
use crate::launch::{LaunchOptions, run_on_cores};
use crate::ring_probe::{explain_refused_ring, probe_ring};

/// Entries of each of an executor's three rings.
const RING_ENTRIES: usize = 512;

/// Memory registered with the ring; only small reads use it here.
const IO_MEMORY_BYTES: usize = 1 << 20;

/// How long ready tasks run before the executor looks at its rings again: never in practice,
/// because a timer that fires at the wrong moment puts the core to sleep beside ready tasks,
/// see [`super::notifier`]. Tasks that never wait yield by themselves, as on the other backends.
const PREEMPT_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Runs `main` on every core and returns when all have returned.
///
/// A core whose `main` has returned is gone, with all its tasks: cores that
/// others still talk to must not return before them.
///
/// # Errors
///
/// Only before any `main` has run: no thread or no ring could be had.
pub fn launch<F, Fut>(options: &LaunchOptions, main: F) -> io::Result<()>
where
    F: Fn(GlommioRuntime) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    probe_ring().map_err(|error| explain_refused_ring(&error))?;
    run_on_cores(options, move |context, barrier| {
        // The thread is pinned already.
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .name("core")
            .ring_depth(RING_ENTRIES)
            .io_memory(IO_MEMORY_BYTES)
            .preempt_timer(PREEMPT_AFTER)
            .make()
            .map_err(|error| explain_refused_ring(&io::Error::from(error)))?;
        let core = executor.run(async move { GlommioRuntime::new(context) })?;
        if barrier.ready() {
            executor.run(core.notified(main(core.clone())));
        }
        Ok(())
    })
}
