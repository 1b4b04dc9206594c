//! The rule groups that a tenant has stored: listed, read, written and removed.
//!
//! Guarantees: a change is answered with success when it is on stable storage and in force. Long
//! groups are read, checked and written by side threads. Failures have the texts that clients of
//! the interface know; some are JSON texts whose media type is that of plain text.

use http::{Method, StatusCode};
use logsvc_http::{Request, Response};
use logsvc_logql::engine::Estimate;
use logsvc_proto::error::ApiError;
use logsvc_proto::{TenantId, encode::write_json_text};
use logsvc_rules::messages::{RulesReply, RulesRequest, StoreRefusal};
use logsvc_rules::model::{Rule, RuleGroup};
use logsvc_rules::validate::{check_addressable, check_group, check_rule_count};
use logsvc_rules::yaml::{read_group, write_group, write_namespaces_in_pieces};
use logsvc_runtime::{Runtime, SideQueue};
use std::sync::Arc;

use super::Ruling;
use crate::front::query::answer::{AnswerMemory, reserve_answer, with_held};
use crate::front::query::leaves::inline_or_offloaded;
use crate::front::query::params;

/// The answer to a change.
const SUCCESS: &str = r#"{"status":"success","data":null,"errorType":"","error":""}"#;

/// Groups of so many bytes are read, checked and written on the core.
const SHORT_MAX_BYTES: u64 = 16 << 10;

/// What reading a group takes for each byte of its text: nodes of the document, and the group.
const READ_BYTES: u64 = 12;

type Namespaces = Vec<(Arc<str>, Vec<Arc<RuleGroup>>)>;

impl<R: Runtime> Ruling<R> {
    /// `rules/{namespace}`: GET lists its groups, POST stores one, DELETE removes all.
    pub(crate) async fn namespace(
        &self,
        request: Request,
        namespace: &str,
    ) -> Result<Response, ApiError> {
        match request.head.method {
            Method::POST => self.set_group(request, namespace).await,
            Method::DELETE => self.delete_namespace(request, namespace).await,
            _ => self.list_groups(request, Some(namespace)).await,
        }
    }

    /// `rules/{namespace}/{group}`: GET reads the group, DELETE removes it.
    pub(crate) async fn group(
        &self,
        request: Request,
        namespace: &str,
        group: &str,
    ) -> Result<Response, ApiError> {
        match request.head.method {
            Method::DELETE => self.delete_group(request, namespace, group).await,
            _ => self.get_group(request, namespace, group).await,
        }
    }

    /// `GET rules` and `GET rules/{namespace}`.
    pub(crate) async fn list_groups(
        &self,
        request: Request,
        namespace: Option<&str>,
    ) -> Result<Response, ApiError> {
        let answered = async {
            let tenant = self.storing_tenant(&request)?;
            let wanted = WantedLabels::of(&params::of(&request)?)?;
            let namespace = namespace.map(str::to_owned);
            let reply = self.core.ask_ruler(RulesRequest::Groups { tenant, namespace }).await?;
            let groups = match reply {
                RulesReply::Groups(groups) => wanted.filtered(groups),
                reply => return Err(failed(reply)),
            };
            if groups.is_empty() {
                return Err(ApiError::not_found("no rule groups found"));
            }
            let all = groups.iter().flat_map(|(_, groups)| groups);
            let held_bytes = all.map(|group| group.held_bytes()).sum();
            self.yaml(held_bytes, move |room, out| {
                let namespaces = groups.iter().map(|(namespace, groups)| {
                    (namespace.as_ref(), groups.iter().map(|group| group.as_ref()))
                });
                write_namespaces_in_pieces(namespaces, |piece| push(piece, room, out))
            })
            .await
        };
        answered.await.map_err(ApiError::with_newline)
    }

    /// `GET rules/{namespace}/{group}`.
    async fn get_group(
        &self,
        request: Request,
        namespace: &str,
        group: &str,
    ) -> Result<Response, ApiError> {
        let answered = async {
            let tenant = self.storing_tenant(&request)?;
            let (namespace, group) = (namespace.to_owned(), group.to_owned());
            let get = RulesRequest::Group { tenant, namespace, group };
            match self.core.ask_ruler(get).await? {
                RulesReply::Group(Some(group)) => {
                    let held_bytes = group.held_bytes();
                    let write = move |room: &mut AnswerMemory, out: &mut Vec<u8>| {
                        push(&write_group(&group), room, out)
                    };
                    self.yaml(held_bytes, write).await
                }
                RulesReply::Group(None) => Err(ApiError::not_found("group does not exist")),
                RulesReply::Refused(refusal @ StoreRefusal::ReadOnly { .. }) => {
                    Err(ApiError::bad_request(refusal.to_string()))
                }
                reply => Err(failed(reply)),
            }
        };
        answered.await.map_err(ApiError::with_newline)
    }

    /// `POST rules/{namespace}`. The body is a group, whatever its media type.
    async fn set_group(&self, request: Request, namespace: &str) -> Result<Response, ApiError> {
        let answered = async {
            let tenant = self.storing_tenant(&request)?;
            let group = self.read_group(&request).await?;
            let limits = self.core.limits(&tenant);
            check_rule_count(group.rules.len(), limits.ruler.max_rules_per_rule_group)
                .map_err(ApiError::bad_request)?;
            let set = RulesRequest::SetGroup {
                tenant,
                namespace: namespace.to_owned(),
                group: Box::new(group),
                max_groups: limits.ruler.max_rule_groups_per_tenant,
            };
            match self.core.ask_ruler(set).await? {
                RulesReply::Done => Ok(accepted()),
                reply => Err(failed(reply)),
            }
        };
        answered.await.map_err(ApiError::with_newline)
    }

    /// `DELETE rules/{namespace}/{group}`. A group that is unknown is gone.
    async fn delete_group(
        &self,
        request: Request,
        namespace: &str,
        group: &str,
    ) -> Result<Response, ApiError> {
        let tenant = self.storing_tenant(&request).map_err(ApiError::with_newline)?;
        let (namespace, group) = (namespace.to_owned(), group.to_owned());
        let delete = RulesRequest::DeleteGroup { tenant, namespace, group };
        match self.core.ask_ruler(delete).await.map_err(ApiError::with_newline)? {
            RulesReply::Done | RulesReply::NotFound => Ok(accepted()),
            reply => Err(not_deleted(reply)),
        }
    }

    /// `DELETE rules/{namespace}`.
    async fn delete_namespace(
        &self,
        request: Request,
        namespace: &str,
    ) -> Result<Response, ApiError> {
        let tenant = self.storing_tenant(&request).map_err(ApiError::with_newline)?;
        let namespace = namespace.to_owned();
        let delete = RulesRequest::DeleteNamespace { tenant, namespace };
        match self.core.ask_ruler(delete).await.map_err(ApiError::with_newline)? {
            RulesReply::Done => Ok(accepted()),
            RulesReply::NotFound => {
                Err(ApiError::not_found("group namespace does not exist").with_newline())
            }
            reply => Err(not_deleted(reply)),
        }
    }

    /// The tenant of a request about stored groups, if there are such requests at all.
    fn storing_tenant(&self, request: &Request) -> Result<TenantId, ApiError> {
        if !self.core.config().ruler.enable_api {
            return Err(ApiError::page_not_found());
        }
        self.core.tenant(&request.head)
    }

    /// Reads and checks the group in a body.
    async fn read_group(&self, request: &Request) -> Result<RuleGroup, ApiError> {
        let Ok(text) = std::str::from_utf8(&request.body) else { return Err(unreadable()) };
        let estimate = Estimate::of_text(text);
        let is_short = text.len() as u64 <= SHORT_MAX_BYTES && estimate.is_short();
        // The tree of one query at a time is there.
        let bytes = text.len() as u64 * READ_BYTES + estimate.bytes.min(Estimate::TREE_MAX_BYTES);
        let queries = &self.core.budgets().queries;
        let _memory = if is_short { None } else { Some(reserve_answer(bytes, queries)?) };
        let queue = (!is_short).then_some(SideQueue::Queries);
        let text = text.to_owned();
        inline_or_offloaded(&self.core.runtime, queue, move || checked_group(&text)).await
    }

    /// The answer with what `write` writes. Its groups take so many bytes of memory.
    async fn yaml(
        &self,
        held_bytes: u64,
        write: impl FnOnce(&mut AnswerMemory, &mut Vec<u8>) -> Result<(), ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let queue = (held_bytes > SHORT_MAX_BYTES).then_some(SideQueue::Queries);
        let mut room = AnswerMemory::new(&self.core.budgets().queries, 0);
        let work = move || {
            let mut out = Vec::new();
            write(&mut room, &mut out)?;
            room.finish(out)
        };
        let body = inline_or_offloaded(&self.core.runtime, queue, work).await?;
        let response = Response::new(StatusCode::OK).with_content_type("application/yaml");
        Ok(with_held(response, Arc::new(body)))
    }
}

/// Adds a piece to an answer.
fn push(piece: &str, room: &mut AnswerMemory, out: &mut Vec<u8>) -> Result<(), ApiError> {
    room.reserve_for(out, piece.len())?;
    out.extend_from_slice(piece.as_bytes());
    Ok(())
}

fn checked_group(text: &str) -> Result<RuleGroup, ApiError> {
    let group = read_group(text).map_err(|error| {
        tracing::debug!(%error, "a rule group cannot be read");
        unreadable()
    })?;
    check_group(&group).map_err(ApiError::bad_request)?;
    check_addressable(&group.name).map_err(ApiError::bad_request)?;
    Ok(group.into_group())
}

fn unreadable() -> ApiError {
    ApiError::bad_request("unable to decoded rule group")
}

fn accepted() -> Response {
    let response = Response::new(StatusCode::ACCEPTED).with_content_type("application/json");
    response.with_body(SUCCESS.as_bytes().to_vec())
}

/// Any answer that is no success, as text.
fn failed(reply: RulesReply) -> ApiError {
    match reply {
        RulesReply::Refused(refusal) => {
            let text = refusal.to_string();
            match refusal {
                StoreRefusal::TooManyGroups { .. } => ApiError::bad_request(text),
                StoreRefusal::TooManyBytes { .. }
                | StoreRefusal::NotLoaded
                | StoreRefusal::Unsure(_)
                | StoreRefusal::Elsewhere
                | StoreRefusal::Bucket => ApiError::unavailable(text),
                StoreRefusal::ReadOnly { .. } | StoreRefusal::Io(_) => ApiError::internal(text),
            }
        }
        _ => ApiError::internal("the ruler gave the answer of another request"),
    }
}

/// A deletion that failed: the text within JSON.
fn not_deleted(reply: RulesReply) -> ApiError {
    let error = failed(reply);
    let mut body = br#"{"status":"error","data":null,"errorType":"server_error","error":"#.to_vec();
    write_json_text(&error.message, &mut body);
    body.push(b'}');
    ApiError { message: String::from_utf8_lossy(&body).into_owned(), ..error }
}

/// Labels of which a listed rule has at least one; all rules are listed if there are none.
struct WantedLabels(Vec<(String, String)>);

impl WantedLabels {
    /// `labels=name:value,...`
    fn of(params: &logsvc_http::Params) -> Result<WantedLabels, ApiError> {
        let text = params.get("labels").unwrap_or_default();
        let wanted = text.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let pair = pair.split_once(':').filter(|(name, _)| !name.is_empty());
            let (name, value) = pair.ok_or_else(|| {
                ApiError::bad_request("invalid parameter labels: must be name:value,...")
            })?;
            Ok((name.to_owned(), value.to_owned()))
        });
        Ok(WantedLabels(wanted.collect::<Result<_, ApiError>>()?))
    }

    /// The groups with the rules that are wanted, without groups and namespaces that have none.
    fn filtered(&self, namespaces: Namespaces) -> Namespaces {
        if self.0.is_empty() {
            return namespaces;
        }
        let filtered = namespaces.into_iter().map(|(namespace, groups)| {
            let groups = groups.iter().filter_map(|group| self.filtered_group(group)).collect();
            (namespace, groups)
        });
        filtered.filter(|(_, groups): &(_, Vec<_>)| !groups.is_empty()).collect()
    }

    fn filtered_group(&self, group: &RuleGroup) -> Option<Arc<RuleGroup>> {
        let rules = group.rules.iter().filter(|rule| self.has_one(rule, group));
        let rules: Vec<Rule> = rules.cloned().collect();
        (!rules.is_empty()).then(|| Arc::new(RuleGroup { rules, ..group.clone() }))
    }

    /// A rule has the labels of its group, unless it has others of their names.
    fn has_one(&self, rule: &Rule, group: &RuleGroup) -> bool {
        self.0.iter().any(|(name, value)| {
            let of = |labels: &'_ [(String, String)]| {
                labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            };
            of(&rule.labels).or_else(|| of(&group.labels)).as_ref() == Some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces() -> Namespaces {
        let group = |text: &str| Arc::new(read_group(text).expect("a group").into_group());
        let mixed = "name: mixed\nlabels: {team: x}\nrules: [{record: a, labels: {severity: page}}, \
                     {record: b, labels: {team: y}}]";
        let other = group("name: other\nrules: [{record: c}]");
        vec![("n1".into(), vec![group(mixed), Arc::clone(&other)]), ("n2".into(), vec![other])]
    }

    fn names(query: &str) -> String {
        let params = logsvc_http::Params::parse(query.as_bytes()).expect("parameters");
        let wanted = WantedLabels::of(&params).expect("a filter");
        let groups = wanted.filtered(namespaces());
        let rules = groups.iter().flat_map(|(namespace, groups)| {
            let rules = groups.iter().flat_map(|group| &group.rules);
            rules.map(move |rule| format!("{namespace}/{}", rule.name()))
        });
        rules.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rules_are_listed_by_their_labels() {
        for (query, expected) in [
            ("", "n1/a n1/b n1/c n2/c"),
            ("labels=", "n1/a n1/b n1/c n2/c"),
            ("labels=severity:page", "n1/a"),
            ("labels=team:x", "n1/a"),
            ("labels=team:y", "n1/b"),
            ("labels=team:y,severity:page", "n1/a n1/b"),
            ("labels=team:z", ""),
        ] {
            assert_eq!(names(query), expected, "{query}");
        }
        for query in ["labels=a", "labels=:b", "labels=a:b,c"] {
            let params = logsvc_http::Params::parse(query.as_bytes()).expect("parameters");
            assert!(WantedLabels::of(&params).is_err(), "{query}");
        }
    }

    #[test]
    fn failures_have_the_texts_of_the_reference() {
        let refused =
            || RulesReply::Refused(StoreRefusal::ReadOnly { operation: "DeleteRuleGroup" });
        let text = "DeleteRuleGroup unsupported in rule local store";
        assert_eq!(
            (failed(refused()).status.as_u16(), failed(refused()).message),
            (500, text.to_owned())
        );
        let json = format!(
            r#"{{"status":"error","data":null,"errorType":"server_error","error":"{text}"}}"#
        );
        assert_eq!(not_deleted(refused()).body(), json.into_bytes());
        let limited = StoreRefusal::TooManyGroups { limit: 1, actual: 2 };
        let limited = failed(RulesReply::Refused(limited));
        let text = "per-user rule groups limit (limit: 1 actual: 2) exceeded";
        assert_eq!((limited.status.as_u16(), limited.message.as_str()), (400, text));
    }
}
