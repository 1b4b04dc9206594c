//! The bytes of a file with a stored group, as `docs/format.md` describes them.
//!
//! Guarantees: what [`encode`] writes, [`decode`] reads as the same group. [`decode`] meets
//! arbitrary bytes without a panic, and reserves no memory by a number in them.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::model::RuleGroup;
use crate::yaml;

/// The longest file, in bytes.
pub(super) const FILE_MAX_BYTES: usize = 8 << 20;

/// The first bytes of the file.
pub(super) const MAGIC: &[u8; 8] = b"LSVC-RUL";
const VERSION: u32 = 1;
pub(super) const HEADER_LEN: usize = 64;

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum FormatError {
    /// Another version of the program has written it.
    #[error("version {found} of the format is unknown, this program writes version {VERSION}")]
    UnknownVersion {
        /// The version.
        found: u32,
    },
    /// The bytes are not those that were written.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

fn damaged(what: &str) -> FormatError {
    FormatError::Damaged(what.to_owned())
}

/// The name of the file of a group: 32 hexadecimal digits. Two groups may have the same, see
/// [`numbered`].
pub(super) fn file_name(namespace: &str, name: &str) -> String {
    let mut bytes = (namespace.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(namespace.as_bytes());
    bytes.extend_from_slice(name.as_bytes());
    format!("{:032x}", xxh3_128(&bytes))
}

/// The name of a file whose group is the `number`th with the same hash, from 0.
pub(super) fn numbered(file_name: &str, number: usize) -> String {
    match number {
        0 => file_name.to_owned(),
        _ => format!("{file_name}.{number}"),
    }
}

/// Whether a file of this name may hold a group.
pub(super) fn is_file_name(name: &str) -> bool {
    let (hash, number) = name.split_once('.').unwrap_or((name, "1"));
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    hash.len() == 32 && hash.bytes().all(is_hex) && number.parse::<u16>().is_ok_and(|n| n > 0)
}

/// The file of a group; `None` if it would be longer than [`FILE_MAX_BYTES`].
pub(super) fn encode(namespace: &str, group: &RuleGroup) -> Option<Vec<u8>> {
    let yaml = yaml::write_group(group);
    let len = HEADER_LEN + namespace.len() + group.name.len() + yaml.len();
    // What is written must read back.
    if len > FILE_MAX_BYTES || yaml.len() > yaml::TEXT_MAX_BYTES {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    out.resize(HEADER_LEN, 0);
    for text in [namespace, &group.name, &yaml] {
        out.extend_from_slice(text.as_bytes());
    }
    out[0..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[16..24].copy_from_slice(&(len as u64).to_le_bytes());
    out[24..28].copy_from_slice(&(namespace.len() as u32).to_le_bytes());
    out[28..32].copy_from_slice(&(group.name.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c(&out[HEADER_LEN..]);
    out[32..36].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&out[..HEADER_LEN]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    Some(out)
}

/// The group of a file, with its namespace.
///
/// # Errors
/// See [`FormatError`].
pub(super) fn decode(bytes: &[u8]) -> Result<(Arc<str>, RuleGroup), FormatError> {
    let (header, body) = bytes
        .split_at_checked(HEADER_LEN)
        .ok_or_else(|| damaged("the file is shorter than its header"))?;
    if &header[..8] != MAGIC || u32_at(header, 12) != header_crc(header) {
        return Err(damaged("the header does not check"));
    }
    let found = u32_at(header, 8);
    if found != VERSION {
        return Err(FormatError::UnknownVersion { found });
    }
    let len_bytes = u64::from(u32_at(header, 16)) | u64::from(u32_at(header, 20)) << 32;
    if len_bytes != bytes.len() as u64 {
        return Err(damaged("the file has another length than its header says"));
    }
    if u32_at(header, 32) != crc32c::crc32c(body) {
        return Err(damaged("the bytes behind the header do not check"));
    }
    let text = std::str::from_utf8(body).map_err(|_| damaged("its texts are no UTF-8"))?;
    let cut = |text: &'_ str, at: u32| {
        let parts = text.split_at_checked(at as usize);
        parts.map(|(first, rest)| (first.to_owned(), rest.to_owned()))
    };
    let names = cut(text, u32_at(header, 24))
        .and_then(|(namespace, rest)| Some((namespace, cut(&rest, u32_at(header, 28))?)));
    let Some((namespace, (name, yaml))) = names else {
        return Err(damaged("a name is longer than the file"));
    };
    let group = yaml::read_group(&yaml).map_err(|error| FormatError::Damaged(error.to_string()))?;
    let group = group.into_group();
    if group.name != name || name.is_empty() {
        return Err(damaged("the group has another name than its file says"));
    }
    Ok((namespace.into(), group))
}

fn header_crc(header: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&header[..12]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &header[16..HEADER_LEN])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use logsvc_testkit::{Rng, SeedGuard, seeds};
    use proptest::prelude::*;

    use super::*;

    fn group(name: &str) -> RuleGroup {
        let text = "rules: [{record: a, expr: \"\\nvector(1)\", labels: {b: c}}]";
        let read = yaml::read_group(text).expect("a group");
        RuleGroup { name: name.to_owned(), ..read.into_group() }
    }

    #[test]
    fn groups_read_back() {
        for (namespace, name) in [("n", "g"), ("a/b", "g %+ü\n"), ("", "x"), ("🔥", "- a")] {
            let bytes = encode(namespace, &group(name)).expect("not too long");
            assert_eq!(decode(&bytes), Ok((namespace.into(), group(name))));
        }
        let long = RuleGroup { name: "n".repeat(FILE_MAX_BYTES), ..RuleGroup::default() };
        assert_eq!(encode("n", &long), None);
    }

    #[test]
    fn the_bytes_are_those_of_the_description() {
        let bytes = encode("ns", &group("g")).expect("not too long");
        assert_eq!(&bytes[..8], b"LSVC-RUL");
        assert_eq!((u32_at(&bytes, 8), u32_at(&bytes, 16) as usize), (1, bytes.len()));
        assert_eq!((u32_at(&bytes, 24), u32_at(&bytes, 28)), (2, 1));
        assert_eq!(u32_at(&bytes, 32), crc32c::crc32c(&bytes[64..]));
        assert_eq!(bytes[36..64], [0; 28]);
        assert_eq!(&bytes[64..67], b"nsg");
        assert_eq!(bytes[67..], *yaml::write_group(&group("g")).as_bytes());
        // Files of other programs and starts have these names.
        assert_eq!(file_name("ns", "g"), "9bc5565e43a832094d18dc6ed55604ea");
        assert_ne!(file_name("a", "bc"), file_name("ab", "c"));
    }

    #[test]
    fn names_of_files_are_told_from_others() {
        let name = file_name("a", "b");
        assert!(is_file_name(&name) && is_file_name(&numbered(&name, 3)));
        for other in ["", "x", &name[1..], &format!("{name}.tmp"), &format!("{name}.0"), "LOCK"] {
            assert!(!is_file_name(other), "{other}");
        }
    }

    #[test]
    fn damage_is_found() {
        let bytes = encode("ns", &group("g")).expect("not too long");
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut damaged = bytes.clone();
            Rng::new(seed).damage(&mut damaged);
            match decode(&damaged) {
                Ok(_) => assert_eq!(damaged, bytes),
                Err(FormatError::Damaged(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let mut other = bytes;
        other[8] = 2;
        let crc = header_crc(&other[..HEADER_LEN]);
        other[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&other), Err(FormatError::UnknownVersion { found: 2 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_met_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            crate::fuzz::stored_group(&bytes);
        }
    }
}
