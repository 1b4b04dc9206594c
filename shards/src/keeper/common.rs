//! The requests of a node among others: they are a common file ([`crate::common`]), which one node
//! changes, and whose filters all nodes have.
//!
//! Guarantees: the version in force on a node is published when all of its shards know the filters of
//! the entry that it stands for. Equal versions of two nodes are equal sets of filters.
//!
//! What can go wrong: the file cannot be read, or a query in it is one of a later version of the
//! program. Then the version stays, and the node does not answer for queries of later ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use logsvc_cluster::map::Partition;
use logsvc_logql::engine::Estimate;
use logsvc_runtime::{Monotonic, Runtime, SideQueue};

use super::Keeper;
use super::records::Change;
use super::removal::Removals;
use crate::common::{CommonError, CommonFiles, CommonView};
use crate::deletion::store::{LoadedRequests, filter_of};
use crate::deletion::{
    CancelError, CreateError, DeleteFilter, DeleteId, DeleteRequest, DeletionVersion, format,
};
use crate::kept::{KeptFile, KeptPath};
use crate::messages::ShardRequest;

impl From<CommonError> for CreateError {
    fn from(error: CommonError) -> CreateError {
        match error {
            CommonError::Elsewhere => CreateError::Elsewhere,
            other => CreateError::Unsure(other.to_string().into()),
        }
    }
}

impl From<CommonError> for CancelError {
    fn from(error: CommonError) -> CancelError {
        match error {
            CommonError::Elsewhere => CancelError::Elsewhere,
            other => CancelError::Unsure(other.to_string().into()),
        }
    }
}

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The common file of the requests, as far as the keeper has it.
pub(super) struct CommonRecord<R: Runtime> {
    files: CommonFiles<R>,
    /// What was looked at.
    seen: Arc<CommonView>,
    /// The content that is in force.
    in_force: Option<KeptFile>,
    /// When it is tried again after a failure.
    retry_at: Option<Monotonic>,
    /// What was removed.
    pub(super) removals: Removals,
}

impl<R: Runtime> CommonRecord<R> {
    pub(super) fn new(files: CommonFiles<R>) -> CommonRecord<R> {
        CommonRecord {
            files,
            seen: Arc::default(),
            in_force: None,
            retry_at: None,
            removals: Removals::default(),
        }
    }

    /// Waits until there is something to be taken over.
    pub(super) async fn changed(&self, runtime: &R) {
        match self.retry_at {
            Some(at) => runtime.sleep_until(at).await,
            None => drop(self.files.changed(&self.seen).await),
        }
    }

    /// See [`CommonFiles::owned`].
    pub(super) fn owned(&self) -> Option<BTreeMap<Partition, u64>> {
        self.files.owned()
    }

    /// See [`CommonFiles::partitions`].
    pub(super) fn partitions(&self) -> usize {
        self.files.partitions()
    }

    /// See [`CommonFiles::clean_until`].
    pub(super) fn clean_until(&self) -> Option<Monotonic> {
        self.files.clean_until()
    }

    /// Whether this node is the one that changes the file.
    pub(super) fn is_keeper(&self) -> bool {
        self.files.view().keeper_since > 0
    }
}

impl<R: Runtime> Keeper<R> {
    /// Brings into force what the common file says.
    pub(super) async fn follow(&mut self) {
        let Some(record) = &self.common else { return };
        let view = record.files.view();
        let path = KeptPath::requests();
        let file = view.state.files.get(&path).copied();
        let mut taken = true;
        if file != record.in_force {
            let requests = match &file {
                Some(file) => match record.files.read(&path, file).await {
                    Ok(bytes) => format::decode(&bytes).map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                },
                None => Ok(Vec::new()),
            };
            let result = match requests {
                Ok(requests) => self.take_over(requests, view.deletions()).await,
                Err(error) => Err(error),
            };
            if let Err(error) = &result {
                tracing::error!(
                    "the requests for deletion of all nodes cannot be used, so this node answers no \
                     queries that follow them; this is tried again: {error}"
                );
            }
            taken = result.is_ok();
        }
        let retry_at = (!taken).then(|| self.runtime.now().after(PAUSE));
        if let Some(record) = &mut self.common {
            record.retry_at = retry_at;
            if taken {
                (record.in_force, record.seen) = (file, view);
            }
        }
    }

    /// Changes the common file, and brings the change into force on this node. Others learn of it
    /// when somebody asks by its version.
    pub(super) async fn change_common(
        &mut self,
        change: &Change,
        changes_hiding: bool,
    ) -> Result<(), CommonError> {
        // Whatever this node knows of others is the base.
        self.follow().await;
        let Some(record) = &self.common else { return Err(CommonError::Elsewhere) };
        if record.retry_at.is_some() {
            return Err(CommonError::Bucket);
        }
        let requests: Vec<DeleteRequest> = self.records.with(change).cloned().collect();
        let bytes = format::encode(requests.iter());
        let Some(bytes) = bytes else {
            tracing::error!("the record of delete requests is too long");
            return Err(CommonError::Bucket);
        };
        let path = KeptPath::requests();
        let replaced = record.files.replace(path, record.in_force, Some(bytes), changes_hiding);
        let (number, file) = replaced.await?;
        let version = match changes_hiding {
            true => DeletionVersion::of_common(number),
            false => self.deletions.version(),
        };
        if let Err(error) = self.take_over(requests, version).await {
            tracing::error!("a change of the requests for deletion is not in force yet: {error}");
            return Err(CommonError::Bucket);
        }
        if let Some(record) = &mut self.common {
            record.in_force = file;
        }
        Ok(())
    }

    /// Puts these requests in the place of those that were known, from a version on.
    async fn take_over(
        &mut self,
        requests: Vec<DeleteRequest>,
        version: DeletionVersion,
    ) -> Result<(), String> {
        let mut known: BTreeMap<DeleteId, Arc<DeleteFilter>> = self.records.filters().collect();
        let (mut filters, mut begun) = (Vec::new(), Vec::new());
        for request in requests.iter().filter(|request| request.is_pending()) {
            let filter = match known.remove(&request.id) {
                Some(filter) => filter,
                None => {
                    let filter = Arc::new(self.compile(request, version).await?);
                    begun.push(Arc::clone(&filter));
                    filter
                }
            };
            filters.push(filter);
        }
        let ended: Vec<Arc<DeleteFilter>> = known.into_values().collect();
        let hide = |filter| self.lanes.ask_all(move || ShardRequest::Hide(Arc::clone(filter)));
        if try_join_all(begun.iter().map(hide)).await.is_err() {
            self.is_stopping = true;
            return Err("the shards have stopped".to_owned());
        }
        self.records
            .replace(&LoadedRequests { requests: requests.into(), filters: filters.into() });
        ended.iter().for_each(|filter| filter.end_at(version));
        let changed: Vec<Arc<DeleteFilter>> = begun.iter().chain(&ended).cloned().collect();
        if version != self.deletions.version() {
            self.publish(version, &changed);
        }
        self.unhide(&ended).await;
        Ok(())
    }

    /// The filter of a request that holds from a version on. A side thread does what takes long.
    async fn compile(
        &self,
        request: &DeleteRequest,
        version: DeletionVersion,
    ) -> Result<DeleteFilter, String> {
        let memory = self.memory.try_reserve(DeleteFilter::held_bytes_of(&request.query));
        let is_short = Estimate::of_text(&request.query).is_short();
        let of = request.clone();
        let compile = move || filter_of(&of, version);
        let filter = if is_short {
            compile()
        } else {
            self.runtime.offload_to(SideQueue::Queries, compile).await
        };
        let filter = filter.map_err(|cause| format!("request {}: {cause}", request.id))?;
        // It holds all the same if there is no memory: another node has admitted it.
        Ok(match memory {
            Some(memory) => filter.with_memory(memory),
            None => filter,
        })
    }
}
