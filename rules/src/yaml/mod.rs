//! Rule groups as YAML: read as Go's yaml.v3 reads them into Prometheus' structures, and written
//! as it writes these.
//!
//! Guarantees: what is written reads back to the same group. Texts of any kind are met without a
//! panic; memory and time are bounded by [`TEXT_MAX_BYTES`], also where anchors and aliases
//! multiply a text. JSON is YAML. Unknown keys are ignored, and so are further documents.
//!
//! Two kinds of texts are written in another form than yaml.v3 writes them, because its form reads
//! back as something else: block texts that begin with a space or an empty line get the right
//! indentation hint, and texts with the line separators of Unicode are quoted.

mod decode;
mod document;
mod scalar;
#[cfg(test)]
mod tests;
mod write;

pub use decode::{ReadGroup, ReadRule, read_file, read_group};
pub use document::YamlError;
pub use write::{write_group, write_namespaces, write_namespaces_in_pieces};

/// The longest text that is read, in bytes.
pub const TEXT_MAX_BYTES: usize = 4 << 20;
