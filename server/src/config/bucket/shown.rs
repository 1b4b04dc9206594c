//! Loki's sections without secrets, for `/config`.

use serde_json::Value;

use super::{address, azure};
use crate::config::ruler::HIDDEN;

/// Keys whose values are secrets.
const SECRETS: [&str; 10] = [
    "secret_access_key",
    "access_key_secret",
    "session_token",
    "secret_key",
    "account_key",
    "client_secret",
    "service_account",
    "password",
    "application_credential_secret",
    "api_key",
];

/// Keys whose values are addresses, maybe with a key in them.
const ADDRESSES: [&str; 2] = ["s3", "endpoint"];

/// The value with `<secret>` in place of each secret.
pub(super) fn without_secrets(json: &Value) -> Value {
    match json {
        Value::Object(section) => {
            let fields = section.iter().map(|(key, value)| {
                let shown = match value {
                    Value::Object(_) | Value::Array(_) => without_secrets(value),
                    Value::String(text) if text.is_empty() => value.clone(),
                    Value::Null => Value::Null,
                    _ if SECRETS.contains(&key.as_str()) => Value::String(HIDDEN.to_owned()),
                    Value::String(text) if key == "connection_string" => {
                        Value::String(azure::hidden(text))
                    }
                    Value::String(text) if ADDRESSES.contains(&key.as_str()) => {
                        Value::String(address::hidden(text))
                    }
                    value => value.clone(),
                };
                (key.clone(), shown)
            });
            Value::Object(fields.collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_secrets).collect()),
        value => value.clone(),
    }
}

/// Whether a section says anything: a key with a value that is not nothing, false or empty.
pub(super) fn says_something(json: &Value) -> bool {
    match json {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(section) => section.values().any(says_something),
    }
}
