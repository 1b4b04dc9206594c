//! The buckets of the simulation: the double, and a folder of the simulated disk.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::Runtime;
use logsvc_runtime::sim::{Disk, FaultRates, SimRuntime, Simulation};
use logsvc_store::double::{Faults, World};
use logsvc_store::folder::FolderBucket;
use logsvc_store::{ObjectName, Store};
use logsvc_testkit::Rng;

/// Where the bucket is that is a folder.
pub(crate) const ROOT: &str = "/mnt/bucket";

/// What kind of a bucket a test is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// One that fails and lies.
    Double,
    /// One that besides keeps the beginnings of what was not sent whole.
    Tearing,
    /// One of files, on a disk that fails.
    Folder,
}

/// A bucket of the simulation. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Place {
    Double(World),
    Tearing(World),
    Folder(Disk),
}

impl Place {
    /// An empty bucket.
    pub(crate) fn new(simulation: &Simulation, kind: Kind) -> Place {
        match kind {
            Kind::Double => Place::Double(World::default()),
            Kind::Tearing => Place::Tearing(World::default()),
            Kind::Folder => Place::Folder(simulation.disk().clone()),
        }
    }

    /// The bucket as a core sees it.
    pub(crate) async fn store(&self, runtime: &SimRuntime) -> Store<SimRuntime> {
        match self {
            Place::Double(world) | Place::Tearing(world) => {
                Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())))
            }
            Place::Folder(_) => {
                Store::new(runtime.clone(), Box::new(open_patiently(runtime).await))
            }
        }
    }

    /// Lets things go wrong from now on, so many of a million requests of each kind, or operations
    /// of the disk.
    pub(crate) fn set_random_faults(&self, rng: &mut Rng, most_per_million: u64) {
        let rate = |rng: &mut Rng| if rng.one_in(2) { rng.below(most_per_million) } else { 0 };
        match self {
            Place::Double(world) | Place::Tearing(world) => world.set_faults(Faults {
                torn_per_million: match self {
                    Place::Tearing(_) => rng.below(most_per_million),
                    _ => 0,
                },
                latency_ns: 1_000_000..=rng.between(1_000_000, 200_000_000),
                slow_factor: rng.between(1, 200),
                failures_per_million: rate(rng),
                lost_answers_per_million: rate(rng),
                conflicts_per_million: rate(rng),
                busy_per_million: rate(rng),
                ..Faults::default()
            }),
            Place::Folder(disk) => {
                // A create has about ten operations.
                let rate = |rng: &mut Rng| rate(rng) as u32 / 4;
                disk.set_fault_rates(FaultRates {
                    reads_per_million: rate(rng),
                    writes_per_million: rate(rng),
                    syncs_per_million: rate(rng),
                    others_per_million: rate(rng),
                });
                let slowest_ns = rng.between(100_000, 20_000_000);
                disk.set_latency_nanos(50_000..=slowest_ns, 3_000..=slowest_ns / 4);
            }
        }
    }

    /// Ends what goes wrong.
    pub(crate) fn heal(&self) {
        match self {
            Place::Double(world) | Place::Tearing(world) => world.set_faults(Faults::default()),
            Place::Folder(disk) => disk.clear_faults(),
        }
    }

    /// Names and bytes of all objects.
    pub(crate) fn objects(&self) -> BTreeMap<ObjectName, Bytes> {
        match self {
            Place::Double(world) | Place::Tearing(world) => world.objects().into_iter().collect(),
            Place::Folder(disk) => objects_of(disk),
        }
    }

    /// Changes a byte of an object. False if there is no such byte.
    pub(crate) fn corrupt(&self, name: &ObjectName, offset: usize, mask: u8) -> bool {
        match self {
            Place::Double(world) | Place::Tearing(world) => world.corrupt(name, offset, mask),
            Place::Folder(disk) => disk.corrupt(path(name), offset as u64, mask),
        }
    }

    /// Removes an object as somebody else would.
    pub(crate) fn lose(&self, name: &ObjectName) -> bool {
        match self {
            Place::Double(world) | Place::Tearing(world) => world.lose(name),
            Place::Folder(disk) => disk.remove(path(name)),
        }
    }
}

/// The folder of this node's disk as a bucket, opened again until the disk lets it be.
pub(crate) async fn open_patiently(runtime: &SimRuntime) -> FolderBucket<SimRuntime> {
    loop {
        match FolderBucket::open(runtime.clone(), Path::new(ROOT)).await {
            Ok(bucket) => return bucket,
            Err(_) => runtime.sleep_until(runtime.now().after(Duration::from_millis(1))).await,
        }
    }
}

/// The file of an object.
pub(crate) fn path(name: &ObjectName) -> PathBuf {
    Path::new(ROOT).join(name.as_str())
}

/// Names and bytes of the objects of a folder.
pub(crate) fn objects_of(disk: &Disk) -> BTreeMap<ObjectName, Bytes> {
    let objects = disk.files(ROOT).into_iter().filter_map(|path| {
        let name = path.strip_prefix(ROOT).ok()?.to_str()?;
        Some((ObjectName::new(name).ok()?, disk.read(&path)?.into()))
    });
    objects.collect()
}

/// Files that are no objects.
pub(crate) fn left_overs(disk: &Disk) -> usize {
    disk.files(ROOT).len() - objects_of(disk).len()
}
