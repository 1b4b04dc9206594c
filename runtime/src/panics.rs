//! A panic on a thread of the runtime ends the process.
//!
//! Guarantee: after a panic no core lives on without the others, and nothing uses the state
//! that the panicking thread left half done.

use std::cell::Cell;
use std::io;
use std::panic;
use std::process;
use std::sync::Once;
use std::thread;

/// From now on a panic on this thread ends the process, after its message.
pub(crate) fn stop_process_on_panic() {
    thread_local! {
        static STOPS_PROCESS: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let earlier = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            earlier(info);
            if STOPS_PROCESS.get() {
                // Test harnesses capture the output of the hook above and would lose it with the
                // process, so the message goes out again.
                use std::io::Write;
                let thread = thread::current();
                let name = thread.name().unwrap_or("a core");
                let _ = writeln!(io::stderr(), "{name}: {info}\nstopping the process");
                process::abort();
            }
        }));
    });
    STOPS_PROCESS.set(true);
}
