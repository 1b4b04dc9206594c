//! Small files of the data folder that a bucket keeps, too: the requests for deletion, and the rule
//! groups. Nodes that share a bucket also have the state of alerts in common.
//!
//! Guarantees: a [`KeptPath`] is the path of such a file and of nothing else, whoever has written the
//! text. So a bucket that lies cannot have another file written.

mod changes;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_proto::TenantId;
use logsvc_store::{NameError, ObjectName};

use crate::deletion::format::FILE_MAX_BYTES as REQUESTS_MAX_BYTES;
pub(crate) use changes::Taken;
pub use changes::{KeptFiles, NotKept, PATIENCE, Settling};

/// The path of the requests for deletion.
const REQUESTS: &str = "deletes/REQUESTS";
/// The folder of the folders of rule groups.
pub(crate) const GROUPS: &str = "rules/groups";
/// The longest file of a rule group in bytes.
const GROUP_MAX_BYTES: usize = 8 << 20;
/// The path of the state of alerts.
const ALERTS: &str = "rules/state/ALERTS";
/// The longest state of alerts in bytes.
const ALERTS_MAX_BYTES: usize = 32 << 20;
/// The folder of the objects.
pub(crate) const OBJECTS: &str = "files";

/// The path of a kept file, from the data folder on. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptPath(Arc<str>);

impl KeptPath {
    /// The file of the requests for deletion.
    pub fn requests() -> KeptPath {
        KeptPath(REQUESTS.into())
    }

    /// Reads a path; `None` if it is none of a kept file.
    pub fn parse(text: &str) -> Option<KeptPath> {
        let is_kept = text == REQUESTS || text == ALERTS || is_group(text);
        is_kept.then(|| KeptPath(text.into()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file in a data folder.
    pub(crate) fn in_folder(&self, data_dir: &Path) -> PathBuf {
        data_dir.join(self.as_str())
    }

    /// The longest file of this path in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        match self.as_str() {
            REQUESTS => REQUESTS_MAX_BYTES,
            ALERTS => ALERTS_MAX_BYTES,
            _ => GROUP_MAX_BYTES,
        }
    }
}

impl fmt::Debug for KeptPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for KeptPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a text is `rules/groups/<tenant>/<32 hex digits>`, maybe with `.<number>` behind it.
fn is_group(text: &str) -> bool {
    let inner = text.strip_prefix(GROUPS).and_then(|rest| rest.strip_prefix('/'));
    let Some((tenant, file)) = inner.and_then(|inner| inner.split_once('/')) else { return false };
    let (hash, number) = file.split_once('.').unwrap_or((file, "1"));
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    // As the number is written, so that one file has one path.
    let is_number = |n: u16| n > 0 && n.to_string() == number;
    TenantId::new(tenant).is_ok()
        && hash.len() == 32
        && hash.bytes().all(is_hex)
        && number.parse().is_ok_and(is_number)
}

/// The object of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileObject {
    /// The epoch of the start that has made it.
    pub(crate) epoch: u32,
    /// Its number within the start.
    pub(crate) number: u32,
}

impl FileObject {
    pub(crate) fn name(self) -> Result<ObjectName, NameError> {
        ObjectName::new(&format!("{OBJECTS}/{:08x}-{:08x}", self.epoch, self.number))
    }

    pub(crate) fn parse(name: &ObjectName) -> Option<FileObject> {
        let (epoch, number) =
            name.as_str().strip_prefix(OBJECTS)?.strip_prefix('/')?.split_once('-')?;
        let is_hex = |text: &str| text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hex(epoch) || !is_hex(number) {
            return None;
        }
        let number_of = |text| u32::from_str_radix(text, 16).ok();
        Some(FileObject { epoch: number_of(epoch)?, number: number_of(number)? })
    }
}

/// What tells two contents of a file apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    pub(crate) len_bytes: u64,
    pub(crate) crc: u32,
}

impl Content {
    pub(crate) fn of(bytes: &[u8]) -> Content {
        Content { len_bytes: bytes.len() as u64, crc: crc32c::crc32c(bytes) }
    }
}

/// A file that the bucket has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptFile {
    pub(crate) object: FileObject,
    pub(crate) content: Content,
}

impl KeptFile {
    /// The number of the content: no other content of any file of the bucket has the same.
    #[must_use]
    pub fn number(&self) -> u64 {
        u64::from(self.object.epoch) << 32 | u64::from(self.object.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_kept_files_are_told_from_all_others() {
        let hash = "9bc5565e43a832094d18dc6ed55604ea";
        let groups = [format!("rules/groups/t/{hash}"), format!("rules/groups/a.b-_/{hash}.17")];
        for path in groups.iter().map(String::as_str).chain([REQUESTS, ALERTS]) {
            let parsed = KeptPath::parse(path).expect("a kept file");
            assert_eq!(parsed.as_str(), path);
            assert_eq!(parsed.in_folder(Path::new("/d")), Path::new("/d").join(path));
        }
        let others = [
            "".to_owned(),
            "deletes/requests".to_owned(),
            "deletes/../LOCK".to_owned(),
            "deletes/REQUESTS/".to_owned(),
            "/deletes/REQUESTS".to_owned(),
            "./deletes/REQUESTS".to_owned(),
            format!("/rules/groups/t/{hash}"),
            format!("rules/groups/../{hash}"),
            format!("rules/groups/./{hash}"),
            format!("rules/groups//{hash}"),
            format!("rules/groups/{hash}"),
            format!("rules/groups/t/u/{hash}"),
            format!("rules/groups/t/../{hash}"),
            format!("rules/groups/t/{hash}.0"),
            format!("rules/groups/t/{hash}.+1"),
            format!("rules/groups/t/{hash}.01"),
            format!("rules/groups/t/{hash}.70000"),
            format!("rules/groups/t/{hash}.tmp"),
            format!("rules/groups/t/{}", hash.to_uppercase()),
            format!("rules/groups/t/{}", &hash[1..]),
            format!("rules/groups/t\0/{hash}"),
            format!("rules/quarantine/t/{hash}"),
            "rules/state/alerts".to_owned(),
            "rules/state/ALERTS.tmp".to_owned(),
            "rules/state/ALERTS/".to_owned(),
            "rules/state".to_owned(),
        ];
        for other in others {
            assert_eq!(KeptPath::parse(&other), None, "{other:?}");
        }
    }

    #[test]
    fn each_kind_has_its_bound_and_each_content_its_number() {
        let group = format!("rules/groups/t/{:032x}", 1);
        for (path, max_bytes) in
            [(REQUESTS, REQUESTS_MAX_BYTES), (ALERTS, 32 << 20), (&group, 8 << 20)]
        {
            assert_eq!(KeptPath::parse(path).map(|path| path.max_bytes()), Some(max_bytes));
        }
        let of = |epoch, number| KeptFile {
            object: FileObject { epoch, number },
            content: Content::of(b""),
        };
        assert_eq!(of(1, 2).number(), 1 << 32 | 2);
        assert_eq!(of(u32::MAX, u32::MAX).number(), u64::MAX);
    }

    #[test]
    fn names_of_objects_read_back() {
        let object = FileObject { epoch: 0x1f, number: 3 };
        let name = object.name().expect("a name");
        assert_eq!(name.as_str(), "files/0000001f-00000003");
        assert_eq!(FileObject::parse(&name), Some(object));
        for other in ["files/1-2", "seg/0000001f-00000003", "files/0000001f-00000003-0"] {
            assert_eq!(FileObject::parse(&ObjectName::new(other).expect("a name")), None);
        }
    }
}
