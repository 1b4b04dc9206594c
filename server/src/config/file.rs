//! The YAML file, split into settings.

use std::io::{self, Read};
use std::path::Path;

use super::cluster;
use super::foreign;
use super::nearest::nearest;
use super::ruler::NEEDED_FILE_MAX_BYTES;
use super::table::{SETTINGS, Setting, by_path};
use super::yaml::{self, Entry, Node, TEXT_MAX_BYTES};

/// Most unknown keys that get an error of their own.
const UNKNOWN_TOLD_MAX: usize = 50;

/// Most unknown keys for which the nearest known key is searched.
const NEAREST_MAX: usize = 20;

/// The keys of a file, sorted by their fate.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Settings and their values, in the order of the table.
    pub(super) known: Vec<(&'static Setting, String)>,
    /// Keys that only the reference has.
    pub(super) ignored: Vec<IgnoredKey>,
    /// Keys that neither this server nor the reference has.
    pub(super) unknown: Vec<UnknownKey>,
    /// Values of the wrong shape.
    pub(super) errors: Vec<String>,
}

/// A key that means nothing here, with all that is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IgnoredKey {
    /// Its dotted path.
    pub(crate) path: String,
    /// Why it means nothing.
    pub(crate) reason: &'static str,
}

/// A key that is neither a setting nor one of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnknownKey {
    pub(super) path: String,
    pub(super) line: u64,
    /// The nearest known key.
    pub(super) nearest: Option<String>,
}

/// An error for each unknown key, as long as they are not too many.
pub(super) fn unknown_texts(unknown: &[UnknownKey]) -> Vec<String> {
    let told = unknown.iter().take(UNKNOWN_TOLD_MAX).map(UnknownKey::text);
    let rest = unknown.len().saturating_sub(UNKNOWN_TOLD_MAX);
    let rest = (rest > 0).then(|| format!("and {rest} more unknown keys"));
    told.chain(rest).collect()
}

/// Reads the first file of a list with commas that is there.
pub(super) fn read_first(paths: &Path) -> Result<String, String> {
    let list = paths.to_str().unwrap_or_default();
    let found = list.split(',').map(Path::new).find(|path| path.exists());
    read(found.unwrap_or(paths))
}

impl UnknownKey {
    /// The error that it is.
    pub(super) fn text(&self) -> String {
        let UnknownKey { path, line, nearest } = self;
        match nearest {
            Some(nearest) => format!("{path}: unknown key in line {line}; did you mean {nearest}?"),
            None => format!("{path}: unknown key in line {line}"),
        }
    }
}

/// Reads a file of credentials.
pub(super) fn read_small(path: &Path) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "at the start, or on a side thread")]
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(NEEDED_FILE_MAX_BYTES.into()).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads the file as text.
pub(super) fn read(path: &Path) -> Result<String, String> {
    #[expect(clippy::disallowed_methods, reason = "at the start, before there is any core")]
    let file = std::fs::File::open(path);
    let mut text = String::new();
    file.and_then(|file| file.take(TEXT_MAX_BYTES as u64 + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if text.len() > TEXT_MAX_BYTES {
        return Err(format!("{} is longer than {TEXT_MAX_BYTES} bytes", path.display()));
    }
    Ok(text)
}

/// Splits the text of a file into settings.
pub(super) fn parse(text: &str) -> Result<Keys, String> {
    let document = yaml::parse(text)?;
    let mut keys = split("", &document);
    keys.errors.extend(cluster::grpc_clients(&document));
    Ok(keys)
}

/// Splits a section into settings. `prefix` is its path.
pub(super) fn split(prefix: &str, section: &[Entry]) -> Keys {
    let mut keys = Keys::default();
    walk(prefix, section, &mut keys);
    keys.known.sort_by_key(|(setting, _)| SETTINGS.iter().position(|row| row.path == setting.path));
    keys
}

/// Sorts the keys of a section; as deep as the parser lets files be.
fn walk(prefix: &str, section: &[Entry], keys: &mut Keys) {
    for Entry { key, line, value } in section {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        // A key with dots of its own must not pass for a path.
        let is_name = !key.contains('.');
        let setting = if is_name { by_path(&path) } else { None };
        let is_section = is_name && has_settings_below(&path);
        let reason = if is_name { foreign::key_reason(&path) } else { None };
        match (setting, value) {
            // A key without a value keeps the default.
            (Some(_), value) if value.is_null() => {}
            (None, value) if value.is_null() && is_section => {}
            (Some(setting), value) => match value.scalar().or_else(|| structured(setting, value)) {
                Some(text) => keys.known.push((setting, text)),
                None => {
                    keys.errors.push(format!("{path}: must be one value, not {}", value.shape()))
                }
            },
            (None, Node::Section(section)) if is_section => walk(&path, section, keys),
            (None, value) if is_section => {
                keys.errors.push(format!("{path}: must be a section, not {}", value.shape()));
            }
            (None, _) => match reason {
                Some(reason) => keys.ignored.push(IgnoredKey { path, reason }),
                None => {
                    let nearest =
                        if keys.unknown.len() < NEAREST_MAX { nearest_key(&path) } else { None };
                    keys.unknown.push(UnknownKey { path, line: *line, nearest });
                }
            },
        }
    }
}

/// The key of a setting or of the reference that a path may mean.
fn nearest_key(path: &str) -> Option<String> {
    // A key with dots of its own that was meant as a path.
    if by_path(path).is_some()
        && let Some((section, key)) = path.rsplit_once('.')
    {
        return Some(format!("the key {key} in the section {section}"));
    }
    let own = SETTINGS.iter().map(|setting| setting.path);
    // Sections are keys as well.
    let sections = SETTINGS.iter().filter_map(|setting| Some(setting.path.rsplit_once('.')?.0));
    let all = own.chain(sections).chain(foreign::keys().map(|(path, _)| path));
    nearest(path, all).map(str::to_owned)
}

fn has_settings_below(path: &str) -> bool {
    SETTINGS
        .iter()
        .any(|setting| setting.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The JSON text of a list or a section, if the setting takes one.
fn structured(setting: &Setting, value: &Node) -> Option<String> {
    setting.is_structured().then(|| value.to_json().to_string())
}
