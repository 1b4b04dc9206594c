//! The place of an export or an import, beside its file.
//!
//! Guarantees: the record is whole or the one before: it is written under another name, synced, and
//! renamed. It belongs to the arguments that it was made with.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::named;

/// What is kept.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// What it belongs to.
    pub(super) arguments: Vec<String>,
    /// Where an export goes on.
    pub(super) cursor: Option<String>,
    /// Bytes of the file of an export that are good.
    pub(super) bytes: u64,
    /// Files of an export in parts that are whole.
    pub(super) parts: u64,
    /// Lines of the file of an import that need not be sent again.
    pub(super) lines: u64,
    /// Entries that were written or taken.
    pub(super) entries: u64,
    /// Lines that were refused.
    pub(super) refused: u64,
}

/// A name with something behind it.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}

impl Place {
    /// The start of something new.
    pub(super) fn new(arguments: Vec<String>) -> Place {
        Place { arguments, ..Place::default() }
    }

    /// The record of a file, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or belongs to other arguments.
    #[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
    pub(super) fn load(path: &Path, arguments: &[String]) -> io::Result<Option<Place>> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(named(path, &error)),
        };
        let place: Place = serde_json::from_slice(&text).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
        })?;
        if place.arguments != arguments {
            let text = format!(
                "{} is of a command with other arguments: give the same, or remove it to begin anew",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Some(place))
    }

    /// Writes the record.
    ///
    /// # Errors
    /// It may not be on stable storage.
    #[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let next = beside(path, ".next");
        let write = || {
            let mut file = File::create(&next)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&next, path)?;
            sync_folder(path)
        };
        write().map_err(|error| named(path, &error))
    }

    /// Removes the record of something that is complete.
    ///
    /// # Errors
    /// It cannot be removed.
    #[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
    pub(super) fn remove(path: &Path) -> io::Result<()> {
        fs::remove_file(path).and_then(|()| sync_folder(path)).map_err(|error| named(path, &error))
    }
}

/// Makes the names in the folder of a file last.
#[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}
