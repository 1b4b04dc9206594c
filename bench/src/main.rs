//! `bench`: load for any server that speaks the Loki push and query API, and the proof that
//! acknowledged lines can be read back.
//!
//! - `bench push` sends generated or real log lines, as fast as the server takes them or at a
//!   fixed rate, and reports throughput, latency and the server's own consumption.
//! - `bench verify` reads the same lines back and compares them one by one.
//! - `bench compare` measures writing, reading and restarting in one run, checks the answers,
//!   and writes a table.
//! - `bench streams` pushes days of streams that live for a short time, and asks for old ones.
//! - `bench micro` measures single stages of the server's own code, without a server.
//! - `bench query` times LogQL queries, `bench get` plain GET requests.
//!
//! The tool shares the machine with the server that it measures, so it prepares its requests
//! before the clock starts and reports its own CPU time beside the server's. What must be
//! absent: code of the server in the parts that load and judge it, besides the wire messages.
//! Only `bench micro` uses the server's code.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a plain command-line tool: it is never simulated and owns its threads"
)]

mod compare;
#[cfg(test)]
mod end_to_end;
#[cfg(test)]
mod fake;
mod files;
mod get;
mod http;
mod kubernetes;
mod labels;
mod latency;
mod ledger;
mod micro;
mod procfs;
mod push;
mod query;
mod report;
mod schedule;
mod server;
mod settle;
mod source;
mod streams;
mod target;
#[cfg(test)]
mod testing;
mod tree;
mod units;
mod verify;
mod window;
mod wire;
mod work_folder;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "bench", about = "Load generator and verifier for Loki-compatible servers")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Push log lines and measure
    Push(push::PushArgs),
    /// Read pushed lines back and compare them
    Verify(verify::VerifyArgs),
    /// Measure a server from its first line to its restart, and check its answers
    Compare(Box<compare::CompareArgs>),
    /// Measure a server over days with many streams that live for a short time
    Streams(streams::StreamsArgs),
    /// Measure single stages of the server's code on one thread
    Micro(micro::MicroArgs),
    /// Time LogQL queries
    Query(query::QueryArgs),
    /// Time GET requests
    Get(get::GetArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Push(args) => push::main(args),
        Command::Verify(args) => verify::main(args),
        Command::Compare(args) => compare::main(*args),
        Command::Streams(args) => streams::main(&args),
        Command::Micro(args) => micro::main(&args),
        Command::Query(args) => query::main(&args),
        Command::Get(args) => get::main(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}
