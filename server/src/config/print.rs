//! Settings as text: the YAML of `/config`, and the values of `/config/tenant/v1/limits` and
//! `drilldown-limits`.
//!
//! Guarantees: no secret is printed. Reading the printed YAML as a file gives the same settings,
//! except for secrets.

use logsvc_proto::encode::{write_json_text, write_text_array};

use super::field::Field;
use super::table::{SETTINGS, Setting};
use super::{Config, Limits};

/// Which settings are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode<'g> {
    /// All settings.
    Full,
    /// All settings with their defaults.
    Defaults,
    /// The settings with these paths, which somebody has given, if they differ from their defaults.
    Differences(&'g [&'static str]),
}

/// The settings as YAML, indented by four spaces.
pub(crate) fn yaml(config: &Config, mode: Mode<'_>) -> String {
    let mut config = if mode == Mode::Defaults { Config::default() } else { config.clone() };
    let mut defaults = Config::default();
    let mut tree = Tree::default();
    for setting in SETTINGS {
        let value = scalar(&setting.field(&mut config));
        let is_shown = match mode {
            Mode::Full | Mode::Defaults => true,
            Mode::Differences(given) => {
                given.contains(&setting.path) && value != scalar(&setting.field(&mut defaults))
            }
        };
        if is_shown {
            tree.insert(setting.path, value);
        }
    }
    let mut text = String::new();
    tree.print(0, &mut text);
    text
}

/// The paths of settings that differ between two configurations.
pub(crate) fn changed(old: &Config, new: &Config) -> Vec<&'static str> {
    let (mut old, mut new) = (old.clone(), new.clone());
    let mut differs =
        |setting: &Setting| scalar(&setting.field(&mut old)) != scalar(&setting.field(&mut new));
    SETTINGS.iter().filter(|setting| differs(setting)).map(|setting| setting.path).collect()
}

/// Limits of a tenant as YAML.
pub(crate) fn limits_yaml(limits: &Limits) -> String {
    let mut config = Config { limits: limits.clone(), ..Config::default() };
    let limits = published().map(|(name, setting)| {
        let value = scalar(&setting.field(&mut config));
        format!("{name}: {value}\n")
    });
    limits.collect()
}

/// Limits of a tenant as the fields of a JSON object.
pub(crate) fn limits_json(limits: &Limits, out: &mut Vec<u8>) {
    let mut config = Config { limits: limits.clone(), ..Config::default() };
    for (index, (name, setting)) in published().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_text(name, out);
        out.push(b':');
        json(&setting.field(&mut config), out);
    }
}

/// The limits that clients may know, as the reference publishes them: clients can tell from them
/// how a query is bounded or how a pushed line is changed. They stand in the order of their names.
const PUBLISHED: [&str; 18] = [
    "discover_log_levels",
    "discover_service_name",
    "log_level_fields",
    "max_entries_limit_per_query",
    "max_line_size_truncate",
    "max_query_bytes_read",
    "max_query_length",
    "max_query_lookback",
    "max_query_range",
    "max_query_series",
    "metric_aggregation_enabled",
    "otlp_config",
    "pattern_persistence_enabled",
    "query_timeout",
    "retention_period",
    "retention_stream",
    "volume_enabled",
    "volume_max_series",
];

fn published() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    PUBLISHED.iter().filter_map(|name| {
        let setting = SETTINGS.iter().find(|setting| {
            setting.path.strip_prefix("limits_config.").is_some_and(|rest| rest == *name)
        });
        Some((*name, setting?))
    })
}

/// A value as it stands behind a colon in YAML.
pub(super) fn scalar(field: &Field<'_>) -> String {
    let text = field.print();
    if field.is_structured() {
        return String::from_utf8_lossy(&list(&text)).into_owned();
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:@%+-".contains(&byte);
    let begins_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || "./_".contains(c));
    if begins_plain && text.bytes().all(is_plain) && !text.ends_with(':') {
        return text;
    }
    // A JSON string is a YAML string.
    let mut quoted = Vec::new();
    write_json_text(&text, &mut quoted);
    String::from_utf8_lossy(&quoted).into_owned()
}

/// A list or a section as JSON, which is YAML as well.
fn list(text: &str) -> Vec<u8> {
    if text.starts_with(['[', '{']) || text == "null" {
        return text.as_bytes().to_vec();
    }
    let mut out = Vec::new();
    write_text_array(text.split(','), &mut out);
    out
}

fn json(field: &Field<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Bool(_) | Field::Count(_) | Field::SmallCount(_) | Field::Megabytes(_) => {
            out.extend_from_slice(field.print().as_bytes());
        }
        field if field.is_structured() => out.extend_from_slice(&list(&field.print())),
        field => write_json_text(&field.print(), out),
    }
}

/// Keys in the order of the table.
#[derive(Default)]
struct Tree(Vec<(&'static str, Node)>);

enum Node {
    Value(String),
    Section(Tree),
}

impl Tree {
    fn insert(&mut self, path: &'static str, value: String) {
        let Some((section, rest)) = path.split_once('.') else {
            self.0.push((path, Node::Value(value)));
            return;
        };
        let known = self.0.iter().position(|(name, _)| *name == section);
        let place = known.unwrap_or_else(|| {
            self.0.push((section, Node::Section(Tree::default())));
            self.0.len() - 1
        });
        if let Node::Section(tree) = &mut self.0[place].1 {
            tree.insert(rest, value);
        }
    }

    fn print(&self, depth: usize, text: &mut String) {
        for (name, node) in &self.0 {
            let indent = "    ".repeat(depth);
            match node {
                Node::Value(value) => *text += &format!("{indent}{name}: {value}\n"),
                Node::Section(tree) => {
                    *text += &format!("{indent}{name}:\n");
                    tree.print(depth + 1, text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Machine, load_text};
    use super::*;

    fn loaded(text: &str) -> Config {
        let machine = Machine { cores: 3, memory_bytes: Ok(8 << 30), limited_by: None };
        let loaded = load_text(text, &[], &machine).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(loaded.1.is_empty(), "{:?}", loaded.1);
        loaded.0
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let text = "\
server: {http_listen_address: '::1', http_listen_port: 3999, log_level: warn}
data_dir: '/tmp/a: b'
wal: {sync: 2s}
limits_config:
  discover_service_name: [a, b]
  max_line_size: 1536
  max_line_size_truncate_identifier: \"… \\\"x\\\"\"
  max_query_length: 90m
";
        for text in ["", text] {
            let config = loaded(text);
            let all: Vec<&str> = SETTINGS.iter().map(|setting| setting.path).collect();
            for mode in [Mode::Full, Mode::Differences(&all)] {
                let printed = yaml(&config, mode);
                assert_eq!(loaded(&printed), config, "{printed}");
            }
        }
        assert!(yaml(&loaded(text), Mode::Full).starts_with("target: all\n"));
        // Only what somebody has set, and nothing that follows from the machine.
        let given = ["limits_config.max_query_length", "cores", "log_format"];
        let only = yaml(&loaded(text), Mode::Differences(&given));
        assert_eq!(only, "cores: 3\nlimits_config:\n    max_query_length: 1h30m\n");
        assert_eq!(yaml(&loaded(text), Mode::Differences(&[])), "");
        let given = ["limits_config.max_query_length", "limits_config.discover_service_name"];
        let changed = yaml(&loaded(text), Mode::Differences(&given));
        assert!(changed.contains("\n    max_query_length: 1h30m\n"), "{changed}");
        assert!(changed.contains("\n    discover_service_name: [\"a\",\"b\"]\n"), "{changed}");
        assert!(!changed.contains("max_query_series"), "{changed}");
    }

    #[test]
    fn defaults_do_not_depend_on_the_settings() {
        let defaults = yaml(&loaded("limits_config: {max_query_series: 7}"), Mode::Defaults);
        assert_eq!(defaults, yaml(&Config::default(), Mode::Full));
        assert!(defaults.contains("\n    max_query_series: 500\n"), "{defaults}");
    }

    #[test]
    fn limits_are_told_with_their_types() {
        let config = loaded("limits_config: {volume_enabled: false, max_query_length: 2h}");
        let mut object = b"{".to_vec();
        limits_json(&config.limits, &mut object);
        object.push(b'}');
        let limits: serde_json::Value = serde_json::from_slice(&object).expect("JSON");
        assert_eq!(limits["volume_enabled"], false);
        assert_eq!(limits["max_query_series"], 500);
        assert_eq!(limits["max_query_length"], "2h");
        assert_eq!(limits["query_timeout"], "1m");
        assert_eq!(limits["discover_service_name"][0], "service");
        let text = limits_yaml(&config.limits);
        assert!(text.contains("\nmax_query_length: 2h\n"), "{text}");
        assert_eq!(text.lines().count(), limits.as_object().map_or(0, |limits| limits.len()));
    }
}
