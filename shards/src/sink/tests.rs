//! The sink with a bucket of the simulation.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{CoreId, Latch, Runtime};
use logsvc_store::Store;
use logsvc_store::double::World;
use logsvc_testkit::{SeedGuard, seeds};

use super::{SinkConfig, SinkMesh};
use crate::wal::format::WalName;

/// Whoever takes over asks the log of edits which logs there are. Until that names this one, its objects
/// prove nothing.
#[test]
fn nothing_is_confirmed_before_the_bucket_knows_of_the_log() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let objects = Rc::new(Cell::new(0));
        let seen = Rc::clone(&objects);
        simulation.block_on(|runtime| async move {
            let mesh = SinkMesh::new(1, SinkConfig::default());
            let end = mesh.attach(CoreId(0));
            let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
            let sink = mesh.sink(runtime.clone(), store, 7).expect("a name");
            let index = sink.index();
            drop(runtime.spawn(async move { sink.run(Latch::new()).await }));
            let name = WalName { epoch: 7, shards: 1, shard: 0, index: 0 };
            for piece in 0..3 {
                end.send(&runtime, name, piece, &[1]).await;
                runtime.sleep_until(runtime.now().after(Duration::from_secs(2))).await;
            }
            seen.set(world.objects().len());
            assert!(end.confirmations().is_empty(), "the objects are there, and nobody knows it");
            index.announce();
            runtime.sleep_until(runtime.now().after(Duration::from_millis(10))).await;
            for confirmation in end.confirmations().drain() {
                end.take(confirmation, runtime.now());
            }
            assert!(end.is_confirmed(3));
        });
        assert_eq!(objects.get(), 3);
    }
}
