//! Choosing and starting the driver.

use std::future::Future;
use std::io;

use monoio::time::TimeDriver;
use monoio::{Driver, IoUringDriver, LegacyDriver, RuntimeBuilder};

use super::MonoioRuntime;
use crate::launch::{Gate, LaunchOptions, Place, run_on_cores};

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
        let outcome = if ring_is_usable() {
            run_on_cores(options, move |place, gate| run_with_ring(place, gate, &main))
        } else {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel refuses a probe of io_uring",
            ))
        };
        match outcome {
            Err(error) if driver == MonoioDriver::Auto => {
                tracing::warn!(%error, "io_uring cannot be used: falling back to epoll");
            }
            Err(error) => return Err(explain_refusal(&error)),
            Ok(()) => return Ok(()),
        }
    }
    run_on_cores(options, move |place, gate| {
        let runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
        run(place, gate, ChosenDriver::Epoll, runtime, &main)
    })
}

/// Adds what a user can do about a refused ring.
pub(crate) fn explain_refusal(error: &io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::ENOMEM) => "raise the memlock limit (ulimit -l, LimitMEMLOCK=) to 8 MiB",
        Some(libc::EPERM | libc::EACCES) => {
            "allow the io_uring system calls (seccomp profile, sysctl kernel.io_uring_disabled)"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        _ => "it needs Linux 5.11 or later and the io_uring system calls allowed",
    };
    io::Error::new(
        error.kind(),
        format!("io_uring cannot be used: {error}; {advice}, or run on monoio with epoll"),
    )
}

/// Whether the kernel offers every operation that monoio uses.
fn ring_is_usable() -> bool {
    monoio::utils::detect_uring()
}

fn run_with_ring<F, Fut>(place: Place, gate: &mut Gate, main: &F) -> io::Result<()>
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
    // Completions arrive when the core enters the kernel anyway, without an
    // interrupt (Linux 5.19), and the kernel may rely on one submitting thread
    // (6.0). Kernels that don't know a flag answer EINVAL.
    let mut settings = io_uring::IoUring::builder();
    settings.setup_coop_taskrun().setup_single_issuer();
    let runtime = match build(settings) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            build(io_uring::IoUring::builder())?
        }
        other => other?,
    };
    run(place, gate, ChosenDriver::Ring, runtime, main)
}

fn run<D, F, Fut>(
    place: Place,
    gate: &mut Gate,
    driver: ChosenDriver,
    mut runtime: monoio::Runtime<TimeDriver<D>>,
    main: &F,
) -> io::Result<()>
where
    D: Driver + 'static,
    F: Fn(MonoioRuntime) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let core = runtime.block_on(async { MonoioRuntime::new(place, driver) })?;
    if gate.ready() {
        runtime.block_on(main(core));
    }
    Ok(())
}
