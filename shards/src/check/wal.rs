//! Verifies log files by the rules of recovery, without mending anything.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use logsvc_runtime::{OpenMode, Runtime};

use crate::wal::format::{
    FRAME_HEADER_LEN, FileHeader, Layout, Record, SECOND_HEADER_AT, WalName, records,
};
use crate::wal::frames::{FrameReader, Frames};
use crate::wal::planned::{FoundHeader, ReadHeader, counts_len, has_frames, is_bare, read_header};
use logsvc_segment::batch::sections;
use logsvc_segment::version::UnknownVersion;

use super::CheckReport;

/// A log file to verify.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) name: WalName,
    pub(super) len_bytes: u64,
    /// Whether live segments hold all of its entries.
    pub(super) is_covered: bool,
}

/// Verifies log files.
pub(super) async fn check_wal<R: Runtime>(
    runtime: &R,
    files: Vec<LogFile>,
    report: &mut CheckReport,
) {
    let mut headers = Vec::new();
    let mut bad_seconds = Vec::new();
    let mut unknown = Vec::new();
    for file in &files {
        match read_header(runtime, &file.path, file.name).await {
            Ok(FoundHeader::Known(ReadHeader { header, has_bad_second })) => {
                headers.push(header);
                bad_seconds.extend(has_bad_second.then_some(file.name));
            }
            Ok(FoundHeader::Bad) => {}
            Ok(FoundHeader::Unknown(what)) => {
                report.other_version(&UnknownVersion::new(&file.path, what));
                unknown.push(file.name);
            }
            Err(error) => report.damage(&file.path, 0, format!("cannot read it: {error}")),
        }
    }
    for file in files {
        report.wal_files += 1;
        if unknown.contains(&file.name) {
            continue;
        }
        if file.is_covered {
            report.note(&file.path, 0, "segments hold all of it; the next start removes it");
            continue;
        }
        let header = headers.iter().find(|header| header.name == file.name);
        let counts_len = counts_len(&headers, file.name);
        let found = Found {
            header,
            has_bad_second: bad_seconds.contains(&file.name),
            counts_len,
            has_frames: has_frames(&headers, file.name),
        };
        if let Err(error) = check_file(runtime, &file, found, report).await {
            report.damage(&file.path, 0, format!("cannot read it: {error}"));
        }
    }
}

/// The contents of the headers about a file: its own header, and the header of the next file.
struct Found<'a> {
    header: Option<&'a FileHeader>,
    has_bad_second: bool,
    counts_len: Option<u64>,
    has_frames: bool,
}

async fn check_file<R: Runtime>(
    runtime: &R,
    file: &LogFile,
    found: Found<'_>,
    report: &mut CheckReport,
) -> io::Result<()> {
    let path = &file.path;
    let Found { header, has_bad_second, counts_len, has_frames } = found;
    let nonce = header.map(|header| header.nonce);
    let is_reused = header.is_some_and(|header| header.is_reused);
    let end = counts_len.unwrap_or(file.len_bytes);
    let open = runtime.open(path, OpenMode::Read).await?;
    if nonce.is_none() && !has_frames && is_bare(&open, file.len_bytes).await? {
        report.note(path, 0, "a log file that was never used");
        return Ok(());
    }
    let frames = nonce.map_or(Frames::MaybeOf(file.name), Frames::Of);
    let mut reader = FrameReader::new(&open, frames, end.min(file.len_bytes));
    let mut offset = header.map_or(Layout::default(), |header| header.layout).first_frame();
    let mut number = 0;
    if nonce.is_none() {
        report.damage(path, 0, "the file's header does not check");
        let Some((found, header)) = reader.find_frame(offset, 0).await? else { return Ok(()) };
        reader.adopt(header.nonce);
        offset = found;
    }
    let mut defined = BTreeSet::new();
    while offset < end {
        if let Some((header, payload)) = reader.frame_at(offset).await?
            && header.number >= number
        {
            let len = (FRAME_HEADER_LEN + payload.len()) as u64;
            match check_payload(payload, &mut defined) {
                Ok(entries) => report.wal_entries += entries,
                Err(what) => report.damage(path, offset, what),
            }
            if number == 0 && has_bad_second {
                report.damage(path, SECOND_HEADER_AT as u64, "the second header does not check");
            }
            report.wal_frames += 1;
            report.read_bytes += len;
            offset = header.layout.position_behind(offset + len);
            number = header.number.saturating_add(1);
            runtime.yield_now().await;
            continue;
        }
        match reader.find_frame(offset + 1, number).await? {
            Some((found, header)) => {
                let len = found - offset;
                if header.durable_len > offset {
                    report.damage(path, offset, format!("{len} bytes do not check"));
                } else {
                    report.note(path, offset, format!("{len} bytes were never synced"));
                }
                offset = found;
            }
            None if counts_len.is_some() => {
                let what = format!("{} bytes at the end do not check", end - offset);
                report.damage(path, offset, what);
                return Ok(());
            }
            None => {
                if !is_reused {
                    let what = format!("a torn tail of {} bytes", file.len_bytes - offset);
                    report.note(path, offset, what);
                }
                return Ok(());
            }
        }
    }
    if file.len_bytes > end && !is_reused {
        let what = format!("{} bytes that were never acknowledged", file.len_bytes - end);
        report.note(path, end, what);
    }
    Ok(())
}

/// The number of entries of a frame; or the fault of the frame.
pub(super) fn check_payload(
    payload: &[u8],
    defined: &mut BTreeSet<logsvc_proto::StreamId>,
) -> Result<u64, String> {
    for record in records(payload) {
        if let Record::Definition { id, .. } = record.map_err(|error| error.to_string())? {
            defined.insert(id);
        }
    }
    let mut entries = 0;
    for record in records(payload) {
        let Ok(Record::Batch(batch)) = record else { continue };
        for section in sections(batch) {
            let section = section.map_err(|error| error.to_string())?;
            if !defined.contains(&section.stream) {
                return Err(format!("stream {} is not defined", section.stream));
            }
            entries += section.entry_count() as u64;
        }
    }
    Ok(entries)
}
