//! Verifies and prints the record of requests for deletion.

use std::io;
use std::path::Path;

use logsvc_runtime::{Runtime, temporary_path};

use super::{CheckReport, Severity};
use crate::deletion::format::FormatError;
use crate::deletion::store::{FILE_NAME, FOLDER_NAME, ReadError, filter_of, read, requests_path};
use crate::deletion::{DeleteState, DeletionVersion};
use logsvc_segment::version::UnknownVersion;

/// Verifies the record of a data folder.
pub(super) async fn check_requests<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    report: &mut CheckReport,
) {
    let path = requests_path(data_dir);
    let folder = data_dir.join(FOLDER_NAME);
    match runtime.read_dir(&folder).await {
        Ok(entries) => {
            for entry in entries.iter().filter(|entry| entry.name != FILE_NAME) {
                let path = folder.join(&entry.name);
                if path == temporary_path(&requests_path(data_dir)) {
                    report.note(&path, 0, "the left-over of a write that did not end");
                } else {
                    report.note(&path, 0, "not a file of the store");
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => report.find(Severity::Note, &folder, 0, format!("cannot list: {error}")),
    }
    let requests = match read(runtime, &path).await {
        Ok(requests) => requests,
        Err(ReadError::Io(error)) => {
            return report.damage(&path, 0, format!("cannot read it: {error}"));
        }
        Err(ReadError::Format(FormatError::UnknownVersion(what))) => {
            return report.other_version(&UnknownVersion::new(&path, what));
        }
        Err(ReadError::Format(FormatError::Damaged { offset, what })) => {
            let what = format!("{what}; the server does not start over it");
            return report.damage(&path, offset as u64, what);
        }
    };
    for request in &requests {
        if !request.is_pending() {
            report.processed_requests += 1;
            continue;
        }
        report.pending_requests += 1;
        if let Err(what) = filter_of(request, DeletionVersion::FIRST) {
            let id = request.id;
            let what = format!("request {id}: {what}; the server does not start over it");
            report.damage(&path, 0, what);
        }
    }
}

/// Prints the record of requests for deletion, with the text of each query.
///
/// # Errors
/// The file cannot be read, is damaged, or of another version.
pub(super) async fn inspect_requests<R: Runtime>(
    runtime: &R,
    path: &Path,
    mut print: impl FnMut(String),
) -> io::Result<()> {
    let requests = match read(runtime, path).await {
        Ok(requests) => requests,
        Err(ReadError::Io(error)) => return Err(error),
        Err(ReadError::Format(error)) => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
        }
    };
    print(format!("{} delete requests", requests.len()));
    for request in &requests {
        let state = match request.state {
            DeleteState::Pending { parts_done } => {
                format!("pending, {parts_done} of {} parts done", request.parts())
            }
            DeleteState::Processed { at_ms } => format!("processed at {at_ms} ms"),
        };
        print(format!("request {} of {}", request.id, request.tenant.as_str()));
        print(format!("  state      {state}"));
        print(format!("  made at    {} ms", request.created_ms));
        print(format!("  from       {} ns", request.start_ns));
        print(format!("  to         {} ns", request.end_ns));
        if let Some(part_ns) = request.part_ns {
            print(format!("  parts of   {part_ns} ns"));
        }
        let (entries, bytes) = (request.removed_entries, request.removed_line_bytes);
        print(format!("  removed    {entries} entries with {bytes} bytes of lines"));
        print(format!("  query      {:?}", request.query));
    }
    Ok(())
}
