//! Reads the log of common files, and appends to it while the node is the keeper. One per node, on
//! core 0.

use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_cluster::member::Hold;
use logsvc_runtime::{Bell, Latch, Monotonic, Published, Runtime};
use logsvc_store::object::{Header, Nonce, PROOF};
use logsvc_store::{Created, Store};

use super::newest::{LOG, is_newest, newest};
use super::proof::{Keeping, prove};
use super::{
    CommonError, CommonFiles, CommonState, CommonView, KeptFileNumber, PATIENCE, Shared, Wish,
};
use crate::kept::{Content, FileObject, KeptFile, KeptPath};
use crate::ledger::{Found, KIND_FILE, Outcome};
use crate::member::{KEEPER_PARTITION, MemberHandle, Routes};

/// How often a node that is not the keeper looks for news.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the removal of an object has patience. It is tried again with the next change.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub struct CommonLog<R: Runtime> {
    runtime: R,
    store: Store<R>,
    member: MemberHandle,
    author: u32,
    shared: Rc<Shared>,
    /// The random number of the newest entry.
    nonce: Nonce,
    next_object: u32,
    /// Objects of `gone` that this node has removed.
    removed: BTreeSet<FileObject>,
    /// When a node that is not the keeper looks for news.
    read_at: Monotonic,
}

impl<R: Runtime> std::fmt::Debug for CommonLog<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommonLog").field("author", &self.author).finish_non_exhaustive()
    }
}

/// What the log does next.
enum Next {
    /// To read to the end, since the keeper's partition is this node's since the map of a number.
    Begin(u64),
    /// To say that the node is not the keeper.
    End,
    Grant(Wish),
    Read,
    Wait(Monotonic),
}

impl<R: Runtime> CommonLog<R> {
    /// The log of a member. All cores see `view`.
    pub fn new(
        runtime: R,
        store: Store<R>,
        member: MemberHandle,
        view: Published<CommonView>,
    ) -> CommonLog<R> {
        let author = member.routes().get().me.0;
        let shared = Shared {
            view,
            wishes: Default::default(),
            bell: Bell::new(),
            heard: Default::default(),
            clean_until: Default::default(),
        };
        CommonLog {
            store,
            member,
            author,
            shared: Rc::new(shared),
            nonce: Nonce::NONE,
            next_object: 1,
            removed: BTreeSet::new(),
            read_at: runtime.now(),
            runtime,
        }
    }

    /// What others on this core may do.
    pub fn files(&self) -> CommonFiles<R> {
        CommonFiles {
            runtime: self.runtime.clone(),
            store: self.store.clone(),
            member: self.member.clone(),
            shared: Rc::clone(&self.shared),
        }
    }

    /// Follows the log until the latch is triggered.
    pub async fn run(mut self, stop: Latch) {
        let mut stopped = pin!(stop.wait());
        loop {
            if let Either::Left(_) = select(&mut stopped, pin!(self.step())).await {
                return;
            }
        }
    }

    async fn step(&mut self) {
        // Before the member is asked, so that no change is missed.
        let routes = self.member.routes().get();
        match self.next() {
            Next::Begin(since) if self.read_on(true).await => {
                self.publish(|view| view.keeper_since = since);
                tracing::info!("this node keeps the rules and requests for deletion of all nodes");
                self.remove_gone().await;
            }
            Next::Begin(_) => self.pause().await,
            Next::End => self.publish(|view| view.keeper_since = 0),
            Next::Grant(wish) => self.grant(wish).await,
            Next::Read => {
                let pause = if self.read_on(false).await { LOOK_INTERVAL } else { PAUSE };
                self.read_at = self.runtime.now().after(pause);
            }
            Next::Wait(until) => self.wait(until, &routes).await,
        }
    }

    fn next(&self) -> Next {
        let now = self.runtime.now();
        let keeper_since = self.view().keeper_since;
        let mut wake = Monotonic::NEVER;
        // Without a proof it is the owner, for all that it knows.
        let (owned_since, ready) = match self.member.holds(KEEPER_PARTITION, now) {
            Hold::Yes(since) | Hold::Unproven(since) => (since, true),
            Hold::From(at) => {
                wake = at;
                (0, false)
            }
            Hold::No => (0, false),
        };
        if owned_since != keeper_since {
            let begins = ready && keeper_since == 0;
            return if begins { Next::Begin(owned_since) } else { Next::End };
        }
        if let Some(wish) = self.shared.wishes.borrow_mut().pop_front() {
            return Next::Grant(wish);
        }
        let is_behind = self.shared.heard.get() > self.view().number();
        // The keeper knows what it has appended itself.
        let read_at = match (is_behind, keeper_since) {
            (true, _) => self.read_at.min(now),
            (false, 0) => self.read_at,
            (false, _) => Monotonic::NEVER,
        };
        if read_at <= now { Next::Read } else { Next::Wait(wake.min(read_at)) }
    }

    async fn wait(&self, until: Monotonic, routes: &Arc<Routes>) {
        let changed = pin!(self.member.routes().when(|newer| newer != &**routes));
        let told = pin!(self.shared.bell.wait());
        let slept = pin!(async {
            match until {
                Monotonic::NEVER => std::future::pending().await,
                until => self.runtime.sleep_until(until).await,
            }
        });
        select(pin!(select(changed, told)), slept).await;
    }

    fn view(&self) -> Arc<CommonView> {
        self.shared.view.get()
    }

    fn publish(&self, change: impl FnOnce(&mut CommonView)) {
        self.shared.view.update(change);
    }

    async fn pause(&self) {
        self.runtime.sleep_until(self.runtime.now().after(PAUSE)).await;
    }

    /// Takes what an entry says.
    fn follow(&mut self, state: CommonState, nonce: Nonce) {
        self.nonce = nonce;
        self.removed.retain(|object| state.gone.contains(object));
        self.publish(|view| view.state = Arc::new(state));
    }

    /// Reads the newest entry; tells whether that has succeeded. If nothing seems to be new, and `insists`
    /// does not say otherwise, two requests are enough.
    async fn read_on(&mut self, insists: bool) -> bool {
        let (known, heard) = (self.view().number(), self.shared.heard.get());
        if !insists && heard <= known {
            match is_newest(&self.runtime, &self.store, (known, self.nonce)).await {
                Some(true) => return true,
                Some(false) => {}
                None => return false,
            }
        }
        let Some(found) = newest(&self.runtime, &self.store).await else { return false };
        let last = found.as_ref().map_or(0, |(state, _)| state.number);
        if last < known {
            tracing::error!(
                known,
                last,
                "the bucket shows an earlier state of the common files than before"
            );
            return false;
        }
        if let Some((state, nonce)) = found {
            self.follow(state, nonce);
        }
        // An entry is there before anybody speaks of it.
        if self.shared.heard.get() == heard {
            self.shared.heard.set(heard.min(last));
        }
        true
    }

    /// Does what somebody wishes, and answers.
    async fn grant(&mut self, wish: Wish) {
        let Wish { path, based_on, content, changes_hiding, done } = wish;
        let change = Change { path, based_on, changes_hiding };
        let result = self.change(&change, content).await;
        // Nobody may wait any more.
        drop(done.send(result));
        self.remove_gone().await;
    }

    async fn change(
        &mut self,
        change: &Change,
        content: Option<Vec<u8>>,
    ) -> Result<KeptFileNumber, CommonError> {
        let since = self.view().keeper_since;
        if since == 0 {
            return Err(CommonError::Elsewhere);
        }
        self.check_base(change)?;
        let until = self.runtime.now().after(PATIENCE);
        let file = match content {
            Some(content) => Some(self.store_content(content, until).await?),
            None => None,
        };
        let (next, nonce) = self.append(change, file, until).await?;
        let number = next.number;
        // See the module. The entry is there, so the proof has to hold from now on.
        let error = match prove(&self.runtime, &self.member, since, until).await {
            Keeping::Yes => {
                self.follow(next, nonce);
                return Ok((number, file));
            }
            Keeping::No => CommonError::Elsewhere,
            Keeping::Unknown => CommonError::Bucket,
        };
        // Perhaps its number was a free one, and it counts for nothing. Whoever reads the log knows.
        self.shared.heard.set(self.shared.heard.get().max(number));
        Err(error)
    }

    fn check_base(&self, change: &Change) -> Result<(), CommonError> {
        let known = self.view().state.files.get(&change.path).copied();
        if known == change.based_on { Ok(()) } else { Err(CommonError::Stale) }
    }

    /// Makes the object of a content.
    async fn store_content(
        &mut self,
        content: Vec<u8>,
        until: Monotonic,
    ) -> Result<KeptFile, CommonError> {
        let header =
            Header { kind: KIND_FILE, nonce: Nonce::random(&self.runtime), previous: Nonce::NONE };
        let body = header.encode(&content);
        let content = Content::of(&content);
        while self.runtime.now() < until {
            let object = FileObject { epoch: self.author, number: self.next_object };
            let Ok(name) = object.name() else { return Err(CommonError::Bucket) };
            match self.store.create(&name, body.clone(), PROOF, until).await {
                Ok(Created::New | Created::Retried) => {
                    self.next_object += 1;
                    return Ok(KeptFile { object, content });
                }
                // Only its beginning is there, or it is not known what is. Another name takes its place.
                Ok(Created::Torn | Created::Existing(_)) => self.next_object += 1,
                Err(error) => {
                    tracing::debug!(%error, "{name} cannot be created");
                    self.next_object += 1;
                    self.pause().await;
                }
            }
        }
        Err(CommonError::Bucket)
    }

    /// Appends the entry that says so, behind whatever else this node knows; gives it with its random
    /// number. Nobody may take it for one that counts before there is a proof.
    async fn append(
        &mut self,
        change: &Change,
        file: Option<KeptFile>,
        until: Monotonic,
    ) -> Result<(CommonState, Nonce), CommonError> {
        loop {
            let mut base = CommonState::clone(&self.view().state);
            base.gone.retain(|object| !self.removed.contains(object));
            let next = base.next(self.author, &change.path, file, change.changes_hiding);
            let (number, nonce) = (next.number, Nonce::random(&self.runtime));
            let header = Header { kind: LOG.kind, nonce, previous: self.nonce };
            let payload = next.encode();
            if payload.len() > LOG.max_bytes {
                tracing::error!("there are too many rule groups");
                return Err(CommonError::Bucket);
            }
            let object = header.encode(&payload);
            loop {
                if self.runtime.now() >= until {
                    return Err(CommonError::Bucket);
                }
                let created = LOG.create(&self.runtime, &self.store, number, object.clone()).await;
                if created == Outcome::Created {
                    return Ok((next, nonce));
                }
                match LOG.read(&self.runtime, &self.store, number).await {
                    Found::Entry(header, _) if header.nonce == nonce => return Ok((next, nonce)),
                    Found::Entry(..) => break,
                    Found::Absent | Found::Failed | Found::Foreign(_) => self.pause().await,
                }
            }
            // Whoever has kept the files before was faster.
            if !self.read_on(true).await {
                self.pause().await;
            }
            self.check_base(change)?;
        }
    }

    /// Removes objects that no file has any more: the text of a request may be the very datum that is
    /// to go.
    async fn remove_gone(&mut self) {
        let view = self.view();
        if view.keeper_since == 0 {
            return;
        }
        for object in view.state.gone.difference(&self.removed.clone()) {
            let Ok(name) = object.name() else { continue };
            let until = self.runtime.now().after(REMOVAL_PATIENCE);
            match self.store.remove(&name, until).await {
                Ok(()) => drop(self.removed.insert(*object)),
                Err(error) => {
                    tracing::warn!(
                        "cannot remove an object of a file, which is tried again: {error}"
                    );
                    return;
                }
            }
        }
    }
}

/// A change of a file.
struct Change {
    path: KeptPath,
    based_on: Option<KeptFile>,
    changes_hiding: bool,
}
