//! Which rules a listing shows: the parameters of Prometheus' `/api/v1/rules`.

use std::sync::Arc;

use logsvc_http::Params;
use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax;
use logsvc_proto::Labels;
use logsvc_rules::messages::{GroupStatus, RuleStatus};
use xxhash_rust::xxh3::xxh3_128;

/// The kind of rules that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Any,
    Alert,
    Record,
}

/// See the module.
#[derive(Debug)]
pub(super) struct RuleFilter {
    kind: Kind,
    namespaces: Vec<String>,
    groups: Vec<String>,
    rules: Vec<String>,
    /// Each is a set of matchers; a rule is shown if all of one set match its labels.
    matchers: Vec<Vec<CompiledMatcher>>,
    excludes_alerts: bool,
    /// Most groups of the answer.
    max_groups: Option<usize>,
    /// The token of the last group of the answer before.
    after: Option<String>,
}

/// Some groups of a listing with the rules that are shown.
#[derive(Debug)]
pub(super) struct Page<'g> {
    pub(super) groups: Vec<(&'g GroupStatus, Vec<&'g RuleStatus>)>,
    pub(super) shows_alerts: bool,
    /// Names the last group if there are further ones.
    pub(super) next_token: Option<String>,
}

impl RuleFilter {
    /// The filter that parameters ask for.
    ///
    /// # Errors
    /// The text that the client reads.
    pub(super) fn of(params: &Params) -> Result<RuleFilter, String> {
        let kind = match params.get_non_empty("type") {
            None => Kind::Any,
            Some("alert") => Kind::Alert,
            Some("record") => Kind::Record,
            Some(other) => return Err(format!("not supported value {other:?}")),
        };
        let names = |name: &str| -> Vec<String> {
            let values = params.get_all(name).filter(|value| !value.is_empty());
            values.map(str::to_owned).collect()
        };
        let matchers = params.get_all("match[]").map(matchers_of).collect::<Result<_, _>>()?;
        let (max_groups, after) = paging(params)?;
        Ok(RuleFilter {
            kind,
            namespaces: names("file"),
            groups: names("rule_group"),
            rules: names("rule_name"),
            matchers,
            excludes_alerts: flag(params, "exclude_alerts")?,
            max_groups,
            after,
        })
    }

    /// The groups that are shown, in their order. Groups of which no rule is shown are left out.
    ///
    /// # Errors
    /// The text that the client reads: there is no group with the token.
    pub(super) fn page<'g>(&self, groups: &'g [Arc<GroupStatus>]) -> Result<Page<'g>, String> {
        let mut page =
            Page { groups: Vec::new(), shows_alerts: !self.excludes_alerts, next_token: None };
        let mut rest = groups.iter().map(|group| &**group);
        if let Some(after) = &self.after
            && !rest.any(|group| token_of(group) == *after)
        {
            return Err(format!(
                "invalid parameter \"group_next_token\": invalid group_next_token '{after}'. were \
                 rule groups changed?"
            ));
        }
        for group in rest {
            let has = |names: &[String], name: &str| {
                names.is_empty() || names.iter().any(|one| one == name)
            };
            if !has(&self.namespaces, &group.namespace) || !has(&self.groups, &group.name) {
                continue;
            }
            let shown = group.rules.iter().filter(|rule| self.shows(rule));
            let rules: Vec<&RuleStatus> = shown.collect();
            if rules.is_empty() {
                continue;
            }
            if Some(page.groups.len()) == self.max_groups {
                page.next_token = page.groups.last().map(|(last, _)| token_of(last));
                break;
            }
            page.groups.push((group, rules));
        }
        Ok(page)
    }

    fn shows(&self, rule: &RuleStatus) -> bool {
        let is_of_kind = match self.kind {
            Kind::Any => true,
            Kind::Alert => rule.alerting.is_some(),
            Kind::Record => rule.alerting.is_none(),
        };
        let is_named = self.rules.is_empty() || self.rules.iter().any(|name| **name == *rule.name);
        let matches = |set: &Vec<CompiledMatcher>| {
            set.iter().all(|matcher| matcher.matches(fixed_value(&rule.labels, matcher.name())))
        };
        is_of_kind && is_named && (self.matchers.is_empty() || self.matchers.iter().any(matches))
    }
}

/// The value of a label of a rule; empty if it is a template, whose value only alerts have.
fn fixed_value<'l>(labels: &'l Labels, name: &str) -> &'l str {
    labels.get(name).filter(|value| !value.contains("{{")).unwrap_or_default()
}

fn matchers_of(text: &str) -> Result<Vec<CompiledMatcher>, String> {
    let invalid = |error: String| format!("invalid parameter \"match[]\": {error}");
    let selector = syntax::parse_matchers(text).map_err(|error| invalid(error.to_string()))?;
    let compiled = selector.matchers.iter().map(CompiledMatcher::new);
    compiled.collect::<Result<_, _>>().map_err(invalid)
}

fn paging(params: &Params) -> Result<(Option<usize>, Option<String>), String> {
    let after = params.get_non_empty("group_next_token").map(str::to_owned);
    let invalid = |text: &str| format!("invalid parameter \"group_limit\": {text}");
    match params.get_non_empty("group_limit") {
        None if after.is_some() => Err(
            "invalid parameter \"group_next_token\": group_limit needs to be present in order to \
             paginate over the groups"
                .to_owned(),
        ),
        None => Ok((None, None)),
        Some(text) => match text.parse::<i32>() {
            Err(_) => Err(invalid("group_limit needs to be a valid number")),
            Ok(limit) => match usize::try_from(limit) {
                Ok(limit) if limit > 0 => Ok((Some(limit), after)),
                _ => Err(invalid("group_limit needs to be greater than 0")),
            },
        },
    }
}

/// The words that Go takes for a truth value.
fn flag(params: &Params, name: &str) -> Result<bool, String> {
    match params.get_non_empty(name) {
        None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some(other) => Err(format!(
            "invalid parameter {name:?}: error converting {name}: strconv.ParseBool: parsing \
             {other:?}: invalid syntax"
        )),
    }
}

/// Names a group for the next page.
fn token_of(group: &GroupStatus) -> String {
    let name = format!("{}\0{}", group.namespace, group.name);
    format!("{:032x}", xxh3_128(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::encode::tests::{group, rule};
    use super::*;

    fn filter(query: &str) -> Result<RuleFilter, String> {
        RuleFilter::of(&Params::parse(query.as_bytes()).expect("parameters"))
    }

    fn groups() -> Vec<Arc<GroupStatus>> {
        let of = |namespace: &str, name: &str, rules| Arc::new(group(namespace, name, rules));
        vec![
            of("a", "g", vec![rule("A1", true, &[("team", "x")]), rule("r1", false, &[])]),
            of("a", "h", vec![rule("A2", true, &[("team", "{{ $value }}")])]),
            of("b", "g", vec![rule("r2", false, &[("team", "y")])]),
        ]
    }

    fn names(query: &str) -> Vec<String> {
        let groups = groups();
        let page = filter(query).expect(query).page(&groups).expect(query);
        page.groups.iter().flat_map(|(_, rules)| rules).map(|rule| rule.name.to_string()).collect()
    }

    #[test]
    fn parameters_choose_rules() {
        for (query, shown) in [
            ("", &["A1", "r1", "A2", "r2"][..]),
            ("type=alert", &["A1", "A2"]),
            ("type=record", &["r1", "r2"]),
            ("file=a", &["A1", "r1", "A2"]),
            ("file=a&file=b&rule_group=g", &["A1", "r1", "r2"]),
            ("rule_name=r2&rule_name=A2", &["A2", "r2"]),
            ("rule_name[]=r2", &["A1", "r1", "A2", "r2"]),
            ("file=none", &[]),
            ("match[]=%7Bteam%3D%22x%22%7D", &["A1"]),
            ("match[]=%7Bteam%3D%22x%22%7D&match[]=%7Bteam%3D%22y%22%7D", &["A1", "r2"]),
            ("match[]=%7Bteam%3D%22%22%7D", &["r1", "A2"]),
        ] {
            assert_eq!(names(query), shown, "{query}");
        }
    }

    #[test]
    fn pages_follow_each_other() {
        let groups = groups();
        let mut seen = Vec::new();
        let mut query = "group_limit=1".to_owned();
        loop {
            let page = filter(&query).expect("a filter").page(&groups).expect("a page");
            assert_eq!(page.groups.len(), 1);
            seen.push(page.groups[0].0.namespace.to_string() + &page.groups[0].0.name);
            let Some(token) = page.next_token else { break };
            query = format!("group_limit=1&group_next_token={token}");
        }
        assert_eq!(seen, ["ag", "ah", "bg"]);
        let exact = filter("group_limit=3").expect("a filter").page(&groups).expect("a page");
        assert_eq!((exact.groups.len(), exact.next_token), (3, None));
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (query, text) in [
            ("type=foo", "not supported value \"foo\""),
            ("match[]=%7B", "invalid parameter \"match[]\""),
            ("group_limit=x", "group_limit needs to be a valid number"),
            ("group_limit=0", "group_limit needs to be greater than 0"),
            ("group_next_token=x", "group_limit needs to be present"),
            ("exclude_alerts=maybe", "invalid parameter \"exclude_alerts\""),
        ] {
            let error = filter(query).expect_err(query);
            assert!(error.contains(text), "{query}: {error}");
        }
        let unknown = filter("group_limit=1&group_next_token=x").expect("a filter");
        let error = unknown.page(&groups()).expect_err("no such group");
        assert!(error.contains("were rule groups changed?"), "{error}");
    }
}
