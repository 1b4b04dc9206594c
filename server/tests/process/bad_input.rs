//! Damaged, hostile and careless clients: each gets a clear answer or a closed
//! connection, in bounded time; nothing of theirs is stored by half; and the
//! server works on, with its memory in bounds and without a panic.

mod bodies;
mod connections;
mod entries;
mod framing;
mod queries;
mod slow;

use std::time::{Duration, Instant};

use crate::support::{DataDir, Server, entry, now_ns, query, stream};

/// Memory that all budgets share in these tests.
const MEMORY_ARGS: [&str; 2] = ["--memory.max-bytes", "128MB"];

/// Most memory that the process may ever have had: the budgets, and as much again for its code,
/// threads, allocator and memory that no budget counts.
const PEAK_MAX_BYTES: u64 = 256 << 20;

/// A server that is about to be mistreated.
struct Victim {
    server: Server,
    _folder: DataDir,
}

impl Victim {
    fn new(args: &[&str]) -> Victim {
        let folder = DataDir::new();
        let server = Server::start(folder.path(), &[&MEMORY_ARGS, args].concat());
        Victim { server, _folder: folder }
    }

    /// Insists that the server still works and has kept its memory in bounds, and
    /// stops it.
    fn survives(self) {
        self.survives_with(PEAK_MAX_BYTES);
    }

    fn survives_with(self, peak_max_bytes: u64) {
        let mut client = self.server.client();
        let now_ns = now_ns();
        client.push(&[stream(&[("app", "survivor")], vec![entry(now_ns, "still here")])]);
        let end = (now_ns + 1).to_string();
        let found = query::range(&mut client, r#"{app="survivor"}"#, &[("end", &end)]);
        assert_eq!(query::texts(&found), ["still here"]);
        for budget in ["bodies", "queries"] {
            let used = format!("logsvc_memory_used_bytes{{budget=\"{budget}\"}}");
            let begun = Instant::now();
            // The server may not have noticed yet that a connection is gone.
            while self.server.metric(&used) > 0.0 {
                assert!(begun.elapsed() < Duration::from_secs(20), "{budget}: memory is kept");
            }
        }
        let peak_bytes = self.server.memory_bytes("VmHWM");
        assert!(peak_bytes < peak_max_bytes, "the memory reached {peak_bytes} bytes");
        let log = self.server.stop();
        assert!(!log.contains("panicked"), "{log}");
    }

    /// Entries that were ever stored.
    fn stored(&self) -> f64 {
        self.server.metric("loki_distributor_lines_received_total")
    }
}
