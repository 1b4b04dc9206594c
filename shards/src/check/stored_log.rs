//! Verifies the write-ahead logs in a bucket: the pieces of log files in their objects, and the
//! frames in these.
//!
//! Guarantees: 16 objects are in memory at once, and of each log file the bytes of a frame whose end
//! was not read yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use logsvc_proto::StreamId;
use logsvc_runtime::Runtime;
use logsvc_store::Store;
use logsvc_store::log::{IN_FLIGHT_MAX, LogEnd, LogError, LogName, read_log_with};
use logsvc_store::object::ObjectError;

use super::listing::Listing;
use super::source::PATIENCE;
use super::store::CheckError;
use super::stored::path_of;
use super::wal::check_payload;
use super::{CheckReport, Severity};
use crate::ledger::{LedgerError, LedgerState, peek};
use crate::sink::log_of;
use crate::sink::pieces::{PieceRef, pieces};
use crate::wal::covers::{Cover, FileCovers};
use crate::wal::format::WalName;
use crate::wal::pieced::PiecedFile;

/// How long a log may take to read.
const LOG_PATIENCE: Duration = Duration::from_secs(600);

/// Why a log is not read further.
enum Stop {
    Log(LogError),
    /// All that was listed was read.
    Enough,
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Stop {
        Stop::Log(error)
    }
}

/// Verifies the write-ahead logs that a bucket needs.
///
/// # Errors
/// The bucket does not answer.
pub(super) async fn check_stored_logs<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    state: &LedgerState,
    listing: &Listing,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    for (&epoch, &from) in &state.wal {
        let log = log_of(epoch).map_err(LedgerError::Name)?;
        let mut files: BTreeMap<WalName, LogFile> = BTreeMap::new();
        let mut next = from;
        let until = runtime.now().after(LOG_PATIENCE);
        // A server may write as fast as this reads: what comes later is not looked at.
        let listed = listing.wals.get(&epoch).and_then(|log| log.last_key_value());
        let last = listed.map(|(last, _)| *last);
        let visit = async |number, payload: Bytes| {
            let path = path_of(store, &log.entry(number).map_err(LogError::from)?);
            add_pieces(&path, epoch, &payload, &state.covers, &mut files, report);
            next = number + 1;
            runtime.yield_now().await;
            if last.is_some_and(|last| next > last) { Err(Stop::Enough) } else { Ok(()) }
        };
        let end = read_log_with(store, &log, from, until, visit).await;
        report.wal_files += files.len() as u64;
        if let Ok(LogEnd { torn: torn @ 1.., .. }) = &end {
            let what = format!(
                "{torn} torn objects: a connection broke, and the store has kept the beginnings. \
                 Nothing in them was acknowledged"
            );
            report.note(&path_of(store, &log.entry(from)?), 0, what);
        }
        match end {
            Ok(end) if end.fenced_by.is_none() => {
                check_end(runtime, store, (epoch, &log), end.next, listing, report).await?;
            }
            Ok(_) | Err(Stop::Enough) => {}
            Err(Stop::Log(LogError::Store(error))) => return Err(error.into()),
            Err(Stop::Log(error)) => {
                let (number, severity) = match &error {
                    LogError::Damaged { number, error: ObjectError::Version, .. } => {
                        (*number, Severity::OtherVersion)
                    }
                    LogError::Damaged { number, .. } | LogError::Forked { number, .. } => {
                        (*number, Severity::Damage)
                    }
                    _ => (next, Severity::Damage),
                };
                report.find(severity, &path_of(store, &log.entry(number)?), 0, error.to_string());
            }
        }
    }
    Ok(())
}

/// Looks for entries that are missing. A few entries of a log are on their way at once, so some may
/// stand behind one that never came; more than that is a gap.
async fn check_end<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    (epoch, log): (u32, &LogName),
    end: u64,
    listing: &Listing,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    let Some(entries) = listing.wals.get(&epoch) else { return Ok(()) };
    let behind = entries.range(end.saturating_add(IN_FLIGHT_MAX)..).count();
    if behind == 0 {
        return Ok(());
    }
    let name = log.entry(end)?;
    // A server that works with the bucket may have written it since, or need it no more.
    match store.info(&name, runtime.now().after(PATIENCE)).await {
        Ok(_) => return Ok(()),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let again = peek(store, None, runtime.now().after(PATIENCE)).await?;
    let state = again.map(|again| again.state).unwrap_or_default();
    if state.wal.get(&epoch).is_some_and(|from| *from <= end) {
        let what = format!("the entry is missing, and {behind} entries far behind it do not count");
        report.damage(&path_of(store, &name), 0, what);
    }
    Ok(())
}

/// Verifies the pieces of an object, and the frames that end in them.
fn add_pieces(
    path: &Path,
    epoch: u32,
    payload: &[u8],
    covers: &[Cover],
    files: &mut BTreeMap<WalName, LogFile>,
    report: &mut CheckReport,
) {
    report.read_bytes += payload.len() as u64;
    for piece in pieces(payload) {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => return report.damage(path, error.at as u64, error.to_string()),
        };
        if piece.name.epoch != epoch {
            let what = format!("a piece of the file {} of another start", piece.name.file_name());
            return report.damage(path, 0, what);
        }
        if FileCovers::of(covers, piece.name).covers_file(piece.name) {
            continue;
        }
        let file = files.entry(piece.name).or_default();
        file.add(path, piece, report);
    }
}

/// A log file whose pieces come one after the other.
#[derive(Default)]
struct LogFile {
    file: PiecedFile,
    defined: BTreeSet<StreamId>,
    /// Nothing more can be said of it.
    is_lost: bool,
}

impl LogFile {
    fn add(&mut self, path: &Path, piece: PieceRef<'_>, report: &mut CheckReport) {
        if self.is_lost {
            return;
        }
        if let Err(what) = self.verify(piece, report) {
            let (name, at) = (piece.name.file_name(), self.file.position());
            report.damage(path, 0, format!("byte {at} of the file {name}: {what}"));
            *self = LogFile { is_lost: true, ..LogFile::default() };
        }
    }

    /// Verifies the frames that end in a piece.
    fn verify(&mut self, piece: PieceRef<'_>, report: &mut CheckReport) -> Result<(), String> {
        self.file.add(piece.offset, piece.bytes)?;
        while let Some(payload) = self.file.next_frame(piece.name)? {
            report.wal_entries += check_payload(payload, &mut self.defined)?;
            report.wal_frames += 1;
        }
        Ok(())
    }
}
