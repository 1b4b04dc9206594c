//! The YAML file: one document, read under limits and split into settings.
//!
//! Depth, nodes and the expansion of aliases are bounded, so a file cannot take more
//! memory or time than a few times its length; duplicate keys are errors.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use super::table::{SETTINGS, Setting, by_path};

/// Longer files are refused.
const FILE_MAX_BYTES: u64 = 4 << 20;

/// Deepest nesting of sections.
const MAX_DEPTH: usize = 32;

/// Most keys, values, sections and lists; aliases count with what they stand for.
const MAX_NODES: usize = 100_000;

/// What a file says.
#[derive(Default)]
pub(super) struct Keys {
    /// Settings and their values, in the order of the table.
    pub(super) known: Vec<(&'static Setting, String)>,
    /// Dotted paths that no setting has. A section of which nothing is known stands
    /// for all that is in it.
    pub(super) ignored: Vec<String>,
    /// Values of the wrong shape.
    pub(super) errors: Vec<String>,
}

/// Reads the file as text.
pub(super) fn read(path: &Path) -> Result<String, String> {
    #[expect(clippy::disallowed_methods, reason = "at the start, before there is any core")]
    let file = std::fs::File::open(path);
    let mut text = String::new();
    file.and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(format!("{} is longer than {FILE_MAX_BYTES} bytes", path.display()));
    }
    Ok(text)
}

/// Splits the text of a file into settings.
pub(super) fn parse(text: &str) -> Result<Keys, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 3 * MAX_NODES,
            max_documents: 1,
            max_recorded_anchor_events: MAX_NODES,
            max_recorded_anchor_bytes: FILE_MAX_BYTES as usize,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: 16,
        },
        emit_comments: false,
    };
    let document: Option<Value> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            // The other formatter speaks to programmers about options of the library.
            let error = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            format!("the file is not valid YAML: {}", error.trim_start_matches("error: "))
        })?;
    let mut keys = Keys::default();
    match document {
        None | Some(Value::Null) => {}
        Some(Value::Object(sections)) => walk("", &sections, &mut keys),
        Some(other) => {
            return Err(format!("the file must consist of `key: value`, found {}", shape(&other)));
        }
    }
    keys.known.sort_by_key(|(setting, _)| SETTINGS.iter().position(|row| row.path == setting.path));
    Ok(keys)
}

/// Sorts the keys of a section; as deep as the parser lets files be.
fn walk(prefix: &str, section: &Map<String, Value>, keys: &mut Keys) {
    for (key, value) in section {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        // A key with dots of its own must not pass for a path.
        let setting = if key.contains('.') { None } else { by_path(&path) };
        let is_section = !key.contains('.') && has_settings_below(&path);
        match (setting, value) {
            // A key without a value keeps the default.
            (Some(_), Value::Null) => {}
            (None, Value::Null) if is_section => {}
            (Some(setting), value) => match scalar(value).or_else(|| structured(setting, value)) {
                Some(text) => keys.known.push((setting, text)),
                None => {
                    keys.errors.push(format!("{path}: must be one value, not {}", shape(value)))
                }
            },
            (None, Value::Object(section)) if is_section => walk(&path, section, keys),
            (None, value) if is_section => {
                keys.errors.push(format!("{path}: must be a section, not {}", shape(value)));
            }
            (None, _) => keys.ignored.push(path),
        }
    }
}

fn has_settings_below(path: &str) -> bool {
    SETTINGS
        .iter()
        .any(|setting| setting.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The text of a single value.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(value) => Some(value.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The JSON text of a list or a section, if the setting takes one.
fn structured(setting: &Setting, value: &Value) -> Option<String> {
    setting.is_structured().then(|| value.to_string())
}

fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Array(_) => "a list",
        Value::Object(_) => "a section",
        Value::Bool(_) | Value::Number(_) | Value::String(_) => "a single value",
    }
}
