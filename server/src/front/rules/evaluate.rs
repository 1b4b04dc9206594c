//! Takes the queries of rules from a core's inbox, and evaluates them.
//!
//! Guarantees: all queries that wait are evaluated at the same time, as far as they have places in
//! the queue of rules ([`crate::front::query::queue`]); the lanes bound how many there are. When
//! the node stops, queries that run or wait end, their scans stop, and the ruler is told that the
//! node is stopping. No query is logged: a rule over the node's own log would fire on itself.
//!
//! Answers are not counted on their way to the ruler: a vector is bounded by the tenant's
//! `max_query_series`, and lines by their bytes.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use logsvc_rules::evaluator::RuleQuery;
use logsvc_rules::lanes::{RuleInbox, RuleOutcome};
use logsvc_runtime::mesh::Incoming;
use logsvc_runtime::{Latch, Runtime};

use crate::front::query::Querier;

/// Evaluates queries until the node stops.
pub(in crate::front) async fn serve<R: Runtime>(
    querier: Rc<Querier<R>>,
    mut inbox: RuleInbox,
    stop: Latch,
) {
    let mut running = FuturesUnordered::new();
    let mut stopped = pin!(stop.wait());
    loop {
        let received = {
            let mut receive = pin!(inbox.receive());
            poll_fn(|cx| {
                if stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                while let Poll::Ready(Some(())) = running.poll_next_unpin(cx) {}
                receive.as_mut().poll(cx)
            })
            .await
        };
        let Some(incoming) = received else { return };
        running.push(answer(&querier, incoming));
    }
}

async fn answer<R: Runtime>(
    querier: &Querier<R>,
    Incoming { request, reply_to }: Incoming<RuleQuery, RuleOutcome>,
) {
    let outcome = querier.answer_rule(&request).await;
    reply_to.send(outcome);
}
