//! The files with the limits of single tenants (`runtime_config.file`).
//!
//! `overrides` has a section for each tenant, which begins with the limits of all tenants
//! and changes single keys of `limits_config`. One mistake refuses the files as a whole.

use logsvc_proto::TenantId;
use sha2::{Digest, Sha256};

use super::check::check_limits;
use super::file::{self, IgnoredKey, UnknownKey};
use super::nearest::nearest;
use super::yaml::{self, Entry, Node, Section};
use super::{Config, Limits, LimitsOfTenants};

/// Keys beside `overrides` that the reference has.
const IGNORED: [(&str, &str); 2] = [
    ("configs", "single pushes are not logged"),
    ("multi_kv_config", "the way in which nodes learn of each other does not change"),
];

/// Keys of `limits_config` that are no limits.
const NODE_WIDE: [&str; 2] = ["per_tenant_override_config", "per_tenant_override_period"];

/// The content of the files.
#[derive(Debug)]
pub(crate) struct RuntimeFiles {
    /// The limits of all tenants.
    pub(crate) limits: LimitsOfTenants,
    /// Keys that mean nothing here.
    pub(crate) ignored_keys: Vec<IgnoredKey>,
}

impl RuntimeFiles {
    /// Reads the texts of the files. `others` are the limits of tenants that they do not
    /// name.
    ///
    /// # Errors
    /// Everything that is wrong with them, one text for each fault.
    pub(crate) fn parse(texts: &[String], others: &Limits) -> Result<RuntimeFiles, Vec<String>> {
        let mut document = Section::new();
        let mut errors = Vec::new();
        for text in texts {
            match yaml::parse(text) {
                Ok(section) => yaml::merge(&mut document, section),
                Err(error) => errors.push(format!("runtime config: {error}")),
            }
        }
        let mut limits = LimitsOfTenants::same_for_all(others.clone());
        limits.files_sha256 = sha256(texts);
        let mut files = RuntimeFiles { limits, ignored_keys: Vec::new() };
        for Entry { key, line, value } in &document {
            match (key.as_str(), value) {
                ("overrides", Node::Section(tenants)) => files.read(tenants, others, &mut errors),
                ("overrides", value) if value.is_null() => {}
                ("overrides", value) => {
                    errors.push(format!("overrides: must be a section, not {}", value.shape()));
                }
                (key, _) => match IGNORED.iter().find(|(ignored, _)| *ignored == key) {
                    Some(&(key, reason)) => {
                        files.ignored_keys.push(IgnoredKey { path: key.to_owned(), reason });
                    }
                    None => {
                        let names = IGNORED.iter().map(|(name, _)| *name).chain(["overrides"]);
                        let nearest = nearest(key, names).map(str::to_owned);
                        let unknown = UnknownKey { path: key.to_owned(), line: *line, nearest };
                        errors.push(unknown.text());
                    }
                },
            }
        }
        if errors.is_empty() { Ok(files) } else { Err(errors) }
    }

    fn read(&mut self, tenants: &[Entry], others: &Limits, errors: &mut Vec<String>) {
        for Entry { key: name, value, .. } in tenants {
            let faults = match (TenantId::new(name), value) {
                (Err(error), _) => vec![error.to_string()],
                // A tenant without anything of its own.
                (Ok(_), value) if value.is_null() => continue,
                (Ok(tenant), Node::Section(section)) => {
                    let (limits, ignored, faults) = limits_of(section, others);
                    for IgnoredKey { path, reason } in ignored {
                        let path = format!("overrides.{name}.{}", bare(&path));
                        self.ignored_keys.push(IgnoredKey { path, reason });
                    }
                    self.limits.set(tenant, limits);
                    faults
                }
                (Ok(_), value) => vec![format!("must be a section, not {}", value.shape())],
            };
            let text = |fault| format!("invalid override for tenant {name}: {fault}");
            errors.extend(faults.into_iter().map(text));
        }
    }
}

/// The limits of a tenant, with ignored keys and faults.
fn limits_of(section: &[Entry], others: &Limits) -> (Limits, Vec<IgnoredKey>, Vec<String>) {
    let keys = file::split("limits_config", section);
    let mut faults: Vec<String> = Vec::new();
    for UnknownKey { path, line, nearest } in keys.unknown {
        let nearest = nearest.map(|nearest| bare(&nearest).to_owned());
        faults.push(UnknownKey { path: bare(&path).to_owned(), line, nearest }.text());
    }
    faults.extend(keys.errors.iter().map(|error| bare(error).to_owned()));
    let mut config = Config { limits: others.clone(), ..Config::default() };
    for (setting, text) in keys.known {
        let name = bare(setting.path);
        if NODE_WIDE.contains(&name) {
            faults.push(format!("{name}: it cannot be set for one tenant"));
        } else if let Err(error) = setting.field(&mut config).set(&text) {
            faults.push(format!("{name}: {error}"));
        }
    }
    faults.extend(check_limits(&config.limits));
    (config.limits, keys.ignored, faults)
}

/// A key as it is written for a tenant.
fn bare(path: &str) -> &str {
    path.strip_prefix("limits_config.").unwrap_or(path)
}

/// SHA-256 of the text if there is one file, and of the hashes of the texts if there are
/// several; `None` if there are none.
pub(crate) fn sha256(texts: &[String]) -> Option<[u8; 32]> {
    let mut hashes = texts.iter().map(|text| <[u8; 32]>::from(Sha256::digest(text)));
    if texts.len() <= 1 {
        return hashes.next();
    }
    Some(Sha256::digest(hashes.flatten().collect::<Vec<u8>>()).into())
}

#[cfg(test)]
mod tests {
    use super::super::DeletionMode;
    use super::*;

    fn parsed(texts: &[&str], others: &Limits) -> Result<RuntimeFiles, Vec<String>> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        RuntimeFiles::parse(&texts, others)
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("a tenant")
    }

    #[test]
    fn a_tenant_begins_with_the_limits_of_all() {
        let others = Limits { max_query_series: 7, ..Limits::default() };
        let text = "
overrides:
  tenant-a:
    max_line_size: 1KB
    query_timeout: 90s
    volume_enabled: false
    discover_service_name: [b, c]
    deletion_mode: filter-only
    max_query_length:
    retention_stream:
      - {selector: '{a=\"b\"}', period: 24h}
    otlp_config: {severity_text_as_label: true}
  29: {ingestion_rate_mb: 0.5}
  empty:
configs:
  tenant-a: {log_push_request: true}
";
        let files = parsed(&[text], &others).expect("valid files");
        let own = files.limits.of(&tenant("tenant-a"));
        let expected = Limits {
            max_line_size_bytes: 1024,
            query_timeout_ns: 90_000_000_000,
            volume_enabled: false,
            deletion_mode: DeletionMode::FilterOnly,
            discover_service_name: vec!["b".to_owned(), "c".to_owned()],
            retention_stream: own.retention_stream.clone(),
            otlp: own.otlp.clone(),
            ..others.clone()
        };
        assert_eq!(**own, expected);
        assert_ne!((&own.retention_stream, &own.otlp), (&others.retention_stream, &others.otlp));
        assert!((files.limits.of(&tenant("29")).ingestion_rate_mb - 0.5).abs() < 1e-9);
        for name in ["empty", "other"] {
            assert_eq!(**files.limits.of(&tenant(name)), others, "{name}");
        }
        let ignored: Vec<&str> = files.ignored_keys.iter().map(|key| key.path.as_str()).collect();
        assert_eq!(ignored, ["configs"]);
    }

    #[test]
    fn every_limit_can_be_set_for_a_tenant() {
        use super::super::table::SETTINGS;
        for setting in SETTINGS.iter().filter(|row| row.path.starts_with("limits_config.")) {
            let name = bare(setting.path);
            if NODE_WIDE.contains(&name) {
                continue;
            }
            let mut changed = Config::default();
            let values = [
                "7",
                "300",
                "48h",
                "7MB",
                "true",
                "false",
                "filter-only",
                "local",
                "2030-01-01T00:00:00Z",
            ];
            let structured = [
                r#"{"severity_text_as_label":true}"#,
                r#"[{"period":"24h","selector":"{a=\"b\"}"}]"#,
                r#"[{"pattern":"x"}]"#,
                "http://h",
                "{}",
                "[]",
            ];
            let value = values.into_iter().chain(structured).find(|value| {
                // Most values suit only some settings.
                setting.field(&mut changed).set(value).is_ok()
                    && changed != Config::default()
                    && check_limits(&changed.limits).next().is_none()
            });
            let value = value.unwrap_or_else(|| panic!("no value for {name}"));
            let quote = if value.starts_with(['{', '[']) { "" } else { "'" };
            let text = format!("overrides: {{t: {{{name}: {quote}{value}{quote}}}}}");
            let files = parsed(&[&text], &Limits::default());
            let files = files.unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
            assert_eq!(**files.limits.of(&tenant("t")), changed.limits, "{name}");
        }
    }

    #[test]
    fn one_mistake_refuses_everything() {
        for (text, expected) in [
            (
                "overrides: {a: {max_line_size: 1KB}, b: {max_line_size: 1XB}}",
                "invalid override for tenant b: max_line_size: \"1XB\" is not a size",
            ),
            (
                "overrides:\n  a:\n    max_lnie_size: 1KB",
                "invalid override for tenant a: max_lnie_size: unknown key in line 3; did you mean max_line_size?",
            ),
            (
                "overrides: {a: {retention_period: 1h}}",
                "invalid override for tenant a: retention_period: retention period must be >= 24h was 1h",
            ),
            (
                "overrides: {a: {retention_stream: [{selector: '{a=\"b\"}', period: 2h}]}}",
                "invalid override for tenant a: retention_stream: retention period must be >= 24h was 2h",
            ),
            ("overrides: {a: {volume_enabled: {b: 1}}}", "must be one value, not a section"),
            ("overrides: {a: 5}", "invalid override for tenant a: must be a section"),
            ("overrides: {'a b': {}}", "unsupported character ' '"),
            (
                "overrides: {a: {per_tenant_override_period: 1s}}",
                "per_tenant_override_period: it cannot be set for one tenant",
            ),
            (
                "overrides: {a: {deletion_mode: filter}}",
                "invalid override for tenant a: deletion_mode: unknown deletion mode: must be one of disabled|filter-only|filter-and-delete",
            ),
            ("overrides: [a]", "overrides: must be a section, not a list"),
            ("override: {}", "override: unknown key in line 1; did you mean overrides?"),
            ("overrides: [", "runtime config: the file is not valid YAML"),
            ("text", "must consist of `key: value`"),
        ] {
            let errors = parsed(&[text], &Limits::default()).expect_err(text);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].contains(expected), "{text}: {}", errors[0]);
        }
    }

    #[test]
    fn of_several_files_the_last_one_counts() {
        let texts = [
            "overrides: {a: {max_line_size: 1KB, max_query_series: 3}}",
            "",
            "overrides: {a: {max_line_size: 2KB}, b: {max_query_series: 4}}",
        ];
        let files = parsed(&texts, &Limits::default()).expect("valid files");
        let (a, b) = (files.limits.of(&tenant("a")), files.limits.of(&tenant("b")));
        assert_eq!((a.max_line_size_bytes, a.max_query_series), (2048, 3));
        assert_eq!(b.max_query_series, 4);
        assert!(files.limits.files_sha256.is_some());
        let none = parsed(&[], &Limits::default()).expect("nothing to refuse");
        assert_eq!(none.limits.files_sha256, None);
    }
}
