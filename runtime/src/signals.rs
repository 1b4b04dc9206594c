//! Signals: SIGTERM and SIGINT as an orderly stop, SIGHUP as the wish to read files again.
//!
//! Guarantees: SIGUSR1, SIGUSR2 and SIGHUP end nothing. SIGPIPE needs nothing: Rust's start code
//! ignores it, so that a closed connection is an error of the write.

use std::io;
use std::process;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::{Latch, Monotonic, clock};

/// Exit code after a signal of impatience: 128 + SIGINT, as shells report it.
pub const FORCED_EXIT_CODE: i32 = 130;

/// Signals that come earlier after the first one are the same wish: `timeout` and process groups
/// send two within milliseconds.
const IMPATIENCE_AFTER: Duration = Duration::from_secs(1);

/// What to do about a SIGTERM or SIGINT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stopping {
    Begin,
    GoOn,
    ExitAtOnce,
}

/// `since` is when the stop began.
fn on_stop_signal(since: Option<Monotonic>, now: Monotonic) -> Stopping {
    match since {
        None => Stopping::Begin,
        Some(since) if now.since(since) < IMPATIENCE_AFTER => Stopping::GoOn,
        Some(_) => Stopping::ExitAtOnce,
    }
}

/// Triggers `stop` on the first SIGTERM or SIGINT. One that comes more than a second later ends the
/// process at once with [`FORCED_EXIT_CODE`]: the write-ahead log makes that safe. Calls `reload`
/// on each SIGHUP, on a thread of its own.
///
/// # Errors
/// The system refuses the handlers or the thread.
pub fn handle_signals(stop: Latch, reload: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut stopping_since = None;
        for signal in signals.forever() {
            match signal {
                SIGHUP => {
                    tracing::info!(signal, "reading the files again");
                    reload();
                }
                SIGUSR1 | SIGUSR2 => tracing::info!(signal, "this signal means nothing here"),
                _ => match on_stop_signal(stopping_since, clock::now()) {
                    Stopping::Begin => {
                        tracing::info!(signal, "stopping");
                        stopping_since = Some(clock::now());
                        stop.trigger();
                    }
                    Stopping::GoOn => tracing::debug!(signal, "stopping already"),
                    Stopping::ExitAtOnce => {
                        tracing::warn!(signal, "second signal: exiting at once");
                        process::exit(FORCED_EXIT_CODE);
                    }
                },
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impatience_begins_after_a_second() {
        let begun = clock::now();
        assert_eq!(on_stop_signal(None, begun), Stopping::Begin);
        for (later_ms, expected) in [
            (0, Stopping::GoOn),
            (2, Stopping::GoOn),
            (999, Stopping::GoOn),
            (1000, Stopping::ExitAtOnce),
        ] {
            let now = begun.after(Duration::from_millis(later_ms));
            assert_eq!(on_stop_signal(Some(begun), now), expected, "{later_ms}");
        }
    }
}
