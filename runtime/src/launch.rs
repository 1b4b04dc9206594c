//! Starting the cores: one pinned thread each, all of them or none.
//!
//! Guarantees: no `main` runs before every core has its driver, so that a
//! machine that refuses io_uring is noticed while falling back is still
//! possible.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use crate::balance::Balance;
use crate::panics::stop_process_on_panic;
use crate::priority::run_at_once;
use crate::{CoreId, SideThreads};

/// Address space for a core's stack; pages that are not used cost nothing.
const CORE_STACK_BYTES: usize = 8 << 20;

/// How many cores to launch, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// Number of cores, at least one.
    pub cores: u16,
    /// CPU numbers to pin the cores to, used in turn if there are fewer than
    /// cores. `None` takes the CPUs that the process may use.
    pub cpus: Option<Vec<usize>>,
    /// Threads of each [`crate::SideQueue`], in the whole process. The file
    /// operations that a driver cannot do have threads of their own, as many again.
    pub side_threads: u16,
}

impl LaunchOptions {
    /// Options for `cores` cores and as many side threads, but at least two.
    pub fn with_cores(cores: u16) -> LaunchOptions {
        LaunchOptions { cores, cpus: None, side_threads: cores.max(2) }
    }
}

impl Default for LaunchOptions {
    /// One core for each CPU that the process may use.
    fn default() -> Self {
        let cpus = allowed_cpus().map_or(1, |cpus| cpus.len());
        LaunchOptions::with_cores(u16::try_from(cpus).unwrap_or(u16::MAX).max(1))
    }
}

/// The resources of one core's thread.
#[derive(Clone)]
pub(crate) struct CoreContext {
    pub(crate) core: CoreId,
    pub(crate) core_count: u16,
    pub(crate) side: SideThreads,
    pub(crate) balance: Balance,
}

/// Where a core waits until all cores have built their driver.
pub(crate) struct StartBarrier {
    report: mpsc::Sender<io::Result<()>>,
    go: mpsc::Receiver<bool>,
    reported: bool,
}

impl StartBarrier {
    /// Reports that this core is ready, and waits for all cores. False if the launch is called off.
    #[must_use]
    pub(crate) fn ready(&mut self) -> bool {
        self.reported = true;
        self.report.send(Ok(())).is_ok() && self.go.recv().unwrap_or(false)
    }
}

/// Runs `body` on one thread per core and returns when all have returned.
///
/// An error means that a thread or a driver could not be had; no body has got
/// past its [`StartBarrier::ready`] then.
pub(crate) fn run_on_cores<B>(options: &LaunchOptions, body: B) -> io::Result<()>
where
    B: Fn(CoreContext, &mut StartBarrier) -> io::Result<()> + Send + Sync + 'static,
{
    if options.cores == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "at least one core is needed"));
    }
    let cpus = chosen_cpus(options)?;
    let side = SideThreads::start(options.side_threads, options.cores)?;
    let balance = Balance::default();
    let body = Arc::new(body);
    let (report, reports) = mpsc::channel();
    let mut threads = Vec::new();
    let mut outcome = Ok(());
    for number in 0..options.cores {
        let context = CoreContext {
            core: CoreId(number),
            core_count: options.cores,
            side: side.clone(),
            balance: balance.clone(),
        };
        let cpu = cpus.get(usize::from(number) % cpus.len().max(1)).copied();
        let (go, wait) = mpsc::channel();
        let mut barrier = StartBarrier { report: report.clone(), go: wait, reported: false };
        let body = Arc::clone(&body);
        let builder =
            thread::Builder::new().name(format!("core-{number}")).stack_size(CORE_STACK_BYTES);
        let spawned = builder.spawn(move || {
            stop_process_on_panic();
            run_at_once();
            context.side.add_core(context.core);
            let result = cpu.map_or(Ok(()), pin_thread).and_then(|()| body(context, &mut barrier));
            if !barrier.reported {
                // The launching thread waits for one report of each core.
                let _ = barrier.report.send(result);
            }
        });
        match spawned {
            Ok(thread) => threads.push((thread, go)),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    drop(report);
    for _ in 0..threads.len() {
        let result = reports.recv().unwrap_or_else(|_| Err(io::Error::other("a core vanished")));
        outcome = outcome.and(result);
    }
    for (_, go) in &threads {
        // A core that failed has gone already.
        let _ = go.send(outcome.is_ok());
    }
    for (thread, _) in threads {
        thread.join().map_err(|_| io::Error::other("a core panicked"))?;
    }
    outcome
}

fn chosen_cpus(options: &LaunchOptions) -> io::Result<Vec<usize>> {
    let Some(cpus) = &options.cpus else {
        return Ok(allowed_cpus().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the CPU affinity: the cores are not pinned");
            Vec::new()
        }));
    };
    let limit = libc::CPU_SETSIZE as usize;
    if cpus.is_empty() || cpus.iter().any(|cpu| *cpu >= limit) {
        let text = format!("the list of CPUs must name at least one, each below {limit}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(cpus.clone())
}

/// The CPUs that the process may use, in rising order.
fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: `cpu_set_t` is a plain bit array, for which all zeros is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable and its size is the one given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the index is below `CPU_SETSIZE`, the number of bits in `set`.
    let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(has).collect())
}

fn pin_thread(cpu: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is a plain bit array, for which all zeros is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `chosen_cpus` admits only numbers below `CPU_SETSIZE`.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is readable and its size is the one given; 0 is this thread.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(
            error.kind(),
            format!("cannot pin a core to CPU {cpu}: {error}"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn all_cores_run_pinned_and_named() {
        let seen = Arc::new(AtomicU32::new(0));
        let mask = Arc::clone(&seen);
        let options = LaunchOptions::with_cores(3);
        run_on_cores(&options, move |context, barrier| {
            assert!(barrier.ready());
            let name = format!("core-{}", context.core);
            assert_eq!(thread::current().name(), Some(name.as_str()));
            assert_eq!(allowed_cpus().unwrap().len(), 1);
            assert_eq!(context.core_count, 3);
            mask.fetch_or(1 << context.core.0, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.load(Ordering::Relaxed), 0b111);
    }

    #[test]
    fn one_core_that_cannot_start_stops_all() {
        let options = LaunchOptions::with_cores(3);
        let error = run_on_cores(&options, |context, barrier| {
            if context.core == CoreId(1) {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
            assert!(!barrier.ready(), "core {} was let go", context.core);
            Ok(())
        });
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn refuses_impossible_options() {
        let refused = |options: &LaunchOptions| run_on_cores(options, |_, _| Ok(())).unwrap_err();
        assert_eq!(refused(&LaunchOptions::with_cores(0)).kind(), io::ErrorKind::InvalidInput);
        let mut options = LaunchOptions::with_cores(1);
        options.cpus = Some(vec![1_000_000]);
        assert_eq!(refused(&options).kind(), io::ErrorKind::InvalidInput);
        options.cpus = Some(Vec::new());
        assert_eq!(refused(&options).kind(), io::ErrorKind::InvalidInput);
        options.cpus = Some(vec![libc::CPU_SETSIZE as usize - 1]);
        assert!(refused(&options).to_string().contains("cannot pin"));
    }
}
