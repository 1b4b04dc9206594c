//! The ruler of a node among others. One of them, the keeper, evaluates the rules of all. Any node may
//! become it, and may be it no more, at any moment.
//!
//! Guarantees:
//! - Each term of the node has a ruler of its own, with what the bucket has of groups and alerts. It
//!   begins when the node notices that it is the keeper, and ends when it notices the contrary, both at
//!   once. Nothing is sent to an Alertmanager without a proof that it still is.
//! - The end of a term ends no series and no alert: another node goes on with them.
//! - Between terms requests are refused, and samples that wait are sent.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use logsvc_rules::lanes::LaneEvaluator;
use logsvc_rules::messages::{RulerNumbers, RulesReply, RulesRequest, StoreRefusal};
use logsvc_rules::ruler::Ruler;
use logsvc_rules::store::Backend;
use logsvc_runtime::mesh::{Inbox, Incoming};
use logsvc_runtime::{Latch, Runtime};
use logsvc_shards::common::CommonFiles;

use super::term::Term;
use super::{LOAD_PAUSE_OF_KEEPER, NodeEvaluation, NodeSamples, config};
use crate::node::NodeState;

/// Evaluates rules whenever this node is the keeper, until the latch is triggered, or until no front
/// core can send a request. For core 0.
pub(crate) async fn run_among_others<R: Runtime>(
    runtime: R,
    node: Arc<NodeState>,
    evaluator: LaneEvaluator<R>,
    files: CommonFiles<R>,
    mut inbox: Inbox<RulesRequest, RulesReply>,
    stop: Latch,
) {
    let samples = NodeSamples::new(&runtime, &node);
    samples.start().await;
    while let Some(since) = next_term(&files, &samples, &mut inbox, &stop).await {
        let term = Term::new(files.clone(), since);
        let storage = node.config.ruler.rule_storage();
        let store = Backend::of_keeper(runtime.clone(), term.clone(), &storage);
        let evaluation =
            NodeEvaluation::new(&runtime, &node, evaluator.clone(), samples.clone(), Some(&term));
        let config = config(&node, LOAD_PAUSE_OF_KEEPER);
        let ruler = Ruler::new(runtime.clone(), store, evaluation, config);
        tracing::info!("this node evaluates the rules of all nodes");
        let end = Latch::new();
        let running = Box::pin(ruler.run_on(&mut inbox, &end));
        let over = pin!(async {
            select(pin!(stop.wait()), pin!(term.ended())).await;
        });
        match select(running, over).await {
            Either::Left(_) => break,
            Either::Right(((), running)) => {
                end.trigger();
                running.await;
            }
        }
        if !stop.is_triggered() {
            tracing::info!("another node evaluates the rules of all nodes from now on");
        }
    }
    samples.close().await;
}

/// Waits until the node is the keeper, and gives the number of the map since which it is; `None` if it
/// stops. Refuses requests meanwhile.
async fn next_term<R: Runtime>(
    files: &CommonFiles<R>,
    samples: &NodeSamples<R>,
    inbox: &mut Inbox<RulesRequest, RulesReply>,
    stop: &Latch,
) -> Option<u64> {
    loop {
        let view = files.view();
        if stop.is_triggered() {
            return None;
        }
        if let Some(since) = view.keeper_since() {
            return Some(since);
        }
        let (stopped, changed) = (pin!(stop.wait()), pin!(files.changed(&view)));
        let incoming = match select(select(stopped, changed), pin!(inbox.receive())).await {
            Either::Left(_) => continue,
            Either::Right((incoming, _)) => incoming?,
        };
        let Incoming { request, reply_to } = incoming;
        reply_to.send(match request {
            RulesRequest::Metrics => {
                let remote = samples.remote.numbers();
                RulesReply::Metrics(Box::new(RulerNumbers { remote, ..RulerNumbers::default() }))
            }
            RulesRequest::Look => RulesReply::Done,
            _ => RulesReply::Refused(StoreRefusal::Elsewhere),
        });
    }
}
