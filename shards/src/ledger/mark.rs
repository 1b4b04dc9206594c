//! The file `BUCKET` of a data folder: which bucket the folder is of, and which logs in it are its
//! own.
//!
//! Guarantees: it is replaced as a whole. A file that does not read back is an error, since a folder
//! that is taken for another's would lose entries.

use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use super::cluster::ClusterId;

const FILE_NAME: &str = "BUCKET";
const FIRST_LINE: &str = "logsvc bucket 1";
const FILE_MAX_BYTES: usize = 4096;

/// What a folder knows of its bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// The bucket.
    pub(crate) cluster: ClusterId,
    /// The log whose sum the folder goes on from, if there was one.
    pub(crate) base: Option<u32>,
    /// The log that this folder's start writes. It may have no entry yet.
    pub(crate) epoch: u32,
    /// Whether everything in the folder is in the bucket, too.
    pub(crate) is_sent: bool,
    /// Whether the bucket has every acknowledged entry from its acknowledgement on.
    pub(crate) is_log_stored: bool,
}

impl Mark {
    /// Whether a log is this folder's own, so that the folder knows all that the log says.
    pub(crate) fn has_written(&self, log: Option<u32>) -> bool {
        log == self.base || log == Some(self.epoch)
    }

    /// Reads the mark of a folder; `None` if it has never had a bucket.
    ///
    /// # Errors
    /// The file cannot be read, or is no mark.
    pub(crate) async fn read<R: Runtime>(runtime: &R, data_dir: &Path) -> io::Result<Option<Mark>> {
        let bytes = match runtime.read_file(&path(data_dir), FILE_MAX_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&bytes);
        let mark = Mark::parse(&text);
        mark.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is damaged"))
    }

    /// Replaces the mark of a folder, durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) async fn write<R: Runtime>(&self, runtime: &R, data_dir: &Path) -> io::Result<()> {
        runtime.replace_file(&path(data_dir), self.print().into_bytes()).await
    }

    fn print(&self) -> String {
        let base = self.base.map_or_else(|| "none".to_owned(), |base| format!("{base:08x}"));
        let Mark { cluster, epoch, is_sent, is_log_stored, .. } = self;
        format!(
            "{FIRST_LINE}\ncluster {cluster}\nbase {base}\nepoch {epoch:08x}\nsent {is_sent}\n\
             log-stored {is_log_stored}\n"
        )
    }

    fn parse(text: &str) -> Option<Mark> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let cluster = cluster_id(value("cluster")?)?;
        let base = match value("base")? {
            "none" => None,
            text => Some(number(text)?),
        };
        let epoch = number(value("epoch")?)?;
        let is_sent = value("sent")?.parse().ok()?;
        let is_log_stored = value("log-stored")?.parse().ok()?;
        Some(Mark { cluster, base, epoch, is_sent, is_log_stored })
    }
}

/// The path of a folder's mark, for messages.
pub(super) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE_NAME)
}

fn number(text: &str) -> Option<u32> {
    let is_hex = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { u32::from_str_radix(text, 16).ok() } else { None }
}

fn cluster_id(text: &str) -> Option<ClusterId> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut id = [0; 16];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(ClusterId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back_and_others_are_refused() {
        let id = ClusterId([0x0f; 16]);
        for base in [None, Some(7)] {
            for is_sent in [false, true] {
                let mark = Mark { cluster: id, base, epoch: 9, is_sent, is_log_stored: !is_sent };
                assert_eq!(Mark::parse(&mark.print()), Some(mark));
                assert!(mark.has_written(base) && mark.has_written(Some(9)));
                assert!(!mark.has_written(Some(8)));
                for len in 0..mark.print().len() - 1 {
                    assert_eq!(Mark::parse(&mark.print()[..len]), None, "cut at {len}");
                }
            }
        }
        assert_eq!(Mark::parse("logsvc bucket 2\n"), None);
    }
}
