//! Waits until a server has done the work that pushes left behind.
//!
//! A server has settled when it was asked to flush its memory and has used next to no CPU for a
//! while. What can go wrong: a server that never rests is given up after a limit, and the result
//! says so.

use crate::procfs::Usage;
use crate::server::disk_bytes;
use crate::target::TargetArgs;
use crate::tree;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the server's CPU use is looked at while it settles.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A server is quiet while it uses no more than this share of one core.
const QUIET_SHARE: f64 = 0.02;

/// When a server counts as settled.
pub(crate) struct Settle<'a> {
    pub(crate) target: &'a TargetArgs,
    /// Path that a POST goes to; empty for none.
    pub(crate) flush_path: &'a str,
    /// How long the server must use next to no CPU.
    pub(crate) quiet: Duration,
    /// When to give up.
    pub(crate) limit: Duration,
}

/// How a server came to rest.
pub(crate) struct Settled {
    /// Since the last acknowledgement, without the quiet time at the end.
    pub(crate) seconds: f64,
    /// Whether it came to rest at all in the time that it was given.
    pub(crate) quiet: bool,
    /// Status of the answer to the request to flush; none if there was none.
    pub(crate) flush_status: Option<u16>,
    pub(crate) usage: Usage,
    pub(crate) disk_bytes: Option<u64>,
}

/// Asks the server to flush its memory, and waits until it uses next to no CPU.
pub(crate) fn settle(
    settle: &Settle<'_>,
    pid: Option<u32>,
    data: Option<&Path>,
) -> Result<Settled> {
    let clock = Instant::now();
    let flush_status = match settle.flush_path {
        "" => None,
        path => {
            let target = settle.target;
            let request = target.url.request("POST", path, target.tenant.as_deref(), "", Some(b""));
            Some(target.client().send(&request).context("asking the server to flush")?.status)
        }
    };
    let cpu_seconds = || pid.map(tree::usage).and_then(|usage| usage.cpu_seconds);
    let (mut quiet_since, mut quiet_cpu) = (Instant::now(), cpu_seconds());
    // Without counters the quiet time is all that can be waited for.
    let quiet = loop {
        std::thread::sleep(LOOK_AGAIN);
        let (now, cpu) = (Instant::now(), cpu_seconds());
        let used = cpu.zip(quiet_cpu).map_or(0.0, |(now, then)| now - then);
        let waited = now - quiet_since;
        // A tick of the counter is no work.
        if used > 0.011 + waited.as_secs_f64() * QUIET_SHARE {
            (quiet_since, quiet_cpu) = (now, cpu);
        } else if waited >= settle.quiet {
            break true;
        }
        if clock.elapsed() > settle.limit {
            break false;
        }
    };
    Ok(Settled {
        seconds: (quiet_since - clock).as_secs_f64(),
        quiet,
        flush_status,
        usage: pid.map(tree::usage).unwrap_or_default(),
        disk_bytes: data.map(disk_bytes).transpose()?,
    })
}
