//! Relabelling rules as they are written: read, and checked by the ruler that applies them.

use std::slice;

use logsvc_rules::config::{RelabelAction, RelabelConfig};
use logsvc_rules::relabel::Relabeller;
use serde_json::Value;

use super::sections::{count, each, list, text};

const KEYS: [&str; 7] =
    ["source_labels", "separator", "target_label", "regex", "modulus", "replacement", "action"];

const ACTIONS: [(&str, RelabelAction); 11] = [
    ("replace", RelabelAction::Replace),
    ("lowercase", RelabelAction::Lowercase),
    ("uppercase", RelabelAction::Uppercase),
    ("keep", RelabelAction::Keep),
    ("drop", RelabelAction::Drop),
    ("keepequal", RelabelAction::KeepEqual),
    ("dropequal", RelabelAction::DropEqual),
    ("hashmod", RelabelAction::HashMod),
    ("labelmap", RelabelAction::LabelMap),
    ("labeldrop", RelabelAction::LabelDrop),
    ("labelkeep", RelabelAction::LabelKeep),
];

/// Rules in their order.
///
/// # Errors
/// The first fault, with the place of its rule.
pub(super) fn rules(json: &Value) -> Result<Vec<RelabelConfig>, String> {
    let rules = list(json)?.iter().enumerate();
    let rule = |(place, json)| rule(json).map_err(|error| format!("[{place}]: {error}"));
    let rules: Vec<RelabelConfig> = rules.map(rule).collect::<Result<_, String>>()?;
    // Together they may be too much.
    Relabeller::new(&rules).map_err(|error| error.to_string())?;
    Ok(rules)
}

fn rule(json: &Value) -> Result<RelabelConfig, String> {
    let mut rule = RelabelConfig::default();
    each(json, &KEYS, |key, value| {
        match key {
            "source_labels" => rule.source_labels = labels(value)?,
            "separator" => rule.separator = text(value)?,
            "target_label" => rule.target_label = text(value)?,
            "regex" => rule.regex = text(value)?,
            "modulus" => rule.modulus = count(value)?,
            "replacement" => rule.replacement = text(value)?,
            _ => rule.action = action(value)?,
        }
        Ok(())
    })?;
    Relabeller::new(slice::from_ref(&rule)).map_err(|error| error.to_string())?;
    Ok(rule)
}

fn labels(value: &Value) -> Result<Vec<String>, String> {
    list(value)?.iter().map(text).collect()
}

fn action(value: &Value) -> Result<RelabelAction, String> {
    let word = text(value)?.to_ascii_lowercase();
    let known = ACTIONS.iter().find(|(known, _)| *known == word);
    known.map(|(_, action)| *action).ok_or_else(|| format!("unknown relabel action {word:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_have_the_defaults_of_prometheus() {
        let read = rules(&json!([
            {"source_labels": ["a", "b"], "target_label": "c"},
            {"action": "LabelDrop", "regex": "x.*"},
            {"action": "hashmod", "source_labels": ["a"], "target_label": "m", "modulus": 8},
            {"target_label": "${1}_x", "regex": "(.+)", "replacement": 5, "separator": null},
        ]));
        let default = RelabelConfig::default();
        let expected = [
            RelabelConfig {
                source_labels: vec!["a".to_owned(), "b".to_owned()],
                target_label: "c".to_owned(),
                ..default.clone()
            },
            RelabelConfig {
                regex: "x.*".to_owned(),
                action: RelabelAction::LabelDrop,
                ..default.clone()
            },
            RelabelConfig {
                source_labels: vec!["a".to_owned()],
                target_label: "m".to_owned(),
                modulus: 8,
                action: RelabelAction::HashMod,
                ..default.clone()
            },
            RelabelConfig {
                target_label: "${1}_x".to_owned(),
                regex: "(.+)".to_owned(),
                replacement: "5".to_owned(),
                ..default
            },
        ];
        assert_eq!(read.as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn bad_rules_are_refused() {
        for (rule, expected) in [
            (json!({"action": "remove"}), "[0]: action: unknown relabel action \"remove\""),
            (json!({"action": "drop", "regex": "("}), "[0]: error parsing regexp"),
            (json!({}), "replace action requires 'target_label'"),
            (json!({"target_label": "a-b"}), "invalid 'target_label'"),
            (json!({"action": "hashmod", "target_label": "a"}), "requires non-zero modulus"),
            (
                json!({"action": "lowercase", "target_label": "a", "replacement": "b"}),
                "'replacement' can not be set for lowercase action",
            ),
            (
                json!({"action": "keepequal", "target_label": "a", "regex": "b"}),
                "requires only 'source_labels' and `target_label`",
            ),
            (
                json!({"action": "labelkeep", "source_labels": ["b"]}),
                "labelkeep action requires only 'regex'",
            ),
            (json!({"source_labels": ["1a"], "action": "drop"}), "not a valid label name"),
            (json!({"sourcelabels": []}), "sourcelabels: unknown key; did you mean source_labels?"),
            (json!([]), "[0]: must be a section"),
        ] {
            let error = rules(&json!([rule])).expect_err("a bad rule");
            assert!(error.contains(expected), "{rule}: {error}");
        }
    }
}
