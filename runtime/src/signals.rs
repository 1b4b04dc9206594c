//! SIGTERM and SIGINT as an orderly stop.

use std::io;
use std::process;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Latch;

/// Exit code after a second signal: 128 + SIGINT, as shells report it.
pub const FORCED_EXIT_CODE: i32 = 130;

/// Triggers `latch` on the first SIGTERM or SIGINT. A second one ends the
/// process at once with [`FORCED_EXIT_CODE`]: the write-ahead log makes that safe.
///
/// SIGPIPE needs nothing: Rust's start code ignores it, so that a closed
/// connection is an error of the write.
pub fn stop_on_signals(latch: Latch) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for (earlier, signal) in signals.forever().enumerate() {
            if earlier > 0 {
                tracing::warn!(signal, "second signal: exiting at once");
                process::exit(FORCED_EXIT_CODE);
            }
            tracing::info!(signal, "stopping");
            latch.trigger();
        }
    })?;
    Ok(())
}
