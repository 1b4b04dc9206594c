//! What Prometheus refuses in relabelling rules, in its words.

use logsvc_logql::syntax::go_regex::{
    CapturingRegex, MAX_COST, Purpose, compile_capturing, translate,
};
use logsvc_proto::go::quote::quoted;
use logsvc_proto::labels::is_valid_label_name;

use crate::config::{RelabelAction, RelabelConfig};

/// Longest regular expression, in bytes.
const REGEX_MAX_BYTES: usize = 64 << 10;

/// Why a rule is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RelabelError {
    /// The regular expression is none, or one that is too large.
    #[error("{0}")]
    Regex(String),
    /// `hashmod` divides by zero.
    #[error("relabel configuration for hashmod requires non-zero modulus")]
    NoModulus,
    /// The label that is to be written is not named.
    #[error("relabel configuration for {0} action requires 'target_label' value")]
    NoTarget(&'static str),
    /// A name of a label is none. The text is quoted.
    #[error("{0} is not a valid label name")]
    SourceLabel(String),
    /// The name of the label that is to be written is none. The text is quoted.
    #[error("{text} is invalid '{field}' for {action} action")]
    Name {
        /// The text, quoted.
        text: String,
        /// Where it stands.
        field: &'static str,
        /// The action.
        action: &'static str,
    },
    /// The action takes no replacement.
    #[error("'replacement' can not be set for {0} action")]
    Replacement(&'static str),
    /// The action takes two fields.
    #[error("{0} action requires only 'source_labels' and `target_label`, and no other fields")]
    OnlySourceAndTarget(&'static str),
    /// The action takes a regular expression alone.
    #[error("{0} action requires only 'regex', and no other fields")]
    OnlyRegex(&'static str),
}

/// Checks all of a rule but its regular expression, in Prometheus' order.
pub(super) fn check(config: &RelabelConfig) -> Result<(), RelabelError> {
    use RelabelAction::{
        DropEqual, HashMod, KeepEqual, LabelDrop, LabelKeep, LabelMap, Lowercase, Replace,
        Uppercase,
    };
    let standard = RelabelConfig::default();
    let action = config.action.word();
    let target = config.target_label.as_str();
    let bad = |text: &str, field| RelabelError::Name { text: quoted(text), field, action };
    let mut sources = config.source_labels.iter();
    if let Some(name) = sources.find(|name| !is_valid_label_name(name.as_bytes())) {
        return Err(RelabelError::SourceLabel(quoted(name)));
    }
    if config.action == HashMod && config.modulus == 0 {
        return Err(RelabelError::NoModulus);
    }
    let writes_one = matches!(config.action, Lowercase | Uppercase | KeepEqual | DropEqual);
    if (writes_one || matches!(config.action, Replace | HashMod)) && target.is_empty() {
        return Err(RelabelError::NoTarget(action));
    }
    let is_name = is_valid_label_name(target.as_bytes());
    if config.action == Replace && !is_name && !is_template_of_name(target) {
        return Err(bad(target, "target_label"));
    }
    if writes_one && !is_name {
        return Err(bad(target, "target_label"));
    }
    if writes_one && config.replacement != standard.replacement {
        return Err(RelabelError::Replacement(action));
    }
    if config.action == LabelMap && !is_template_of_name(&config.replacement) {
        return Err(bad(&config.replacement, "replacement"));
    }
    if config.action == HashMod && !is_name {
        return Err(bad(target, "target_label"));
    }
    let has_others = config.modulus != standard.modulus || config.separator != standard.separator;
    if matches!(config.action, DropEqual | KeepEqual)
        && (has_others || config.regex != standard.regex)
    {
        return Err(RelabelError::OnlySourceAndTarget(action));
    }
    let has_names = !config.source_labels.is_empty() || !target.is_empty();
    if matches!(config.action, LabelDrop | LabelKeep)
        && (has_others || has_names || config.replacement != standard.replacement)
    {
        return Err(RelabelError::OnlyRegex(action));
    }
    Ok(())
}

/// Whether a text is a name with references in it: a letter, `_` or a reference, then those and
/// digits.
fn is_template_of_name(text: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c != '$' {
            if !is_word(c) || (c.is_ascii_digit() && rest.len() == text.len()) {
                return false;
            }
            rest = &rest[1..];
            continue;
        }
        let reference = &rest[1..];
        let inside = reference.strip_prefix('{');
        let name = inside.unwrap_or(reference);
        let tail = name.trim_start_matches(is_word);
        if tail.len() == name.len() {
            return false;
        }
        let closed = if inside.is_some() { tail.strip_prefix('}') } else { Some(tail) };
        let Some(tail) = closed else { return false };
        rest = tail;
    }
    !text.is_empty()
}

/// What the patterns of a list may still cost.
pub(super) struct Allowance(u64);

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance(MAX_COST)
    }
}

impl Allowance {
    pub(super) fn compile(&mut self, regex: &str) -> Result<CapturingRegex, RelabelError> {
        let too_large = || RelabelError::Regex("error parsing regexp: expression too large".into());
        if regex.len() > REGEX_MAX_BYTES {
            return Err(too_large());
        }
        // Prometheus writes the same around the pattern, and its errors show it.
        let anchored = format!("^(?s:{regex})$");
        let cost =
            translate(anchored.as_bytes(), Purpose::Captures).map_err(RelabelError::Regex)?.cost;
        self.0 = self.0.checked_sub(cost).ok_or_else(too_large)?;
        compile_capturing(anchored.as_bytes()).map_err(RelabelError::Regex)
    }
}
