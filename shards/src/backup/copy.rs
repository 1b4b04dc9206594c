//! Copies, links and removes files for backups.
//!
//! Guarantees: a copy has the bytes of one file, whatever takes its name meanwhile, up to the length
//! that it had at first. It is on stable storage, with its name, once its folder is synced. Memory:
//! one chunk.

use std::io;
use std::path::Path;

use logsvc_runtime::{File, OpenMode, Runtime};

use super::FORMAT_FILE;

/// Bytes that are copied at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Copies a file to a name that is free; gives its length.
pub(super) async fn copy_file<R: Runtime>(runtime: &R, from: &Path, to: &Path) -> io::Result<u64> {
    let source = runtime.open(from, OpenMode::Read).await?;
    let len = source.len_bytes().await?;
    let target = runtime.open(to, OpenMode::CreateNew).await?;
    let mut buffer = Vec::new();
    let mut offset = 0;
    while offset < len {
        buffer.clear();
        let count = (len - offset).min(CHUNK_BYTES) as usize;
        let (result, read) = source.read_exact_at(buffer, offset, count).await;
        result?;
        let (result, written) = target.write_all_at(read, offset).await;
        result?;
        buffer = written;
        offset += count as u64;
    }
    target.sync_data().await?;
    Ok(len)
}

/// Links a file that never changes, or copies it where the file system has no links.
pub(super) async fn link_or_copy<R: Runtime>(
    runtime: &R,
    from: &Path,
    to: &Path,
) -> io::Result<()> {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    match runtime.hard_link(from, to).await {
        Err(error)
            if matches!(
                error.kind(),
                CrossesDevices | PermissionDenied | TooManyLinks | Unsupported
            ) =>
        {
            copy_file(runtime, from, to).await.map(|_| ())
        }
        other => other,
    }
}

/// Removes a folder with all it holds; what makes it complete goes first, durably.
pub(super) async fn remove_tree<R: Runtime>(runtime: &R, folder: &Path) -> io::Result<()> {
    match runtime.remove_file(&folder.join(FORMAT_FILE)).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => runtime.sync_dir(folder).await?,
    }
    let mut folders = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(path) = folders.get(next).cloned() {
        for entry in runtime.read_dir(&path).await? {
            let path = path.join(&entry.name);
            if entry.is_dir {
                folders.push(path);
            } else {
                runtime.remove_file(&path).await?;
            }
        }
        next += 1;
    }
    // Folders come behind those that hold them.
    for path in folders.iter().rev() {
        runtime.remove_dir(path).await?;
    }
    runtime.sync_dir(folder.parent().unwrap_or(Path::new("."))).await
}
