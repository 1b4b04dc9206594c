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
            "bytes go messages tenant varint words",
            "body encode labels time",
            "ids push",
            "discover error otlp records syslog",
            "fields journal transfer",
            "lines",
            "bulk",
        ],
    },
    Order {
        krate: "runtime",
        module: "",
        floors: &[
            // Parts that know nothing of the trait.
            "aligned bell closing coop entropy fair_queue huge_pages interfaces latch names open_files \
             owned_bytes panics poison pool priority race ring_probe",
            "published service_manager shared_run traits",
            // Parts of backends, and values that wait.
            "clock commits dial file_ops mesh owners srv turns",
            "budget conformance leaving pressure signals socket udp",
            // The pacer asks the simulation whether it runs.
            "account fuzz shared_cache sim spare",
            "balance pacer",
            "side_thread",
            "launch",
            // Backends for real machines.
            "glommio_backend monoio_backend",
        ],
    },
    Order { krate: "logql", module: "", floors: &["syntax", "engine testing"] },
    Order {
        krate: "logql",
        module: "syntax",
        floors: &[
            "errors go_regex idents self",
            "pattern",
            "ast",
            "checker lexer printer",
            "parser",
        ],
    },
    Order {
        krate: "logql",
        module: "engine",
        floors: &[
            "convert exact_sum hash ip listed_names literals meter regex statistics",
            "block error interner matcher range",
            "filter labels wire",
            "place",
            "params result",
            "plan template",
            "patterns pipeline volume",
            "abridge",
            "estimate fields leaf required reuse",
            "merge parts question",
            "testing",
        ],
    },
    Order {
        krate: "segment",
        module: "",
        floors: &[
            "batch column_kind filter row_set",
            "head version",
            "error",
            "columns format",
            "directory",
            "reader",
            "label_index",
            "writer",
            "fuzz",
        ],
    },
    Order {
        krate: "shards",
        module: "",
        floors: &[
            "types",
            "changes index",
            "scope",
            "deletion",
            "kept wal",
            "manifest sink",
            "ledger",
            "retention",
            "node",
            "backup sealed",
            "check",
            "compact",
            "scan",
            "tail",
            "messages",
            "lanes shard",
            "host",
            "follower",
            "member",
            "common",
            "fuzz keeper",
        ],
    },
    Order {
        krate: "shards",
        module: "scan",
        floors: &["error head_blocks request selector", "snapshots", "streams", "aside", "on_core"],
    },
    Order {
        krate: "store",
        module: "",
        floors: &[
            "name object pace",
            "bucket",
            "cloud counters double folder",
            "store swift",
            "epoch log self_test",
        ],
    },
    Order {
        krate: "cluster",
        module: "",
        floors: &["map settings", "pause plan proof", "asker member router"],
    },
    Order { krate: "cluster", module: "map", floors: &["self", "codec rules"] },
    Order {
        krate: "cluster",
        module: "member",
        floors: &["io suspects tenure", "own_log", "self", "change questions"],
    },
    Order {
        krate: "membership",
        module: "",
        floors: &[
            "identity join_address",
            "settings vitals",
            "members wire",
            "engine",
            "membership",
            "driver etcd",
        ],
    },
    Order {
        krate: "membership",
        module: "etcd",
        floors: &["self", "api settings", "client roster", "driver"],
    },
    Order {
        krate: "membership",
        module: "wire",
        floors: &["damaged", "bytes", "envelope records", "items state", "gossip", "self"],
    },
    Order {
        krate: "membership",
        module: "engine",
        floors: &["requests roster sink tuning", "news", "self", "states"],
    },
    Order {
        krate: "membership",
        module: "driver",
        floors: &["self", "exchange stopping", "streams", "packets sockets", "joining owner"],
    },
    Order {
        krate: "peers",
        module: "",
        floors: &["frame", "forward push question removal tail", "service", "client"],
    },
    Order { krate: "store", module: "cloud", floors: &["connector errors", "config", "self"] },
    Order {
        krate: "store",
        module: "swift",
        floors: &["config errors times", "exchange listing", "session", "self"],
    },
    Order {
        krate: "rules",
        module: "",
        floors: &[
            // Values and interfaces.
            "shown_url",
            "common config duration evaluator expand label_sets model remote_numbers rule_error schedule sink",
            "transport yaml",
            "auth catalogue lanes messages record relabel validate",
            // State machines, files, and interfaces of drivers.
            "alert evaluation notify store",
            "state",
            // Drivers.
            "group remote ruler",
            "fuzz",
        ],
    },
    Order {
        krate: "rules",
        module: "remote",
        floors: &[
            // Bytes and values.
            "files position segment signal sigv4 wire",
            "answer batch request state",
            "node",
            "append recovery",
            "self",
            "sender",
            "worker",
        ],
    },
    Order {
        krate: "rules",
        module: "alert",
        floors: &["link prepare table", "restore samples", "evaluate"],
    },
    Order {
        krate: "rules",
        module: "group",
        floors: &["hash waits", "rule", "definition", "node", "evaluate status", "run"],
    },
    Order {
        krate: "rules",
        module: "state",
        floors: &["format", "image", "self", "fuzz load", "log", "common"],
    },
    Order {
        krate: "rules",
        module: "notify",
        floors: &[
            "address bell body discover limit queue",
            "setup",
            "tenant",
            "self",
            "sender targets",
        ],
    },
    Order {
        krate: "http",
        module: "",
        floors: &[
            "accept date gzip limit percent refusal router signal turn_away",
            "chunked encode framing params scan stream",
            "config",
            "input",
            // Requests.
            "body head pieces",
            "inbound receiving",
            // Responses.
            "websocket",
            "response",
            "client service",
            // The driver.
            "connection",
            "server",
        ],
    },
    Order {
        krate: "http",
        module: "client",
        floors: &[
            "encode fault link target",
            "decode proxy request",
            "config pool",
            "response sending",
            "exchange",
        ],
    },
    Order {
        krate: "http",
        module: "websocket",
        floors: &["code handshake self", "frame", "message", "socket", "drive"],
    },
    Order {
        krate: "server",
        module: "",
        floors: &[
            "users",
            "allocator ask config dialer intake probe version",
            "services transfer",
            "banner cli folder logging",
            "metrics",
            "refusals",
            "cluster+node",
            "bucket",
            "front reload ruler watch",
            "listen tools",
            "app",
            "self",
        ],
    },
    Order {
        krate: "server",
        module: "config",
        floors: &[
            "cgroup label_map nearest targets",
            "access blocked choice elasticsearch foreign journald lines machine otlp ruler self stream_retention syslog tls yaml",
            "bucket deletion",
            "cluster",
            "expand field limits",
            "advice check table tenants",
            "file print retention",
            "runtime_file",
        ],
    },
    Order {
        krate: "server",
        module: "front",
        floors: &[
            "cors",
            "core cross_site",
            "access gate query",
            "ingest tail",
            "delete explore operate peers rules syslog",
            "at_keeper+routes+self",
        ],
    },
];
