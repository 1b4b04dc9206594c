//! Files that another version of the program has written.
//!
//! The headers of log files and of the manifest, and header and footer of a segment, have
//! their magic, version and checksum at the same places in every version. So a version that
//! this program does not know can be told from damage: the checksum holds. The same goes for
//! records of unknown kinds in frames whose checksums hold.
//!
//! What can go wrong is that such a file is taken for damage, and then for something that may
//! be cut, copied and given up; whoever meets an [`UnknownVersion`] leaves the file alone.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::batch::u32_at;

/// Where headers and footers have their versions, and then their checksums.
const VERSION_AT: usize = 8;
const CRC_AT: usize = 12;

/// A file of a version that this program does not know. Prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVersion {
    /// The file.
    pub file: PathBuf,
    /// What of it is not known.
    pub what: UnknownPart,
}

/// What it is of a file that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownPart {
    /// Its format: the version that it has, and the newest that is known.
    Format {
        /// What the file says.
        found: u32,
        /// The newest version that this program can read.
        known: u32,
    },
    /// A record of a kind that only later versions write.
    Record {
        /// The kind.
        kind: u8,
    },
    /// A part of a segment that has a version of its own.
    Part(&'static str),
}

impl UnknownVersion {
    /// What is to be said of a file.
    pub fn new(file: &Path, what: UnknownPart) -> UnknownVersion {
        UnknownVersion { file: file.to_owned(), what }
    }
}

impl fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl fmt::Display for UnknownPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownPart::Format { found, known } if found > known => write!(
                f,
                "written by a newer version of logsvc: the file has format version {found}, and \
                 this program knows versions up to {known}"
            ),
            UnknownPart::Format { found, known } => write!(
                f,
                "written by another version of logsvc: the file has format version {found}, and \
                 this program knows version {known}"
            ),
            UnknownPart::Record { kind } => write!(
                f,
                "written by a newer version of logsvc: it has a record of kind {kind}, which this \
                 program does not know"
            ),
            UnknownPart::Part(part) => write!(
                f,
                "written by a newer version of logsvc: {part} is of a version that this program \
                 does not know"
            ),
        }
    }
}

/// The version that a header or footer says, if its magic and its checksum are right. `bytes`
/// are all that the checksum covers.
pub fn checked_version(bytes: &[u8], magic: &[u8; 8]) -> Option<u32> {
    if bytes.get(..8)? != magic || bytes.len() < CRC_AT + 4 {
        return None;
    }
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, &bytes[CRC_AT + 4..]);
    (crc == u32_at(bytes, CRC_AT)).then(|| u32_at(bytes, VERSION_AT))
}

/// Files of a version that this program does not know, as a sentence each. The longest list
/// is cut.
pub fn describe(unknown: &[UnknownVersion]) -> String {
    const NAMED_MAX: usize = 8;
    let mut text = String::new();
    for file in unknown.iter().take(NAMED_MAX) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&file.to_string());
    }
    if unknown.len() > NAMED_MAX {
        text.push_str(&format!("; and {} more", unknown.len() - NAMED_MAX));
    }
    text
}
