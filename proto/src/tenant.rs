//! Tenant ids and the header that carries them.

use std::fmt;
use std::sync::Arc;

/// Longest tenant id, in characters (which are all ASCII).
pub const MAX_TENANT_LEN_BYTES: usize = 150;

/// The tenant when multi-tenancy is off.
pub const NO_AUTH_TENANT: &str = "fake";

/// A valid tenant id: 1 to 150 letters, digits, `-`, `_` and `.`, but not `.` or
/// `..`. Cheap to clone; the text is immutable and may be shared between cores.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

/// Why a tenant header was refused. The texts are part of the interface.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TenantError {
    /// No header, or an empty one: 401.
    #[error("no org id")]
    Missing,
    /// Several tenants where the endpoint works for one: 400.
    #[error("multiple org IDs present")]
    Multiple,
    /// One id of a list is empty: 400.
    #[error("tenant ID is empty")]
    Empty,
    /// A character outside letters, digits, `-`, `_`, `.`: 400.
    #[error("tenant ID '{id}' contains unsupported character '{character}'")]
    UnsupportedCharacter {
        /// The id as sent; bytes that are not UTF-8 are shown as U+FFFD.
        id: String,
        /// The first such character.
        character: char,
    },
    /// More than 150 characters: 400.
    #[error("tenant ID is too long: max {MAX_TENANT_LEN_BYTES} characters")]
    TooLong,
    /// `.` or `..`: 400.
    #[error("tenant ID is '.' or '..'")]
    Unsafe,
}

impl TenantId {
    /// Checks an id: first its characters, then its length, then `.` and `..`.
    pub fn new(id: &str) -> Result<TenantId, TenantError> {
        TenantId::from_bytes(id.as_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> Result<TenantId, TenantError> {
        if bytes.is_empty() {
            return Err(TenantError::Empty);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let text = match std::str::from_utf8(bytes) {
            Ok(text) if bytes.iter().all(|&byte| allowed(byte)) => text,
            _ => {
                let id = String::from_utf8_lossy(bytes).into_owned();
                let character = id.chars().find(|&c| !c.is_ascii() || !allowed(c as u8));
                let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                return Err(TenantError::UnsupportedCharacter { id, character });
            }
        };
        if text.len() > MAX_TENANT_LEN_BYTES {
            return Err(TenantError::TooLong);
        }
        if matches!(text, "." | "..") {
            return Err(TenantError::Unsafe);
        }
        Ok(TenantId(text.into()))
    }

    /// The tenant of a server without multi-tenancy.
    pub fn no_auth() -> TenantId {
        TenantId(NO_AUTH_TENANT.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Reads the tenant header: ids joined by `|`. The result is sorted, without
/// repetitions, and holds at least one id.
pub fn parse_tenant_header(value: Option<&[u8]>) -> Result<Vec<TenantId>, TenantError> {
    let value = value.filter(|value| !value.is_empty()).ok_or(TenantError::Missing)?;
    let mut tenants = Vec::new();
    for id in value.split(|&byte| byte == b'|') {
        tenants.push(TenantId::from_bytes(id)?);
    }
    tenants.sort();
    tenants.dedup();
    Ok(tenants)
}

/// Reads the tenant header of an endpoint that works for one tenant. The same id
/// repeated counts as one.
pub fn parse_single_tenant_header(value: Option<&[u8]>) -> Result<TenantId, TenantError> {
    let mut tenants = parse_tenant_header(value)?;
    match (tenants.pop(), tenants.is_empty()) {
        (Some(tenant), true) => Ok(tenant),
        _ => Err(TenantError::Multiple),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &[u8]) -> Result<Vec<String>, String> {
        match parse_tenant_header(Some(value)) {
            Ok(tenants) => Ok(tenants.iter().map(TenantId::to_string).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn ids_are_sorted_and_unique() {
        assert_eq!(parsed(b"b|a|b"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(parsed(b"t-1_x.Y"), Ok(vec!["t-1_x.Y".to_owned()]));
        assert_eq!(parse_single_tenant_header(Some(b"a|a")).map(|t| t.to_string()), Ok("a".into()));
        assert_eq!(parse_single_tenant_header(Some(b"a|b")), Err(TenantError::Multiple));
        assert_eq!(TenantError::Multiple.to_string(), "multiple org IDs present");
    }

    #[test]
    fn refusals_carry_the_texts_of_the_interface() {
        let long = [b'x'; 151];
        let long_and_bad = [b'!'; 151];
        let cases: [(&[u8], &str); 9] = [
            (b"", "no org id"),
            (b"a b", "tenant ID 'a b' contains unsupported character ' '"),
            (b"a|x:y", "tenant ID 'x:y' contains unsupported character ':'"),
            (b"\xff", "tenant ID '\u{fffd}' contains unsupported character '\u{fffd}'"),
            (&long, "tenant ID is too long: max 150 characters"),
            (b"..", "tenant ID is '.' or '..'"),
            (b"a|.", "tenant ID is '.' or '..'"),
            (b"a|", "tenant ID is empty"),
            (b"|", "tenant ID is empty"),
        ];
        for (value, expected) in cases {
            assert_eq!(parsed(value), Err(expected.to_owned()));
        }
        assert!(matches!(
            parse_tenant_header(Some(&long_and_bad)),
            Err(TenantError::UnsupportedCharacter { character: '!', .. })
        ));
        assert_eq!(parse_tenant_header(None), Err(TenantError::Missing));
        assert!(TenantId::new(&"x".repeat(150)).is_ok());
        assert_eq!(TenantId::no_auth().as_str(), "fake");
    }
}
