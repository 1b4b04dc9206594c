//! Starts that take the footers of segments from the manifest: shards open no segment file before
//! somebody asks.

use logsvc_runtime::sim::{DiskOperation, Simulation};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::Cluster;
use crate::damage::Stopped;

#[test]
fn a_start_opens_no_segment() {
    for seed in 0..4 {
        let simulation = Simulation::new(seed);
        let stopped = Stopped::write(&simulation, seed);
        for shards in [1, 2, 3] {
            // Nothing is changed.
            let simulation = stopped.copy(seed, usize::MAX, None);
            let disk = simulation.disk();
            let segments = stopped.segments();
            assert!(segments.len() > 2);
            for at in &segments {
                let path = &stopped.files[*at].0;
                disk.fail_next(DiskOperation::Open, path, u64::MAX);
                disk.fail_next(DiskOperation::Read, path, u64::MAX);
            }
            let policy = SealPolicy::ON_REQUEST;
            let cluster = Cluster::start_sealing(&simulation, shards, WalConfig::default(), policy)
                .expect("the node starts");
            let plan = cluster.plan();
            assert_eq!(plan.manifest.read_footers, 0);
            assert_eq!(plan.footers.len(), segments.len());
            let statuses = cluster.statuses();
            let missed: u64 = statuses.iter().map(|status| status.seal.damaged_segments).sum();
            assert_eq!(missed, 0);
            assert!(stopped.read_all(&cluster, false) > 0, "who asks opens the files");
            disk.clear_faults();
            assert_eq!(stopped.read_all(&cluster, true), 0);
            cluster.stop().expect("a healthy disk");
        }
    }
}
