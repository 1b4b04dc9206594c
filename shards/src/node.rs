//! The data folder of a node: each start claims, checks and surveys it once, before the shards
//! begin.
//!
//! Guarantees: two processes never use one folder. A folder of another format is refused, and so
//! are files of another version, unless the settings say to start without them. A record of
//! requests for deletion that cannot be used is refused in any case. Left-overs of a
//! crash are removed if their contents are elsewhere. One place decides the order in which log
//! files are replayed. [`NodeError`] lists the failures.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_runtime::{File, OpenMode, Runtime};

use crate::deletion::store::{LoadError, LoadedRequests, load};
use crate::ledger::{Ledger, LedgerError, LedgerOptions};
use crate::manifest::{
    EditNumbers, LiveSegment, ManifestEdit, ManifestReport, QUARANTINE_NAME, ReadManifest,
    SegmentName,
};
use crate::retention::{NodeSegments, StartClock, clock_path};
use crate::types::{Layout, OwnedPartitions};
use crate::wal::covers::{Cover, FileCovers};
use crate::wal::format::{FileHeader, WalName};
use crate::wal::planned::{
    FoundHeader, PlannedFile, ReadHeader, counts_len, has_frames, is_bare, read_header,
};
use crate::wal::progress::ReplayProgress;
use crate::wal::replayed::{ReplayedFiles, remove_file};
use logsvc_segment::Footer;
use logsvc_segment::version::{UnknownVersion, describe};
use logsvc_store::Store;

mod bucket;
mod files;

use bucket::{Folders, Joined, join_bucket};

/// The contents of the FORMAT file.
pub(crate) const FORMAT: &[u8] = b"logsvc 1\n";

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Another process has it.
    #[error("the data folder {0} is in use by another process")]
    InUse(PathBuf),
    /// Another version wrote it.
    #[error(
        "the data folder {path} was written by {}: it has the format {found:?}, and this program \
         knows \"logsvc 1\"",
        if is_newer(found) { "a newer version of logsvc" } else { "another program" }
    )]
    OtherFormat {
        /// The folder.
        path: PathBuf,
        /// The contents of its FORMAT file.
        found: String,
    },
    /// Another version wrote some of its files.
    #[error(
        "the data folder has files that this version of logsvc cannot read: {}. To start without \
         what they hold, set storage.ignore_unknown_versions",
        describe(.0)
    )]
    UnknownVersions(Vec<UnknownVersion>),
    /// The requests for deletion of earlier starts are not known.
    #[error(transparent)]
    Deletions(#[from] LoadError),
    /// The bucket cannot be used.
    #[error("cannot use the bucket: {0}")]
    Bucket(#[from] LedgerError),
    /// The folder needs the bucket that it was used with.
    #[error(
        "the data folder {path} was used with a bucket, and {missing} of its segments are only \
         there: set storage.bucket"
    )]
    NoBucket {
        /// The folder.
        path: PathBuf,
        /// Segments without files.
        missing: usize,
    },
    /// An operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Whether a FORMAT file says a later version than ours.
pub(crate) fn is_newer(found: &str) -> bool {
    let version = found.strip_prefix("logsvc ").and_then(|version| version.parse::<u64>().ok());
    version.is_some_and(|version| version > 1)
}

/// Added to the number of partitions in names of log files whose streams may be of any partition.
const MEMBER_WRITER: u32 = 1 << 16;

/// How a data folder is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Whether to go on without the contents of files that another version of the program has
    /// written. Segments and log files of that kind stay where they are; files of the manifest are
    /// kept in its quarantine folder.
    pub ignores_unknown_versions: bool,
    /// The number of partitions; `None`: one for each core. There is one for each core at least.
    pub partitions: Option<u16>,
    /// Whether the node is one of many that share its bucket. It owns no partition at first, and other
    /// writers go on.
    pub is_member: bool,
}

impl OpenOptions {
    /// Which of so many cores owns which streams.
    pub fn layout(self, cores: u16) -> Layout {
        self.partitions.map_or(Layout::of_cores(cores), |count| Layout::new(count, cores))
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NodeError {
    let path = path.to_path_buf();
    move |source| NodeError::Io { action, path, source }
}

/// The knowledge about the folder that every shard needs.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Folder of the log files.
    pub wal_dir: PathBuf,
    /// Folder of the segments.
    pub segments_dir: PathBuf,
    /// This start's epoch. No file of an earlier start has it.
    pub epoch: u32,
    /// Log files to replay, oldest first.
    pub files: Vec<PlannedFile>,
    /// The parts of these files that segments hold already.
    pub covers: Arc<[Cover]>,
    /// The same files; removes them when all shards have sealed the entries that they replayed.
    pub replayed: Arc<ReplayedFiles>,
    /// Segments that queries read, by [`LiveSegment::order`]. Their files are there and
    /// have the right length.
    pub segments: Arc<[LiveSegment]>,
    /// The footers of these segments; where one is missing, whoever opens the segment reads it from
    /// the file. About 200 bytes per segment.
    pub footers: Arc<BTreeMap<SegmentName, Footer>>,
    /// Live segments whose files are missing or have another length. They stay in the
    /// manifest until an edit removes them.
    pub unusable_segments: Arc<[LiveSegment]>,
    /// The knowledge about segments that the shards share.
    pub node_segments: Arc<NodeSegments>,
    /// The edit that the first edit of each shard has to repeat, see
    /// [`ManifestLog::with_preface`](crate::manifest::ManifestLog::with_preface).
    pub preface: Option<Arc<ManifestEdit>>,
    /// The findings in the segments folder.
    pub manifest: ManifestReport,
    /// The knowledge about the time that the clock goes on from.
    pub clock: StartClock,
    /// The requests for deletion of earlier starts.
    pub deletions: LoadedRequests,
    /// How far the shards have come with the files.
    pub progress: Arc<ReplayProgress>,
    /// How the folder was opened.
    pub options: OpenOptions,
    /// The bucket's part in the start, if there is one.
    pub bucket: Option<Arc<BucketPlan>>,
}

/// What a start knows of the segments that a bucket has.
#[derive(Clone, Debug, Default)]
pub struct BucketPlan {
    /// Segments to read that have no files here.
    pub(crate) without_files: BTreeSet<SegmentName>,
    /// Those of them whose ends are here.
    pub(crate) with_tails: BTreeSet<SegmentName>,
    /// Of the edits of all shards.
    pub(crate) edits: Arc<EditNumbers>,
}

impl NodePlan {
    /// Which core owns which streams.
    pub fn layout(&self) -> Layout {
        self.node_segments.layout()
    }

    /// The partitions that a core owns at first.
    pub(crate) fn owned_by(&self, core: u16) -> OwnedPartitions {
        let layout = self.layout();
        if self.options.is_member {
            OwnedPartitions::none(layout.partitions())
        } else {
            layout.part_of(core).into()
        }
    }

    /// The two numbers in the names of a core's log files: its partitions, or, since those of a member
    /// change, a number that is none of partitions, and the core.
    pub(crate) fn wal_writer(&self, core: u16) -> (u32, u32) {
        let part = self.layout().part_of(core).numbers();
        if self.options.is_member { (MEMBER_WRITER | part.0, core.into()) } else { part }
    }

    /// The data folder.
    pub(crate) fn data_dir(&self) -> &Path {
        self.wal_dir.parent().unwrap_or(Path::new("."))
    }

    /// Where looks at the clock are kept.
    pub(crate) fn clock_path(&self) -> PathBuf {
        clock_path(self.data_dir())
    }
}

/// A claimed data folder. The claim ends when the value is dropped.
pub struct Node<R: Runtime> {
    _lock: R::File,
    /// The plan of the start.
    pub plan: NodePlan,
    /// The bucket of the start; whoever follows the shards takes it.
    pub(crate) ledger: Option<Ledger<R>>,
}

/// The bucket of a node.
pub type NodeBucket<R> = (Store<R>, LedgerOptions);

impl<R: Runtime> std::fmt::Debug for Node<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Claims a data folder, making it if it does not exist.
///
/// # Errors
/// The folder is in use, of another format, or cannot be read or written.
pub async fn open_node<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<Node<R>, NodeError> {
    open_node_with(runtime, data_dir, OpenOptions::default()).await
}

/// The same with options.
///
/// # Errors
/// See [`open_node`].
pub async fn open_node_with<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    options: OpenOptions,
) -> Result<Node<R>, NodeError> {
    open_node_in(runtime, data_dir, options, None).await
}

/// The same with a bucket.
///
/// # Errors
/// See [`open_node`].
pub async fn open_node_in<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    mut options: OpenOptions,
    bucket: Option<NodeBucket<R>>,
) -> Result<Node<R>, NodeError> {
    let wal_dir = data_dir.join("wal");
    let segments_dir = data_dir.join("segments");
    for folder in [wal_dir.join("quarantine"), segments_dir.join(QUARANTINE_NAME)] {
        runtime.create_dir_all(&folder).await.map_err(io_error("make", &folder))?;
    }
    let lock_path = data_dir.join("LOCK");
    let lock = runtime.lock_file(&lock_path).await.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => NodeError::InUse(data_dir.to_path_buf()),
        _ => io_error("lock", &lock_path)(error),
    })?;
    // After the lock: no other process changes names that this start takes for durable.
    sync_folders(runtime, data_dir, [&wal_dir, &segments_dir]).await?;
    check_format(runtime, data_dir).await?;
    let read = ReadManifest::read(runtime, &segments_dir).await;
    let mut read = read.map_err(io_error("read the manifest in", &segments_dir))?;
    let folders = Folders { data_dir, wal_dir: &wal_dir };
    let joined = join_bucket(runtime, folders, &mut read, bucket, options.is_member).await?;
    // The bucket may have put other requests in the place of the folder's.
    let deletions = load(runtime, data_dir).await?;
    if let Some(Joined { ledger, .. }) = &joined {
        options.partitions = Some(ledger.cluster.partitions);
    }
    let max_epoch = read.max_epoch();
    let is_replaced = joined.as_ref().is_some_and(|joined| joined.is_replaced);
    let opened = read.examine(runtime).await;
    let manifest = opened.map_err(io_error("read the manifest in", &segments_dir))?;
    let survey = survey(runtime, &wal_dir, manifest.covers()).await?;
    let unknown = [manifest.unknown_versions(), survey.unknown].concat();
    if !unknown.is_empty() && !options.ignores_unknown_versions {
        return Err(NodeError::UnknownVersions(unknown));
    }
    for file in &unknown {
        tracing::error!("left out: {file}");
    }
    let is_new = manifest.is_new();
    let last_epoch = survey.all.iter().map(|name| name.epoch).max().max(max_epoch);
    let epoch = match (&joined, last_epoch) {
        (Some(Joined { ledger, .. }), _) => ledger.epoch,
        (None, None) => 0,
        (None, Some(last)) => last.checked_add(1).ok_or_else(|| {
            let error = io::Error::other("a file in it has the last epoch there is");
            io_error("use", data_dir)(error)
        })?,
    };
    // What the bucket has of a log stays there until the bucket knows these covers, too.
    let stored = joined.iter().flat_map(|joined| joined.ledger.state.wal.keys()).copied();
    let stored: Vec<u32> = stored.collect();
    let covers: Arc<[Cover]> = useful_covers(manifest.covers(), &survey.all, &stored).into();
    let replayed: Vec<WalName> = survey.planned.iter().map(|file| file.name).collect();
    let started = manifest.finish(runtime, epoch, covers.to_vec(), &replayed).await;
    let mut started = started.map_err(io_error("write the manifest in", &segments_dir))?;
    if started.report.checkpoint_error.is_none() {
        // The files of a writer come in the order of their numbers, so that none stays
        // without the one that says how much of it counts.
        for name in survey.covered {
            let is_gone = remove_file(runtime, &wal_dir, name).await;
            started.report.removed_wal_files += u64::from(is_gone);
        }
    } else if let (true, Some(error)) = (is_replaced, &started.report.checkpoint_error) {
        // The old manifest goes on counting, and the bucket says something else.
        return Err(io_error("write the manifest in", &segments_dir)(io::Error::other(
            error.clone(),
        )));
    }
    let mut ledger = joined.map(|joined| joined.ledger);
    if let Some(ledger) = &mut ledger {
        // What an earlier start has acknowledged without the bucket is in log files.
        ledger.is_log_whole |= replayed.is_empty() && ledger.unsent_files.is_empty();
        // From here on the folder has all that the bucket has.
        let written = ledger.mark().write(runtime, data_dir).await;
        written.map_err(LedgerError::of_mark(data_dir))?;
    }
    started.report.unknown_files = unknown;
    let clock = StartClock::read(runtime, data_dir, is_new).await;
    let layout = options.layout(runtime.core_count());
    let bucket = ledger.as_ref().map(|_| BucketPlan {
        without_files: started.without_files,
        with_tails: started.with_tails,
        edits: Arc::default(),
    });
    let plan = NodePlan {
        wal_dir,
        segments_dir,
        epoch,
        replayed: Arc::new(ReplayedFiles::new(&survey.planned, &covers, layout)),
        files: survey.planned,
        covers,
        node_segments: Arc::new(NodeSegments::new(&started.usable, &started.left, layout)),
        segments: started.usable.into(),
        footers: Arc::new(started.footers),
        unusable_segments: started.unusable.into(),
        preface: started.preface.map(Arc::new),
        manifest: started.report,
        clock,
        deletions,
        progress: Arc::new(ReplayProgress::default()),
        options,
        bucket: bucket.map(Arc::new),
    };
    Ok(Node { _lock: lock, plan, ledger })
}

/// The covers whose writers have files left, or whose log is stored elsewhere.
fn useful_covers(covers: &[Cover], remaining: &[WalName], stored: &[u32]) -> Vec<Cover> {
    let is_useful = |cover: &&Cover| {
        stored.contains(&cover.wal_epoch)
            || remaining.iter().any(|name| {
                (name.epoch, name.writer())
                    == (cover.wal_epoch, (cover.wal_shards, cover.wal_shard))
                    && name.index <= cover.up_to_index
            })
    };
    covers.iter().filter(is_useful).copied().collect()
}

/// Makes the folders' names durable, up to the root: any of them may have been made
/// by this start or by one that was cut short.
async fn sync_folders<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    inner: [&Path; 2],
) -> Result<(), NodeError> {
    let ours = [inner[0], inner[1], data_dir, data_dir.parent().unwrap_or(data_dir)];
    for folder in ours.into_iter().chain(data_dir.ancestors().skip(2)) {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        match runtime.sync_dir(folder).await {
            Ok(()) => {}
            // A folder that may not be opened or synced was not made by this program.
            Err(error) if !ours.contains(&folder) => {
                tracing::warn!(%error, folder = %folder.display(), "cannot sync a folder");
            }
            Err(error) => return Err(io_error("sync", folder)(error)),
        }
    }
    Ok(())
}

async fn check_format<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<(), NodeError> {
    let path = data_dir.join("FORMAT");
    match runtime.read_file(&path, 4096).await {
        Ok(found) if found == FORMAT => Ok(()),
        Ok(found) => Err(NodeError::OtherFormat {
            path: data_dir.to_path_buf(),
            found: String::from_utf8_lossy(&found).trim_end().to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let written = runtime.replace_file(&path, FORMAT.to_vec()).await;
            written.map_err(io_error("write", &path))
        }
        Err(error) => Err(io_error("read", &path)(error)),
    }
}

struct Survey {
    /// Every log file's name, readable or not.
    all: Vec<WalName>,
    /// Log files whose entries are all in segments.
    covered: Vec<WalName>,
    /// All others.
    planned: Vec<PlannedFile>,
    /// Log files of another version of the program.
    unknown: Vec<UnknownVersion>,
}

/// Reads the headers of the log files that hold more than segments do, and links each
/// with its successor.
async fn survey<R: Runtime>(
    runtime: &R,
    wal_dir: &Path,
    covers: &[Cover],
) -> Result<Survey, NodeError> {
    let entries = runtime.read_dir(wal_dir).await.map_err(io_error("list", wal_dir))?;
    let mut headers: Vec<FileHeader> = Vec::new();
    let mut planned = Vec::new();
    let mut damaged = Vec::new();
    let mut all = Vec::new();
    let mut covered = Vec::new();
    let mut unknown = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir) {
        let path = wal_dir.join(&entry.name);
        let Some(name) = WalName::parse(&entry.name) else {
            if entry.name.ends_with(".tmp") {
                runtime.remove_file(&path).await.map_err(io_error("remove", &path))?;
            } else {
                tracing::warn!(file = %path.display(), "not a log file, left alone");
            }
            continue;
        };
        all.push(name);
        let is_covered = FileCovers::of(covers, name).covers_file(name);
        let found = match read_header(runtime, &path, name).await {
            // Segments hold its contents.
            Err(_) if is_covered => FoundHeader::Bad,
            other => other.map_err(io_error("read", &path))?,
        };
        if let FoundHeader::Unknown(what) = found {
            unknown.push(UnknownVersion::new(&path, what));
            continue;
        }
        if is_covered {
            covered.push(name);
            continue;
        }
        match found.known() {
            Some(ReadHeader { header, has_bad_second }) => {
                planned.push(PlannedFile {
                    nonce: Some(header.nonce),
                    layout: header.layout,
                    is_reused: header.is_reused,
                    has_bad_second,
                    ..PlannedFile::of_damaged(name)
                });
                headers.push(header);
            }
            None => damaged.push((name, path)),
        }
    }
    for (name, path) in damaged {
        let read = |error| io_error("read", &path)(error);
        let file = runtime.open(&path, OpenMode::Read).await.map_err(read)?;
        let file_len = file.len_bytes().await.map_err(read)?;
        if has_frames(&headers, name) || !is_bare(&file, file_len).await.map_err(read)? {
            // Its frames may be good, or it has lost its contents: recovery looks and reports.
            planned.push(PlannedFile::of_damaged(name));
            continue;
        }
        tracing::info!(file = %path.display(), "removed a log file that was never used");
        runtime.remove_file(&path).await.map_err(io_error("remove", &path))?;
    }
    planned.sort_by_key(|file| (file.name.epoch, file.name.index, file.name.shard));
    for file in &mut planned {
        file.counts_len = counts_len(&headers, file.name);
    }
    Ok(Survey { all, covered, planned, unknown })
}
