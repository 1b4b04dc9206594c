//! Nodes that create and remove objects of one folder, across failures of its disk and power losses:
//! what was acknowledged holds, and nothing is cut.

mod support;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Monotonic, Runtime};
use logsvc_store::bucket::PartPlace;
use logsvc_store::{Folder, ObjectName, Store};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use support::{Kind, Place, left_overs, objects_of, open_patiently};

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("a name")
}

fn soon(runtime: &SimRuntime) -> Monotonic {
    runtime.now().after(Duration::from_secs(60))
}

/// What writers have done, and what they were told.
#[derive(Default)]
struct History {
    /// Each name is written once, with these bytes.
    bodies: BTreeMap<ObjectName, Bytes>,
    created: BTreeSet<ObjectName>,
    /// A remove has begun.
    going: BTreeSet<ObjectName>,
    removed: BTreeSet<ObjectName>,
}

impl History {
    fn check(&self, objects: &BTreeMap<ObjectName, Bytes>) {
        for (name, body) in objects {
            assert_eq!(self.bodies.get(name), Some(body), "{name} is not whole");
        }
        for name in self.created.difference(&self.going) {
            assert!(objects.contains_key(name), "{name} is lost");
        }
        for name in &self.removed {
            assert!(!objects.contains_key(name), "{name} has come back");
        }
    }
}

/// Creates and removes objects for ever.
async fn write(runtime: SimRuntime, writer: u64, history: Rc<RefCell<History>>) {
    let bucket = open_patiently(&runtime).await;
    let store = Store::new(runtime.clone(), Box::new(bucket));
    for number in 0.. {
        let chance = runtime.random_u64();
        let object = name(&format!("{}/{}/{writer}-{number}", chance % 3, chance % 7));
        let mut body = format!("{writer:08}{number:08}").into_bytes();
        body.resize(16 + chance as usize % 5_000, number as u8);
        let body = Bytes::from(body);
        history.borrow_mut().bodies.insert(object.clone(), body.clone());
        let until = soon(&runtime);
        let is_created = if chance.is_multiple_of(4) {
            let upload = store.begin(&object, until).await;
            let Ok(upload) = upload else { continue };
            let Ok(part) =
                store.put_part(&object, &upload, PartPlace::of(0, 0), body.clone(), until).await
            else {
                continue;
            };
            store.complete(&object, &upload, &[part], body.len() as u64, until).await.is_ok()
        } else {
            store.create(&object, body, 0..16, until).await.is_ok_and(|created| created.is_own())
        };
        if is_created {
            history.borrow_mut().created.insert(object.clone());
            if chance.is_multiple_of(5) {
                history.borrow_mut().going.insert(object.clone());
                if store.remove(&object, until).await.is_ok() {
                    history.borrow_mut().removed.insert(object);
                }
            }
        }
    }
}

#[test]
fn what_was_acknowledged_outlives_power_losses() {
    let (mut created, mut begun, mut removed) = (0, 0, 0);
    for seed in seeds(200) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let (disk, place) = (simulation.disk().clone(), Place::new(&simulation, Kind::Folder));
        let history: Rc<RefCell<History>> = Rc::default();
        let mut rng = Rng::new(seed);
        for round in 0..3 {
            place.set_random_faults(&mut rng, 200_000);
            let nodes: Vec<_> = (0..rng.between(1, 3))
                .map(|node| {
                    let node = (node, simulation.start_node(1, |_| std::future::pending()));
                    let runtime = node.1.runtime(CoreId(0)).clone();
                    let writer = write(runtime.clone(), round * 10 + node.0, Rc::clone(&history));
                    drop(runtime.spawn(writer));
                    node.1
                })
                .collect();
            simulation.run_for(Duration::from_millis(rng.below(1_000)));
            nodes.iter().for_each(|node| node.crash());
            if rng.one_in(4) {
                history.borrow().check(&objects_of(&disk));
            }
            disk.power_loss();
            history.borrow().check(&objects_of(&disk));
        }
        place.heal();
        let unix_ns = simulation.block_on(|runtime| async move { runtime.unix_nanos() });
        simulation.set_unix_nanos(unix_ns + 25 * 3_600_000_000_000);
        let listed = simulation.block_on(|runtime| async move {
            let store = Store::new(runtime.clone(), Box::new(open_patiently(&runtime).await));
            store.list(&Folder::ALL, None, soon(&runtime)).await.expect("a listing")
        });
        let names: Vec<ObjectName> = listed.into_iter().map(|info| info.name).collect();
        assert_eq!(names, objects_of(&disk).into_keys().collect::<Vec<_>>());
        assert_eq!(left_overs(&disk), 0, "they are older than a day");
        created += history.borrow().created.len();
        begun += history.borrow().bodies.len();
        removed += history.borrow().removed.len();
    }
    println!("{created} of {begun} created, {removed} removed");
    assert!(created > 1_000 && begun > created && removed > 100);
}
