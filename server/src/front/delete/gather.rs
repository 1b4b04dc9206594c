//! Gathers what the nodes of a cluster have removed, for the one that keeps the requests for deletion, and
//! tells them at once when it has changed something: tails follow it soon. Queries do not need that.
//!
//! What can go wrong: a node does not answer. Then the requests stay as they are until it does, or until
//! others own its partitions.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use logsvc_cluster::map::{Epoch, MemberInfo};
use logsvc_peers::client::Unanswered;
use logsvc_peers::removal::{RemovalQuestion, decode_report, encode_question};
use logsvc_runtime::{Latch, Runtime};
use logsvc_shards::common::CommonView;
use logsvc_shards::deletion::{DeletionReply, DeletionRequest, RemovalReport};
use logsvc_shards::member::Routes;

use crate::front::core::Core;

/// How often the nodes are asked while requests wait for them.
const INTERVAL: Duration = Duration::from_secs(10);

/// How long a node may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Goes on until the latch is triggered. For core 0.
pub(in crate::front) async fn gather<R: Runtime>(core: std::rc::Rc<Core<R>>, stop: Latch) {
    let mut stopped = pin!(stop.wait());
    let Some(common) = core.cluster().map(|cluster| cluster.common.clone()) else { return };
    let mut told = 0;
    loop {
        let step = async {
            let view = common.get();
            let has_news = is_news(&view, told);
            if has_news || wants_reports(&core).await {
                let reports = reports(&core, view.number()).await;
                told = view.number();
                if let Some(reports) = reports {
                    // It says again whether it wants some.
                    drop(core.ask_keeper(DeletionRequest::Reported(reports)).await);
                }
            }
            let news = pin!(common.when(|newer| is_news(newer, told)));
            let later = pin!(core.runtime.sleep_until(core.runtime.now().after(INTERVAL)));
            select(news, later).await;
        };
        if let Either::Left(_) = select(&mut stopped, pin!(step)).await {
            return;
        }
    }
}

/// Whether this node has changed something since it has told the others of the entry of a number.
fn is_news(view: &CommonView, told: u64) -> bool {
    view.keeper_since().is_some() && view.number() > told
}

async fn wants_reports<R: Runtime>(core: &Core<R>) -> bool {
    let reply = core.ask_keeper(DeletionRequest::WantsReports).await;
    matches!(reply, Ok(DeletionReply::WantsReports(true)))
}

/// The reports of all nodes; `None` if one of them says nothing.
async fn reports<R: Runtime>(core: &Core<R>, common: u64) -> Option<Vec<RemovalReport>> {
    let routes: Arc<Routes> = core.routes()?;
    let asked = routes
        .map
        .members
        .iter()
        .map(|(&epoch, info)| report_of(core, &routes, (epoch, info), common));
    join_all(asked).await.into_iter().collect()
}

async fn report_of<R: Runtime>(
    core: &Core<R>,
    routes: &Routes,
    (epoch, info): (Epoch, &MemberInfo),
    common: u64,
) -> Option<RemovalReport> {
    if epoch == routes.me {
        return core.removal_report().await;
    }
    let question = RemovalQuestion { writer: epoch.0, common };
    let question = Bytes::from(encode_question(question));
    let answered = core.peers.get()?.removed(&info.address, question, TIMEOUT).await;
    let report = answered.and_then(|bytes| {
        let address = info.address.clone();
        decode_report(&bytes).map_err(|damaged| Unanswered::Damaged { address, damaged })
    });
    match report {
        Ok(report) => report,
        Err(error) => {
            tracing::debug!(node = %info.name, "a node does not say what it has removed: {error}");
            None
        }
    }
}
