//! Files that another version of the program has written.
//!
//! The headers of log files and of the manifest, and the header and footer of a segment, have
//! their magic, version and checksum at the same offsets in every version. A file whose
//! checksum matches but whose version is unknown is intact. The same holds for a record of an
//! unknown kind in a frame whose checksum matches.
//!
//! If such a file were taken for a damaged one, recovery might cut it or give it up. Code that
//! gets an [`UnknownVersion`] leaves the file as it is.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::batch::u32_at;

/// Offset of the version in a header or footer. The checksum follows.
const VERSION_AT: usize = 8;
const CRC_AT: usize = 12;

/// A file of a version that this program does not know. Prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVersion {
    /// The file.
    pub file: PathBuf,
    /// The unknown part of it.
    pub what: UnknownPart,
}

/// The part of a file that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownPart {
    /// Its format: the version that it has, and the newest that is known.
    Format {
        /// The version in the file.
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
    /// An unknown part of a file.
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

/// The version in a header or footer, if its magic and its checksum match. `bytes` are all
/// bytes that the checksum covers.
pub fn checked_version(bytes: &[u8], magic: &[u8; 8]) -> Option<u32> {
    if bytes.get(..8)? != magic || bytes.len() < CRC_AT + 4 {
        return None;
    }
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, &bytes[CRC_AT + 4..]);
    (crc == u32_at(bytes, CRC_AT)).then(|| u32_at(bytes, VERSION_AT))
}

/// A sentence for each of the first eight files, and the number of the others.
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
