//! Tells the service manager that the process lives and how far its start has come.
//!
//! Guarantees: the watchdog hears something only while every core gets its turn: a core that hangs
//! silences the process, and the manager restarts it. A start that takes long is no reason to be
//! restarted: while the log is replayed, the manager is asked for more time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::{CoreId, Monotonic, Runtime};

use crate::node::NodeState;

/// How often the manager hears of the replay, and the time that it is asked for.
const REPLAY_INTERVAL: Duration = Duration::from_secs(5);
const REPLAY_PATIENCE: Duration = Duration::from_secs(60);

/// Looks after this core until the process ends.
pub(crate) async fn run<R: Runtime>(runtime: R, node: Arc<NodeState>) {
    if runtime.core() == CoreId(0) {
        tell_of_replay(&runtime, &node).await;
    }
    let Some(patience) = node.surroundings.manager.watchdog() else { return };
    let interval = patience / 4;
    loop {
        let now = runtime.now();
        node.beats[runtime.core().index()].store(since_start_ms(now), Ordering::Relaxed);
        if runtime.core() == CoreId(0) && all_live(&node, now, interval * 2) {
            node.surroundings.manager.alive();
        }
        runtime.sleep_until(now.after(interval)).await;
    }
}

/// Ends when the log is replayed or the node stops.
async fn tell_of_replay<R: Runtime>(runtime: &R, node: &NodeState) {
    let manager = &node.surroundings.manager;
    if !manager.is_there() {
        return;
    }
    loop {
        manager
            .starting(&format!("replaying the log: {} %", node.replay.percent()), REPLAY_PATIENCE);
        // The watchdog of systemd begins with the start of the process.
        manager.alive();
        let sleep = std::pin::pin!(runtime.sleep_until(runtime.now().after(REPLAY_INTERVAL)));
        let over = std::pin::pin!(node.recovered.wait());
        let stop = std::pin::pin!(node.stop.wait());
        if matches!(select(select(over, stop), sleep).await, Either::Left(_)) {
            return;
        }
    }
}

/// Whether every core has had its turn within `patience`.
fn all_live(node: &NodeState, now: Monotonic, patience: Duration) -> bool {
    let oldest_ms = since_start_ms(now).saturating_sub(patience.as_millis() as u64);
    node.beats.iter().all(|beat| beat.load(Ordering::Relaxed) >= oldest_ms)
}

fn since_start_ms(now: Monotonic) -> u64 {
    u64::try_from(now.since(Monotonic(0)).as_millis()).unwrap_or(u64::MAX)
}
