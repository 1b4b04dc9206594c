//! Choosing and starting the driver.

use std::future::Future;
use std::io;

use monoio::time::TimeDriver;
use monoio::{Driver, IoUringDriver, LegacyDriver, RuntimeBuilder};

use super::MonoioRuntime;
use crate::launch::{CoreContext, LaunchOptions, StartBarrier, run_on_cores};
use crate::ring_probe::{explain_refused_ring, probe_ring};

/// Which driver [`launch`] shall use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MonoioDriver {
    /// io_uring, or epoll if any core is refused its ring (an old kernel, a
    /// seccomp profile, a small memlock limit). One choice for the whole process.
    #[default]
    Auto,
    /// io_uring or an error.
    IoUring,
    /// epoll.
    Epoll,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChosenDriver {
    Ring,
    Epoll,
}

/// Entries of a core's submission queue; the completion queue has twice as many.
const RING_ENTRIES: u32 = 1024;

/// Runs `main` on every core and returns when all have returned.
///
/// A core whose `main` has returned is gone, with all its tasks: cores that
/// others still talk to must not return before them.
///
/// # Errors
///
/// Only before any `main` has run: no thread or no driver could be had.
pub fn launch<F, Fut>(options: &LaunchOptions, driver: MonoioDriver, main: F) -> io::Result<()>
where
    F: Fn(MonoioRuntime) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    if driver != MonoioDriver::Epoll {
        let main = main.clone();
        let outcome = probe_ring().map_err(|error| explain_refused_ring(&error)).and_then(|()| {
            run_on_cores(options, move |context, barrier| run_with_ring(context, barrier, &main))
        });
        match outcome {
            Err(error) if driver == MonoioDriver::Auto => {
                tracing::warn!(%error, "falling back to epoll");
            }
            other => return other,
        }
    }
    run_on_cores(options, move |context, barrier| {
        let runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
        run(context, barrier, ChosenDriver::Epoll, runtime, &main)
    })
}

fn run_with_ring<F, Fut>(
    context: CoreContext,
    barrier: &mut StartBarrier,
    main: &F,
) -> io::Result<()>
where
    F: Fn(MonoioRuntime) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let build = |settings: io_uring::Builder| {
        RuntimeBuilder::<IoUringDriver>::new()
            .with_entries(RING_ENTRIES)
            .uring_builder(settings)
            .enable_timer()
            .build()
    };
    let explain = |error| explain_refused_ring(&error);
    // Completions arrive when the core enters the kernel anyway, without an
    // interrupt (Linux 5.19), and the kernel may rely on one submitting thread
    // (6.0). Kernels that don't know a flag answer EINVAL.
    let mut settings = io_uring::IoUring::builder();
    settings.setup_coop_taskrun().setup_single_issuer();
    let runtime = match build(settings) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            build(io_uring::IoUring::builder()).map_err(explain)?
        }
        other => other.map_err(explain)?,
    };
    run(context, barrier, ChosenDriver::Ring, runtime, main)
}

fn run<D, F, Fut>(
    context: CoreContext,
    barrier: &mut StartBarrier,
    driver: ChosenDriver,
    mut runtime: monoio::Runtime<TimeDriver<D>>,
    main: &F,
) -> io::Result<()>
where
    D: Driver + 'static,
    F: Fn(MonoioRuntime) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let core = runtime.block_on(async { MonoioRuntime::new(context, driver) })?;
    if barrier.ready() {
        runtime.block_on(main(core));
    }
    Ok(())
}
