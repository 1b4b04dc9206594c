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
        run: Vec::new(),
        bytes: header.encode().to_vec(),
    };
    for group in groups {
        out.group(&group).await?;
    }
    out.flush().await?;
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
    /// Records of the next frame.
    run: Vec<u8>,
    /// What is to be written.
    bytes: Vec<u8>,
}

impl<R: Runtime> Out<'_, R> {
    async fn group(&mut self, group: &GroupSnapshot) -> io::Result<()> {
        group.key.record(group.number).write(&mut self.run);
        for rule in &group.rules {
            let known_by = &rule.identity;
            let texts = (known_by.name.as_str(), known_by.expr.as_str());
            write_rule(rule.number, group.number, texts, &known_by.labels, &mut self.run);
            for alert in rule.table.alerts() {
                if stored_bytes(&alert.labels, &alert.annotations) < FRAME_MAX_BYTES / 2 {
                    write_alert(rule.number, alert, &mut self.run);
                }
                if self.run.len() >= FRAME_AIM_BYTES {
                    self.flush().await?;
                }
            }
        }
        if let Some(time_ns) = group.last_evaluation_ns {
            Record::Evaluated { group: group.number, time_ns }.write(&mut self.run);
        }
        if self.run.len() >= FRAME_AIM_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.run.is_empty() && self.run.len() <= FRAME_MAX_BYTES {
            write_frame(self.nonce, &self.run, &mut self.bytes);
        }
        self.run.clear();
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
