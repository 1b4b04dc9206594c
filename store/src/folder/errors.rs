//! What errors of a file system mean to those who ask a bucket.

use std::io::{Error, ErrorKind};

use logsvc_runtime::is_lack_of_descriptors;

use crate::bucket::{BucketError, Reason};

/// Whether there is no file of that name.
pub(super) fn is_absent(error: &Error) -> bool {
    // A part of the name is that of an object, or the whole of it is that of a folder.
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}

/// An error that is not about a missing object. Another attempt may succeed, unless somebody has to
/// change something first.
pub(super) fn of_file(error: &Error) -> BucketError {
    let reason = Reason(error.to_string());
    match error.kind() {
        _ if is_lack_of_descriptors(error) => BucketError::Busy(reason),
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::Unsupported
        | ErrorKind::CrossesDevices
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidData
        | ErrorKind::InvalidFilename
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::FileTooLarge
        | ErrorKind::QuotaExceeded
        | ErrorKind::StorageFull => BucketError::Refused(reason),
        _ => BucketError::Failed(reason),
    }
}
