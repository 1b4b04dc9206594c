//! What errors of `object_store` mean.
//!
//! That crate keeps the status of an answer in a type that it does not show, so the status is read
//! from the text of the error. A test of each version holds the text.

use std::error::Error;

use object_store::Error as CloudError;

use crate::bucket::{BucketError, Reason};

/// The words before a status.
const BEFORE_STATUS: &str = "status code: ";
/// The longest reason.
const REASON_MAX_BYTES: usize = 400;

pub(super) fn of_store(error: CloudError) -> BucketError {
    let reason = || Reason(reason_of(&error));
    match &error {
        CloudError::NotFound { .. } => BucketError::NotFound,
        CloudError::AlreadyExists { .. }
        | CloudError::Precondition { .. }
        | CloudError::NotModified { .. } => BucketError::Exists(reason()),
        CloudError::PermissionDenied { .. }
        | CloudError::Unauthenticated { .. }
        | CloudError::InvalidPath { .. }
        | CloudError::NotSupported { .. }
        | CloudError::NotImplemented { .. }
        | CloudError::UnknownConfigurationKey { .. } => BucketError::Refused(reason()),
        _ => match status_of(&error) {
            Some(429 | 503) => BucketError::Busy(reason()),
            // A conflict of two creates; the object tells who has won.
            Some(409) => BucketError::Exists(reason()),
            Some(status) if (400..500).contains(&status) && status != 408 => {
                BucketError::Refused(reason())
            }
            _ => BucketError::Failed(reason()),
        },
    }
}

/// Whether a range begins behind the end of its object.
pub(super) fn is_beyond(error: &BucketError) -> bool {
    let BucketError::Refused(Reason(reason)) = error else { return false };
    status_in(reason) == Some(416)
}

fn status_of(error: &dyn Error) -> Option<u16> {
    let mut error = Some(error);
    while let Some(one) = error {
        if let Some(status) = status_in(&one.to_string()) {
            return Some(status);
        }
        error = one.source();
    }
    None
}

fn status_in(text: &str) -> Option<u16> {
    let at = text.find(BEFORE_STATUS)? + BEFORE_STATUS.len();
    text.get(at..at + 3)?.parse().ok()
}

/// The innermost words, on one line.
fn reason_of(error: &CloudError) -> String {
    let mut innermost: &dyn Error = error;
    let mut with_status = None;
    while let Some(source) = innermost.source() {
        innermost = source;
        let text = innermost.to_string();
        if with_status.is_none() && text.starts_with("Server returned") {
            with_status = Some(text);
        }
    }
    let mut text = with_status.unwrap_or_else(|| innermost.to_string());
    text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() > REASON_MAX_BYTES {
        let end = (0..=REASON_MAX_BYTES).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
