//! Queries by kind and outcome: how long they took and how fast they read.

use std::sync::OnceLock;
use std::time::Duration;

use super::Exposition;
use super::histogram::{Histogram, LATENCY_BOUNDS_US};

/// Upper bounds of reading speeds in bytes per second.
const SPEED_BOUNDS: [u64; 8] = [
    50_000_000,
    100_000_000,
    400_000_000,
    600_000_000,
    800_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
];

/// The kind of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueryKind {
    /// Numbers.
    Metric,
    /// Lines that pass stages of a pipeline.
    Filter,
    /// The lines of streams.
    Limited,
}

impl QueryKind {
    /// Its name in metrics and settings.
    pub(crate) fn word(self) -> &'static str {
        KINDS[self as usize]
    }
}

const KINDS: [&str; 3] = ["metric", "filter", "limited"];
const RANGES: [&str; 2] = ["instant", "range"];

/// Outcomes that are counted apart; others are counted as the last.
const STATUSES: [u16; 6] = [200, 400, 429, 499, 500, 504];
const STATUS_SLOTS: usize = STATUSES.len() + 1;

/// Queries of one core.
#[derive(Debug)]
pub(crate) struct Queries {
    /// Times and speeds by kind, range and status.
    rows: Box<[OnceLock<(Histogram, Histogram)>]>,
}

impl Queries {
    /// Nothing counted yet.
    pub(super) fn new() -> Queries {
        let rows = KINDS.len() * RANGES.len() * STATUS_SLOTS;
        Queries { rows: (0..rows).map(|_| OnceLock::new()).collect() }
    }

    /// Counts a query that has ended with this status, and read so many bytes.
    pub(crate) fn ended(
        &self,
        kind: QueryKind,
        is_range: bool,
        status: u16,
        duration: Duration,
        read_bytes: u64,
    ) {
        let status = STATUSES.iter().position(|&code| code == status).unwrap_or(STATUSES.len());
        let row = (kind as usize * RANGES.len() + usize::from(is_range)) * STATUS_SLOTS + status;
        let (times, speeds) = self.rows[row]
            .get_or_init(|| (Histogram::new(&LATENCY_BOUNDS_US), Histogram::new(&SPEED_BOUNDS)));
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        times.observe(us);
        let speed = u128::from(read_bytes) * 1_000_000 / u128::from(us.max(1));
        speeds.observe(u64::try_from(speed).unwrap_or(u64::MAX));
    }
}

/// Writes the queries of all cores.
pub(super) fn expose<'q>(cores: impl Iterator<Item = &'q Queries> + Clone, out: &mut Exposition) {
    type Pick = fn(&(Histogram, Histogram)) -> &Histogram;
    let families: [(&str, &str, Pick, f64); 2] = [
        ("loki_logql_querystats_latency_seconds", "Time that queries took.", |row| &row.0, 1e6),
        (
            "loki_logql_querystats_bytes_processed_per_seconds",
            "Bytes that queries looked at, by their time.",
            |row| &row.1,
            1.0,
        ),
    ];
    for (name, help, pick, unit) in families {
        out.family(name, "histogram", help);
        for row in 0..KINDS.len() * RANGES.len() * STATUS_SLOTS {
            let counted = cores.clone().filter_map(|core| core.rows[row].get()).map(pick);
            let Some(sum) = Histogram::sum(counted) else { continue };
            let status = STATUSES.get(row % STATUS_SLOTS);
            let status = status.map_or("other".into(), u16::to_string);
            let kind_and_range = row / STATUS_SLOTS;
            let labels = [
                ("type", KINDS[kind_and_range / RANGES.len()]),
                ("range", RANGES[kind_and_range % RANGES.len()]),
                ("status_code", &status),
            ];
            out.histogram_in(name, &labels, &sum, unit);
        }
    }
}
