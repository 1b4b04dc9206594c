//! A node with a keeper and with somebody who owns rule groups, and a model of what folder and bucket
//! may have of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::deletion::{
    CancelError, CreateError, DeleteId, DeletionReply, DeletionRequest, NewDelete,
};
use logsvc_shards::keeper::{KeeperConfig, KeeperLinks};
use logsvc_shards::kept::{KeptFiles, KeptPath};

use crate::cluster::Cluster;
use crate::deleted::{Requests, keeper_links, run_keeper};

/// A group by its number, or a request by the number in its query.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Group(u32),
    Request(u32),
}

/// The content of a group, or 1 for a request; `None` if it is not there.
pub(crate) type Value = Option<u32>;
/// Everything that is there.
pub(crate) type Content = BTreeMap<Key, u32>;

/// What may be somewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Possible(BTreeMap<Key, BTreeSet<Value>>);

impl Possible {
    /// A change may take effect.
    pub(crate) fn may(&mut self, key: Key, value: Value) {
        self.0.entry(key).or_insert_with(|| [None].into()).insert(value);
    }

    /// A change has taken effect.
    pub(crate) fn is(&mut self, key: Key, value: Value) {
        self.0.insert(key, [value].into());
    }

    /// Checks what was found, which is so from here on.
    #[track_caller]
    pub(crate) fn found(&mut self, found: &Content, told: &str) {
        for (key, values) in &mut self.0 {
            let value = found.get(key).copied();
            assert!(values.contains(&value), "{told}: {key:?} is {value:?}, not {values:?}");
            *values = [value].into();
        }
        let unknown = found.keys().find(|key| !self.0.contains_key(key));
        assert_eq!(unknown, None, "{told}: nobody has made it");
    }
}

/// How a change has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// It is acknowledged.
    Done,
    /// It is on the disk, and the bucket does not take it.
    NotKept,
}

pub(crate) type Outcome = Rc<RefCell<Option<Ended>>>;

pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").expect("a tenant")
}

pub(crate) fn group_path(number: u32) -> KeptPath {
    let path = format!("rules/groups/acme/{number:032x}");
    KeptPath::parse(&path).expect("a path")
}

/// A node with its owners of files.
pub(crate) struct Owned<'s> {
    pub(crate) cluster: Cluster<'s>,
    data_dir: &'static str,
    requests: Requests,
}

impl<'s> Owned<'s> {
    pub(crate) fn new(cluster: Cluster<'s>, data_dir: &'static str) -> Owned<'s> {
        let links = KeeperLinks { files: Some(cluster.kept().clone()), ..keeper_links(&cluster) };
        let config = KeeperConfig {
            cancel_period: Duration::from_secs(1_000_000),
            batch_size: 3,
            check_interval: Duration::from_secs(10),
            is_removing: false,
            removes: Box::new(|_| false),
        };
        let requests = run_keeper(&cluster, links, config);
        Owned { cluster, data_dir, requests }
    }

    fn begin(&self, work: impl Future<Output = Ended> + 'static) -> Outcome {
        let outcome = Outcome::default();
        let slot = Rc::clone(&outcome);
        drop(self.cluster.node.runtime(CoreId(0)).spawn(async move {
            let ended = work.await;
            *slot.borrow_mut() = Some(ended);
        }));
        outcome
    }

    /// Begins to write or to remove a group.
    pub(crate) fn begin_group(&self, number: u32, value: Value) -> Outcome {
        let runtime = self.cluster.node.runtime(CoreId(0)).clone();
        let (path, kept) = (group_path(number), self.cluster.kept().clone());
        let data_dir = Path::new(self.data_dir);
        self.begin(async move {
            let written = write(&runtime, data_dir, &path, value).await;
            written.expect("a healthy disk");
            settle(&runtime, &kept, path).await
        })
    }

    /// Begins to make a request.
    pub(crate) fn begin_create(&self, number: u32) -> Outcome {
        let new = NewDelete {
            tenant: tenant(),
            query: format!("{{app=\"x\"}} |= \"{number}\""),
            start_ns: 0,
            end_ns: 1,
            part_ns: None,
        };
        let request = DeletionRequest::Create(Box::new(new));
        let reply = self.requests.call(CoreId(0), request).expect("there is room");
        self.begin(async move {
            match reply.await {
                Ok(DeletionReply::Created(Ok(_))) => Ended::Done,
                Ok(DeletionReply::Created(Err(CreateError::Bucket))) => Ended::NotKept,
                other => panic!("{other:?}"),
            }
        })
    }

    /// Begins to cancel a request.
    pub(crate) fn begin_cancel(&self, number: u32) -> Outcome {
        let known = self.listed().into_iter().find(|(known, _)| *known == number);
        let id = known.map_or(DeleteId(0), |(_, id)| id);
        let request = DeletionRequest::Cancel { tenant: tenant(), id, is_forced: false };
        let reply = self.requests.call(CoreId(0), request).expect("there is room");
        self.begin(async move {
            match reply.await {
                Ok(DeletionReply::Cancelled(Ok(()) | Err(CancelError::Unknown))) => Ended::Done,
                Ok(DeletionReply::Cancelled(Err(CancelError::Bucket))) => Ended::NotKept,
                other => panic!("{other:?}"),
            }
        })
    }

    fn listed(&self) -> Vec<(u32, DeleteId)> {
        let request = DeletionRequest::List { tenant: tenant(), bounds_ns: None };
        let reply = self.requests.call(CoreId(0), request).expect("there is room");
        let reply = self.cluster.run(async move { reply.await.expect("an answer") });
        let DeletionReply::Listed(listed) = reply else { panic!("{reply:?}") };
        let number = |query: &str| query.split('"').nth(3)?.parse().ok();
        listed.iter().map(|one| (number(&one.query).expect("a number"), one.id)).collect()
    }

    /// Everything that the folder has.
    pub(crate) fn content(&self) -> Content {
        let mut content = groups(self.cluster.simulation, self.data_dir);
        content.extend(self.listed().into_iter().map(|(number, _)| (Key::Request(number), 1)));
        content
    }
}

fn groups(simulation: &Simulation, data_dir: &str) -> Content {
    let folder = Path::new(data_dir).join("rules/groups/acme");
    let mut content = Content::new();
    for path in simulation.disk().files(&folder) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.ends_with(".tmp") {
            continue;
        }
        let number = u32::from_str_radix(&name, 16).expect("a number");
        let bytes = simulation.disk().read(&path).expect("it is there");
        let value = std::str::from_utf8(&bytes).expect("a text").trim().parse();
        content.insert(Key::Group(number), value.expect("a number"));
    }
    content
}

/// Writes a group as its owner does.
async fn write(
    runtime: &SimRuntime,
    data_dir: &Path,
    path: &KeptPath,
    value: Value,
) -> io::Result<()> {
    let file: PathBuf = data_dir.join(path.as_str());
    let folder = file.parent().expect("a folder").to_path_buf();
    let Some(value) = value else {
        return match runtime.remove_file(&file).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Err(_) => Ok(()),
            Ok(()) => runtime.sync_dir(&folder).await,
        };
    };
    runtime.create_dir_all(&folder).await?;
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(data_dir)) {
        runtime.sync_dir(folder).await?;
    }
    // Some are long.
    let content = format!("{value}{}", " ".repeat(value as usize % 7 * 900));
    runtime.replace_file(&file, content.into_bytes()).await
}

async fn settle(runtime: &SimRuntime, kept: &KeptFiles, path: KeptPath) -> Ended {
    kept.note(path);
    match kept.settled(runtime) {
        None => Ended::Done,
        Some(settling) => settling.await.map_or(Ended::NotKept, |()| Ended::Done),
    }
}
