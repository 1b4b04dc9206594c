//! Rules for the attributes of OpenTelemetry logs (`otlp_config`).

use logsvc_logql::syntax::go_regex::compile_matcher;
use logsvc_proto::otlp::{Action, AttributeRules};
use regex::bytes::Regex;
use serde::Deserialize;

/// Attributes of resources that are labels unless configured otherwise.
pub(crate) const DEFAULT_INDEX_LABELS: [&str; 18] = [
    "service.name",
    "service.namespace",
    "service.instance.id",
    "deployment.environment",
    "deployment.environment.name",
    "cloud.region",
    "cloud.availability_zone",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.container.name",
    "container.name",
    "k8s.replicaset.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
];

/// Rules of a tenant, in the order in which they apply.
#[derive(Clone, Debug)]
pub(crate) struct OtlpConfig {
    /// The rules as they were written, in JSON.
    text: String,
    ignore_defaults: bool,
    resource: Vec<Rule>,
    scope: Vec<Rule>,
    record: Vec<Rule>,
    severity_text_as_label: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    action: Action,
    names: Names,
}

#[derive(Clone, Debug)]
enum Names {
    Listed(Vec<String>),
    /// Must match the whole name.
    Pattern(Regex),
}

impl Default for OtlpConfig {
    fn default() -> OtlpConfig {
        OtlpConfig {
            text: "{}".to_owned(),
            ignore_defaults: false,
            resource: Vec::new(),
            scope: Vec::new(),
            record: Vec::new(),
            severity_text_as_label: false,
        }
    }
}

/// Compares the texts of the rules.
impl PartialEq for OtlpConfig {
    fn eq(&self, other: &OtlpConfig) -> bool {
        self.text == other.text
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawConfig {
    resource_attributes: Option<RawResource>,
    scope_attributes: Option<Vec<RawRule>>,
    log_attributes: Option<Vec<RawRule>>,
    severity_text_as_label: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawResource {
    ignore_defaults: Option<bool>,
    attributes_config: Option<Vec<RawRule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    action: RawAction,
    #[serde(default)]
    attributes: Vec<String>,
    #[serde(default)]
    regex: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawAction {
    IndexLabel,
    StructuredMetadata,
    Drop,
}

impl OtlpConfig {
    /// Reads the rules from JSON, which the section of the file is handed on as.
    pub(crate) fn parse(text: &str) -> Result<OtlpConfig, String> {
        // Lists would pass for sections without names.
        if !text.starts_with('{') {
            return Err("must be a section".to_owned());
        }
        let raw: RawConfig = serde_json::from_str(text)
            .map_err(|error| error.to_string().replace(" at line 1 column ", " at character "))?;
        let resource = raw.resource_attributes.unwrap_or_default();
        let config = OtlpConfig {
            text: text.to_owned(),
            ignore_defaults: resource.ignore_defaults.unwrap_or(false),
            resource: rules(resource.attributes_config)?,
            scope: rules(raw.scope_attributes)?,
            record: rules(raw.log_attributes)?,
            severity_text_as_label: raw.severity_text_as_label.unwrap_or(false),
        };
        if config.scope.iter().any(|rule| rule.action == Action::IndexLabel) {
            return Err("scope_attributes cannot have the action index_label".to_owned());
        }
        Ok(config)
    }

    /// The rules, as [`OtlpConfig::parse`] takes them.
    pub(crate) fn print(&self) -> &str {
        &self.text
    }

    /// The rules, together with the attributes of resources that are labels for all
    /// tenants.
    pub(crate) fn with_defaults<'c>(&'c self, index_labels: &'c [String]) -> OtlpRules<'c> {
        OtlpRules { config: self, index_labels }
    }
}

fn rules(raw: Option<Vec<RawRule>>) -> Result<Vec<Rule>, String> {
    raw.unwrap_or_default().into_iter().map(Rule::new).collect()
}

impl Rule {
    fn new(raw: RawRule) -> Result<Rule, String> {
        let action = match raw.action {
            RawAction::IndexLabel => Action::IndexLabel,
            RawAction::StructuredMetadata => Action::StructuredMetadata,
            RawAction::Drop => Action::Drop,
        };
        let names = match (raw.attributes.is_empty(), raw.regex.is_empty()) {
            (false, true) => Names::Listed(raw.attributes),
            (true, false) => Names::Pattern(compile_matcher(raw.regex.as_bytes())?),
            _ => return Err("an action needs either attributes or a regex".to_owned()),
        };
        Ok(Rule { action, names })
    }

    fn applies_to(&self, name: &[u8]) -> bool {
        match &self.names {
            Names::Listed(names) => names.iter().any(|listed| listed.as_bytes() == name),
            Names::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

/// The first rule that applies decides; an attribute without one is metadata.
fn decide(rules: &[Rule], name: &[u8]) -> Action {
    let rule = rules.iter().find(|rule| rule.applies_to(name));
    rule.map_or(Action::StructuredMetadata, |rule| rule.action)
}

/// See [`OtlpConfig::with_defaults`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtlpRules<'c> {
    config: &'c OtlpConfig,
    index_labels: &'c [String],
}

impl OtlpRules<'_> {
    /// Whether records may have other labels than their resource.
    pub(crate) fn records_have_labels(&self) -> bool {
        self.config.severity_text_as_label
            || self.config.record.iter().any(|rule| rule.action == Action::IndexLabel)
    }
}

impl AttributeRules for OtlpRules<'_> {
    fn resource(&self, name: &[u8]) -> Action {
        if !self.config.ignore_defaults
            && self.index_labels.iter().any(|label| label.as_bytes() == name)
        {
            return Action::IndexLabel;
        }
        decide(&self.config.resource, name)
    }

    fn scope(&self, name: &[u8]) -> Action {
        decide(&self.config.scope, name)
    }

    fn record(&self, name: &[u8]) -> Action {
        decide(&self.config.record, name)
    }

    fn severity_text_is_label(&self) -> bool {
        self.config.severity_text_as_label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_applies_decides() {
        let text = r#"{
            "resource_attributes": {"attributes_config": [
                {"action": "drop", "attributes": ["service.name", "secret"]},
                {"action": "index_label", "regex": "team\\..*|cell"},
                {"action": "drop", "regex": "team.*"}]},
            "scope_attributes": [{"action": "drop", "attributes": ["s"]}],
            "log_attributes": [{"action": "index_label", "attributes": ["kind"]}]}"#;
        let config = OtlpConfig::parse(text).expect("valid rules");
        let defaults = ["service.name".to_owned()];
        let rules = config.with_defaults(&defaults);
        for (name, action) in [
            ("service.name", Action::IndexLabel),
            ("secret", Action::Drop),
            ("team.name", Action::IndexLabel),
            ("cell", Action::IndexLabel),
            ("teams", Action::Drop),
            ("a cell", Action::StructuredMetadata),
        ] {
            assert_eq!(rules.resource(name.as_bytes()), action, "{name}");
        }
        assert_eq!(rules.scope(b"s"), Action::Drop);
        assert_eq!(rules.scope(b"kind"), Action::StructuredMetadata);
        assert_eq!(rules.record(b"kind"), Action::IndexLabel);
        assert!(rules.records_have_labels() && !rules.severity_text_is_label());
        assert_eq!(OtlpConfig::parse(config.print()), Ok(config.clone()));

        let own = OtlpConfig::parse(
            r#"{"resource_attributes": {"ignore_defaults": true}, "severity_text_as_label": true}"#,
        );
        let own = own.expect("valid rules");
        let rules = own.with_defaults(&defaults);
        assert_eq!(rules.resource(b"service.name"), Action::StructuredMetadata);
        assert!(rules.records_have_labels() && rules.severity_text_is_label());
        let none = OtlpConfig::parse("{}").expect("valid rules");
        assert!(!none.with_defaults(&[]).records_have_labels());
        assert_eq!(none, OtlpConfig::default());
    }

    #[test]
    fn rules_that_say_nothing_clear_are_refused() {
        for (text, expected) in [
            (r#"{"log_attributes": [{"action": "drop"}]}"#, "either attributes or a regex"),
            (
                r#"{"log_attributes": [{"action": "drop", "attributes": ["a"], "regex": "b"}]}"#,
                "either attributes or a regex",
            ),
            (r#"{"log_attributes": [{"action": "keep", "attributes": ["a"]}]}"#, "unknown variant"),
            (r#"{"log_attributes": [{"attributes": ["a"]}]}"#, "missing field `action`"),
            (r#"{"log_attributes": [{"action": "drop", "regex": "("}]}"#, "missing closing )"),
            (
                r#"{"scope_attributes": [{"action": "index_label", "regex": "a"}]}"#,
                "scope_attributes cannot have the action index_label",
            ),
            (r#"{"attributes": []}"#, "unknown field `attributes`"),
            ("[]", "must be a section"),
        ] {
            let error = OtlpConfig::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
