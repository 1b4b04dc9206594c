//! `bench scale`: what more cores would do, by a model of the write path.
//!
//! The model ([`model`]) has the parts that cores can get into each other's way with:
//! bodies whose streams lie on several shards, messages and wake-ups between cores, one
//! log per shard with one commit at a time, and a disk that all logs share. It is given
//! costs that were measured with one or two cores, and real bodies of the data set of
//! `bench compare`, so that it knows how many shards a body touches and how unequal
//! shards are. What it leaves out: memory bandwidth, the network, and queries.

mod model;

use crate::compare::{DataArgs, DataSet};
use crate::units::parse_size_bytes;
use anyhow::{Result, bail};
use clap::Args;
use logsvc_proto::{Labels, StreamId, TenantId};
use model::{Body, Costs, Outcome};

/// Options of `bench scale`.
#[derive(Args, Debug)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Numbers of cores to look at
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128")]
    cores: Vec<u16>,
    /// Connections for each core
    #[arg(long, default_value_t = 2)]
    connections_per_core: usize,
    /// Bodies that are pushed for each core
    #[arg(long, default_value_t = 200)]
    bodies_per_core: usize,
    /// Raw bytes from the beginning of the data set that bodies are taken from, again and
    /// again
    #[arg(long, default_value = "64MB", value_parser = parse_size_bytes)]
    sample_bytes: u64,
    #[command(flatten)]
    costs: Costs,
}

/// Runs the model for each number of cores and prints a Markdown table.
pub(crate) fn main(args: &ScaleArgs) -> Result<bool> {
    args.costs.check()?;
    if args.connections_per_core == 0 || args.bodies_per_core == 0 {
        bail!("at least one connection and one body");
    }
    let bodies = bodies(args)?;
    println!(
        "| cores | MB/s | of linear | shards per body | messages per MB | wake-ups per MB \
         | commits per MB | KB per commit | p50 / p99, ms | busiest core | disk |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    let mut of_one_core = None;
    for &cores in &args.cores {
        if cores == 0 {
            bail!("at least one core");
        }
        let connections = args.connections_per_core * usize::from(cores);
        let pushes = args.bodies_per_core * usize::from(cores);
        let outcome = model::run(&args.costs, &bodies, cores, connections, pushes);
        row(cores, &outcome, &mut of_one_core);
    }
    Ok(true)
}

fn row(cores: u16, outcome: &Outcome, of_one_core: &mut Option<f64>) {
    let per_core = outcome.mb_per_second() / f64::from(cores);
    let linear = per_core / *of_one_core.get_or_insert(per_core);
    let per_mb = |count: u64| count as f64 / outcome.megabytes();
    println!(
        "| {cores} | {:.0} | {:.0} % | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.1} / {:.1} \
         | {:.2} × mean | {:.0} % |",
        outcome.mb_per_second(),
        linear * 100.0,
        outcome.shards_per_body(),
        per_mb(outcome.messages),
        per_mb(outcome.wake_ups),
        per_mb(outcome.commits),
        outcome.megabytes() * 1e3 / outcome.commits.max(1) as f64,
        outcome.latency_ms(0.5),
        outcome.latency_ms(0.99),
        outcome.busiest_to_mean(),
        outcome.disk_busy() * 100.0,
    );
}

/// Bodies of the data set: how many bytes of which streams.
fn bodies(args: &ScaleArgs) -> Result<Vec<Body>> {
    let data = DataSet::new(&args.data)?;
    let tenant = TenantId::new("scale")?;
    let ids = data.streams().iter().map(|labels| {
        let labels = Labels::from_pairs(labels)?;
        Ok(StreamId::new(&tenant, &labels))
    });
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let mut bodies = Vec::new();
    let mut raw_bytes = 0;
    for body in data {
        raw_bytes += body.raw_bytes;
        let streams = body.streams.iter().map(|(number, entries)| {
            (ids[*number], entries.iter().map(|entry| entry.raw_bytes()).sum())
        });
        bodies.push(Body { streams: streams.collect() });
        if raw_bytes >= args.sample_bytes {
            break;
        }
    }
    if bodies.is_empty() {
        bail!("the data set is empty");
    }
    Ok(bodies)
}
