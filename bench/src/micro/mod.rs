//! `bench micro`: the cost of each stage of a push, of sealing and of reading, one stage at a
//! time, on one thread, without network and disk.
//!
//! The stages are the server's own code, run over the lines of `bench compare`. Relative to the
//! machine's copy rate, their figures are comparable between machines. Their sum is comparable
//! with the CPU-seconds per gigabyte of a whole server: the difference is the cost of the
//! kernel, the front end and waiting.
//!
//! What can go wrong: a stage that runs alone has all caches to itself, so its figure is a lower
//! bound. Every stage checks that it has seen all lines, so that neither the compiler nor a
//! mistake leaves work out.

mod ingest;
mod sample;
mod sealed;

use crate::compare::{DataArgs, cpu_rate};
use crate::units::{parse_duration_nanos, parse_size_bytes};
use anyhow::Result;
use clap::Args;
use sample::Sample;
use std::hint::black_box;

/// Options of `bench micro`.
#[derive(Args, Debug)]
pub(crate) struct MicroArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Raw bytes from the beginning of the data set that every stage works on
    #[arg(long, default_value = "64MB", value_parser = parse_size_bytes)]
    sample_bytes: u64,
    /// CPU time of the measurement of each stage, at least
    #[arg(long, default_value = "1s", value_parser = parse_duration_nanos)]
    cpu_time: u64,
    /// Measure only stages whose name contains this, for example to profile one
    #[arg(long, default_value = "")]
    only: String,
}

/// The table, as it is made.
struct Table<'a> {
    only: &'a str,
    raw_bytes: usize,
    cpu_seconds: f64,
    /// Bytes per CPU-second.
    memcpy: f64,
}

impl Table<'_> {
    /// Measures a stage that works on the whole sample, and prints its row, if the stage
    /// is asked for.
    fn stage(&self, name: &str, work: impl FnMut() -> Result<()>) -> Result<()> {
        if !name.contains(self.only) {
            return Ok(());
        }
        let rate = cpu_rate(self.cpu_seconds, self.raw_bytes, work)?;
        self.row(name, rate);
        Ok(())
    }

    fn row(&self, name: &str, rate: f64) {
        println!("| {name} | {:.2} | {:.3} | {:.1} |", rate / 1e9, 1e9 / rate, self.memcpy / rate);
    }
}

/// Runs every stage and prints a Markdown table.
pub(crate) fn main(args: &MicroArgs) -> Result<bool> {
    let cpu_seconds = args.cpu_time as f64 / 1e9;
    let sample = Sample::new(&args.data, args.sample_bytes)?;
    let bytes = sample.plain_bodies()?.concat();
    let mut copy = vec![0_u8; bytes.len()];
    let memcpy = cpu_rate(cpu_seconds, bytes.len(), || {
        copy.copy_from_slice(black_box(&bytes));
        black_box(&copy);
        Ok(())
    })?;
    let table = Table { only: &args.only, raw_bytes: sample.raw_bytes, cpu_seconds, memcpy };
    println!(
        "{:.1} MB raw in {} lines, {} streams and {} bodies.\n",
        sample.raw_bytes as f64 / 1e6,
        sample.line_count,
        sample.streams.len(),
        sample.bodies.len(),
    );
    println!("| stage | GB per CPU-s | CPU-s per GB | × memcpy |\n|---|---:|---:|---:|");
    table.row("memcpy", memcpy);
    drop((bytes, copy));
    ingest::measure(&sample, &table)?;
    sealed::measure(&sample, &table)?;
    Ok(true)
}
