//! A bucket in memory, for the simulation: it fails and lies as real ones do.
//!
//! All nodes and cores of a simulation share a [`World`]. A request takes effect midway between its
//! begin and its answer, and it does so although its sender has died meanwhile.
//!
//! What can be set ([`Faults`]): how long requests take; failures before the effect; answers that
//! are lost after it; "conflict, try again" for names that are free; a store that keeps the beginnings
//! of what was not sent whole; "slow down"; a bucket that cannot be reached; listings that are behind;
//! a store that ignores conditions; and one that looks at them too early. And for some alone: a way to
//! the bucket that is cut ([`Way`]).

mod faults;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::{Monotonic, Runtime};

use crate::bucket::{
    Answer, Bucket, BucketError, ObjectInfo, Page, PartId, PartPlace, Reason, Span, UploadId,
};
use crate::name::{Folder, ObjectName};

pub use faults::{Faults, Way};

/// Objects of a page.
const PAGE_OBJECTS: usize = 100;
/// How long it takes until a connection is refused.
const REFUSAL: Duration = Duration::from_millis(1);
/// How long a client waits for a byte.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
struct Object {
    body: Bytes,
    created_ns: i64,
    created_at: Monotonic,
    /// Listings show it as long.
    removed_at: Option<Monotonic>,
}

/// A request on its way.
struct Pending {
    due: Monotonic,
    ticket: u64,
    effect: Effect,
    is_refused: Option<BucketError>,
    /// Whether its sender still waits.
    is_claimed: bool,
    /// How much of its body comes, if its sender dies.
    torn_len_bytes: Option<usize>,
}

enum Effect {
    /// With the ticket of a look at the name, if that is not part of the create.
    Create(ObjectName, Bytes, Option<u64>),
    Begin,
    PutPart(UploadId, usize, Bytes),
    Complete(ObjectName, UploadId, Vec<PartId>),
    Abort(UploadId),
    Read(ObjectName, Span),
    Info(ObjectName),
    List(Folder, Option<ObjectName>),
    Remove(ObjectName),
}

impl Effect {
    /// The bytes that are sent.
    fn body(&mut self) -> Option<&mut Bytes> {
        match self {
            Effect::Create(_, body, _) | Effect::PutPart(_, _, body) => Some(body),
            _ => None,
        }
    }

    /// Leaves the first bytes of the body.
    fn tear(&mut self, len: usize) {
        self.body().into_iter().for_each(|body| body.truncate(len));
    }
}

/// What a request has come to.
enum Outcome {
    Done,
    Upload(UploadId),
    Part(PartId),
    Bytes(Bytes),
    Info(ObjectInfo),
    Page(Page),
}

#[derive(Default)]
struct State {
    faults: Faults,
    objects: BTreeMap<ObjectName, Object>,
    uploads: BTreeMap<String, BTreeMap<usize, Bytes>>,
    /// In the order of their effects.
    pending: Vec<Pending>,
    outcomes: BTreeMap<u64, Result<Outcome, BucketError>>,
    /// Uploads that were begun.
    begun: u64,
    tickets: u64,
    /// Names that somebody created, in order, with their bodies.
    created: VecDeque<(ObjectName, Bytes)>,
}

/// The bucket itself, by a way to it. Cheap to clone; clones share the way.
#[derive(Clone, Default)]
pub struct World {
    state: Rc<RefCell<State>>,
    way: Rc<Cell<Way>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state.borrow_mut().faults = faults;
    }

    /// The same bucket by a way of its own.
    #[must_use]
    pub fn by_another_way(&self) -> World {
        World { state: Rc::clone(&self.state), way: Rc::default() }
    }

    /// Sets what becomes of requests and answers that take this way.
    pub fn set_way(&self, way: Way) {
        self.way.set(way);
    }

    /// The bucket as a core of a node sees it.
    pub fn bucket<R: Runtime>(&self, runtime: R) -> Double<R> {
        self.bucket_timed_by(runtime.clone(), runtime)
    }

    /// The same if the clock of the node is not right: `exact` has one that all nodes share.
    pub fn bucket_timed_by<R: Runtime>(&self, runtime: R, exact: R) -> Double<R> {
        Double { runtime, exact, world: self.clone() }
    }

    /// Names and bytes of all objects, as they are now; requests on the way do not count.
    pub fn objects(&self) -> Vec<(ObjectName, Bytes)> {
        let state = self.state.borrow();
        let live = state.objects.iter().filter(|(_, object)| object.removed_at.is_none());
        live.map(|(name, object)| (name.clone(), object.body.clone())).collect()
    }

    /// Changes a byte of an object. False if there is no such byte.
    pub fn corrupt(&self, name: &ObjectName, offset: usize, mask: u8) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(object) = state.objects.get_mut(name) else { return false };
        let mut body = object.body.to_vec();
        let Some(byte) = body.get_mut(offset) else { return false };
        *byte ^= mask;
        object.body = body.into();
        true
    }

    /// Removes an object as somebody else would.
    pub fn lose(&self, name: &ObjectName) -> bool {
        self.state.borrow_mut().objects.remove(name).is_some()
    }

    /// Creates that took effect since the last call, in order.
    pub fn take_created(&self) -> Vec<(ObjectName, Bytes)> {
        self.state.borrow_mut().created.drain(..).collect()
    }
}

impl State {
    /// Lets everything take effect that is due.
    fn advance(&mut self, now: Monotonic, unix_ns: i64) {
        self.pending.sort_by_key(|pending| (pending.due, pending.ticket));
        let due = self.pending.partition_point(|pending| pending.due <= now);
        let due: Vec<Pending> = self.pending.drain(..due).collect();
        for Pending { due, ticket, mut effect, is_refused, is_claimed, torn_len_bytes } in due {
            if let (false, Some(len)) = (is_claimed, torn_len_bytes) {
                effect.tear(len);
            }
            let outcome = match is_refused {
                Some(error) => Err(error),
                None => self.perform(effect, due, unix_ns - now.since(due).as_nanos() as i64),
            };
            if is_claimed {
                self.outcomes.insert(ticket, outcome);
            }
        }
    }

    /// Puts a request on its way, and gives its number.
    fn send(
        &mut self,
        due: Monotonic,
        effect: Effect,
        is_refused: Option<BucketError>,
        torn_len_bytes: Option<usize>,
    ) -> u64 {
        self.tickets += 1;
        let (ticket, is_claimed) = (self.tickets, true);
        let pending = Pending { due, ticket, effect, is_refused, is_claimed, torn_len_bytes };
        self.pending.push(pending);
        ticket
    }

    fn perform(
        &mut self,
        effect: Effect,
        at: Monotonic,
        unix_ns: i64,
    ) -> Result<Outcome, BucketError> {
        let live = |objects: &BTreeMap<ObjectName, Object>, name: &ObjectName| {
            objects.get(name).filter(|object| object.removed_at.is_none()).cloned()
        };
        match effect {
            Effect::Create(name, body, look) => {
                let is_taken = match look {
                    Some(look) => matches!(self.outcomes.remove(&look), Some(Ok(_))),
                    None => live(&self.objects, &name).is_some(),
                };
                if is_taken && !self.faults.ignores_conditions {
                    return Err(BucketError::Exists(Reason("412".to_owned())));
                }
                self.create(name, body, at, unix_ns)?;
                Ok(Outcome::Done)
            }
            Effect::Begin => {
                self.begun += 1;
                let upload = UploadId(format!("upload-{}", self.begun));
                self.uploads.insert(upload.0.clone(), BTreeMap::new());
                Ok(Outcome::Upload(upload))
            }
            Effect::PutPart(upload, number, body) => {
                let parts = self.uploads.get_mut(&upload.0).ok_or(BucketError::NotFound)?;
                parts.insert(number, body);
                Ok(Outcome::Part(PartId(format!("part-{number}"))))
            }
            Effect::Complete(name, upload, parts) => {
                let have = self.uploads.get(&upload.0).ok_or(BucketError::NotFound)?;
                let are_whole = parts.len() == have.len()
                    && parts.iter().enumerate().all(|(at, part)| part.0 == format!("part-{at}"));
                if !are_whole {
                    return Err(BucketError::Refused(Reason("invalid parts".to_owned())));
                }
                let body: Vec<u8> = have.values().flatten().copied().collect();
                self.create(name, body.into(), at, unix_ns)?;
                self.uploads.remove(&upload.0);
                Ok(Outcome::Done)
            }
            Effect::Abort(upload) => {
                self.uploads.remove(&upload.0);
                Ok(Outcome::Done)
            }
            Effect::Read(name, span) => {
                let body = live(&self.objects, &name).ok_or(BucketError::NotFound)?.body;
                match span {
                    Span::Whole { max_bytes } if body.len() as u64 > max_bytes => {
                        Err(BucketError::TooLarge { max_bytes })
                    }
                    Span::Whole { .. } => Ok(Outcome::Bytes(body)),
                    Span::Range(range) => {
                        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(body.len());
                        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
                        Ok(Outcome::Bytes(body.slice(start..end)))
                    }
                }
            }
            Effect::Info(name) => {
                let object = live(&self.objects, &name).ok_or(BucketError::NotFound)?;
                Ok(Outcome::Info(info(&name, &object)))
            }
            Effect::List(folder, after) => Ok(Outcome::Page(self.page(&folder, after, at))),
            Effect::Remove(name) => {
                if let Some(object) = self.objects.get_mut(&name) {
                    object.removed_at.get_or_insert(at);
                    if self.faults.listing_lag_ns == 0 {
                        self.objects.remove(&name);
                    }
                }
                Ok(Outcome::Done)
            }
        }
    }

    fn create(
        &mut self,
        name: ObjectName,
        body: Bytes,
        at: Monotonic,
        unix_ns: i64,
    ) -> Result<(), BucketError> {
        let used: u64 = self.objects.values().map(|object| object.body.len() as u64).sum();
        if used + body.len() as u64 > self.faults.capacity_bytes {
            return Err(BucketError::Refused(Reason("the bucket is full".to_owned())));
        }
        self.created.push_back((name.clone(), body.clone()));
        let object = Object { body, created_ns: unix_ns, created_at: at, removed_at: None };
        self.objects.insert(name, object);
        Ok(())
    }

    fn page(&self, folder: &Folder, after: Option<ObjectName>, at: Monotonic) -> Page {
        let lag_ns = self.faults.listing_lag_ns;
        let is_shown = |object: &Object| {
            let is_old = |since: Monotonic| since.0.saturating_add(lag_ns) <= at.0;
            is_old(object.created_at) && !object.removed_at.is_some_and(is_old)
        };
        let behind = match after {
            Some(after) => (Bound::Excluded(after), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let mut shown = self
            .objects
            .range(behind)
            .filter(|(name, object)| folder.has(name) && is_shown(object))
            .map(|(name, object)| info(name, object));
        let objects: Vec<ObjectInfo> = shown.by_ref().take(PAGE_OBJECTS).collect();
        Page { objects, has_more: shown.next().is_some() }
    }
}

fn info(name: &ObjectName, object: &Object) -> ObjectInfo {
    let (name, len_bytes) = (name.clone(), object.body.len() as u64);
    ObjectInfo { name, len_bytes, created_ns: object.created_ns }
}

/// See [`World::bucket`].
pub struct Double<R> {
    runtime: R,
    exact: R,
    world: World,
}

impl<R: Runtime> Double<R> {
    async fn ask(&self, mut effect: Effect, until: Monotonic) -> Result<Outcome, BucketError> {
        let (runtime, world) = (&self.exact, &self.world.state);
        // Clocks are compared for as long as the node waits, so their rates do not matter here.
        let until = match until {
            Monotonic::NEVER => until,
            _ => runtime.now().after(until.since(self.runtime.now())),
        };
        let one_in_million = |rate: u64| runtime.random_u64() % 1_000_000 < rate;
        let begun = runtime.now();
        world.borrow_mut().advance(begun, runtime.unix_nanos());
        let faults = world.borrow().faults.clone();
        let silence = begun.after(SILENCE).min(until);
        if faults.is_down || self.world.way.get() == Way::Silent {
            // Nothing comes back.
            runtime.sleep_until(if faults.is_down { until } else { silence }).await;
            return Err(BucketError::failed("no answer"));
        }
        if self.world.way.get() == Way::Refused {
            runtime.sleep_until(begun.after(REFUSAL).min(until)).await;
            return Err(BucketError::failed("connection refused"));
        }
        let width_ns = faults.latency_ns.end() - faults.latency_ns.start() + 1;
        let mut taken_ns = faults.latency_ns.start() + runtime.random_u64() % width_ns;
        if one_in_million(10_000) {
            taken_ns *= faults.slow_factor.max(1);
        }
        let is_create = matches!(effect, Effect::Create(..));
        let is_refused = if one_in_million(faults.failures_per_million) {
            Some(BucketError::failed("500"))
        } else if one_in_million(faults.busy_per_million) {
            Some(BucketError::Busy(Reason("503 slow down".to_owned())))
        } else if is_create && one_in_million(faults.conflicts_per_million) {
            Some(BucketError::Exists(Reason("409 conflict, try again".to_owned())))
        } else {
            None
        };
        let mut is_lost = one_in_million(faults.lost_answers_per_million);
        let mut torn_len_bytes = None;
        if faults.torn_per_million > 0
            && let Some(len) = effect.body().map(|body| body.len() as u64)
            && len > 0
        {
            let torn_len = (runtime.random_u64() % len) as usize;
            // Few bytes, and all but few, are what is taken for something else.
            let torn_len = match runtime.random_u64() % 4 {
                0 => torn_len % 70,
                1 => (len as usize - 1).saturating_sub(torn_len % 4),
                _ => torn_len,
            };
            if is_refused.is_none() && one_in_million(faults.torn_per_million) {
                effect.tear(torn_len);
                is_lost = true;
            } else if one_in_million(faults.torn_per_million) {
                torn_len_bytes = Some(torn_len);
            }
        }
        let due = Monotonic(begun.0 + runtime.random_u64() % (taken_ns + 1));
        let end = Monotonic(begun.0 + taken_ns);
        if let Effect::Create(name, _, look) = &mut effect
            && is_refused.is_none()
            && faults.early_looks_per_million > 0
            && one_in_million(faults.early_looks_per_million)
        {
            let lead_ns = runtime.random_u64() % (faults.early_look_ns + 1);
            let at = Monotonic(due.0.saturating_sub(lead_ns).max(begun.0));
            *look = Some(world.borrow_mut().send(at, Effect::Info(name.clone()), None, None));
        }
        let ticket = world.borrow_mut().send(due, effect, is_refused, torn_len_bytes);
        let _claim = Claim { world: &self.world, ticket };
        runtime.sleep_until(due.min(until)).await;
        world.borrow_mut().advance(runtime.now(), runtime.unix_nanos());
        runtime.sleep_until(end.min(until)).await;
        match self.world.way.get() {
            Way::Open => {}
            Way::Refused => is_lost = true,
            Way::Silent => {
                runtime.sleep_until(silence).await;
                is_lost = true;
            }
        }
        if is_lost || end > until {
            return Err(BucketError::failed("the connection broke"));
        }
        let outcome = world.borrow_mut().outcomes.remove(&ticket);
        outcome.unwrap_or_else(|| Err(BucketError::failed("no answer")))
    }
}

/// Drops the answer of a request that nobody waits for.
struct Claim<'a> {
    world: &'a World,
    ticket: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.world.state.borrow_mut();
        state.outcomes.remove(&self.ticket);
        for pending in state.pending.iter_mut().filter(|pending| pending.ticket == self.ticket) {
            pending.is_claimed = false;
        }
    }
}

fn unexpected<T>() -> Result<T, BucketError> {
    Err(BucketError::failed("an answer to another question"))
}

impl<R: Runtime> Bucket for Double<R> {
    fn create(&self, name: &ObjectName, body: Bytes, until: Monotonic) -> Answer<'_, ()> {
        let effect = Effect::Create(name.clone(), body, None);
        Box::pin(async move { self.ask(effect, until).await.map(|_| ()) })
    }

    fn begin(&self, _: &ObjectName, until: Monotonic) -> Answer<'_, UploadId> {
        Box::pin(async move {
            match self.ask(Effect::Begin, until).await? {
                Outcome::Upload(upload) => Ok(upload),
                _ => unexpected(),
            }
        })
    }

    fn put_part(
        &self,
        _: &ObjectName,
        upload: &UploadId,
        place: PartPlace,
        body: Bytes,
        until: Monotonic,
    ) -> Answer<'_, PartId> {
        let effect = Effect::PutPart(upload.clone(), place.number, body);
        Box::pin(async move {
            match self.ask(effect, until).await? {
                Outcome::Part(part) => Ok(part),
                _ => unexpected(),
            }
        })
    }

    fn complete(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        parts: Vec<PartId>,
        until: Monotonic,
    ) -> Answer<'_, ()> {
        let effect = Effect::Complete(name.clone(), upload.clone(), parts);
        Box::pin(async move { self.ask(effect, until).await.map(|_| ()) })
    }

    fn abort(&self, _: &ObjectName, upload: &UploadId, until: Monotonic) -> Answer<'_, ()> {
        let effect = Effect::Abort(upload.clone());
        Box::pin(async move { self.ask(effect, until).await.map(|_| ()) })
    }

    fn read(&self, name: &ObjectName, span: Span, until: Monotonic) -> Answer<'_, Bytes> {
        let effect = Effect::Read(name.clone(), span);
        Box::pin(async move {
            match self.ask(effect, until).await? {
                Outcome::Bytes(bytes) => Ok(bytes),
                _ => unexpected(),
            }
        })
    }

    fn info(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ObjectInfo> {
        let effect = Effect::Info(name.clone());
        Box::pin(async move {
            match self.ask(effect, until).await? {
                Outcome::Info(info) => Ok(info),
                _ => unexpected(),
            }
        })
    }

    fn list(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
        until: Monotonic,
    ) -> Answer<'_, Page> {
        let effect = Effect::List(folder.clone(), after.cloned());
        Box::pin(async move {
            match self.ask(effect, until).await? {
                Outcome::Page(page) => Ok(page),
                _ => unexpected(),
            }
        })
    }

    fn remove(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ()> {
        let effect = Effect::Remove(name.clone());
        Box::pin(async move { self.ask(effect, until).await.map(|_| ()) })
    }

    fn address(&self) -> &str {
        "double"
    }
}
