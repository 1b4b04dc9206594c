//! `bench verify`: makes the lines of a source again, reads the same stretch of time back
//! through `query_range`, and compares line by line.
//!
//! Pages are windows of time. A full page may have been cut, so it is halved and requested
//! again: a limit never makes a line look missing.

use crate::http::{Client, encode_query};
use crate::ledger::Ledger;
use crate::source::{Source, SourceArgs};
use crate::target::TargetArgs;
use crate::window::{Differences, ReceivedStream, StreamIndex, Windows, compare, parse_answer};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Mutex;

/// Options of `bench verify`.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Path of the range query endpoint
    #[arg(long, default_value = "/loki/api/v1/query_range")]
    pub(crate) path: String,
    /// Ledger of a push: only its acknowledged lines must be there, and the source
    /// options are taken from it
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
    /// Lines per page; the server's limit of entries per query must allow it
    #[arg(long, default_value_t = 5000)]
    pub(crate) limit: usize,
    /// Connections that read at the same time
    #[arg(long, default_value_t = 1)]
    pub(crate) connections: usize,
    /// Do not count lines that came back twice as a fault
    #[arg(long)]
    pub(crate) allow_duplicates: bool,
    /// Print the result as one line of JSON too
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the subcommand; false if there was any difference.
pub(crate) fn main(args: VerifyArgs) -> Result<bool> {
    let result = run(&args)?;
    println!(
        "verified  {} lines expected, {} found, {} missing, {} duplicate, {} out of order, \
         {} changed, {} unexpected ({} never acknowledged and absent)",
        result.expected,
        result.found,
        result.missing,
        result.duplicates,
        result.out_of_order,
        result.changed,
        result.unexpected,
        result.absent_unacknowledged,
    );
    for example in &result.examples {
        println!("          {example}");
    }
    if args.json {
        let json = json!({
            "expected": result.expected,
            "found": result.found,
            "missing": result.missing,
            "duplicates": result.duplicates,
            "out_of_order": result.out_of_order,
            "changed": result.changed,
            "unexpected": result.unexpected,
            "absent_unacknowledged": result.absent_unacknowledged,
        });
        println!("{json}");
    }
    let allowed = if args.allow_duplicates { result.duplicates } else { 0 };
    Ok(result.faults() == allowed)
}

/// Compares the whole source.
pub(crate) fn run(args: &VerifyArgs) -> Result<Differences> {
    if args.limit < 2 || args.connections == 0 {
        bail!("--limit must be at least 2 and --connections at least 1");
    }
    let (mut source_args, acked) = match &args.ledger {
        Some(path) => {
            let ledger = Ledger::read(path)?;
            let acked = ledger.bodies();
            (ledger.source, Some(acked))
        }
        None => (args.source.clone(), None),
    };
    if source_args.start.is_none() {
        bail!("--start (printed by push) or --ledger is needed to make the same lines again");
    }
    let source = Source::open(&mut source_args)?;
    let index = StreamIndex::new(source.streams());
    let selector = source.selector().to_owned();
    // Room for some duplicates, so that they do not cost a second round of pages.
    let windows = Mutex::new(Windows::new(source, acked, args.limit - args.limit.div_ceil(8)));
    let read_all = || -> Result<Differences> {
        let mut reader =
            Reader { args, selector: &selector, index: &index, client: args.target.client() };
        let mut total = Differences::default();
        loop {
            let window = windows.lock().map_err(|_| anyhow!("a reader panicked"))?.next();
            let Some(window) = window else { return Ok(total) };
            let mut received = Vec::new();
            reader.read(window.start_nanos, window.end_nanos, &mut received)?;
            total.add(compare(&window, &received));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.connections).map(|_| scope.spawn(read_all)).collect();
        let mut total = Differences::default();
        for thread in threads {
            total.add(thread.join().map_err(|_| anyhow!("a reader panicked"))??);
        }
        Ok(total)
    })
}

/// Reads pages over one connection.
struct Reader<'a> {
    args: &'a VerifyArgs,
    selector: &'a str,
    index: &'a StreamIndex,
    client: Client,
}

impl Reader<'_> {
    /// Appends all streams with `start_nanos <= timestamp < end_nanos`. Halving
    /// ends at one nanosecond, so the recursion is at most 63 deep.
    fn read(
        &mut self,
        start_nanos: i64,
        end_nanos: i64,
        received: &mut Vec<ReceivedStream>,
    ) -> Result<()> {
        let page = format!(
            "{}?query={}&start={start_nanos}&end={end_nanos}&limit={}&direction=forward",
            self.args.path,
            encode_query(self.selector),
            self.args.limit,
        );
        // Index labels apart from metadata, so that a stream comes back as one.
        let request =
            self.args.target.get(&page, "X-Loki-Response-Encoding-Flags: categorize-labels\r\n");
        let response = self.client.send_repeatable(&request).with_context(|| page.clone())?;
        if !response.is_success() {
            bail!("{page}: status {}: {}", response.status, response.excerpt());
        }
        let (streams, count) =
            parse_answer(&response.body, self.index).with_context(|| page.clone())?;
        if count < self.args.limit {
            received.extend(streams);
            return Ok(());
        }
        if end_nanos - start_nanos <= 1 {
            bail!("{page}: the answer is full for a single timestamp; raise --limit");
        }
        let middle_nanos = start_nanos + (end_nanos - start_nanos) / 2;
        self.read(start_nanos, middle_nanos, received)?;
        self.read(middle_nanos, end_nanos, received)
    }
}
