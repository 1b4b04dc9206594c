//! Addresses as metrics, log lines and debug output show them.

/// Stands for a secret.
const HIDDEN: &str = "xxxxx";

/// An address without its password. A name stays, as Go shows it. The text may be no address at
/// all: whatever may be a part of a password goes.
pub(crate) fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return hidden_before_at("", url);
    };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if !scheme.chars().all(is_scheme) {
        return hidden_before_at("", url);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if let Some((user, host)) = authority.rsplit_once('@') {
        let name = user.split_once(':').map_or(user, |(name, _)| name);
        return format!("{scheme}://{name}:{HIDDEN}@{host}{path}");
    }
    // A password with a `/` that should have been escaped leaves no port.
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    match port {
        Some((_, port)) if port.parse::<u16>().is_err() => {
            hidden_before_at(&format!("{scheme}://"), rest)
        }
        _ => url.to_owned(),
    }
}

fn hidden_before_at(start: &str, text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("{start}{HIDDEN}@{rest}"),
        None => format!("{start}{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_passwords() {
        for (url, shown) in [
            ("http://u:p@h:1/x?y=@", "http://u:xxxxx@h:1/x?y=@"),
            ("http://u@h", "http://u:xxxxx@h"),
            ("http://h/a@b", "http://h/a@b"),
            ("http://[::1]:90/a@b", "http://[::1]:90/a@b"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            ("http://u:p/w@h/x", "http://xxxxx@h/x"),
            ("http://u:p?w@h", "http://xxxxx@h"),
            ("u:pw@h", "xxxxx@h"),
            ("u:pw://x@h", "xxxxx@h"),
            ("nonsense", "nonsense"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }
}
