//! A node of a test as one among others.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_cluster::map::{Epoch, MemberInfo, State};
use logsvc_cluster::member::Input;
use logsvc_cluster::settings::Settings;
use logsvc_runtime::sim::SimRuntime;
use logsvc_runtime::{Latch, Published, Runtime};
use logsvc_shards::common::{CommonLog, CommonSweep, SweepConfig};
use logsvc_shards::follower::OwnedSegments;
use logsvc_shards::member::{MemberDriver, MemberParts};
use logsvc_shards::node::Node;

use super::{Boot, ShardCaller, sleep, store_of};

/// A node among others.
#[derive(Clone, Debug)]
pub(crate) struct AsMember {
    pub(crate) settings: Settings,
    /// Who lives, as membership would say.
    pub(crate) alive: Rc<RefCell<BTreeSet<Epoch>>>,
}

/// Sweeps take turns with everything else, and segments go while queries are on their way.
const SWEEP: SweepConfig = SweepConfig {
    interval: Duration::from_secs(3),
    delay: Duration::from_secs(8),
    entry_age: Duration::ZERO,
};

/// Makes the node one of many.
pub(super) fn join(
    runtime: &SimRuntime,
    boot: &Rc<Boot>,
    node: &Node<SimRuntime>,
    caller: &ShardCaller,
    (member, owned, lost): (&AsMember, OwnedSegments, Latch),
) {
    let me = Epoch(node.plan.epoch);
    let info = MemberInfo {
        name: boot.data_dir.to_owned(),
        address: boot.data_dir.to_owned(),
        zone: String::new(),
        state: State::Active,
        position: 0,
    };
    let store = store_of(runtime, boot).expect("it has a bucket");
    let parts = MemberParts {
        store: store.clone(),
        plan: node.plan.clone(),
        shards: caller.clone(),
        bucket: Arc::clone(&boot.bucket_status),
        sink: boot.sinks.as_ref().map(|sinks| Arc::clone(sinks.status())),
        owned,
    };
    let driver = MemberDriver::new(runtime.clone(), member.settings.clone(), info, parts);
    let handle = driver.handle();
    *boot.member.borrow_mut() = Some(handle.clone());
    let log = CommonLog::new(runtime.clone(), store.clone(), handle.clone(), Published::default());
    *boot.common.borrow_mut() = Some(log.files());
    let sweep = CommonSweep::new(runtime.clone(), store, handle.clone(), log.files(), SWEEP);
    drop(runtime.spawn(log.run(Latch::new())));
    drop(runtime.spawn(sweep.run(Latch::new())));
    let alive = Rc::clone(&member.alive);
    alive.borrow_mut().insert(me);
    let hinting = runtime.clone();
    drop(runtime.spawn(async move {
        loop {
            handle.tell(Input::Alive(alive.borrow().clone()));
            sleep(&hinting, Duration::from_millis(200)).await;
        }
    }));
    let boot = Rc::clone(boot);
    drop(runtime.spawn(async move {
        let end = driver.run(lost).await.expect_err("it ends with a reason");
        *boot.member_end.borrow_mut() = Some(end);
    }));
}
