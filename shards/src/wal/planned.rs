//! The log files that a start finds, and the contents of their headers.

use std::io;
use std::path::Path;

use logsvc_runtime::{File, OpenMode, Runtime};

use super::format::{
    BLOCK_LEN, FILE_HEADER_LEN, FileHeader, HEADERS_LEN, Layout, SECOND_HEADER_AT, WalName,
};
use logsvc_segment::version::UnknownPart;

/// A log file that has to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Which file.
    pub name: WalName,
    /// Its nonce; `None` if the file's header is damaged, so that only its frames
    /// can tell.
    pub nonce: Option<u64>,
    /// How its frames lie in it, as its header says; as good as any if that is damaged.
    pub layout: Layout,
    /// Whether its header says that bytes of an older file are behind its frames.
    pub is_reused: bool,
    /// Whether its second header, about the previous file, does not check.
    pub has_bad_second: bool,
    /// How many of its bytes count, if a later file of the writer says so.
    pub counts_len: Option<u64>,
}

impl PlannedFile {
    /// A file of which nothing but its name is known.
    pub(crate) fn of_damaged(name: WalName) -> PlannedFile {
        PlannedFile {
            name,
            nonce: None,
            layout: Layout::default(),
            is_reused: false,
            has_bad_second: false,
            counts_len: None,
        }
    }
}

/// How many bytes of the file count, as a later file of its writer says.
pub(crate) fn counts_len(headers: &[FileHeader], name: WalName) -> Option<u64> {
    let says = |header: &FileHeader| {
        let previous = header.previous?;
        (WalName { index: previous.index, ..header.name } == name).then_some(previous.durable_len)
    };
    headers.iter().find_map(says)
}

/// Whether a later file of the writer says that there are frames in the file. A writer's
/// files all have one layout.
pub(crate) fn has_frames(headers: &[FileHeader], name: WalName) -> bool {
    let writers = |one: &&FileHeader| WalName { index: name.index, ..one.name } == name;
    let layout = headers.iter().find(writers).map_or(Layout::Packed, |one| one.layout);
    counts_len(headers, name).is_some_and(|len| len > layout.first_frame())
}

/// The headers of a log file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadHeader {
    pub(crate) header: FileHeader,
    /// See [`FileHeader::has_bad_second`].
    pub(crate) has_bad_second: bool,
}

/// The result of reading the header of a log file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundHeader {
    /// The header of the file.
    Known(ReadHeader),
    /// The header does not check, or is another file's.
    Bad,
    /// Another version of the program has written it.
    Unknown(UnknownPart),
}

impl FoundHeader {
    /// The header, if it checks.
    pub(crate) fn known(self) -> Option<ReadHeader> {
        match self {
            FoundHeader::Known(header) => Some(header),
            FoundHeader::Bad | FoundHeader::Unknown(_) => None,
        }
    }
}

/// Reads the header of a log file.
pub(crate) async fn read_header<R: Runtime>(
    runtime: &R,
    path: &Path,
    name: WalName,
) -> io::Result<FoundHeader> {
    let file = runtime.open(path, OpenMode::Read).await?;
    let len = file.len_bytes().await?.min(HEADERS_LEN as u64);
    let (result, bytes) = file.read_exact_at(Vec::new(), 0, len as usize).await;
    match result {
        // Cut meanwhile, or shorter than it says.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(FoundHeader::Bad);
        }
        other => other?,
    }
    if let Some(unknown) = FileHeader::unknown_version(&bytes) {
        return Ok(FoundHeader::Unknown(unknown));
    }
    let header = FileHeader::decode(&bytes).filter(|header| header.name == name);
    Ok(header.map_or(FoundHeader::Bad, |header| {
        FoundHeader::Known(ReadHeader { header, has_bad_second: header.has_bad_second(&bytes) })
    }))
}

/// Whether a file of `file_len` bytes whose header does not check has nothing besides its
/// headers: it is the trace of a crash or of a full disk while the file was made.
pub(crate) async fn is_bare<F: File>(file: &F, file_len: u64) -> io::Result<bool> {
    if file_len > BLOCK_LEN {
        return Ok(false);
    }
    let (result, bytes) = file.read_exact_at(Vec::new(), 0, file_len as usize).await;
    result?;
    let is_header =
        |at: usize| at < FILE_HEADER_LEN || (SECOND_HEADER_AT..HEADERS_LEN).contains(&at);
    Ok(bytes.iter().enumerate().all(|(at, &byte)| byte == 0 || is_header(at)))
}
