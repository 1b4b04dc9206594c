//! A node's handle to its membership: what it sees of others, and what it says of itself.
//!
//! Guarantees: it may be used from all cores. Nothing here waits for another node, except leaving,
//! which has a limit. [`Membership::joined`] ends whether or not anybody answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logsvc_runtime::{Latch, Monotonic};

use crate::engine::{Change, ForgetError};
use crate::identity::Identity;
use crate::members::{MemberInfo, Members, Standing, Traffic, View};
use crate::vitals::{Vitals, VitalsError};

/// Why a node did not join at its start. It goes on trying.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no member of join_members let this node in within max_join_retries attempts")]
pub struct JoinFailed;

/// What a handle asks of the task that owns the engine.
#[derive(Debug)]
pub(crate) enum Command {
    Change(Change),
    Forget { instance: String, reply: flume::Sender<Result<(), ForgetError>> },
    Leave { reply: flume::Sender<()> },
}

/// How the first attempts to join have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    over: Latch,
    has_failed: Arc<AtomicBool>,
    is_blind: Arc<AtomicBool>,
}

impl Joined {
    pub(crate) fn succeed(&self) {
        self.over.trigger();
    }

    /// Whether nothing can be heard of others at the moment.
    pub(crate) fn note_blind(&self, is_blind: bool) {
        self.is_blind.store(is_blind, Ordering::Release);
    }

    pub(crate) fn fail(&self) {
        if !self.over.is_triggered() {
            self.has_failed.store(true, Ordering::Release);
            self.over.trigger();
        }
    }
}

/// A node's handle. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Membership {
    view: View,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A task speaks with others.
    Driven { commands: flume::Sender<Command>, joined: Joined, stop: Latch },
    /// One node, no network (`inmemory`).
    Alone,
}

impl Membership {
    pub(crate) fn driven(
        view: View,
        commands: flume::Sender<Command>,
        joined: Joined,
        stop: Latch,
    ) -> Membership {
        Membership { view, kind: Kind::Driven { commands, joined, stop } }
    }

    /// The membership of a node that has no others (`inmemory`). It uses no network.
    ///
    /// # Errors
    /// The vitals are outside of their bounds.
    pub fn alone(
        identity: Identity,
        vitals: Vitals,
        now: Monotonic,
    ) -> Result<Membership, VitalsError> {
        vitals.check()?;
        let me = MemberInfo {
            identity,
            incarnation: 0,
            standing: Standing::Alive,
            since: now,
            last_news: now,
            vitals,
        };
        let members =
            Members { version: 1, me: identity, list: vec![me], traffic: Traffic::default() };
        Ok(Membership { view: View::new(members), kind: Kind::Alone })
    }

    /// The newest list of members.
    #[must_use]
    pub fn members(&self) -> Arc<Members> {
        self.view.members()
    }

    /// Ends as soon as the list is of a later version than `seen`, and gives it.
    pub async fn changed(&self, seen: u64) -> Arc<Members> {
        self.view.changed(seen).await
    }

    /// Ends when a member has let this node in, or there is nobody to ask.
    ///
    /// # Errors
    /// So many attempts have failed as the settings allow. The node goes on trying. Whether the
    /// process is to end is a setting, too.
    pub async fn joined(&self) -> Result<(), JoinFailed> {
        let Kind::Driven { joined, .. } = &self.kind else { return Ok(()) };
        joined.over.wait().await;
        if joined.has_failed.load(Ordering::Acquire) { Err(JoinFailed) } else { Ok(()) }
    }

    /// Whether this node cannot hear of others at the moment, since what they tell each other by is
    /// away. Then it says nothing of a member that it is not in the list.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        match &self.kind {
            Kind::Driven { joined, .. } => joined.is_blind.load(Ordering::Acquire),
            Kind::Alone => false,
        }
    }

    /// Changes what this node says of itself. Ends when the change is on its way; the list may show
    /// it a moment later.
    pub async fn change(&self, change: Change) {
        match &self.kind {
            // A node that has left has nothing to say.
            Kind::Driven { commands, .. } => {
                let _ = commands.send_async(Command::Change(change)).await;
            }
            Kind::Alone => self.view.update(|members| {
                members.list.iter_mut().for_each(|me| change.clone().apply(&mut me.vitals));
            }),
        }
    }

    /// Forgets dead members with this instance ID, on all nodes.
    ///
    /// # Errors
    /// There is no such member, or it is alive, or this node does not take part any more.
    pub async fn forget(&self, instance: &str) -> Result<(), ForgetError> {
        let Kind::Driven { commands, .. } = &self.kind else {
            let is_known = self.members().named(instance).next().is_some();
            return Err(if is_known { ForgetError::Alive } else { ForgetError::Unknown });
        };
        let (reply, answer) = flume::bounded(1);
        let command = Command::Forget { instance: instance.to_owned(), reply };
        commands.send_async(command).await.map_err(|_| ForgetError::Stopped)?;
        answer.recv_async().await.unwrap_or(Err(ForgetError::Stopped))
    }

    /// Tells others that this node leaves for good, and stops. Ends when some have heard it, or
    /// after `leave_timeout`.
    pub async fn leave(&self) {
        match &self.kind {
            Kind::Driven { commands, .. } => {
                let (reply, answer) = flume::bounded(1);
                if commands.send_async(Command::Leave { reply }).await.is_ok() {
                    let _ = answer.recv_async().await;
                }
            }
            Kind::Alone => self.view.update(|members| members.list.clear()),
        }
    }

    /// Stops without a word. Others will take this node for dead.
    pub fn stop(&self) {
        if let Kind::Driven { stop, .. } = &self.kind {
            stop.trigger();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::vitals::State;

    /// The output of something that never waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn one_node_sees_itself() {
        let me = Identity { address: ([10, 0, 0, 1], 7946).into(), generation: 1, chance: 2 };
        let vitals = Vitals::joining("only", 1..=1);
        let nobody = Vitals { instance: String::new(), ..vitals.clone() };
        assert!(Membership::alone(me, nobody, Monotonic(5)).is_err());
        let node = Membership::alone(me, vitals, Monotonic(5)).expect("the vitals are good");
        assert_eq!(now(node.joined()), Ok(()));
        assert_eq!(node.members().alive().count(), 1);
        let seen = node.members().version;
        let mut changed = pin!(node.changed(seen));
        let mut context = Context::from_waker(Waker::noop());
        assert!(changed.as_mut().poll(&mut context).is_pending());
        now(node.clone().change(Change::State(State::Active)));
        now(node.change(Change::State(State::Left)));
        now(node.change(Change::WriterEpoch(Some(8))));
        let Poll::Ready(members) = changed.as_mut().poll(&mut context) else {
            panic!("there is a change");
        };
        assert!(members.version > seen && members.writers().contains(&8));
        assert_eq!(members.list[0].vitals.state, State::Active, "only leaving says that it left");
        assert_eq!(now(node.forget("only")), Err(ForgetError::Alive));
        assert_eq!(now(node.forget("other")), Err(ForgetError::Unknown));
        node.stop();
        now(node.leave());
        assert!(node.members().list.is_empty());
    }
}
