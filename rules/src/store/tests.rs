//! Both stores on the simulated disk: kills, failures, damage, and files that others break.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use logsvc_runtime::sim::{DiskOperation, FaultRates, SimRuntime, Simulation};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::*;

const DATA: &str = "/data";

fn tenant(id: &str) -> TenantId {
    TenantId::new(id).expect("a tenant")
}

fn group(name: &str, limit: u64) -> RuleGroup {
    RuleGroup { name: name.to_owned(), limit, ..RuleGroup::default() }
}

/// The limits of all groups by tenant, namespace and name.
type Limits = BTreeMap<(String, String, String), u64>;

fn limits_of(changes: &[TenantChange]) -> Limits {
    let groups = changes.iter().flat_map(|(tenant, groups)| {
        groups.groups().map(move |(namespace, name, group)| {
            ((tenant.to_string(), namespace.to_string(), name.to_string()), group.limit)
        })
    });
    groups.collect()
}

async fn opened(runtime: SimRuntime) -> (FolderStore<SimRuntime>, Limits) {
    let mut store = FolderStore::new(runtime, PathBuf::from(DATA));
    let limits = limits_of(&store.load().await.expect("the folder can be read"));
    (store, limits)
}

fn stored(simulation: &Simulation) -> Limits {
    simulation.block_on(|runtime| async move { opened(runtime).await.1 })
}

/// What a group may hold after a change: the limits, or 0 for none.
type Promises = BTreeMap<(String, String, String), Vec<u64>>;

#[test]
fn promises_hold_through_kills_power_cuts_and_failing_disks() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        simulation.disk().write(Path::new(DATA).join("FORMAT"), b"x");
        let mut rng = Rng::new(seed);
        let promises: Rc<std::cell::RefCell<Promises>> = Rc::default();
        for _ in 0..6 {
            let has_faults = rng.one_in(2);
            let (seed, changed) = (rng.next_u64(), Rc::clone(&promises));
            let disk = simulation.disk().clone();
            let node = simulation.start_node(1, move |runtime| {
                let (changed, disk) = (Rc::clone(&changed), disk.clone());
                async move {
                    let mut rng = Rng::new(seed);
                    let (mut store, found) = opened(runtime).await;
                    check(&found, &mut changed.borrow_mut());
                    let rate = if has_faults { 100_000 } else { 0 };
                    disk.set_fault_rates(FaultRates {
                        writes_per_million: rate,
                        syncs_per_million: rate,
                        others_per_million: rate,
                        ..FaultRates::default()
                    });
                    for _ in 0..20 {
                        change(&mut store, &mut rng, &changed).await;
                    }
                }
            });
            if rng.one_in(3) {
                simulation.run_until(|| !node.is_running()).expect("it ends");
            } else {
                let _ = (0..rng.below(400)).all(|_| simulation.step());
            }
            match rng.one_in(2) {
                true => node.power_off(),
                false => node.crash(),
            }
            simulation.disk().clear_faults();
        }
        check(&stored(&simulation), &mut promises.borrow_mut());
        assert!(simulation.disk().files(Path::new(DATA).join("rules/quarantine")).is_empty());
    }
}

fn check(found: &Limits, promises: &mut Promises) {
    for (key, may_be) in promises.iter_mut() {
        let is = found.get(key).copied().unwrap_or(0);
        assert!(may_be.contains(&is), "{key:?} is {is}, promised {may_be:?}");
        *may_be = vec![is];
    }
    assert!(found.keys().all(|key| promises.contains_key(key)), "{found:?}");
}

async fn change(
    store: &mut FolderStore<SimRuntime>,
    rng: &mut Rng,
    promises: &std::cell::RefCell<Promises>,
) {
    let t = *rng.pick(&["t", "tenant-1"]);
    let namespace = *rng.pick(&["ns", "..", "a/b"]);
    let name = *rng.pick(&["g", "h"]);
    let keys: Vec<_> = match rng.one_in(5) {
        true => ["g", "h"].map(|name| (t.to_owned(), namespace.to_owned(), name.to_owned())).into(),
        false => vec![(t.to_owned(), namespace.to_owned(), name.to_owned())],
    };
    let limit = if keys.len() > 1 || rng.one_in(3) { 0 } else { 1 + rng.below(1000) };
    for key in &keys {
        promises.borrow_mut().entry(key.clone()).or_insert_with(|| vec![0]).push(limit);
    }
    let done = if keys.len() > 1 {
        store.remove_namespace(&tenant(t), namespace).await
    } else if limit == 0 {
        store.remove(&tenant(t), namespace, name).await
    } else {
        store.put(&tenant(t), namespace, &group(name, limit)).await
    };
    if done.is_ok() {
        for key in keys {
            promises.borrow_mut().insert(key, vec![limit]);
        }
    }
}

/// Stores some groups, and gives the path of the first one.
fn with_groups(simulation: &Simulation, names: &[&str]) -> PathBuf {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    simulation.block_on(|runtime| async move {
        let (mut store, _) = opened(runtime).await;
        for name in &names {
            store.put(&tenant("t"), "ns", &group(name, 7)).await.expect("stored");
        }
    });
    path_of("ns", "a")
}

fn path_of(namespace: &str, name: &str) -> PathBuf {
    Path::new(DATA).join("rules/groups/t").join(format::file_name(namespace, name))
}

fn names(limits: &Limits) -> Vec<&str> {
    limits.keys().map(|(_, _, name)| name.as_str()).collect()
}

#[test]
fn a_damaged_file_costs_its_group_alone() {
    let simulation = Simulation::new(1);
    let path = with_groups(&simulation, &["a", "b"]);
    assert!(simulation.disk().corrupt(&path, 70, 1));
    let damaged = simulation.disk().read(&path);
    assert_eq!(names(&stored(&simulation)), ["b"]);
    let quarantine = Path::new(DATA).join("rules/quarantine");
    let kept = simulation.disk().files(&quarantine);
    assert_eq!(kept.len(), 1);
    assert_eq!(simulation.disk().read(&kept[0]), damaged);
    // The same again: the first copy stays.
    with_groups(&simulation, &["a"]);
    assert!(simulation.disk().corrupt(&path, 3, 1));
    assert_eq!(names(&stored(&simulation)), ["b"]);
    assert_eq!(simulation.disk().files(&quarantine).len(), 2);
    assert_eq!(simulation.disk().read(&kept[0]), damaged);
    with_groups(&simulation, &["a"]);
    assert_eq!(names(&stored(&simulation)), ["a", "b"]);
}

#[test]
fn a_file_that_cannot_be_read_is_not_written_over() {
    let simulation = Simulation::new(1);
    let path = with_groups(&simulation, &["a", "b"]);
    let before = simulation.disk().read(&path);
    simulation.disk().fail_next(DiskOperation::Read, &path, 1);
    let found = simulation.block_on(|runtime| async move {
        let (mut store, found) = opened(runtime).await;
        store.put(&tenant("t"), "ns", &group("a", 8)).await.expect("stored");
        found
    });
    assert_eq!(names(&found), ["b"]);
    let kept = simulation.disk().files(Path::new(DATA).join("rules/quarantine"));
    assert_eq!(kept.iter().map(|path| simulation.disk().read(path)).collect::<Vec<_>>(), [before]);
    let key = ("t".to_owned(), "ns".to_owned(), "a".to_owned());
    assert_eq!(stored(&simulation).get(&key), Some(&8));
}

#[test]
fn a_file_that_cannot_be_read_is_there_at_the_next_start() {
    let simulation = Simulation::new(1);
    let path = with_groups(&simulation, &["a", "b"]);
    simulation.disk().fail_next(DiskOperation::Read, &path, 1);
    assert_eq!(names(&stored(&simulation)), ["b"]);
    assert_eq!(names(&stored(&simulation)), ["a", "b"]);
}

#[test]
fn groups_with_the_same_hash_have_files_of_their_own() {
    let simulation = Simulation::new(1);
    let path = with_groups(&simulation, &["a"]);
    // As if the names of the group had the hash of another one.
    let bytes = format::encode("ns", &group("x", 1)).expect("short");
    simulation.disk().write(&path, &bytes);
    with_groups(&simulation, &["a"]);
    assert_eq!(names(&stored(&simulation)), ["a", "x"]);
    with_groups(&simulation, &["a"]);
    assert_eq!(simulation.disk().files(path.parent().expect("a folder")).len(), 2);
    simulation.block_on(|runtime| async move {
        let (mut store, _) = opened(runtime).await;
        store.remove(&tenant("t"), "ns", "x").await.expect("removed");
        store.put(&tenant("t"), "ns", &group("a", 9)).await.expect("stored");
    });
    assert_eq!(names(&stored(&simulation)), ["a"]);
    assert_eq!(simulation.disk().files(path.parent().expect("a folder")).len(), 1);
}

/// Pitfall 11: names in paths and on disk.
#[test]
fn names_of_groups_never_become_names_of_files() {
    let simulation = Simulation::new(1);
    let long = "n".repeat(5000);
    let odd = ["..", ".", "g %+ü", "a/b", "/etc/passwd", "a\nb", &long];
    simulation.block_on(|runtime| async move {
        let (mut store, _) = opened(runtime).await;
        for name in ["..", ".", "g %+ü", "a/b", "/etc/passwd", "a\nb", &"n".repeat(5000)] {
            store.put(&tenant("t"), name, &group(name, 1)).await.expect("stored");
        }
    });
    let files = simulation.disk().files("/");
    assert_eq!(files.len(), odd.len(), "{files:?}");
    for file in &files {
        let name = file.file_name().expect("a name").to_string_lossy();
        assert!(file.starts_with(Path::new(DATA).join("rules/groups/t")), "{file:?}");
        assert!(format::is_file_name(&name), "{name}");
    }
    let mut sorted = odd.to_vec();
    sorted.sort_unstable();
    assert_eq!(names(&stored(&simulation)), sorted);
    simulation.block_on(|runtime| async move {
        let (mut store, _) = opened(runtime).await;
        store.remove_namespace(&tenant("t"), "a/b").await.expect("removed");
    });
    assert_eq!(names(&stored(&simulation)).len(), odd.len() - 1);
}

#[test]
fn a_tenant_whose_stored_group_cannot_be_read_is_told() {
    let simulation = Simulation::new(1);
    let path = with_groups(&simulation, &["a"]);
    simulation.disk().fail_next(DiskOperation::Read, &path, 1);
    for expected in [&["t"][..], &[]] {
        let unreadable =
            simulation.block_on(|runtime| async move { opened(runtime).await.0.unreadable() });
        let ids: Vec<&str> = unreadable.iter().map(|tenant| tenant.as_str()).collect();
        assert_eq!(ids, expected);
    }
}

#[test]
fn files_of_others_stay_where_they_are() {
    let simulation = Simulation::new(1);
    let folder = Path::new(DATA).join("rules/groups");
    with_groups(&simulation, &["a"]);
    simulation.disk().write(folder.join("t/README"), b"hello");
    simulation.disk().write(folder.join("no tenant/x"), b"hello");
    assert_eq!(names(&stored(&simulation)), ["a"]);
    assert_eq!(simulation.disk().read(folder.join("t/README")).as_deref(), Some(&b"hello"[..]));
}

#[test]
fn a_store_that_cannot_be_listed_is_an_error() {
    let simulation = Simulation::new(1);
    with_groups(&simulation, &["a"]);
    simulation.disk().fail_next(DiskOperation::ReadDir, DATA, 1);
    simulation.block_on(|runtime| async move {
        let mut store = FolderStore::new(runtime, PathBuf::from(DATA));
        assert!(store.load().await.is_err());
        assert_eq!(store.load().await.expect("the second time").len(), 1);
    });
}

fn file(simulation: &Simulation, path: &str, content: &str) {
    simulation.disk().write(Path::new("/rules").join(path), content.as_bytes());
}

fn rule_file(names: &[&str]) -> String {
    let groups = names.iter().map(|name| {
        format!("  - name: {name}\n    rules:\n      - alert: A\n        expr: vector(1)\n")
    });
    format!("groups:\n{}", groups.collect::<String>())
}

fn local(runtime: SimRuntime) -> LocalStore<SimRuntime> {
    LocalStore::new(runtime, PathBuf::from("/rules"))
}

fn listed(changes: &[TenantChange]) -> Vec<String> {
    limits_of(changes)
        .keys()
        .map(|(t, namespace, name)| format!("{t}/{namespace}/{name}"))
        .collect()
}

/// Pitfall 14: isolation.
#[test]
fn a_broken_rule_file_stops_nothing_else() {
    let simulation = Simulation::new(1);
    file(&simulation, "t1/bad.yaml", "groups: [");
    file(&simulation, "t1/bad query.yaml", "groups: [{name: g, rules: [{alert: a, expr: '{'}]}]");
    file(
        &simulation,
        "t1/bad template.yaml",
        "groups: [{name: g, rules: [{alert: a, expr: vector(1), labels: {a: '{{ $foo }}'}}]}]",
    );
    file(&simulation, "t1/twice.yaml", &rule_file(&["g", "g"]));
    file(&simulation, "t1/ok.yaml", &rule_file(&["g", "h"]));
    file(&simulation, "t1/.hidden.yaml", &rule_file(&["hidden"]));
    file(&simulation, "t2/ok.yaml", &rule_file(&["g"]));
    file(&simulation, "no tenant/ok.yaml", &rule_file(&["g"]));
    file(&simulation, "ok.yaml", &rule_file(&["g"]));
    let test = simulation.disk().clone();
    simulation.block_on(|runtime| async move {
        let mut store = local(runtime);
        let changes = store.load().await.expect("the folder can be read");
        assert_eq!(listed(&changes), ["t1/ok.yaml/g", "t1/ok.yaml/h", "t2/ok.yaml/g"]);
        assert_eq!(store.poll().await, []);
        assert_eq!(store.unreadable(), [tenant("t1")]);
        assert!(store.is_read_only());
        assert!(store.put(&tenant("t1"), "n", &group("g", 1)).await.is_err());

        let write = |path: &str, content: &str| {
            test.write(Path::new("/rules").join(path), content.as_bytes());
        };
        // A file that breaks keeps its groups; one that is repaired shows up.
        write("t1/ok.yaml", "groups: {");
        assert_eq!(store.poll().await, []);
        write("t1/bad.yaml", &rule_file(&["repaired"]));
        let changes = store.poll().await;
        assert_eq!(listed(&changes), ["t1/bad.yaml/repaired", "t1/ok.yaml/g", "t1/ok.yaml/h"]);
        write("t1/ok.yaml", &rule_file(&["h"]));
        assert_eq!(listed(&store.poll().await), ["t1/bad.yaml/repaired", "t1/ok.yaml/h"]);
        // So does one that cannot be read for a while.
        test.fail_next(DiskOperation::Read, "/rules/t1/ok.yaml", 1);
        assert_eq!(store.poll().await, []);
        test.fail_next(DiskOperation::ReadDir, "/rules/t1", 1);
        assert_eq!(store.poll().await, []);
        test.fail_next(DiskOperation::ReadDir, "/rules", 3);
        assert_eq!(store.poll().await, []);
        test.clear_faults();
        assert_eq!(store.poll().await, []);
        // One that is gone takes its groups with it.
        test.remove("/rules/t1/ok.yaml");
        assert_eq!(listed(&store.poll().await), ["t1/bad.yaml/repaired"]);
        test.remove("/rules/t2/ok.yaml");
        assert_eq!(store.poll().await, [(tenant("t2"), TenantGroups::default())]);
    });
}

#[test]
fn tenants_with_bad_rule_files_are_told_until_the_files_are_good() {
    let simulation = Simulation::new(1);
    file(&simulation, "t1/a.yaml", &rule_file(&["g"]));
    file(&simulation, "t2/a.yaml", &rule_file(&["g"]));
    let disk = simulation.disk().clone();
    simulation.block_on(|runtime| async move {
        let mut store = local(runtime);
        store.load().await.expect("the folder can be read");
        assert_eq!(store.unreadable(), []);
        let write = |content: &str| disk.write("/rules/t2/a.yaml", content.as_bytes());
        write("groups: {");
        for _ in 0..2 {
            store.poll().await;
            assert_eq!(store.unreadable(), [tenant("t2")], "it is broken");
        }
        // The content that was good last.
        write(&rule_file(&["g"]));
        assert_eq!(store.poll().await, []);
        assert_eq!(store.unreadable(), []);
        for (operation, path, expected) in [
            (DiskOperation::Read, "/rules/t1/a.yaml", &["t1"][..]),
            (DiskOperation::ReadDir, "/rules/t2", &["t2"]),
            (DiskOperation::ReadDir, "/rules", &["t1", "t2"]),
        ] {
            disk.fail_next(operation, path, 1);
            store.poll().await;
            let expected: Vec<TenantId> = expected.iter().map(|id| tenant(id)).collect();
            assert_eq!(store.unreadable(), expected, "{path}");
            disk.clear_faults();
            store.poll().await;
            assert_eq!(store.unreadable(), [], "{path}");
        }
        write("groups: {");
        store.poll().await;
        disk.remove("/rules/t2/a.yaml");
        store.poll().await;
        assert_eq!(store.unreadable(), [], "the file is gone");
    });
}

#[test]
fn a_folder_of_rule_files_that_is_not_there_is_an_error() {
    Simulation::new(1).block_on(|runtime| async move {
        let error = local(runtime).load().await.expect_err("there is no folder");
        assert!(error.to_string().contains("/rules"), "{error}");
    });
}
