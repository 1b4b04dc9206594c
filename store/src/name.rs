//! Names of objects.

use std::fmt;
use std::sync::Arc;

/// The longest name in bytes, so that there is room for a prefix: S3 takes 1,024.
pub const NAME_MAX_BYTES: usize = 512;

/// The name of an object below the prefix of its bucket: parts of letters, digits, `.`, `_`, `-`
/// and `=`, with `/` between them. No part is empty, `.` or `..`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(Arc<str>);

/// A text that is no name of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name of an object")]
pub struct NameError(pub String);

impl ObjectName {
    /// The name of this text.
    ///
    /// # Errors
    /// It is no name.
    pub fn new(text: &str) -> Result<ObjectName, NameError> {
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_allowed);
        if text.len() <= NAME_MAX_BYTES && text.split('/').all(is_part) {
            Ok(ObjectName(text.into()))
        } else {
            Err(NameError(text.to_owned()))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'=')
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The beginning of names that are listed: whole parts, each with a `/` behind it, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Folder(String);

impl Folder {
    /// All objects.
    pub const ALL: Folder = Folder(String::new());

    /// The objects whose names have these parts first.
    ///
    /// # Errors
    /// The text is no name.
    pub fn new(text: &str) -> Result<Folder, NameError> {
        ObjectName::new(text).map(|name| Folder(format!("{name}/")))
    }

    /// The text, which ends in `/` or is empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether an object is in it.
    pub fn has(&self, name: &ObjectName) -> bool {
        name.as_str().starts_with(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        for good in ["a", "log/0000002a/17.edit", "seg/2026-11-28/x=1_2.seg", "a/.b"] {
            assert_eq!(ObjectName::new(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(NAME_MAX_BYTES + 1);
        for bad in ["", "/", "a/", "/a", "a//b", ".", "a/..", "a b", "a\\b", "ä", "a?b", &long] {
            assert_eq!(ObjectName::new(bad), Err(NameError(bad.to_owned())));
        }
        let folder = Folder::new("log/1").unwrap();
        assert!(folder.has(&ObjectName::new("log/1/x").unwrap()));
        assert!(!folder.has(&ObjectName::new("log/17/x").unwrap()));
        assert!(Folder::ALL.has(&ObjectName::new("a").unwrap()));
        assert!(Folder::new("").is_err());
    }
}
