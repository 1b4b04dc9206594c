//! The modules of each crate, from the bottom.
//!
//! A module may import the modules in the lines above its own line of the table. Modules in
//! one line do not import each other, unless `+` joins them to one part. Test code is exempt.
//! `ci floors` prints the order that today's imports have.

/// Stands for the items of the module itself among its children. Without a place of its own
/// they lie above all children.
pub(super) const PARENT: &str = "self";

/// The order of the modules directly below one module.
pub(super) struct Order {
    /// Folder of the crate.
    pub(super) krate: &'static str,
    /// Path below the crate's root; empty for the root.
    pub(super) module: &'static str,
    /// Names of modules, parted by spaces. The first floor is the lowest one.
    pub(super) floors: &'static [&'static str],
}

/// All orders.
pub(super) const ORDERS: &[Order] = &[
    Order {
        krate: "proto",
        module: "",
        floors: &[
            "bytes messages tenant varint words",
            "labels",
            "body ids time",
            "encode push",
            "discover error otlp",
        ],
    },
    Order {
        krate: "runtime",
        module: "",
        floors: &[
            // Parts that know nothing of the trait.
            "aligned closing coop entropy fair_queue huge_pages latch open_files panics poison pool \
             priority race ring_probe",
            "shared_run signals traits",
            // Parts of backends, and values that wait.
            "clock commits file_ops mesh owners turns",
            "budget conformance leaving pressure socket",
            // The pacer asks the simulation whether it runs.
            "account shared_cache sim spare",
            "balance pacer",
            "side_thread",
            "launch",
            // Backends for real machines.
            "glommio_backend monoio_backend",
        ],
    },
    Order {
        krate: "http",
        module: "",
        floors: &[
            "accept date gzip limit percent refusal router signal turn_away",
            "chunked encode framing params scan",
            "config",
            "input",
            // Requests.
            "body head",
            "inbound receiving",
            // Responses.
            "websocket",
            "response",
            "service",
            // The driver.
            "connection",
            "server",
        ],
    },
];
