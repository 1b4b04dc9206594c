//! The loop: requests, their order, bounds, and stores that fail or change.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;

use logsvc_runtime::CoreId;
use logsvc_runtime::mesh::{Caller, Mesh, MeshOptions};
use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};

use super::*;
use crate::config::RuleStorage;
use crate::messages::{GroupStatus, RulerNumbers, StoreRefusal};
use crate::model::RuleGroup;
use crate::store::{Backend, Copying, FileCopies, NotCopied};

const LOAD_PAUSE: Duration = Duration::from_secs(10);

/// What the ruler has told, and when it was asked to run and to end.
#[derive(Default)]
struct Told {
    changes: RefCell<Vec<String>>,
    is_running: Cell<bool>,
    has_ended: Cell<bool>,
}

#[derive(Clone, Default)]
struct Recorder(Rc<Told>);

impl Evaluation for Recorder {
    fn set_groups(&self, tenant: &TenantId, groups: &TenantGroups) {
        let names: Vec<String> =
            groups.groups().map(|(namespace, name, _)| format!("{namespace}/{name}")).collect();
        self.0.changes.borrow_mut().push(format!("{tenant}: {}", names.join(" ")));
    }

    async fn status(&self, _: &TenantId) -> Vec<Arc<GroupStatus>> {
        Vec::new()
    }

    fn numbers(&self) -> RulerNumbers {
        RulerNumbers::default()
    }

    async fn run(&self, stop: Latch) {
        self.0.is_running.set(true);
        stop.wait().await;
        self.0.has_ended.set(true);
    }
}

type Asker = Caller<RulesRequest, RulesReply>;

/// A ruler that runs, and what it has told.
struct Rig {
    caller: Asker,
    told: Rc<Told>,
    stop: Latch,
    task: <SimRuntime as Runtime>::Task<()>,
}

fn start(runtime: &SimRuntime, storage: RuleStorage, groups_max_bytes: u64) -> Rig {
    let store = Backend::new(runtime.clone(), &PathBuf::from("/data"), &storage);
    start_on(runtime, store, groups_max_bytes)
}

fn start_on(runtime: &SimRuntime, store: Backend<SimRuntime>, groups_max_bytes: u64) -> Rig {
    let options = MeshOptions { request_lane_messages: 16, inflight_per_core: 16 };
    let (caller, inbox) = Mesh::new(1, options).attach(CoreId(0));
    drop(runtime.spawn(caller.pump_replies()));
    let config = RulerConfig {
        poll_interval: Duration::from_secs(60),
        load_pause: LOAD_PAUSE,
        groups_max_bytes,
        evaluates: Box::new(|tenant| tenant.as_str() != "off"),
    };
    let recorder = Recorder::default();
    let told = Rc::clone(&recorder.0);
    let ruler = Ruler::new(runtime.clone(), store, recorder, config);
    let stop = Latch::new();
    let task = runtime.spawn(ruler.run(inbox, stop.clone()));
    Rig { caller, told, stop, task }
}

fn tenant(id: &str) -> TenantId {
    TenantId::new(id).expect("a tenant")
}

fn set(tenant_id: &str, namespace: &str, name: &str, max_groups: usize) -> RulesRequest {
    RulesRequest::SetGroup {
        tenant: tenant(tenant_id),
        namespace: namespace.to_owned(),
        group: Box::new(RuleGroup { name: name.to_owned(), ..RuleGroup::default() }),
        max_groups,
    }
}

fn delete(tenant_id: &str, namespace: &str, name: &str) -> RulesRequest {
    let (namespace, group) = (namespace.to_owned(), name.to_owned());
    RulesRequest::DeleteGroup { tenant: tenant(tenant_id), namespace, group }
}

impl Rig {
    async fn ask(&self, request: RulesRequest) -> RulesReply {
        let reply = self.caller.call(CoreId(0), request).expect("there is room");
        reply.await.expect("the ruler answers")
    }

    async fn done(&self, request: RulesRequest) {
        let reply = self.ask(request).await;
        assert!(matches!(reply, RulesReply::Done), "{reply:?}");
    }

    async fn list(&self, tenant_id: &str) -> Vec<String> {
        let all = RulesRequest::Groups { tenant: tenant(tenant_id), namespace: None };
        match self.ask(all).await {
            RulesReply::Groups(all) => {
                let names = all.iter().flat_map(|(namespace, groups)| {
                    groups.iter().map(move |group| format!("{namespace}/{}", group.name))
                });
                names.collect()
            }
            reply => panic!("{reply:?}"),
        }
    }

    fn changes(&self) -> Vec<String> {
        self.told.changes.take()
    }

    async fn stop(self) {
        self.stop.trigger();
        self.task.await;
        assert!(self.told.has_ended.get());
    }
}

#[test]
fn changes_are_told_listed_and_there_after_a_start() {
    let simulation = Simulation::new(1);
    simulation.block_on(|runtime| async move {
        let rig = start(&runtime, RuleStorage::DataFolder, 1 << 20);
        for (tenant, namespace, name) in [("t", "b", "g"), ("t", "a", "h"), ("off", "a", "g")] {
            rig.done(set(tenant, namespace, name, 0)).await;
        }
        rig.done(set("t", "a", "g", 0)).await;
        assert_eq!(rig.list("t").await, ["a/g", "a/h", "b/g"]);
        assert_eq!(rig.list("off").await, ["a/g"]);
        assert_eq!(rig.list("other").await, [""; 0]);
        // Tenants that are not evaluated here are not told.
        assert_eq!(rig.changes(), ["t: b/g", "t: a/h b/g", "t: a/g a/h b/g"]);
        rig.done(delete("t", "a", "h")).await;
        assert!(matches!(rig.ask(delete("t", "a", "h")).await, RulesReply::NotFound));
        assert_eq!(rig.changes(), ["t: a/g b/g"]);
        let namespace = |name: &str| RulesRequest::DeleteNamespace {
            tenant: tenant("t"),
            namespace: name.to_owned(),
        };
        rig.done(namespace("b")).await;
        assert!(matches!(rig.ask(namespace("b")).await, RulesReply::NotFound));
        assert_eq!(rig.changes(), ["t: a/g"]);
        let get = |name: &str| RulesRequest::Group {
            tenant: tenant("t"),
            namespace: "a".to_owned(),
            group: name.to_owned(),
        };
        let RulesReply::Group(Some(group)) = rig.ask(get("g")).await else { panic!("it is there") };
        assert_eq!(group.name, "g");
        assert!(matches!(rig.ask(get("h")).await, RulesReply::Group(None)));
        rig.stop().await;

        let rig = start(&runtime, RuleStorage::DataFolder, 1 << 20);
        assert_eq!(rig.list("t").await, ["a/g"]);
        assert_eq!(rig.changes(), ["t: a/g"]);
        assert!(rig.told.is_running.get());
        rig.stop().await;
    });
}

#[test]
fn bounds_refuse_groups_and_change_nothing() {
    Simulation::new(1).block_on(|runtime| async move {
        let bytes = 2 * RuleGroup { name: "g".to_owned(), ..RuleGroup::default() }.held_bytes();
        // The names of two namespaces, and no byte more.
        let rig = start(&runtime, RuleStorage::DataFolder, bytes + 2);
        rig.done(set("t", "a", "g", 1)).await;
        // As the reference counts, a group cannot even be replaced then.
        let refused = rig.ask(set("t", "a", "g", 1)).await;
        let RulesReply::Refused(refusal) = refused else { panic!("{refused:?}") };
        assert_eq!(refusal.to_string(), "per-user rule groups limit (limit: 1 actual: 2) exceeded");
        rig.done(set("t", "b", "g", 2)).await;
        let refused = rig.ask(set("u", "a", "g", 0)).await;
        assert!(matches!(refused, RulesReply::Refused(StoreRefusal::TooManyBytes { .. })));
        // A group of the same size takes the place of another one.
        rig.done(set("t", "b", "g", 0)).await;
        assert_eq!(
            (rig.list("t").await, rig.list("u").await.len()),
            (vec!["a/g".to_owned(), "b/g".to_owned()], 0)
        );
        rig.done(delete("t", "b", "g")).await;
        rig.done(set("u", "a", "g", 0)).await;
        rig.stop().await;
    });
}

#[test]
fn a_store_that_cannot_be_read_is_tried_again() {
    let simulation = Simulation::new(1);
    simulation.block_on(|runtime| async move {
        let rig = start(&runtime, RuleStorage::DataFolder, 1 << 20);
        rig.done(set("t", "a", "g", 0)).await;
        rig.stop().await;
    });
    simulation.disk().fail_next(DiskOperation::ReadDir, "/data/rules/groups", 1);
    simulation.block_on(|runtime| async move {
        let rig = start(&runtime, RuleStorage::DataFolder, 1 << 20);
        let refused = rig.ask(set("t", "a", "h", 0)).await;
        assert!(matches!(refused, RulesReply::Refused(StoreRefusal::NotLoaded)), "{refused:?}");
        // Nothing is evaluated before all groups are known.
        assert!(!rig.told.is_running.get());
        runtime.sleep_until(runtime.now().after(2 * LOAD_PAUSE)).await;
        assert_eq!(rig.list("t").await, ["a/g"]);
        assert!(rig.told.is_running.get());
        rig.stop().await;
    });
}

#[test]
fn a_change_that_cannot_be_written_is_refused_and_not_in_force() {
    let simulation = Simulation::new(1);
    let disk = simulation.disk().clone();
    simulation.block_on(|runtime| async move {
        let rig = start(&runtime, RuleStorage::DataFolder, 1 << 20);
        rig.done(set("t", "a", "g", 0)).await;
        disk.fail_next(DiskOperation::Sync, "/data/rules", 1);
        let refused = rig.ask(set("t", "a", "h", 0)).await;
        assert!(matches!(refused, RulesReply::Refused(StoreRefusal::Io(_))), "{refused:?}");
        disk.fail_next(DiskOperation::Remove, "/data/rules", 1);
        let refused = rig.ask(delete("t", "a", "g")).await;
        assert!(matches!(refused, RulesReply::Refused(StoreRefusal::Io(_))), "{refused:?}");
        assert_eq!(rig.list("t").await, ["a/g"]);
        assert_eq!(rig.changes(), ["t: a/g"]);
        rig.done(delete("t", "a", "g")).await;
        // What the failed write may have left goes with the deletion of a group that is unknown.
        assert!(matches!(rig.ask(delete("t", "a", "h")).await, RulesReply::NotFound));
        assert_eq!(disk.files("/data/rules"), Vec::<PathBuf>::new());
        rig.stop().await;
    });
}

#[test]
fn rule_files_are_looked_at_again_and_cannot_be_changed() {
    let simulation = Simulation::new(1);
    let disk = simulation.disk().clone();
    disk.write("/rules/t/ns.yaml", b"groups: [{name: g}]");
    simulation.block_on(|runtime| async move {
        let rig = start(&runtime, RuleStorage::Local { folder: "/rules".into() }, 1 << 20);
        assert_eq!(rig.list("t").await, ["ns.yaml/g"]);
        for (request, text) in [
            (set("t", "n", "g", 0), "SetRuleGroup unsupported in rule local store"),
            (delete("t", "ns.yaml", "g"), "DeleteRuleGroup unsupported in rule local store"),
            (
                RulesRequest::DeleteNamespace { tenant: tenant("t"), namespace: "ns.yaml".into() },
                "DeleteNamespace unsupported in rule local store",
            ),
            (
                RulesRequest::Group {
                    tenant: tenant("t"),
                    namespace: "ns.yaml".into(),
                    group: "g".into(),
                },
                "GetRuleGroup unsupported in rule local store",
            ),
        ] {
            match rig.ask(request).await {
                RulesReply::Refused(refusal) => assert_eq!(refusal.to_string(), text),
                reply => panic!("{reply:?}"),
            }
        }
        disk.write("/rules/t/ns.yaml", b"groups: [{name: h}]");
        assert_eq!(rig.list("t").await, ["ns.yaml/g"]);
        runtime.sleep_until(runtime.now().after(Duration::from_secs(61))).await;
        assert_eq!(rig.list("t").await, ["ns.yaml/h"]);
        for (content, expected) in [("groups: {", 1), ("groups: [{name: h}]", 0)] {
            disk.write("/rules/t/ns.yaml", content.as_bytes());
            runtime.sleep_until(runtime.now().after(Duration::from_secs(61))).await;
            match rig.ask(RulesRequest::Metrics).await {
                RulesReply::Metrics(numbers) => {
                    let unreadable = vec![tenant("t"); expected];
                    assert_eq!(numbers.unreadable, unreadable, "{content}");
                }
                reply => panic!("{reply:?}"),
            }
        }
        assert_eq!(rig.changes(), ["t: ns.yaml/g", "t: ns.yaml/h"]);
        rig.stop().await;
    });
}

#[test]
fn a_stop_before_the_store_was_read_ends_all() {
    let simulation = Simulation::new(1);
    simulation.disk().fail_next(DiskOperation::ReadDir, "/", 1000);
    simulation.block_on(|runtime| async move {
        let rig = start(&runtime, RuleStorage::Local { folder: "/rules".into() }, 1 << 20);
        runtime.sleep_until(runtime.now().after(Duration::from_secs(5))).await;
        rig.stop().await;
    });
}

/// Somebody who copies files when he is told to.
#[derive(Debug, Default)]
struct Copier {
    changed: RefCell<Vec<String>>,
    is_away: Cell<bool>,
    go_on: RefCell<Option<Latch>>,
}

impl FileCopies for Copier {
    fn changed(&self, path: &str) {
        self.changed.borrow_mut().push(path.to_owned());
    }

    fn copied(&self) -> Option<Copying> {
        if self.is_away.get() {
            return Some(Box::pin(async { Err(NotCopied) }));
        }
        let latch = self.go_on.borrow().clone()?;
        Some(Box::pin(async move {
            latch.wait().await;
            Ok(())
        }))
    }
}

#[test]
fn changes_wait_for_copies_and_nobody_else_does() {
    let simulation = Simulation::new(1);
    simulation.block_on(|runtime| async move {
        let copier = Rc::new(Copier::default());
        let folder = &PathBuf::from("/data");
        let store = Backend::new(runtime.clone(), folder, &RuleStorage::DataFolder);
        let rig = start_on(&runtime, store.with_copies(copier.clone()), 1 << 20);
        rig.done(set("t", "a", "g", 0)).await;
        let path = copier.changed.borrow()[0].clone();
        let file = path.strip_prefix("rules/groups/t/").expect("a file of the tenant");
        assert_eq!(file.len(), 32);
        let latch = Latch::new();
        *copier.go_on.borrow_mut() = Some(latch.clone());
        let waiting = rig.caller.call(CoreId(0), set("t", "a", "h", 0)).expect("there is room");
        // It is in force meanwhile, and others are answered.
        assert_eq!(rig.list("t").await, ["a/g", "a/h"]);
        latch.trigger();
        assert!(matches!(waiting.await, Ok(RulesReply::Done)));
        copier.is_away.set(true);
        copier.changed.take();
        for change in [delete("t", "a", "g"), delete("t", "a", "g"), set("t", "b", "g", 0)] {
            let reply = rig.ask(change).await;
            assert!(matches!(reply, RulesReply::Refused(StoreRefusal::Bucket)), "{reply:?}");
        }
        assert_eq!(rig.list("t").await, ["a/h", "b/g"]);
        assert_eq!(copier.changed.borrow().len(), 2, "{:?}", copier.changed);
        assert_eq!(copier.changed.borrow()[0], path);
        rig.stop().await;
    });
}
