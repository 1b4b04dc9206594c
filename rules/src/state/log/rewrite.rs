//! Writes all of the state into a new file.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use logsvc_runtime::{File, OpenMode, Runtime, temporary_path};

use super::GroupSnapshot;
use crate::state::format::{
    FRAME_AIM_BYTES, FRAME_MAX_BYTES, HEADER_BYTES, Header, Record, write_alert, write_frame,
    write_rule,
};
use crate::state::image::stored_bytes;

/// A file that is complete up to its length, and on stable storage up to there.
pub(super) struct Rewritten<R: Runtime> {
    pub(super) file: Rc<R::File>,
    pub(super) nonce: u64,
    pub(super) len_bytes: u64,
    pub(super) temporary: PathBuf,
}

/// Writes the file under its temporary name, and syncs it.
pub(super) async fn rewrite<R: Runtime>(
    runtime: R,
    path: PathBuf,
    groups: Vec<GroupSnapshot>,
) -> io::Result<Rewritten<R>> {
    let temporary = temporary_path(&path);
    let folder = path.parent().unwrap_or(Path::new("."));
    runtime.create_dir_all(folder).await?;
    // The folders may be new: `rules` in the data folder, and `state` in it.
    for above in folder.ancestors().skip(1).take(2) {
        runtime.sync_dir(above).await?;
    }
    match runtime.remove_file(&temporary).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = Rc::new(runtime.open(&temporary, OpenMode::CreateNew).await?);
    let header = Header { nonce: runtime.random_u64(), created_ns: runtime.unix_nanos() };
    let mut out = Out {
        runtime: &runtime,
        file: &*file,
        nonce: header.nonce,
        len_bytes: 0,
        bytes: header.encode().to_vec(),
    };
    out.flush().await?;
    each_run(&groups, async |run| out.frame(run).await).await?;
    let len_bytes = out.len_bytes;
    debug_assert!(len_bytes >= HEADER_BYTES as u64);
    file.sync_data().await?;
    Ok(Rewritten { nonce: header.nonce, len_bytes, temporary, file })
}

struct Out<'a, R: Runtime> {
    runtime: &'a R,
    file: &'a R::File,
    nonce: u64,
    len_bytes: u64,
    /// What is to be written.
    bytes: Vec<u8>,
}

impl<R: Runtime> Out<'_, R> {
    async fn frame(&mut self, run: &[u8]) -> io::Result<()> {
        write_frame(self.nonce, run, &mut self.bytes);
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let count = bytes.len() as u64;
        let (result, mut bytes) = self.file.write_all_at(bytes, self.len_bytes).await;
        result?;
        bytes.clear();
        self.bytes = bytes;
        self.len_bytes += count;
        self.runtime.yield_now().await;
        Ok(())
    }
}

/// Gives the runs of records of all groups, each of which makes a frame.
///
/// # Errors
/// `take` has failed.
pub(in crate::state) async fn each_run(
    groups: &[GroupSnapshot],
    mut take: impl AsyncFnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut run = Vec::new();
    for group in groups {
        group.key.record(group.number).write(&mut run);
        for rule in &group.rules {
            let known_by = &rule.identity;
            let texts = (known_by.name.as_str(), known_by.expr.as_str());
            write_rule(rule.number, group.number, texts, &known_by.labels, &mut run);
            for alert in rule.table.alerts() {
                if stored_bytes(&alert.labels, &alert.annotations) < FRAME_MAX_BYTES / 2 {
                    write_alert(rule.number, alert, &mut run);
                }
                if run.len() >= FRAME_AIM_BYTES {
                    give(&mut run, &mut take).await?;
                }
            }
        }
        if let Some(time_ns) = group.last_evaluation_ns {
            Record::Evaluated { group: group.number, time_ns }.write(&mut run);
        }
        if run.len() >= FRAME_AIM_BYTES {
            give(&mut run, &mut take).await?;
        }
    }
    give(&mut run, &mut take).await
}

async fn give(
    run: &mut Vec<u8>,
    take: &mut impl AsyncFnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if !run.is_empty() && run.len() <= FRAME_MAX_BYTES {
        take(run).await?;
    }
    run.clear();
    Ok(())
}
