//! Answers the cores of the node: what the member says.

use std::time::Duration;

use logsvc_cluster::member::{Answer, Input};
use logsvc_runtime::mesh::Inbox;
use logsvc_runtime::{Latch, Runtime};
use logsvc_shards::common::CommonFiles;
use logsvc_shards::member::MemberHandle;

use super::MemberRequest;

/// How long a query waits for a proof, or for a map.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it looks meanwhile. A proof takes a request to the bucket.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Answers until `stop` is triggered.
pub(crate) async fn serve<R: Runtime>(
    runtime: R,
    handle: MemberHandle,
    common: CommonFiles<R>,
    mut inbox: Inbox<MemberRequest, Answer>,
    stop: Latch,
) {
    let mut stopped = std::pin::pin!(stop.wait());
    loop {
        let next = std::pin::pin!(inbox.receive());
        let incoming = match futures_util::future::select(&mut stopped, next).await {
            futures_util::future::Either::Right((Some(incoming), _)) => incoming,
            _ => return,
        };
        match incoming.request {
            MemberRequest::MayAnswer { number } => {
                let (runtime, handle) = (runtime.clone(), handle.clone());
                let reply_to = incoming.reply_to;
                drop(runtime.clone().spawn(async move {
                    reply_to.send(may_answer(&runtime, &handle, number).await);
                }));
            }
            MemberRequest::StillMay { number } => {
                incoming.reply_to.send(handle.may_answer_all(number, runtime.now()));
            }
            MemberRequest::HeardCommon { number } => {
                common.heard(number);
                incoming.reply_to.send(Answer::Wait);
            }
            MemberRequest::Heard { number } => {
                handle.tell(Input::Heard(number));
                incoming.reply_to.send(Answer::Wait);
            }
        }
    }
}

async fn may_answer<R: Runtime>(runtime: &R, handle: &MemberHandle, number: u64) -> Answer {
    let give_up = runtime.now().after(PATIENCE);
    let mut before = Answer::Wait;
    loop {
        let answer = handle.may_answer_all(number, runtime.now());
        match answer {
            Answer::Yes | Answer::Newer(_) | Answer::NotOwner => return answer,
            _ if answer == before => {}
            Answer::ReadOn => handle.tell(Input::Heard(number)),
            Answer::Unproven => handle.tell(Input::ProofWanted),
            Answer::Wait => {}
        }
        before = answer;
        if runtime.now() >= give_up {
            return answer;
        }
        runtime.sleep_until(runtime.now().after(LOOK_INTERVAL)).await;
    }
}
