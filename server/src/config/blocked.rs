//! Queries that a tenant may not send (`blocked_queries`).
//!
//! A rule names queries by the hash of their text, by their text, by a regular expression, or,
//! without any of these, all queries. It can apply to some types of queries only. A query is
//! blocked if any rule fits.

use logsvc_logql::syntax::go_regex;
use regex::bytes::Regex;
use serde::Deserialize;

/// Rules of a tenant.
#[derive(Clone, Debug)]
pub(crate) struct BlockedQueries {
    /// The rules as they were written, in JSON.
    text: String,
    rules: Vec<Rule>,
}

impl Default for BlockedQueries {
    fn default() -> BlockedQueries {
        BlockedQueries { text: "[]".to_owned(), rules: Vec::new() }
    }
}

/// Compares the texts of the rules.
impl PartialEq for BlockedQueries {
    fn eq(&self, other: &BlockedQueries) -> bool {
        self.text == other.text
    }
}

#[derive(Clone, Debug)]
struct Rule {
    subject: Subject,
    /// Types of queries; empty stands for all.
    types: Vec<String>,
}

#[derive(Clone, Debug)]
enum Subject {
    All,
    Hash(u32),
    Text(String),
    /// The text itself counts as well: selectors are full of characters that mean
    /// something to a regular expression.
    Pattern(String, Regex),
}

/// The words of [`Rule::types`].
const TYPES: [&str; 3] = ["metric", "filter", "limited"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(default)]
    pattern: String,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    hash: u32,
    #[serde(default)]
    types: RawTypes,
}

/// A list, or words with commas between them as the reference has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawTypes {
    Words(String),
    List(Vec<String>),
}

impl Default for RawTypes {
    fn default() -> RawTypes {
        RawTypes::List(Vec::new())
    }
}

impl BlockedQueries {
    /// Reads the rules from JSON, which the list of the file is handed on as.
    pub(crate) fn parse(text: &str) -> Result<BlockedQueries, String> {
        if text.is_empty() {
            return Ok(BlockedQueries::default());
        }
        if !text.starts_with('[') {
            return Err("must be a list".to_owned());
        }
        let raw: Vec<RawRule> = serde_json::from_str(text)
            .map_err(|error| error.to_string().replace(" at line 1 column ", " at character "))?;
        let rules = raw.into_iter().map(rule).collect::<Result<Vec<_>, String>>()?;
        Ok(BlockedQueries { text: text.to_owned(), rules })
    }

    /// The rules, as [`BlockedQueries::parse`] takes them.
    pub(crate) fn print(&self) -> &str {
        &self.text
    }

    /// Adds the rules of another tenant.
    pub(crate) fn add(&mut self, other: &BlockedQueries) {
        if other.rules.is_empty() || *self == *other {
            return;
        }
        self.rules.extend(other.rules.iter().cloned());
        self.text = match self.text.strip_suffix(']').filter(|list| list.len() > 1) {
            Some(list) => format!("{list},{}", &other.text[1..]),
            None => other.text.clone(),
        };
    }

    /// Whether a query of this text and type may not run.
    pub(crate) fn blocks(&self, query: &str, query_type: &str) -> bool {
        self.rules.iter().any(|rule| {
            let is_meant = match &rule.subject {
                Subject::All => true,
                Subject::Hash(hash) => *hash == hash_of(query),
                Subject::Text(text) => text == query.trim(),
                Subject::Pattern(text, regex) => {
                    text == query.trim() || regex.is_match(query.as_bytes())
                }
            };
            is_meant
                && (rule.types.is_empty() || rule.types.iter().any(|known| known == query_type))
        })
    }
}

fn rule(raw: RawRule) -> Result<Rule, String> {
    let types = match raw.types {
        RawTypes::List(list) => list,
        RawTypes::Words(words) => words.split(',').map(str::to_owned).collect(),
    };
    let types = types.iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty());
    let types: Vec<String> = types.collect();
    if let Some(unknown) = types.iter().find(|word| !TYPES.contains(&word.as_str())) {
        return Err(format!("types: {unknown:?} is none of: {}", TYPES.join(", ")));
    }
    let text = raw.pattern.trim().to_owned();
    let subject = match (raw.hash, text.is_empty(), raw.regex) {
        (hash, ..) if hash > 0 => Subject::Hash(hash),
        (_, true, _) => Subject::All,
        (_, false, false) => Subject::Text(text),
        (_, false, true) => {
            let regex = go_regex::compile(raw.pattern.as_bytes());
            Subject::Pattern(text, regex.map_err(|error| format!("pattern: {error}"))?)
        }
    };
    Ok(Rule { subject, types })
}

/// The hash by which the reference names queries in its log: FNV-1 with 32 bits.
fn hash_of(query: &str) -> u32 {
    query
        .bytes()
        .fold(2_166_136_261, |hash: u32, byte| hash.wrapping_mul(16_777_619) ^ u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> BlockedQueries {
        BlockedQueries::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn rules_name_queries_by_text_pattern_hash_and_type() {
        let query = r#"{app="x"} |= "y""#;
        let hash = hash_of(query);
        let by_hash = format!(r#"[{{"hash": {hash}}}]"#);
        for (text, kind, blocks) in [
            ("[]", "filter", false),
            ("[{}]", "metric", true),
            (r#"[{"pattern": " {app=\"x\"} |= \"y\" "}]"#, "filter", true),
            (r#"[{"pattern": "{app=\"x\"}"}]"#, "filter", false),
            (r#"[{"pattern": "app=.x. *", "regex": true}]"#, "filter", true),
            (r#"[{"pattern": "^app", "regex": true}]"#, "filter", false),
            // The text itself, though it is no expression that matches it.
            (r#"[{"pattern": "{app=\"x\"} |= \"y\"", "regex": true}]"#, "filter", true),
            (&by_hash, "filter", true),
            (r#"[{"hash": 5}]"#, "filter", false),
            (r#"[{"hash": 5}, {"types": "metric,filter"}]"#, "filter", true),
            (r#"[{"types": ["metric", "limited"]}]"#, "filter", false),
        ] {
            assert_eq!(rules(text).blocks(query, kind), blocks, "{text}");
        }
        // The published test value of FNV-1.
        assert_eq!(hash_of("foobar"), 0x31f0_b262);
    }

    #[test]
    fn rules_of_tenants_add_up() {
        let mut first = rules(r#"[{"types": "metric"}]"#);
        first.add(&rules(r#"[{"pattern": "b"}]"#));
        first.add(&rules("[]"));
        assert!(first.blocks("a", "metric") && first.blocks("b", "limited"));
        assert!(!first.blocks("a", "limited"));
        assert_eq!(rules(first.print()).rules.len(), 2);
        let mut none = BlockedQueries::default();
        none.add(&first);
        assert_eq!(none, first);
    }

    #[test]
    fn bad_rules_are_refused() {
        for (text, error) in [
            ("{}", "must be a list"),
            ("[{\"patern\": 1}]", "unknown field"),
            (r#"[{"pattern": "(", "regex": true}]"#, "pattern: "),
            (r#"[{"types": "metrics"}]"#, "\"metrics\" is none of: metric, filter, limited"),
            (r#"[{"hash": -1}]"#, "invalid value"),
        ] {
            let found = BlockedQueries::parse(text).expect_err(text);
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
