//! Addresses of servers that the ruler sends to.
//!
//! An address may have a user name with a password (`http://user:password@host`), which stand for
//! basic authentication. The password is a secret: nothing prints it.

use std::fmt;

use http::Uri;
use logsvc_rules::config::{ClientAuth, Secret, SecretSource};

/// What stands for a password.
const HIDDEN: &str = "xxxxx";

/// Addresses, with commas between them. Any text is one, until it is set by [`Urls::set`].
#[derive(Clone, PartialEq, Default)]
pub(crate) struct Urls(pub(super) String);

impl fmt::Debug for Urls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Urls {
    /// Reads addresses.
    ///
    /// # Errors
    /// One of them is no address.
    pub(crate) fn set(&mut self, text: &str) -> Result<(), String> {
        split(text).try_for_each(check)?;
        *self = Urls(text.to_owned());
        Ok(())
    }

    /// The addresses without passwords.
    pub(crate) fn shown(&self) -> String {
        let hidden: Vec<String> = self.0.split(',').map(hide_password).collect();
        hidden.join(",")
    }

    /// Each address.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        split(&self.0)
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|url| !url.is_empty())
}

/// Whether a text is the address of an HTTP server.
pub(super) fn check(url: &str) -> Result<(), String> {
    let shown = hide_password(url);
    let uri: Uri = url.parse().map_err(|error| format!("{shown:?} is not a URL: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("{shown:?} must begin with http:// or https://"));
    }
    match uri.host() {
        None | Some("") => Err(format!("{shown:?} has no host")),
        Some(_) => Ok(()),
    }
}

/// The start and the end of the part before the host, if there is one.
fn user_info(url: &str) -> Option<(usize, usize)> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let at = url[start..end].rfind('@')?;
    Some((start, start + at))
}

/// The address with [`HIDDEN`] in place of its password.
pub(super) fn hide_password(url: &str) -> String {
    let Some((start, end)) = user_info(url) else { return url.to_owned() };
    match url[start..end].split_once(':') {
        Some((user, _)) => format!("{}{user}:{HIDDEN}{}", &url[..start], &url[end..]),
        None => url.to_owned(),
    }
}

/// The address without user name and password, and these.
pub(super) fn without_user(url: &str) -> (String, Option<ClientAuth>) {
    let Some((start, end)) = user_info(url) else { return (url.to_owned(), None) };
    let (username, password) = url[start..end].split_once(':').unwrap_or((&url[start..end], ""));
    let auth = ClientAuth::Basic {
        username: unescaped(username),
        password: SecretSource::Inline(Secret(unescaped(password))),
    };
    (format!("{}{}", &url[..start], &url[end + 1..]), Some(auth))
}

/// The text with its percent escapes decoded; escapes that are none stay.
pub(in crate::config) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_taken_out() {
        for (url, shown, bare) in [
            ("http://h:9093/a@b", "http://h:9093/a@b", "http://h:9093/a@b"),
            ("http://u:p@h/x", "http://u:xxxxx@h/x", "http://h/x"),
            ("https://u@h", "https://u@h", "https://h"),
            ("https://u:p@q@h?x=y@z", "https://u:xxxxx@h?x=y@z", "https://h?x=y@z"),
        ] {
            assert_eq!(hide_password(url), shown);
            assert_eq!(without_user(url).0, bare);
        }
        let (_, auth) = without_user("http://a%40b:p%3Aq%zz%4@h");
        let expected = ClientAuth::Basic {
            username: "a@b".to_owned(),
            password: SecretSource::Inline(Secret("p:q%zz%4".to_owned())),
        };
        assert_eq!(auth, Some(expected));
        let mut urls = Urls::default();
        urls.set("http://a, https://u:secret@b:1/x,").expect("addresses");
        assert_eq!(urls.iter().collect::<Vec<_>>(), ["http://a", "https://u:secret@b:1/x"]);
        assert!(!format!("{urls:?}{}", urls.shown()).contains("secret"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, expected) in [
            ("localhost:9093", "must begin with http:// or https://"),
            ("ftp://h", "must begin with http:// or https://"),
            ("http://", "is not a URL"),
            ("http://a b", "is not a URL"),
            ("http://h,nothing", "must begin with http:// or https://"),
        ] {
            let error = Urls::default().set(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let error = Urls::default().set("httq://u:secret@h").expect_err("no scheme");
        assert!(!error.contains("secret"), "{error}");
    }
}
