//! Checks of a group before it is stored or loaded, with the texts of the interface.
//!
//! Each rule gives at most one error, the first one that is found. Whether a query yields a vector
//! is no matter here: one that yields lines fails when it is evaluated.

use logsvc_logql::syntax;
use logsvc_proto::labels::is_valid_label_name;

use crate::expand::{self, TextKind};
use crate::yaml::{ReadGroup, ReadRule};

/// All faults of a group, in the order of its rules.
///
/// # Errors
/// The faults, joined as clients read them.
pub fn check_group(group: &ReadGroup) -> Result<(), String> {
    check_groups(std::slice::from_ref(group))
}

/// All faults of the groups of a rule file.
///
/// # Errors
/// The faults, joined.
pub fn check_groups(groups: &[ReadGroup]) -> Result<(), String> {
    let mut faults = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        if group.name.is_empty() {
            faults.push(format!("group {index}: Groupname must not be empty"));
        } else if groups[..index].iter().any(|earlier| earlier.name == group.name) {
            faults.push(format!("groupname: \"{}\" is repeated in the same file", group.name));
        }
        faults.extend(check_label_names(&group.labels).err());
        faults.extend(group.rules.iter().filter_map(|r| check_rule(r, group).err()));
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join(", ")),
    }
}

/// Whether a name can be addressed by a path of the API.
///
/// # Errors
/// The fault in words.
pub fn check_addressable(group: &str) -> Result<(), String> {
    match group {
        "." | ".." => Err(format!("invalid group name \"{group}\": no path can address it")),
        _ if group.contains('/') => {
            Err(format!("invalid group name \"{group}\": it must not contain a slash"))
        }
        _ => Ok(()),
    }
}

/// Whether a group has no more rules than its tenant may have; 0: no limit.
///
/// # Errors
/// The fault in words.
pub fn check_rule_count(rules: usize, max_rules: usize) -> Result<(), String> {
    match max_rules > 0 && rules > max_rules {
        true => Err(format!(
            "per-user rules per rule group limit (limit: {max_rules} actual: {rules}) exceeded"
        )),
        false => Ok(()),
    }
}

fn check_rule(rule: &ReadRule, group: &ReadGroup) -> Result<(), String> {
    let is_record = !rule.record.is_empty();
    match (is_record, !rule.alert.is_empty()) {
        (true, true) => return Err("only one of 'record' and 'alert' must be set".to_owned()),
        (false, false) => return Err("one of 'record' or 'alert' must be set".to_owned()),
        _ => {}
    }
    if rule.expr.is_empty() {
        return Err("field 'expr' must be set in rule".to_owned());
    }
    if let Err(error) = syntax::parse(&rule.expr) {
        let (kind, name) =
            if is_record { ("record", &rule.record) } else { ("alert", &rule.alert) };
        return Err(format!(
            "could not parse expression for {kind} '{name}' in group '{}': {error}",
            group.name
        ));
    }
    if is_record {
        let fields = [
            ("annotations", !rule.annotations.is_empty()),
            ("for", !rule.hold.is_zero()),
            ("keep_firing_for", !rule.keep_firing.is_zero()),
        ];
        if let Some((field, _)) = fields.iter().find(|(_, is_set)| *is_set) {
            return Err(format!("invalid field '{field}' in recording rule"));
        }
        if !is_valid_metric_name(&rule.record) {
            return Err(format!("invalid recording rule name: {}", rule.record));
        }
    }
    check_label_names(&rule.labels)?;
    if let Some((name, _)) = rule.annotations.iter().find(|(name, _)| !is_label_name(name)) {
        return Err(format!("invalid annotation name: {name}"));
    }
    if is_record {
        return Ok(());
    }
    let texts = [(TextKind::Label, &rule.labels), (TextKind::Annotation, &rule.annotations)];
    for (kind, pairs) in texts {
        for (name, text) in pairs {
            expand::check(kind, name, &rule.alert, text)?;
        }
    }
    Ok(())
}

fn check_label_names(labels: &[(String, String)]) -> Result<(), String> {
    match labels.iter().find(|(name, _)| !is_label_name(name) || name == "__name__") {
        Some((name, _)) => Err(format!("invalid label name: {name}")),
        None => Ok(()),
    }
}

fn is_label_name(name: &str) -> bool {
    is_valid_label_name(name.as_bytes())
}

fn is_valid_metric_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read_group;

    fn faults(text: &str) -> String {
        let group = read_group(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        check_group(&group).err().unwrap_or_default()
    }

    fn faults_of(rule: &str) -> String {
        faults(&format!("name: x\nrules: [{rule}]"))
    }

    #[test]
    fn each_fault_has_its_text() {
        for (text, fault) in [
            ("", "group 0: Groupname must not be empty"),
            ("name: ''\nrules: []", "group 0: Groupname must not be empty"),
            ("name: g", ""),
            ("name: g\nlabels: {a-b: x}", "invalid label name: a-b"),
        ] {
            assert_eq!(faults(text), fault, "{text}");
        }
        for (rule, fault) in [
            ("{alert: a, expr: vector(1)}", ""),
            ("{record: 'a:b', expr: '{app=\"x\"}'}", ""),
            (
                "{alert: a, record: b, expr: vector(1)}",
                "only one of 'record' and 'alert' must be set",
            ),
            ("{expr: vector(1)}", "one of 'record' or 'alert' must be set"),
            ("", ""),
            ("~", "one of 'record' or 'alert' must be set"),
            ("{alert: a}", "field 'expr' must be set in rule"),
            (
                "{alert: a, expr: '{'}",
                "could not parse expression for alert 'a' in group 'x': parse error at line 1, \
                 col 2: syntax error: unexpected $end, expecting IDENTIFIER or }",
            ),
            (
                "{record: r, expr: '{'}",
                "could not parse expression for record 'r' in group 'x': parse error at line 1, \
                 col 2: syntax error: unexpected $end, expecting IDENTIFIER or }",
            ),
            (
                "{record: r, expr: vector(1), annotations: {a: b}}",
                "invalid field 'annotations' in recording rule",
            ),
            ("{record: r, expr: vector(1), for: 1s}", "invalid field 'for' in recording rule"),
            ("{record: r, expr: vector(1), for: 0s}", ""),
            (
                "{record: r, expr: vector(1), keep_firing_for: 1s}",
                "invalid field 'keep_firing_for' in recording rule",
            ),
            ("{record: bad name, expr: vector(1)}", "invalid recording rule name: bad name"),
            ("{record: 1a, expr: vector(1)}", "invalid recording rule name: 1a"),
            ("{alert: a, expr: vector(1), labels: {bad-name: x}}", "invalid label name: bad-name"),
            ("{alert: a, expr: vector(1), labels: {__name__: x}}", "invalid label name: __name__"),
            (
                "{alert: a, expr: vector(1), annotations: {bad-name: x}}",
                "invalid annotation name: bad-name",
            ),
            (
                "{alert: a, expr: vector(1), annotations: {a: '{{ $foo }}'}}",
                "annotation \"a\": template: __alert_a:1: undefined variable \"$foo\"",
            ),
            (
                "{alert: a, expr: vector(1), labels: {x: '{{ $foo }}'}}",
                "label \"x\": template: __alert_a:1: undefined variable \"$foo\"",
            ),
            // Labels of recording rules are no templates.
            ("{record: a, expr: vector(1), labels: {x: '{{ $foo }}'}}", ""),
            (
                "{alert: a}, {alert: b, expr: vector(1)}, {expr: vector(1)}",
                "field 'expr' must be set in rule, one of 'record' or 'alert' must be set",
            ),
        ] {
            assert_eq!(faults_of(rule), fault, "{rule}");
        }
    }

    #[test]
    fn groups_of_a_file_have_names_of_their_own() {
        let named = |name: &str| ReadGroup { name: name.to_owned(), ..ReadGroup::default() };
        let groups = [named("a"), named("b"), named("a"), named("")];
        assert_eq!(
            check_groups(&groups),
            Err("groupname: \"a\" is repeated in the same file, group 3: Groupname must not be \
                 empty"
                .to_owned())
        );
    }

    #[test]
    fn counts_are_bounded_if_there_is_a_bound() {
        assert_eq!(check_rule_count(5, 0), Ok(()));
        assert_eq!(check_rule_count(2, 2), Ok(()));
        let text = "per-user rules per rule group limit (limit: 1 actual: 2) exceeded";
        assert_eq!(check_rule_count(2, 1), Err(text.to_owned()));
    }

    #[test]
    fn names_that_no_path_has_are_refused() {
        for name in ["a/b", "/", ".", ".."] {
            assert!(check_addressable(name).is_err(), "{name}");
        }
        for name in ["a", "...", "g %+ü", "a\\b", " "] {
            assert_eq!(check_addressable(name), Ok(()), "{name}");
        }
    }
}
