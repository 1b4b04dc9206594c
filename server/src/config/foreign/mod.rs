//! Keys and flags of the reference that mean nothing here, and why; and its flags that have
//! another name here.
//!
//! The server accepts them, so that files and command lines of the reference work, and names
//! each in a warning. They are data: [`KEYS`], [`FLAGS`] and [`ALIASES`] have one row a line.

/// Keys with their reasons, which complete "ignored:".
const KEYS: &str = include_str!("keys.txt");
/// Flags with their reasons, which complete "ignored:".
const FLAGS: &str = include_str!("flags.txt");
/// Flags with the names that they have here.
const ALIASES: &str = include_str!("aliases.txt");

/// The rows of a table, in its order. Lines that begin with `#` are comments.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": "))
}

/// All keys by their paths, with their reasons.
pub(super) fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    rows(KEYS)
}

/// Why the key at a path means nothing here, if it is one of the reference.
pub(super) fn key_reason(path: &str) -> Option<&'static str> {
    keys().find(|(key, _)| *key == path).map(|(_, reason)| reason)
}

/// The flag of this program that means the same as a flag of the reference.
pub(crate) fn flag_alias(flag: &str) -> Option<&'static str> {
    rows(ALIASES).find(|(theirs, _)| *theirs == flag).map(|(_, ours)| ours)
}

/// Why a flag means nothing here, if it is one of the reference. Some flags of this program begin
/// like foreign ones, so the caller looks for its own flags first.
pub(crate) fn flag_reason(flag: &str) -> Option<&'static str> {
    let means = |name: &str| match name.as_bytes().last() {
        Some(b'.' | b'-') => flag.len() > name.len() && flag.starts_with(name),
        _ => flag == name,
    };
    // The longest name is the most special one.
    let named = rows(FLAGS).filter(|(name, _)| means(name));
    named.max_by_key(|(name, _)| name.len()).map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::super::table::{SETTINGS, by_path};
    use super::*;

    #[test]
    fn every_line_is_a_row() {
        for (table, fewest) in [(KEYS, 300), (FLAGS, 200), (ALIASES, 30)] {
            let lines = table.lines().filter(|line| !line.starts_with('#')).count();
            assert_eq!(rows(table).count(), lines);
            assert!(lines >= fewest, "{lines}");
            let mut names: Vec<&str> = rows(table).map(|(name, _)| name).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None);
        }
    }

    #[test]
    fn no_key_is_a_setting() {
        for (path, reason) in keys() {
            // A key that becomes a setting has to leave the table.
            assert!(by_path(path).is_none(), "{path} is a setting");
            assert_eq!(key_reason(path), Some(reason));
        }
    }

    #[test]
    fn aliases_lead_to_flags() {
        for (theirs, ours) in rows(ALIASES) {
            assert!(SETTINGS.iter().any(|setting| setting.flag == ours), "{ours}");
            assert!(SETTINGS.iter().all(|setting| setting.flag != theirs), "{theirs}");
        }
    }

    #[test]
    fn the_most_special_name_gives_the_reason() {
        for (flag, why) in [
            ("kafka-writer.topic", Some("there is no Kafka")),
            ("memberlist.retransmit-factor", Some("gossip has no such setting")),
            (
                "store.chunks-cache.memcached.addresses",
                Some("answers are kept in memory only, and no other results are"),
            ),
            (
                "store.query-chunk-limit",
                Some("queries are spread over the cores, not split into parts"),
            ),
            ("store.index-type", Some("data is kept in segments, in a form of its own")),
            ("ingester.chunks-idle-period", Some("there are no chunks")),
            (
                "compactor.upload-parallelism",
                Some("data is kept in segments, in a form of its own"),
            ),
            ("ruler.", None),
            ("ingester.max-chunk-agee", None),
            ("nonsense", None),
        ] {
            assert_eq!(flag_reason(flag), why, "{flag}");
        }
    }
}
