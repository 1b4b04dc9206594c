//! The retries of a node, and its single log lines: a segment that cannot be opened for the moment
//! is tried again, and a damaged place is logged by the first query that meets it.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::collections::BTreeMap;
use std::fmt::Debug;
#[expect(clippy::disallowed_types, reason = "a subscriber must be shared between threads")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};

use logsvc_runtime::sim::{DiskOperation, Simulation};
use logsvc_segment::{FOOTER_LEN, Footer};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::checkpoint::Checkpoint;
use crate::cluster::Cluster;
use crate::damage::Stopped;

/// A footer that the manifest lacks is read so many times before the segment is given up: once by
/// the start of the node, and then by the shard.
const ATTEMPTS: u64 = 1 + 4;

fn start<'s>(simulation: &'s Simulation) -> Cluster<'s> {
    Cluster::start_sealing(simulation, 1, WalConfig::default(), SealPolicy::ON_REQUEST)
        .unwrap_or_else(|failure| panic!("the node does not start: {failure}"))
}

fn missed_segments(cluster: &Cluster<'_>) -> u64 {
    cluster.statuses().iter().map(|status| status.seal.damaged_segments).sum()
}

#[test]
fn a_segment_that_cannot_be_opened_for_the_moment_is_tried_again() {
    for seed in seeds(6) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let stopped = Stopped::write(&simulation, seed);
        let mut rng = Rng::new(seed);
        for operation in [DiskOperation::Open, DiskOperation::Read] {
            for failures in 1..=ATTEMPTS {
                let at = *rng.pick(&stopped.segments());
                let (path, bytes) = &stopped.files[at];
                let simulation = stopped.copy(rng.next_u64(), at, Some(bytes));
                Checkpoint::read(simulation.disk()).without_footers().write(simulation.disk());
                simulation.disk().fail_next(operation, path, failures);
                let cluster = start(&simulation);
                let is_whole = failures < ATTEMPTS;
                assert_eq!(missed_segments(&cluster), u64::from(!is_whole), "{failures} failures");
                // Reads everything that is pushed and nothing else.
                let unreadable_parts = stopped.read_all(&cluster, is_whole);
                assert_eq!(unreadable_parts > 0, !is_whole, "{failures} failures");
                cluster.stop().expect("a healthy disk");
            }
        }
    }
}

#[test]
fn a_damaged_place_is_logged_once() {
    let mut logged = 0;
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let stopped = Stopped::write(&simulation, seed);
        let mut rng = Rng::new(seed);
        let at = *rng.pick(&stopped.segments());
        let mut bytes = stopped.files[at].1.clone();
        let len = bytes.len() as u64;
        let footer = Footer::parse(&bytes[bytes.len() - FOOTER_LEN..], len).expect("it is intact");
        let columns = footer.columns_range();
        let place = rng.between(columns.start, columns.end - 1);
        bytes[place as usize] ^= 0x20;
        let simulation = stopped.copy(rng.next_u64(), at, Some(&bytes));
        let errors = Errors::default();
        tracing::subscriber::with_default(errors.clone(), || {
            let cluster = start(&simulation);
            // Damaged bytes are not kept, so each query meets them again, and says so.
            for _ in 0..4 {
                assert!(stopped.read_all(&cluster, false) > 0, "the damage was not noticed");
            }
            cluster.stop().expect("a healthy disk");
        });
        let errors = errors.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!errors.is_empty(), "nothing was logged");
        let file = stopped.files[at].0.display().to_string();
        for ((error_file, offset), count) in errors.iter() {
            assert_eq!(*error_file, file);
            // The place of the column, which begins there or before.
            assert!(*offset <= place, "{offset} lies behind {place}");
            assert_eq!(*count, 1, "at {offset}");
        }
        logged += errors.len();
    }
    println!("{logged} places");
}

/// How many errors were logged of each place: a file and an offset in it.
#[derive(Clone, Default)]
#[expect(clippy::disallowed_types, reason = "a subscriber must be shared between threads")]
struct Errors(Arc<Mutex<BTreeMap<(String, u64), usize>>>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut place = Place::default();
        event.record(&mut place);
        let mut errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry((place.file, place.offset)).or_default() += 1;
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event that name a place.
#[derive(Default)]
struct Place {
    file: String,
    offset: u64,
}

impl Visit for Place {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "offset" {
            self.offset = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "file" {
            self.file = format!("{value:?}");
        }
    }
}
