//! Finds out which files hold a text: the proof that a deleted line is in none.
//!
//! Segments are decoded: each line, the names and values of metadata, the labels of streams. Their
//! other regions, and all other files, are searched as bytes: log files hold lines as they came,
//! and a log file that serves again may hold old ones behind its frames.
//!
//! Guarantees: nothing is written, no lock is taken. A store may run meanwhile; a file that goes
//! during the search counts as gone. A segment that cannot be decoded is told, and searched as
//! bytes. Memory: one block of a segment, or a piece of a file.

use std::io;
use std::path::Path;
use std::rc::Rc;

use logsvc_runtime::Runtime;
use logsvc_segment::{ColumnKind, Decoder, HEADER_LEN};
use memchr::memmem::Finder;

use super::segment::{OpenSegment, Stop};
use super::source::Source;
use crate::deletion::store::{FILE_NAME, FOLDER_NAME};

/// Files are read in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;
/// The longest text in bytes.
const TEXT_MAX_BYTES: usize = 64 << 10;

const SEGMENT_MAGIC: &[u8; 8] = b"LSVC-SEG";

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindReport {
    /// Files that were searched.
    pub files: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// How often the text occurs, the record of requests for deletion apart.
    pub found: u64,
    /// How often it occurs in the record of requests for deletion.
    pub found_in_requests: u64,
    /// Files that could not be searched whole.
    pub unread: u64,
}

/// Searches a file, or all files below a folder, for a text. `print` gets one line for each file
/// that has it or cannot be read, without line ends.
///
/// # Errors
/// The text is empty or too long, or there is no such file or folder.
pub async fn find_text<R: Runtime>(
    runtime: &R,
    path: &Path,
    text: &[u8],
    mut print: impl FnMut(String),
) -> io::Result<FindReport> {
    let finder = finder_of(text)?;
    let mut report = FindReport::default();
    let mut folders = Vec::new();
    match runtime.read_dir(path).await {
        Ok(_) => folders.push(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Err(_) => search(runtime, path, &finder, &mut report, &mut print).await,
    }
    while let Some(folder) = folders.pop() {
        let entries = match runtime.read_dir(&folder).await {
            Ok(entries) => entries,
            // It went with its last file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                report.unread += 1;
                print(format!("{}: cannot be listed: {error}", folder.display()));
                continue;
            }
        };
        for entry in entries {
            let path = folder.join(&entry.name);
            if entry.is_dir {
                folders.push(path);
            } else {
                search(runtime, &path, &finder, &mut report, &mut print).await;
            }
        }
    }
    Ok(report)
}

/// What finds a text.
pub(super) fn finder_of(text: &[u8]) -> io::Result<Finder<'_>> {
    if text.is_empty() || text.len() > TEXT_MAX_BYTES {
        let what = format!("the text must have 1 to {TEXT_MAX_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(Finder::new(text))
}

async fn search<R: Runtime>(
    runtime: &R,
    path: &Path,
    finder: &Finder<'_>,
    report: &mut FindReport,
    print: &mut impl FnMut(String),
) {
    let mut hits = Hits::default();
    let searched = search_file(runtime, path, finder, &mut hits).await;
    report.add(&path.display().to_string(), searched, &hits, is_requests(path), print);
}

impl FindReport {
    /// Adds the result of one file or object, and prints it.
    pub(super) fn add(
        &mut self,
        name: &str,
        searched: io::Result<()>,
        hits: &Hits,
        is_requests: bool,
        print: &mut impl FnMut(String),
    ) {
        match searched {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                self.unread += 1;
                print(format!("{name}: cannot be read whole: {error}"));
            }
        }
        self.files += 1;
        self.read_bytes += hits.read_bytes;
        if let Some(what) = &hits.not_decoded {
            self.unread += 1;
            print(format!("{name}: cannot be decoded ({what})"));
        }
        let sum = hits.lines + hits.metadata + hits.labels + hits.bytes;
        if sum == 0 {
            return;
        }
        if is_requests {
            self.found_in_requests += sum;
            print(format!(
                "{name}: {sum} times, in the record of delete requests, which keeps the queries"
            ));
            return;
        }
        self.found += sum;
        let kinds = [
            (hits.lines, "in lines"),
            (hits.metadata, "in metadata of entries"),
            (hits.labels, "in labels"),
            (hits.bytes, "in bytes"),
        ];
        let kinds: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, place)| format!("{count} {place}"))
            .collect();
        print(format!("{name}: {sum} times: {}", kinds.join(", ")));
    }
}

fn is_requests(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    path.file_name().is_some_and(|name| name == FILE_NAME)
        && folder.is_some_and(|name| name == FOLDER_NAME)
}

/// How often a file has the text.
#[derive(Default)]
pub(super) struct Hits {
    lines: u64,
    metadata: u64,
    labels: u64,
    pub(super) bytes: u64,
    pub(super) read_bytes: u64,
    /// Why a segment was searched as bytes.
    not_decoded: Option<String>,
}

async fn search_file<R: Runtime>(
    runtime: &R,
    path: &Path,
    finder: &Finder<'_>,
    hits: &mut Hits,
) -> io::Result<()> {
    search_source(runtime, Source::file(runtime, path).await?, finder, hits).await
}

/// Searches a segment as such, and other bytes as they are.
pub(super) async fn search_source<R: Runtime>(
    runtime: &R,
    source: Source<R>,
    finder: &Finder<'_>,
    hits: &mut Hits,
) -> io::Result<()> {
    let len_bytes = source.len_bytes().await?;
    let start = source.read(0..len_bytes.min(SEGMENT_MAGIC.len() as u64)).await?;
    if start != SEGMENT_MAGIC {
        return search_bytes(runtime, &source, 0..len_bytes, finder, hits).await;
    }
    let source = Rc::new(source);
    let decoded = match OpenSegment::open(Rc::clone(&source)).await {
        Ok(mut segment) => search_segment(runtime, &mut segment, finder, hits).await,
        Err(stop) => Err(stop),
    };
    match decoded {
        Ok(()) => Ok(()),
        Err(Stop::Io(error)) => Err(error),
        Err(Stop::Damaged(error)) => {
            *hits = Hits { not_decoded: Some(error.to_string()), ..Hits::default() };
            search_bytes(runtime, &source, 0..len_bytes, finder, hits).await
        }
    }
}

async fn search_segment<R: Runtime>(
    runtime: &R,
    segment: &mut OpenSegment<R>,
    finder: &Finder<'_>,
    hits: &mut Hits,
) -> Result<(), Stop> {
    let mut decoder = Decoder::new();
    for block in 0..segment.directory.block_count() {
        search_block(segment, &mut decoder, block, finder, hits).await?;
        runtime.yield_now().await;
    }
    for chunk in 0..segment.directory.label_chunk_count() {
        let stored = segment.read(segment.directory.label_chunk(chunk).place.range()).await?;
        let mut labels = decoder.open_labels(&segment.directory, chunk, &stored)?;
        while let Some((_, tenant, _, labels)) = labels.next(&segment.directory)? {
            let pairs = labels.iter().flat_map(|(name, value)| [name, value]);
            let texts = pairs.chain([tenant.as_str()]);
            hits.labels += texts.map(|text| count(finder, text.as_bytes())).sum::<u64>();
        }
    }
    let footer = *segment.directory.footer();
    for range in [
        0..HEADER_LEN as u64,
        footer.filters_range(),
        footer.directory_range(),
        footer.directory_range().end..footer.file_len,
    ] {
        search_bytes(runtime, segment.source(), range, finder, hits).await?;
    }
    hits.read_bytes += segment.read_bytes;
    Ok(())
}

async fn search_block<R: Runtime>(
    segment: &mut OpenSegment<R>,
    decoder: &mut Decoder,
    block: u32,
    finder: &Finder<'_>,
    hits: &mut Hits,
) -> Result<(), Stop> {
    let info = segment.directory.block(block);
    let stored = segment.read(info.column(ColumnKind::Timestamps).range()).await?;
    let timestamps_ns = decoder.timestamps(&segment.directory, block, &stored)?;
    let stored = segment.read(info.column(ColumnKind::Lengths).range()).await?;
    let ends = decoder.line_ends(&segment.directory, block, &stored)?;
    let stored = segment.read(info.column(ColumnKind::Lines).range()).await?;
    let lines = decoder.lines(&segment.directory, block, &stored, &timestamps_ns)?;
    for run in segment.directory.runs_of_block(block) {
        let of_run = &lines[run.line_bytes.start as usize..run.line_bytes.end as usize];
        let mut start = 0;
        for &end in &ends[run.entries.start as usize..run.entries.end as usize] {
            hits.lines += count(finder, &of_run[start..end as usize]);
            start = end as usize;
        }
    }
    let stored = segment.read(info.column(ColumnKind::Metadata).range()).await?;
    let Some(metadata) = decoder.metadata(&segment.directory, block, &stored)? else {
        return Ok(());
    };
    let in_set = |id| {
        let texts = metadata.sets.get(id).flat_map(|(name, value)| [name, value]);
        texts.map(|text| count(finder, text.as_ref())).sum::<u64>()
    };
    let counts: Vec<u64> = (0..metadata.sets.len() as u32).map(in_set).collect();
    hits.metadata += metadata.set_ids.iter().map(|&id| counts[id as usize]).sum::<u64>();
    Ok(())
}

async fn search_bytes<R: Runtime>(
    runtime: &R,
    source: &Source<R>,
    range: std::ops::Range<u64>,
    finder: &Finder<'_>,
    hits: &mut Hits,
) -> io::Result<()> {
    // The end of a piece stays, since the text may go on in the next one.
    let overlap = finder.needle().len() - 1;
    let (mut offset, mut piece) = (range.start, Vec::new());
    while offset < range.end {
        let len = (range.end - offset).min(PIECE_BYTES as u64) as usize;
        let (result, returned) = source.read_exact_at(piece, offset..offset + len as u64).await;
        piece = returned;
        match result {
            // A log file is cut at a start.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => offset = range.end,
            other => {
                other?;
                offset += len as u64;
            }
        }
        hits.read_bytes += len as u64;
        hits.bytes += count(finder, &piece);
        let seen = piece.len().saturating_sub(overlap);
        piece.drain(..seen);
        runtime.yield_now().await;
    }
    Ok(())
}

/// How often the text begins in the bytes, overlaps included.
pub(super) fn count(finder: &Finder<'_>, bytes: &[u8]) -> u64 {
    let (mut found, mut from) = (0, 0);
    while let Some(at) = finder.find(&bytes[from..]) {
        found += 1;
        from += at + 1;
    }
    found
}
