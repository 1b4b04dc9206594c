//! The rules of a tenant for single streams (`limits_config.retention_stream`).
//!
//! A value keeps the text of its rules: two values are equal if their texts are. What can go
//! wrong: the text is not JSON, a selector or a duration does not parse, or a period is shorter
//! than [`PERIOD_MIN_NS`]. [`StreamRetention::parse`] then returns one line about it.

use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax;
use logsvc_proto::time::{format_model_duration, parse_go_duration_ns, parse_model_duration_ns};
use logsvc_shards::retention::{PERIOD_MIN_NS, StreamPeriod};
use serde::Deserialize;

/// Retention rules for streams of one tenant.
#[derive(Clone, Debug)]
pub(crate) struct StreamRetention {
    /// The rules as they were written, in JSON.
    text: String,
    rules: Vec<StreamPeriod>,
}

impl Default for StreamRetention {
    fn default() -> StreamRetention {
        StreamRetention { text: "[]".to_owned(), rules: Vec::new() }
    }
}

/// Compares the texts of the rules.
impl PartialEq for StreamRetention {
    fn eq(&self, other: &StreamRetention) -> bool {
        self.text == other.text
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    selector: String,
    #[serde(default)]
    priority: i64,
    period: String,
}

impl StreamRetention {
    /// Reads the rules from JSON. The reader of the YAML file hands its list over as JSON.
    ///
    /// # Errors
    /// A rule is wrong.
    pub(crate) fn parse(text: &str) -> Result<StreamRetention, String> {
        if text.is_empty() {
            return Ok(StreamRetention::default());
        }
        if !text.starts_with('[') {
            return Err("must be a list".to_owned());
        }
        let raw: Vec<RawRule> = serde_json::from_str(text)
            .map_err(|error| error.to_string().replace(" at line 1 column ", " at character "))?;
        let rules = raw.into_iter().map(rule).collect::<Result<Vec<_>, String>>()?;
        Ok(StreamRetention { text: text.to_owned(), rules })
    }

    /// The rules, as [`StreamRetention::parse`] takes them.
    pub(crate) fn print(&self) -> &str {
        &self.text
    }

    /// The rules, ready to be matched with streams.
    pub(crate) fn rules(&self) -> &[StreamPeriod] {
        &self.rules
    }
}

fn rule(raw: RawRule) -> Result<StreamPeriod, String> {
    let selector = syntax::parse_selector(&raw.selector);
    let selector = selector.map_err(|error| format!("selector {:?}: {error}", raw.selector))?;
    let matchers = selector.matchers.iter().map(CompiledMatcher::new);
    let matchers = matchers.collect::<Result<Vec<_>, String>>()?;
    let period = parse_model_duration_ns(&raw.period).ok();
    let period_ns = period.or_else(|| parse_go_duration_ns(&raw.period).ok());
    let period_ns = period_ns.ok_or_else(|| format!("{:?} is not a duration", raw.period))?;
    if period_ns < PERIOD_MIN_NS {
        let was = format_model_duration(period_ns.max(0));
        return Err(format!("retention period must be >= 24h was {was}"));
    }
    Ok(StreamPeriod { matchers: matchers.into(), priority: raw.priority, period_ns })
}
