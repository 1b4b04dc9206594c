//! The Journal Export Format, in which `systemd-journal-upload` sends the entries of a host.
//!
//! An entry is a list of fields and an empty line. A field is `NAME=value` and a line feed, or
//! `NAME`, a line feed, the length of the value in 64 bits (little-endian), the value, and a line
//! feed. [`Parser`] finds entries in bytes that come in pieces, [`Mapping`] makes records of them.
//!
//! Guarantees: the entries do not depend on where the pieces were cut. An entry takes as much
//! memory as its mapping wants of it, and [`ENTRY_MAX_BYTES`] at most, whatever lengths it claims.
//! What cannot be read is one entry that is refused: the parser goes on behind the next empty line.

mod mapping;
mod parser;
#[cfg(test)]
mod tests;

pub use mapping::{Mapping, MappingLimits, Unmapped, Written};
pub use parser::{ENTRY_MAX_BYTES, End, Entry, FIELDS_MAX, Fault, Parser, VALUE_MAX_BYTES, Wanted};
