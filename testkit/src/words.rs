//! Words of generated lines.

/// Methods of requests, in the shares that they have.
pub const METHODS: [&str; 6] = ["GET", "GET", "GET", "POST", "PUT", "DELETE"];
/// Resources of services.
pub const RESOURCES: [&str; 8] =
    ["users", "orders", "carts", "products", "sessions", "invoices", "shipments", "search"];
/// Virtual hosts.
pub const HOSTS: [&str; 4] =
    ["shop.example.com", "api.example.com", "m.example.net", "admin.example.org"];
/// User agents.
pub const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:138.0) Gecko/20100101 Firefox/138.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) Mobile/15E148",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/137.0 Safari/537.36",
    "kube-probe/1.33",
    "Go-http-client/2.0",
];
/// Messages of things that went well.
pub const GOOD_NEWS: [&str; 6] = [
    "request completed",
    "cache entry refreshed",
    "message handed to the queue",
    "batch written to storage",
    "session extended",
    "index segment merged",
];
