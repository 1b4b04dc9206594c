//! A crash while lines are pushed: how long the server is away, and whether it has all
//! acknowledged lines afterwards.

use super::CompareArgs;
use super::workloads::Workload;
use crate::ledger::Ledger;
use crate::push;
use crate::server::{Launch, Server};
use crate::verify::{self, VerifyArgs};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time that a push at full speed takes, as far as the speed is known; the server is
/// killed in the middle.
const PUSH_SECONDS: f64 = 4.0;
/// Most bytes that are pushed, since all of them are read back.
const MAX_BYTES: f64 = 200e6;
const MIN_BYTES: f64 = 4e6;
/// How often the ledger is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The result of a crash.
pub(crate) struct Crash {
    acked_lines: u64,
    lost_lines: u64,
    other_faults: u64,
    examples: Vec<String>,
    ready_seconds: f64,
    answer_seconds: f64,
    /// The fault in the count of the data set.
    count_fault: Option<String>,
}

/// Kills the server while it takes lines of another job, starts it again, reads these lines back,
/// and counts the lines of the data set once more.
pub(crate) fn measure(
    args: &CompareArgs,
    launch: &Launch,
    server: Server,
    full_mb_per_second: f64,
    count_all: &Workload,
    ledger: &Path,
) -> Result<(Crash, Server)> {
    let bytes = (full_mb_per_second * 1e6 * PUSH_SECONDS).clamp(MIN_BYTES, MAX_BYTES);
    let mut push = args.push_args("crash", bytes as u64);
    push.ledger = Some(ledger.to_path_buf());
    let half = bytes as usize / push.source.body_bytes as usize / 2;
    let killed = std::thread::scope(|scope| {
        let pushing = scope.spawn(|| push::run(&mut push));
        while acknowledged(ledger) < half && !pushing.is_finished() {
            std::thread::sleep(LOOK_AGAIN);
        }
        server.kill()?;
        let killed = Instant::now();
        // Bodies that fail after the kill are expected.
        pushing.join().map_err(|_| anyhow!("the pushing thread panicked"))??;
        anyhow::Ok(killed)
    })?;
    // The time that this tool needed to notice does not count for the server.
    let noticing = killed.elapsed();
    let patience = Duration::from_nanos(args.start_limit);
    let server = Server::start(launch, &args.target, &args.ready_path, patience)
        .context("starting the server again")?;
    let ready_seconds = (killed.elapsed() - noticing).as_secs_f64();
    let request = args.target.get(&count_all.path_and_query, "");
    let answer = args.target.client().send_repeatable(&request).context("after the restart")?;
    let answer_seconds = (killed.elapsed() - noticing).as_secs_f64();
    let count_fault = match answer.is_success() {
        true => count_all.expected.check(&answer.body).err(),
        false => Some(format!("status {}: {}", answer.status, answer.excerpt())),
    };
    let differences = verify::run(&VerifyArgs {
        target: args.target.clone(),
        source: push.source.clone(),
        path: format!("{}/query_range", args.api_prefix),
        ledger: Some(ledger.to_path_buf()),
        limit: 5000,
        connections: 1,
        allow_duplicates: false,
        json: false,
    })
    .context("reading back what was acknowledged")?;
    let acked_lines = Ledger::read(ledger)?.lines();
    let crash = Crash {
        acked_lines,
        lost_lines: differences.missing,
        other_faults: differences.faults() - differences.missing,
        examples: differences.examples,
        ready_seconds,
        answer_seconds,
        count_fault,
    };
    Ok((crash, server))
}

/// Bodies that the ledger knows: its lines without the header.
fn acknowledged(ledger: &Path) -> usize {
    let text = std::fs::read(ledger).unwrap_or_default();
    memchr::memchr_iter(b'\n', &text).count().saturating_sub(1)
}

impl Crash {
    /// Whether nothing was lost or changed.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost_lines == 0 && self.other_faults == 0 && self.count_fault.is_none()
    }

    pub(crate) fn figures(&self) -> Value {
        json!({
            "acknowledged_lines": self.acked_lines,
            "lost_lines": self.lost_lines,
            "other_faults": self.other_faults,
            "examples": self.examples,
            "ready_seconds": self.ready_seconds,
            "first_answer_seconds": self.answer_seconds,
            "count_fault": self.count_fault,
        })
    }
}
