//! The ruler on core 0: the only owner of the stored groups and of their evaluation.
//!
//! Front cores ask it through a mesh of its own ([`RulesRequest`], [`RulesReply`]). Requests are
//! answered in the order in which they come, while groups are evaluated ([`Evaluation::run`] is
//! polled beside them). Only a change that is being written holds up the requests behind it.
//!
//! Order of a change: the store, then the groups in memory, then the evaluation, then the answer, for
//! which the copy of the groups in a bucket may have to be there ([`RuleStore::copied`]).
//! So a client that was told of success sees the change in every later answer, also after a crash.
//!
//! What can go wrong: the store cannot be read at the start. Then the log says so, requests are
//! refused, nothing is evaluated, and the ruler tries again until it can. A write that failed is
//! refused; the group may be in force after the next start though nobody was told so.
//!
//! Memory: the groups of a tenant are bounded by its limits, and those of the node by
//! [`RulerConfig::groups_max_bytes`]. Groups that an earlier start has stored are loaded in any
//! case.

mod edit;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join;
use logsvc_proto::TenantId;
use logsvc_runtime::mesh::{Inbox, Incoming};
use logsvc_runtime::{Latch, Monotonic, Runtime};

use crate::catalogue::{Catalogue, TenantGroups};
use crate::evaluation::Evaluation;
use crate::messages::{RulerNumbers, RulesReply, RulesRequest, StoreRefusal};
use crate::store::RuleStore;

/// How long the ruler waits if nothing is due.
const IDLE_INTERVAL: Duration = Duration::from_secs(3600);

/// Settings of a [`Ruler`].
pub struct RulerConfig {
    /// How often a store that others change is looked at.
    pub poll_interval: Duration,
    /// How long the ruler waits before it tries again to read the store.
    pub load_pause: Duration,
    /// Most memory of all groups, in bytes.
    pub groups_max_bytes: u64,
    /// Whether the groups of a tenant are evaluated on this node.
    pub evaluates: Box<dyn Fn(&TenantId) -> bool>,
}

impl fmt::Debug for RulerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulerConfig")
            .field("poll_interval", &self.poll_interval)
            .field("groups_max_bytes", &self.groups_max_bytes)
            .finish_non_exhaustive()
    }
}

type Incomings = Incoming<RulesRequest, RulesReply>;

/// See the module.
pub struct Ruler<R: Runtime, S, E> {
    runtime: R,
    config: RulerConfig,
    store: S,
    evaluation: Rc<E>,
    groups: Catalogue,
    /// Whether the store was read.
    is_loaded: bool,
    /// When the store is read, or looked at, the next time.
    next_look: Monotonic,
}

impl<R: Runtime, S, E> fmt::Debug for Ruler<R, S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ruler").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What the ruler has waited for.
enum Event {
    Request(Box<Incomings>),
    Timer,
    /// There will be no further request.
    Stop,
}

impl<R: Runtime, S: RuleStore, E: Evaluation> Ruler<R, S, E> {
    /// The ruler of a start. To be made on core 0.
    pub fn new(runtime: R, store: S, evaluation: E, config: RulerConfig) -> Ruler<R, S, E> {
        Ruler {
            config,
            store,
            evaluation: Rc::new(evaluation),
            groups: Catalogue::default(),
            is_loaded: false,
            next_look: runtime.now(),
            runtime,
        }
    }

    /// Serves requests and evaluates groups until the latch is triggered, or until no front core
    /// can send a request. To be triggered when all front cores have ended their requests.
    ///
    /// The inbox is the one of core 0 in the ruler's mesh. Other cores drop theirs.
    pub async fn run(self, mut inbox: Inbox<RulesRequest, RulesReply>, stop: Latch) {
        self.run_on(&mut inbox, &stop).await;
    }

    /// [`Ruler::run`] for one of several rulers, one behind the other, which have one inbox.
    pub async fn run_on(self, inbox: &mut Inbox<RulesRequest, RulesReply>, stop: &Latch) {
        let evaluation = Rc::clone(&self.evaluation);
        let (loaded, ended) = (Latch::new(), Latch::new());
        let serving = async {
            self.serve_all(inbox, stop, &loaded).await;
            // Ends the evaluation, also if the latch was not triggered.
            ended.trigger();
            loaded.trigger();
        };
        let evaluating = async {
            loaded.wait().await;
            evaluation.run(ended.clone()).await;
        };
        join(serving, evaluating).await;
    }

    async fn serve_all(
        mut self,
        inbox: &mut Inbox<RulesRequest, RulesReply>,
        stop: &Latch,
        loaded: &Latch,
    ) {
        loop {
            if self.runtime.now() >= self.next_look {
                self.look(loaded).await;
            }
            match self.wait(inbox, stop).await {
                Event::Stop => return,
                Event::Timer => {}
                Event::Request(incoming) => {
                    let Incoming { request, reply_to } = *incoming;
                    let is_change = is_change(&request);
                    let reply = self.serve(request).await;
                    let is_answer = matches!(reply, RulesReply::Done | RulesReply::NotFound);
                    let copying = if is_change && is_answer { self.store.copied() } else { None };
                    let Some(copying) = copying else {
                        reply_to.send(reply);
                        continue;
                    };
                    // Others do not wait for the copies.
                    drop(self.runtime.spawn(async move {
                        let copied = copying.await;
                        let refused = |_| RulesReply::Refused(StoreRefusal::Bucket);
                        reply_to.send(copied.map_or_else(refused, |()| reply));
                    }));
                }
            }
        }
    }

    async fn wait(&self, inbox: &mut Inbox<RulesRequest, RulesReply>, stop: &Latch) -> Event {
        let mut request = pin!(inbox.receive());
        let mut timer = pin!(self.runtime.sleep_until(self.next_look));
        let mut stopping = pin!(stop.wait());
        poll_fn(|context| {
            if stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Stop);
            }
            if let Poll::Ready(incoming) = request.as_mut().poll(context) {
                let event = incoming.map(|incoming| Event::Request(Box::new(incoming)));
                return Poll::Ready(event.unwrap_or(Event::Stop));
            }
            timer.as_mut().poll(context).map(|()| Event::Timer)
        })
        .await
    }

    /// Reads the store, or looks for changes by others.
    async fn look(&mut self, loaded: &Latch) {
        let changes = if self.is_loaded {
            self.store.poll().await
        } else {
            match self.store.load().await {
                Ok(groups) => groups,
                Err(error) => {
                    tracing::error!(%error, "cannot read the stored rule groups; trying again");
                    self.next_look = self.runtime.now().after(self.config.load_pause);
                    return;
                }
            }
        };
        for (tenant, groups) in changes {
            self.groups.replace(&tenant, groups);
            self.tell(&tenant);
        }
        if !self.is_loaded {
            self.is_loaded = true;
            loaded.trigger();
            let (tenants, held_bytes) = (self.groups.tenants().count(), self.groups.held_bytes());
            if held_bytes > self.config.groups_max_bytes {
                tracing::warn!(
                    held_bytes,
                    max_bytes = self.config.groups_max_bytes,
                    "the stored rule groups take more memory than they should; new ones are refused"
                );
            }
            tracing::info!(tenants, held_bytes, "loaded the rule groups");
        }
        let interval = match (self.store.is_read_only(), self.store.is_behind()) {
            (true, _) => self.config.poll_interval,
            (false, true) => self.config.load_pause,
            (false, false) => IDLE_INTERVAL,
        };
        self.next_look = self.runtime.now().after(interval);
    }

    /// Tells the evaluation of the groups of a tenant.
    fn tell(&self, tenant: &TenantId) {
        if !(self.config.evaluates)(tenant) {
            return;
        }
        match self.groups.tenant(tenant) {
            Some(groups) => self.evaluation.set_groups(tenant, groups),
            None => self.evaluation.set_groups(tenant, &TenantGroups::default()),
        }
    }

    async fn serve(&mut self, request: RulesRequest) -> RulesReply {
        let answered = match request {
            RulesRequest::Status { tenant } => {
                Ok(RulesReply::Status(self.evaluation.status(&tenant).await))
            }
            RulesRequest::Look => {
                self.next_look = self.runtime.now();
                Ok(RulesReply::Done)
            }
            RulesRequest::Metrics => {
                let unreadable = self.store.unreadable();
                let numbers = RulerNumbers { unreadable, ..self.evaluation.numbers() };
                Ok(RulesReply::Metrics(Box::new(numbers)))
            }
            RulesRequest::Groups { tenant, namespace } => self.list(&tenant, namespace.as_deref()),
            RulesRequest::Group { tenant, namespace, group } => {
                self.group(&tenant, &namespace, &group)
            }
            RulesRequest::SetGroup { tenant, namespace, group, max_groups } => {
                self.set(&tenant, &namespace, *group, max_groups).await
            }
            RulesRequest::DeleteGroup { tenant, namespace, group } => {
                self.delete(&tenant, &namespace, &group).await
            }
            RulesRequest::DeleteNamespace { tenant, namespace } => {
                self.delete_namespace(&tenant, &namespace).await
            }
        };
        answered.unwrap_or_else(RulesReply::Refused)
    }
}

/// Whether a request changes the stored groups, or finds that nothing is to be changed.
fn is_change(request: &RulesRequest) -> bool {
    matches!(
        request,
        RulesRequest::SetGroup { .. }
            | RulesRequest::DeleteGroup { .. }
            | RulesRequest::DeleteNamespace { .. }
    )
}
