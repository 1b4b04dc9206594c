//! Files of bundles of filters: their folder, and how their heads are read.
//!
//! The manifest does not name them, because they are derived.

use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::{File, OpenMode, Runtime};
use logsvc_segment::filter::{BundleHead, FilterError};

/// Why a bundle is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Damaged(#[from] FilterError),
}

/// The folder of bundles of the store with these segments.
pub(crate) fn bundles_dir(segments_dir: &Path) -> PathBuf {
    segments_dir.with_file_name("filters")
}

/// Reads the head of a bundle, and checks the length of the file.
///
/// # Errors
/// The disk refuses, or the file is damaged.
pub(crate) async fn read_bundle_head<R: Runtime>(
    runtime: &R,
    path: &Path,
) -> Result<BundleHead, BundleError> {
    let file = runtime.open(path, OpenMode::ReadPieces).await?;
    let (result, header) = file.read_exact_at(Vec::new(), 0, BundleHead::HEADER_LEN).await;
    result?;
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let len = BundleHead::len_by_header(header.first_chunk().ok_or_else(short)?)?;
    let len_bytes = file.len_bytes().await?;
    if len as u64 > len_bytes {
        return Err(short().into());
    }
    let (result, bytes) = file.read_exact_at(Vec::new(), 0, len).await;
    result?;
    let head = BundleHead::decode(&bytes)?;
    if head.region().end != len_bytes {
        return Err(FilterError::Length { offset: 0 }.into());
    }
    Ok(head)
}
