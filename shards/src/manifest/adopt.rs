//! Makes a segment live of which a damaged manifest knows nothing.

use std::io;
use std::path::Path;

use logsvc_runtime::{File, OpenMode, Runtime};

use crate::segment::{FOOTER_LEN, Footer};

use super::edit::LiveSegment;
use super::survey::FoundSegment;

/// What the manifest would say of a segment file, by its own footer. Files appear under
/// their names only when they are whole, so that one whose footer checks can be read.
/// The level and the place of a compacted segment are lost: it counts as sealed. Its day
/// is what its folder says, since it may hold several.
///
/// # Errors
/// The file cannot be read, or is not the segment that its name says.
pub(super) async fn adopted<R: Runtime>(
    runtime: &R,
    path: &Path,
    found: FoundSegment,
) -> io::Result<LiveSegment> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let offset = found
        .len_bytes
        .checked_sub(FOOTER_LEN as u64)
        .ok_or_else(|| invalid("it is too short".to_owned()))?;
    let file = runtime.open(path, OpenMode::Read).await?;
    let (result, tail) = file.read_exact_at(Vec::new(), offset, FOOTER_LEN).await;
    result?;
    let footer = Footer::parse(&tail, found.len_bytes).map_err(|e| invalid(e.to_string()))?;
    let (name, says, totals) = (found.name, footer.identity, footer.totals);
    if (says.epoch, says.shards, says.shard, says.seq)
        != (name.epoch, name.shards, name.shard, name.seq)
    {
        return Err(invalid("its footer is that of another segment".to_owned()));
    }
    Ok(LiveSegment {
        name,
        day: found.day,
        file_len: found.len_bytes,
        min_ns: totals.min_ns,
        max_ns: totals.max_ns,
        entries: totals.entries,
        line_bytes: totals.line_bytes,
        level: 0,
        order: name.sealed_order(),
    })
}
