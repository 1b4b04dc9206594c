//! Settings that are lists or sections: what was written, and what it means.
//!
//! Guarantees: the printed form has no secret. Two values are equal if they were written alike.
//! Reading the printed form gives the value again, except for secrets.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderName, HeaderValue};
use logsvc_proto::labels::is_valid_label_name;
use logsvc_rules::config::{RelabelConfig, SigV4Config};
use serde_json::Value;

use super::client::{self, ClientChange};
use super::relabel;
use super::sections::{section, text};
use super::urls::hide_password;
use super::{Labels, TenantAlertmanager};

/// What stands for a secret.
pub(crate) const HIDDEN: &str = "<secret>";

/// Keys whose values are secrets, wherever they stand.
const SECRETS: [&str; 10] = [
    "password",
    "credentials",
    "bearer_token",
    "secret_key",
    "client_secret",
    "basic_auth_password",
    "key",
    "certificate_password",
    "secrets",
    "service_account",
];

/// Keys whose values are addresses.
const ADDRESSES: [&str; 3] = ["url", "proxy_url", "alertmanager_url"];

/// Sections whose values may be secrets, by names that nobody knows.
const HEADERS: [&str; 3] = ["headers", "http_headers", "proxy_connect_header"];

/// A setting that is a list or a section.
pub(crate) trait Structured {
    /// Reads JSON, which the file's lists and sections are handed on as.
    ///
    /// # Errors
    /// It has another form. The text names the key below the setting.
    fn read(&mut self, text: &str) -> Result<(), String>;

    /// The value in JSON, without secrets.
    fn print(&self) -> String;

    /// The form of the value, for the help.
    fn notation(&self) -> &'static str;
}

/// What a list or a section means.
pub(crate) trait Meaning: Sized {
    /// What is written if nothing is set.
    const EMPTY: &'static str;

    /// The form, for the help.
    const NOTATION: &'static str;

    /// The meaning.
    ///
    /// # Errors
    /// It has none.
    fn of(json: &Value) -> Result<Self, String>;

    /// The same JSON without secrets.
    fn shown(json: &Value) -> Value {
        without_secrets(json)
    }
}

/// A value as it was written, in JSON, and its meaning.
#[derive(Clone)]
pub(crate) struct Written<T> {
    json: Value,
    meaning: T,
}

impl<T> Written<T> {
    /// What it means.
    pub(crate) fn meaning(&self) -> &T {
        &self.meaning
    }
}

impl<T: Meaning> Written<T> {
    /// The value that JSON stands for.
    ///
    /// # Errors
    /// See [`Meaning::of`].
    pub(super) fn of_json(json: &Value) -> Result<Written<T>, String> {
        Ok(Written { meaning: T::of(json)?, json: json.clone() })
    }
}

impl<T> PartialEq for Written<T> {
    fn eq(&self, other: &Written<T>) -> bool {
        self.json == other.json
    }
}

impl<T: Meaning + Default> Default for Written<T> {
    fn default() -> Written<T> {
        // The constants are JSON, which a test sees.
        let json = serde_json::from_str(T::EMPTY).unwrap_or(Value::Null);
        Written { json, meaning: T::default() }
    }
}

impl<T: Meaning> fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print())
    }
}

impl<T: Meaning> Structured for Written<T> {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let text = if text.is_empty() { T::EMPTY } else { text };
        // The error of the parser may quote the text.
        let json: Value =
            serde_json::from_str(text).map_err(|_| match text.as_bytes().first() {
                Some(b'[' | b'{') => "is not valid JSON".to_owned(),
                _ => format!("must be a {}", T::NOTATION),
            })?;
        *self = Written::of_json(&json)?;
        Ok(())
    }

    fn print(&self) -> String {
        T::shown(&self.json).to_string()
    }

    fn notation(&self) -> &'static str {
        T::NOTATION
    }
}

impl<T: Meaning> Meaning for Option<T> {
    const EMPTY: &'static str = "null";
    const NOTATION: &'static str = T::NOTATION;

    fn of(json: &Value) -> Result<Option<T>, String> {
        if json.is_null() { Ok(None) } else { T::of(json).map(Some) }
    }

    fn shown(json: &Value) -> Value {
        T::shown(json)
    }
}

impl Meaning for Labels {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<Labels, String> {
        let labels = section(json)?.iter().map(|(name, value)| {
            if !is_valid_label_name(name.as_bytes()) {
                return Err(format!("{name:?} is not a valid label name"));
            }
            Ok((name.clone(), text(value).map_err(|error| format!("{name}: {error}"))?))
        });
        let mut labels = labels.collect::<Result<Labels, String>>()?;
        labels.sort();
        Ok(labels)
    }

    fn shown(json: &Value) -> Value {
        json.clone()
    }
}

/// Headers of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Headers(pub(crate) Vec<(String, String)>);

/// Headers that requests have anyway, or that say how the body is encoded.
const RESERVED: [&str; 17] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "www-authenticate",
    "x-prometheus-remote-write-version",
    "accept-encoding",
    "expect",
];

impl Meaning for Headers {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<Headers, String> {
        let mut headers = Vec::new();
        for (name, value) in section(json)? {
            let value = text(value).map_err(|error| format!("{name}: {error}"))?;
            check_header(name, &value)?;
            // The ruler names the tenant itself; nobody may name another one.
            if !name.eq_ignore_ascii_case("X-Scope-OrgID") {
                headers.push((name.clone(), value));
            }
        }
        Ok(Headers(headers))
    }

    fn shown(json: &Value) -> Value {
        hidden_values(json)
    }
}

/// Whether a header may be set.
pub(super) fn check_header(name: &str, value: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    if lower == "authorization" {
        return Err(format!(
            "{name}: set it by basic_auth, authorization, bearer_token or sigv4 instead"
        ));
    }
    if RESERVED.contains(&lower.as_str()) {
        return Err(format!("{name} is a reserved header. It must not be changed"));
    }
    if HeaderName::try_from(name).is_err() {
        return Err(format!("{name:?} is not the name of a header"));
    }
    if HeaderValue::try_from(value).is_err() {
        return Err(format!("{name}: its value cannot stand in a header"));
    }
    Ok(())
}

impl Meaning for Vec<RelabelConfig> {
    const EMPTY: &'static str = "[]";
    const NOTATION: &'static str = "list of rules";

    fn of(json: &Value) -> Result<Vec<RelabelConfig>, String> {
        relabel::rules(json)
    }

    fn shown(json: &Value) -> Value {
        json.clone()
    }
}

impl Meaning for SigV4Config {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<SigV4Config, String> {
        client::sigv4(json)
    }
}

impl Meaning for ClientChange {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<ClientChange, String> {
        ClientChange::of(json)
    }
}

impl Meaning for BTreeMap<String, ClientChange> {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<BTreeMap<String, ClientChange>, String> {
        let client = |(id, value): (&String, &Value)| {
            let change =
                if value.is_null() { Ok(ClientChange::default()) } else { ClientChange::of(value) };
            Ok((id.clone(), change.map_err(|error| format!("{id}.{error}"))?))
        };
        section(json)?.iter().map(client).collect()
    }
}

impl Meaning for TenantAlertmanager {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<TenantAlertmanager, String> {
        TenantAlertmanager::of(json)
    }
}

/// The value with [`HIDDEN`] in place of each secret.
fn without_secrets(json: &Value) -> Value {
    match json {
        Value::Object(section) => {
            let fields = section.iter().map(|(key, value)| {
                let shown = match (key.as_str(), value) {
                    (_, Value::Null) => Value::Null,
                    (key, value) if SECRETS.contains(&key) => hidden(value),
                    (key, Value::String(url)) if ADDRESSES.contains(&key) => {
                        let urls: Vec<String> = url.split(',').map(hide_password).collect();
                        Value::String(urls.join(","))
                    }
                    (key, value) if HEADERS.contains(&key) => hidden_values(value),
                    (_, value) => without_secrets(value),
                };
                (key.clone(), shown)
            });
            Value::Object(fields.collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_secrets).collect()),
        value => value.clone(),
    }
}

fn hidden(value: &Value) -> Value {
    match value {
        Value::String(text) if text.is_empty() => value.clone(),
        _ => Value::String(HIDDEN.to_owned()),
    }
}

/// The section with hidden values.
fn hidden_values(json: &Value) -> Value {
    match json {
        Value::Object(section) => {
            let fields = section.iter().map(|(key, value)| (key.clone(), hidden(value)));
            Value::Object(fields.collect())
        }
        value => value.clone(),
    }
}
