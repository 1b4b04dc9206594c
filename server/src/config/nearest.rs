//! The known name nearest to a mistyped one.

/// Longer names are no misspelling of a known one, and comparing takes time.
const NAME_MAX_LEN: usize = 96;

/// Of dotted names the one that `path` most likely meant, if it is near enough. A key of
/// another section is further away than one of the same section.
pub(super) fn nearest<'n>(path: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let (section, key) = split(path);
    if key.len() > NAME_MAX_LEN {
        return None;
    }
    // A third of the letters may be wrong.
    let most = key.chars().count().div_ceil(3).max(1) * 2;
    let distances = names.map(|name| {
        let (of, known) = split(name);
        let elsewhere = usize::from(of != section);
        // Letters that are put in, left out, changed, or exchanged with their neighbours.
        (2 * strsim::osa_distance(key, known) + elsewhere, name)
    });
    let (found, name) = distances.min()?;
    (found <= most).then_some(name)
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["limits_config.max_line_size", "server.log_level", "cores", "wal.sync"];
        let near = |path: &str| nearest(path, names.into_iter());
        assert_eq!(near("limits_config.max_lnie_size"), Some("limits_config.max_line_size"));
        assert_eq!(near("max_line_size"), Some("limits_config.max_line_size"));
        assert_eq!(near("server.loglevel"), Some("server.log_level"));
        assert_eq!(near("core"), Some("cores"));
        assert_eq!(near("limits_config.something_else"), None);
        assert_eq!(near(&"x".repeat(1 << 20)), None);
    }
}
