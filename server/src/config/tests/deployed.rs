//! The files of packages that follow from the table: the commented file and the schema.

use serde_json::{Value, json};

use super::super::{example, schema, yaml};
use super::*;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[expect(clippy::disallowed_methods, reason = "it reads files of the repository")]
fn read(name: &str) -> String {
    let path = Path::new(ROOT).join(name);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "it writes a file of the repository")]
fn compare(name: &str, made: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(Path::new(ROOT).join(name), made).expect("the folder can be written");
        return;
    }
    assert!(
        read(name) == made,
        "{name} differs from the table of settings: run\n\
         UPDATE_DOCS=1 cargo test -p logsvc-server documentation"
    );
}

/// A document as the schema sees it.
fn document(text: &str) -> Value {
    let section = yaml::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    yaml::Node::Section(section).to_json()
}

fn judge(schema: &Value, text: &str) -> Result<(), String> {
    schema::agrees(schema, schema, &document(text))
}

fn made_schema() -> Value {
    serde_json::from_str(&schema::text()).expect("the schema is JSON")
}

#[test]
fn the_commented_file_is_documentation_that_is_up_to_date() {
    compare("deploy/config/logsvc.yaml", &example::yaml());
}

#[test]
fn the_schema_is_documentation_that_is_up_to_date() {
    compare("deploy/config/logsvc.schema.json", &schema::text());
}

#[test]
fn the_commented_file_says_the_defaults() {
    let text = example::yaml();
    let packaged = Config { data_dir: example::DATA_DIR.into(), ..config_of("", &[]) };
    assert_eq!(config_of(&text, &[]), packaged);
    let full = example::without_signs(&text);
    assert_ne!(full, text);
    let document = document(&full);
    for setting in SETTINGS {
        let place = format!("/{}", setting.path.replace('.', "/"));
        assert!(document.pointer(&place).is_some(), "{} is not in the file", setting.path);
    }
    assert_eq!(config_of(&full, &[]), packaged);
    for line in text.lines().filter(|line| line.trim_start().starts_with("# ")) {
        assert!(line.len() <= 100, "{line}");
    }
}

#[test]
fn example_files_agree_with_the_schema() {
    let schema = made_schema();
    let text = example::yaml();
    judge(&schema, &text).expect("the commented file");
    judge(&schema, &example::without_signs(&text)).expect("the full file");
    judge(&schema, "").expect("an empty file");
    let mut count = 0;
    for page in ["docs/configuration.md", "docs/migration.md", "docs/rules.md"] {
        let page_text = read(page);
        let blocks = page_text.split("```yaml\n").skip(1);
        for block in blocks.filter_map(|rest| rest.split("```").next()) {
            // Other blocks are files of agents, of tenants, or of rules.
            if load_with(block, &[]).is_ok() {
                judge(&schema, block).unwrap_or_else(|fault| panic!("{page}: {fault}\n{block}"));
                count += 1;
            }
        }
    }
    assert!(count >= 5, "only {count} examples were found");
}

#[test]
fn mistakes_break_the_schema_and_the_start() {
    let schema = made_schema();
    for text in [
        "server: {http_listen_prt: 1}",
        "serve: {}",
        "server: 3100",
        "server: {http_listen_port: x}",
        "server: {http_listen_port: -1}",
        "server: {log_level: loud}",
        "wal: {sync: sometimes}",
        "limits_config: {query_timeout: 5 minutes}",
        "limits_config: {max_line_size: big}",
        "limits_config: {reject_old_samples: perhaps}",
        "limits_config: {ingestion_rate_mb: -1}",
        "limits_config: {discover_service_name: {a: b}}",
        "limits_config: {enforced_labels: [[a]]}",
        "data_dir: [a]",
        "wal.sync: always",
    ] {
        assert!(judge(&schema, text).is_err(), "the schema takes {text}");
        assert!(!errors_of(text).is_empty(), "the server takes {text}");
    }
}

/// What the server takes the schema takes as well.
#[test]
fn the_schema_refuses_nothing_that_the_server_takes() {
    let schema = made_schema();
    let values = [
        json!(0),
        json!(1),
        json!(1.5),
        json!(70_000),
        json!(-1),
        json!(true),
        json!(null),
        json!(""),
        json!("0"),
        json!("1"),
        json!(" 7 "),
        json!("x y"),
        json!("true"),
        json!("10m"),
        json!("1h30m"),
        json!("1.5h"),
        json!("1d"),
        json!("10ms"),
        json!("1us"),
        json!("4KB"),
        json!("4 kib"),
        json!("1g"),
        json!("2TB"),
        json!("always"),
        json!("0.5"),
        json!("1e3"),
        json!("a,b"),
        json!("::1"),
        json!("2030-01-01T00:00:00Z"),
        json!([]),
        json!(["a", "b"]),
        json!({}),
        json!({"a": "b"}),
        json!([{"selector": "{a=\"b\"}", "period": "24h"}]),
    ];
    let (mut taken, mut refused) = (0, 0);
    for setting in SETTINGS {
        let mut sections: Vec<&str> = setting.path.split('.').collect();
        let key = sections.pop().expect("a path has a key");
        for value in &values {
            let inner = format!("{{{}: {value}}}", key);
            let text =
                sections.iter().rev().fold(inner, |inner, name| format!("{{{name}: {inner}}}"));
            if load_with(&text, &[]).is_ok() {
                taken += 1;
                judge(&schema, &text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            } else {
                refused += usize::from(judge(&schema, &text).is_err());
            }
        }
    }
    assert!(taken > 1000 && refused > 1000, "{taken} taken, {refused} refused by both");
}
