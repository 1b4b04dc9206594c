//! Makes a complete segment live that no edit names.

use std::io;
use std::path::Path;

use logsvc_runtime::{File, OpenMode, Runtime};

use logsvc_segment::{FOOTER_LEN, Footer, SegmentError};

use super::edit::LiveSegment;
use super::survey::FoundSegment;

/// Why a file cannot be made live.
#[derive(Debug)]
pub(super) enum NotAdopted {
    /// Another version of the program has written it.
    OtherVersion(SegmentError),
    /// The file is not the whole segment that its name says.
    Unreadable(String),
    /// The file cannot be read at this moment.
    Io(io::Error),
}

/// The entry of a segment file in the manifest, as its own footer gives it. Files get names only
/// when they are whole, so a file whose footer checks can be read. The footer of a merged segment
/// tells its level and its order. A merged segment without them, of an older program, counts as
/// sealed. The folder gives the day, since a segment may hold several.
///
/// # Errors
/// See [`NotAdopted`].
pub(super) async fn adopted<R: Runtime>(
    runtime: &R,
    path: &Path,
    found: FoundSegment,
) -> Result<LiveSegment, NotAdopted> {
    let unreadable = |what: &str| NotAdopted::Unreadable(what.to_owned());
    let offset = found.len_bytes.checked_sub(FOOTER_LEN as u64);
    let offset = offset.ok_or_else(|| unreadable("it is too short"))?;
    let file = runtime.open(path, OpenMode::Read).await.map_err(NotAdopted::Io)?;
    let (result, tail) = file.read_exact_at(Vec::new(), offset, FOOTER_LEN).await;
    result.map_err(NotAdopted::Io)?;
    let footer = Footer::parse(&tail, found.len_bytes).map_err(|error| {
        if error.unknown_version().is_some() {
            NotAdopted::OtherVersion(error)
        } else {
            unreadable(&error.to_string())
        }
    })?;
    let (name, says, totals) = (found.name, footer.identity, footer.totals);
    if (says.epoch, says.shards, says.shard, says.seq)
        != (name.epoch, name.shards, name.shard, name.seq)
    {
        return Err(unreadable("its footer is that of another segment"));
    }
    let (level, order) =
        footer.merged.map_or((0, name.sealed_order()), |place| (place.level, place.order));
    Ok(LiveSegment {
        name,
        day: found.day,
        file_len: found.len_bytes,
        min_ns: totals.min_ns,
        max_ns: totals.max_ns,
        entries: totals.entries,
        line_bytes: totals.line_bytes,
        level,
        order,
    })
}
