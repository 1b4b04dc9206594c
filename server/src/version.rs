//! The version of this program: its number, and the commit and the day it was made from.

/// The number, as in `Cargo.toml`.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// The commit; a word if it is not known.
pub(crate) const COMMIT: &str = env!("LOGSVC_BUILD_COMMIT");

/// The day of the commit in UTC, as 2026-11-25; empty if it is not known.
pub(crate) const DATE: &str = env!("LOGSVC_BUILD_DATE");

/// One line without the name of the program.
pub(crate) const LINE: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("LOGSVC_BUILD_WORDS"), ")");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_agrees_with_its_parts() {
        assert!(LINE.starts_with(NUMBER) && LINE.contains(COMMIT) && LINE.contains(DATE), "{LINE}");
    }
}
