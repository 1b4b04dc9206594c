//! Relabelling as Prometheus does it, of alerts and of series on their way out.
//!
//! Guarantees: the rules of a list are checked and compiled once, with Prometheus' messages. A
//! regular expression must match the whole text, and `.` matches `\n`. The names of labels that a
//! rule writes match `[a-zA-Z_][a-zA-Z0-9_]*`; a rule that would write another name does nothing.
//!
//! Bounds: the patterns of a list cost no more than one pattern may
//! ([`go_regex::MAX_COST`]). A value that is put together has at most [`VALUE_MAX_BYTES`], else
//! the rule does nothing. A set that grows beyond [`SET_MAX_BYTES`] is dropped, because a list of
//! `labelmap` rules can double it with each rule.
//!
//! [`go_regex::MAX_COST`]: logsvc_logql::syntax::go_regex::MAX_COST

mod checks;
mod expand;
mod letters;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use logsvc_logql::syntax::go_regex::CapturingRegex;
use logsvc_proto::Labels;
use logsvc_proto::labels::is_valid_label_name;
use md5::{Digest, Md5};

pub use self::checks::RelabelError;
use self::expand::{expand, expand_within};
use crate::config::{RelabelAction, RelabelConfig};

/// Longest value that a rule puts together, in bytes.
pub const VALUE_MAX_BYTES: usize = 64 << 10;

/// Most bytes of the names and values of a set on its way through the rules.
pub const SET_MAX_BYTES: usize = 1 << 20;

/// A list of relabelling rules, ready to be applied.
#[derive(Clone, Debug, Default)]
pub struct Relabeller {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    config: RelabelConfig,
    regex: CapturingRegex,
}

impl Relabeller {
    /// Checks and compiles rules.
    ///
    /// # Errors
    /// The first rule that Prometheus would refuse, in its words.
    pub fn new(configs: &[RelabelConfig]) -> Result<Relabeller, RelabelError> {
        let mut left = checks::Allowance::default();
        let rules = configs.iter().map(|config| {
            checks::check(config)?;
            Ok(Rule { regex: left.compile(&config.regex)?, config: config.clone() })
        });
        Ok(Relabeller { rules: rules.collect::<Result<_, _>>()? })
    }

    /// Whether there are no rules, so that sets stay as they are.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The set after all rules, which may be empty. `None`: a rule drops it, or it has become too
    /// large. Labels with empty values vanish.
    pub fn apply(&self, labels: &Labels) -> Option<Labels> {
        let mut set = LabelSet::of(labels);
        self.rules.iter().all(|rule| rule.apply(&mut set)).then(|| set.into_labels())
    }
}

impl Rule {
    /// Whether the set is kept.
    fn apply(&self, set: &mut LabelSet<'_>) -> bool {
        let config = &self.config;
        match config.action {
            RelabelAction::LabelMap => self.map_names(set),
            RelabelAction::LabelDrop => set.retain(|name| !self.matches(name)),
            RelabelAction::LabelKeep => set.retain(|name| self.matches(name)),
            RelabelAction::Keep => return self.matches(&self.joined(set)),
            RelabelAction::Drop => return !self.matches(&self.joined(set)),
            RelabelAction::KeepEqual => {
                return self.joined(set) == set.get(&config.target_label);
            }
            RelabelAction::DropEqual => {
                return self.joined(set) != set.get(&config.target_label);
            }
            RelabelAction::Replace => self.replace(set),
            RelabelAction::Lowercase => {
                let value = letters::lower(&self.joined(set));
                set.put(&config.target_label, value);
            }
            RelabelAction::Uppercase => {
                let value = letters::upper(&self.joined(set));
                set.put(&config.target_label, value);
            }
            RelabelAction::HashMod => {
                let value = hash(self.joined(set).as_bytes()) % config.modulus;
                set.put(&config.target_label, value.to_string());
            }
        }
        set.text_len_bytes <= SET_MAX_BYTES
    }

    /// The values of the source labels; an absent label is empty.
    fn joined(&self, set: &LabelSet<'_>) -> String {
        let values: Vec<_> = self.config.source_labels.iter().map(|name| set.get(name)).collect();
        values.join(&self.config.separator)
    }

    fn matches(&self, text: &str) -> bool {
        self.regex.regex.is_match(text.as_bytes())
    }

    fn replace(&self, set: &mut LabelSet<'_>) {
        let text = self.joined(set);
        let Some(captures) = self.regex.regex.captures(text.as_bytes()) else { return };
        let names = &self.regex.group_names;
        let name = expand(&self.config.target_label, &captures, names);
        let value = expand(&self.config.replacement, &captures, names);
        if let (Some(name), Some(value)) = (name, value) {
            set.put(&name, value);
        }
    }

    fn map_names(&self, set: &mut LabelSet<'_>) {
        // Labels that the rule writes are not mapped again.
        for (name, value) in set.pairs.clone() {
            if let Some(captures) = self.regex.regex.captures(name.as_bytes()) {
                let names = &self.regex.group_names;
                let template = &self.config.replacement;
                if let Some(mapped) = expand_within(&name, template, &captures, names) {
                    set.put(&mapped, value);
                }
            }
            if set.text_len_bytes > SET_MAX_BYTES {
                return;
            }
        }
    }
}

/// The number of `hashmod`: the last half of the MD5 sum.
fn hash(text: &[u8]) -> u64 {
    let sum = Md5::digest(text);
    sum[8..].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A set of labels that rules change.
struct LabelSet<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    text_len_bytes: usize,
}

impl<'a> LabelSet<'a> {
    fn of(labels: &'a Labels) -> LabelSet<'a> {
        let pairs = labels.iter().filter(|(_, value)| !value.is_empty());
        LabelSet {
            pairs: pairs.map(|(name, value)| (name.into(), value.into())).collect(),
            text_len_bytes: labels.text_len_bytes(),
        }
    }

    fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Sets a label, or removes it if the value is empty. Does nothing if the name is none.
    fn put(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        let value = value.into();
        if !is_valid_label_name(name.as_bytes()) {
            return;
        }
        self.retain(|found| found != name);
        if !value.is_empty() {
            self.text_len_bytes += name.len() + value.len();
            self.pairs.push((name.to_owned().into(), value));
        }
    }

    fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        let text_len_bytes = &mut self.text_len_bytes;
        self.pairs.retain(|(name, value)| {
            let is_kept = keeps(name);
            if !is_kept {
                *text_len_bytes -= name.len() + value.len();
            }
            is_kept
        });
    }

    fn into_labels(self) -> Labels {
        Labels::from_result_pairs(self.pairs).expect("put() keeps names unique")
    }
}
