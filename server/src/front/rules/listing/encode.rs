//! The JSON texts of listings, as Go writes them.
//!
//! Guarantee: memory is reserved before it is allocated, for the longest text that each part may
//! become. Failure: there is no memory; then the listing is refused.

use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::Labels;
use logsvc_proto::encode::write_json_line;
use logsvc_proto::error::ApiError;
use logsvc_proto::go::float::format_float;
use logsvc_proto::time::write_rfc3339_nano;
use logsvc_rules::messages::{
    AlertState, AlertStatus, AlertingStatus, GroupStatus, Health, RuleStatus,
};

use super::filter::Page;
use crate::front::query::answer::{AnswerBody, AnswerMemory};
use crate::front::query::encode::{escaped_bytes, labels_bytes};

/// The most bytes of a group, a rule or an alert besides its texts.
const FIXED_BYTES: usize = 512;

/// The bytes that are looked at for a group, about.
pub(super) fn work_bytes(group: &GroupStatus) -> usize {
    let rules = group.rules.iter().map(|rule| {
        let alerts = rule.alerting.iter().map(|alerting| alerting.alerts.len()).sum::<usize>();
        FIXED_BYTES + rule.query.len() + alerts * FIXED_BYTES
    });
    rules.sum()
}

/// The answer with a page of groups.
///
/// # Errors
/// There is no memory for it.
pub(super) fn rules(page: &Page<'_>, mut room: AnswerMemory) -> Result<AnswerBody, ApiError> {
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(br#"{"status":"success","data":{"groups":["#);
    for (index, (group, rules)) in page.groups.iter().enumerate() {
        let names = escaped_bytes(group.name.len() + group.namespace.len());
        room.reserve_for(&mut out, 2 * FIXED_BYTES + names)?;
        out.extend_from_slice(if index > 0 { b"," } else { b"" });
        out.extend_from_slice(br#"{"name":"#);
        write_json_line(group.name.as_bytes(), &mut out);
        out.extend_from_slice(br#","file":"#);
        write_json_line(group.namespace.as_bytes(), &mut out);
        out.extend_from_slice(br#","rules":["#);
        for (index, rule) in rules.iter().enumerate() {
            write_rule(rule, index, page.shows_alerts, &mut room, &mut out)?;
        }
        room.reserve_for(&mut out, FIXED_BYTES)?;
        out.extend_from_slice(br#"],"interval":"#);
        write_seconds(group.interval, &mut out);
        out.extend_from_slice(format!(",\"limit\":{}", group.limit).as_bytes());
        write_evaluation(group.last_evaluation_ns, group.evaluation_time, &mut out);
        out.push(b'}');
    }
    room.reserve_for(&mut out, FIXED_BYTES)?;
    out.push(b']');
    if let Some(token) = &page.next_token {
        out.extend_from_slice(format!(",\"groupNextToken\":\"{token}\"").as_bytes());
    }
    out.extend_from_slice(br#"},"errorType":"","error":""}"#);
    room.finish(out)
}

/// The answer with the pending and firing alerts of groups.
///
/// # Errors
/// There is no memory for it.
pub(super) fn alerts(
    groups: &[Arc<GroupStatus>],
    mut room: AnswerMemory,
) -> Result<AnswerBody, ApiError> {
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(br#"{"status":"success","data":{"alerts":["#);
    let rules = groups.iter().flat_map(|group| &group.rules);
    let alerts = rules.filter_map(|rule| rule.alerting.as_ref()).flat_map(|one| &*one.alerts);
    for (index, alert) in alerts.enumerate() {
        write_alert(alert, index, &mut room, &mut out)?;
    }
    room.reserve_for(&mut out, FIXED_BYTES)?;
    out.extend_from_slice(br#"]},"errorType":"","error":""}"#);
    room.finish(out)
}

fn write_rule(
    rule: &RuleStatus,
    index: usize,
    shows_alerts: bool,
    room: &mut AnswerMemory,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let error = match &rule.health {
        Health::Err(text) => text.as_str(),
        Health::Ok | Health::Unknown => "",
    };
    let texts = escaped_bytes(rule.name.len() + rule.query.len() + error.len());
    let annotations = rule.alerting.as_ref().map_or(0, |one| labels_bytes(&one.annotations));
    room.reserve_for(out, 2 * FIXED_BYTES + texts + labels_bytes(&rule.labels) + annotations)?;
    out.extend_from_slice(if index > 0 { b",{" } else { b"{" });
    if let Some(alerting) = &rule.alerting {
        let state = alerting.alerts.iter().map(|alert| alert.state).max();
        let word = state.unwrap_or(AlertState::Inactive).word();
        out.extend_from_slice(format!("\"state\":\"{word}\",").as_bytes());
    }
    out.extend_from_slice(br#""name":"#);
    write_json_line(rule.name.as_bytes(), out);
    out.extend_from_slice(br#","query":"#);
    write_json_line(rule.query.as_bytes(), out);
    if let Some(alerting) = &rule.alerting {
        write_durations(alerting, out);
    }
    out.extend_from_slice(br#","labels":"#);
    write_labels(&rule.labels, out);
    if let Some(alerting) = &rule.alerting {
        out.extend_from_slice(br#","annotations":"#);
        write_labels(&alerting.annotations, out);
        if shows_alerts {
            out.extend_from_slice(br#","alerts":["#);
            for (index, alert) in alerting.alerts.iter().enumerate() {
                write_alert(alert, index, room, out)?;
            }
            out.push(b']');
        }
    }
    room.reserve_for(out, FIXED_BYTES + escaped_bytes(error.len()))?;
    let health = match &rule.health {
        Health::Unknown => "unknown",
        Health::Ok => "ok",
        Health::Err(_) => "err",
    };
    out.extend_from_slice(format!(",\"health\":\"{health}\",\"lastError\":").as_bytes());
    write_json_line(error.as_bytes(), out);
    let kind = if rule.alerting.is_some() { "alerting" } else { "recording" };
    out.extend_from_slice(format!(",\"type\":\"{kind}\"").as_bytes());
    write_evaluation(rule.last_evaluation_ns, rule.evaluation_time, out);
    out.push(b'}');
    Ok(())
}

fn write_durations(alerting: &AlertingStatus, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","duration":"#);
    write_seconds(alerting.hold, out);
    if !alerting.keep_firing.is_zero() {
        out.extend_from_slice(br#","keepFiringFor":"#);
        write_seconds(alerting.keep_firing, out);
    }
}

fn write_alert(
    alert: &AlertStatus,
    index: usize,
    room: &mut AnswerMemory,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    room.reserve_for(
        out,
        FIXED_BYTES + labels_bytes(&alert.labels) + labels_bytes(&alert.annotations),
    )?;
    out.extend_from_slice(if index > 0 { b"," } else { b"" });
    out.extend_from_slice(br#"{"labels":"#);
    write_labels(&alert.labels, out);
    out.extend_from_slice(br#","annotations":"#);
    write_labels(&alert.annotations, out);
    out.extend_from_slice(format!(",\"state\":\"{}\"", alert.state.word()).as_bytes());
    out.extend_from_slice(br#","activeAt":"#);
    write_time(Some(alert.active_at_ns), out);
    if let Some(since_ns) = alert.keep_firing_since_ns {
        out.extend_from_slice(br#","keepFiringSince":"#);
        write_time(Some(since_ns), out);
    }
    let value = format_float(alert.value, 'e', None);
    out.extend_from_slice(format!(",\"value\":\"{value}\"}}").as_bytes());
    Ok(())
}

fn write_evaluation(last_ns: Option<i64>, took: Duration, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","lastEvaluation":"#);
    write_time(last_ns, out);
    out.extend_from_slice(br#","evaluationTime":"#);
    write_seconds(took, out);
}

/// Go's zero time stands for none.
fn write_time(unix_ns: Option<i64>, out: &mut Vec<u8>) {
    out.push(b'"');
    write_rfc3339_nano(unix_ns, out);
    out.push(b'"');
}

/// A number as Go's `encoding/json` writes it: an exponent for very small ones alone.
fn write_seconds(duration: Duration, out: &mut Vec<u8>) {
    let seconds = duration.as_secs_f64();
    let text = if seconds == 0.0 || seconds >= 1e-6 {
        format_float(seconds, 'f', None)
    } else {
        format_float(seconds, 'e', None).replace("e-0", "e-")
    };
    out.extend_from_slice(text.as_bytes());
}

fn write_labels(labels: &Labels, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in labels.iter().enumerate() {
        out.extend_from_slice(if index > 0 { b"," } else { b"" });
        write_json_line(name.as_bytes(), out);
        out.push(b':');
        write_json_line(value.as_bytes(), out);
    }
    out.push(b'}');
}

#[cfg(test)]
pub(super) mod tests {
    use logsvc_runtime::Budget;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_result_pairs(pairs.iter().copied()).expect("labels")
    }

    pub(crate) fn rule(name: &str, is_alerting: bool, pairs: &[(&str, &str)]) -> RuleStatus {
        RuleStatus {
            name: name.into(),
            query: "(a > 2)".into(),
            labels: labels(pairs),
            health: Health::Ok,
            last_evaluation_ns: None,
            evaluation_time: Duration::from_nanos(3_233_539),
            alerting: is_alerting.then(|| AlertingStatus {
                hold: Duration::from_secs(5),
                keep_firing: Duration::ZERO,
                annotations: labels(&[("d", "x")]),
                alerts: Arc::new([]),
            }),
        }
    }

    pub(crate) fn group(namespace: &str, name: &str, rules: Vec<RuleStatus>) -> GroupStatus {
        GroupStatus {
            namespace: namespace.into(),
            name: name.into(),
            interval: Duration::from_secs(10),
            limit: 5,
            rules,
            last_evaluation_ns: Some(1_763_689_681_119_253_664),
            evaluation_time: Duration::from_nanos(42),
        }
    }

    fn text(body: impl FnOnce(AnswerMemory) -> Result<AnswerBody, ApiError>) -> String {
        let budget = Budget::new("queries", 1 << 20);
        let held = body(AnswerMemory::new(&budget, 0)).expect("there is memory");
        let response = crate::front::query::answer::shared_json_response(Arc::new(held));
        match response.body {
            logsvc_http::ResponseBody::Full(body) => String::from_utf8(body).expect("UTF-8"),
            _ => panic!("another kind of body"),
        }
    }

    #[test]
    fn listings_are_those_of_the_reference() {
        let mut firing = rule("HighErr", true, &[("severity", "page")]);
        let alerts: Arc<[AlertStatus]> = Arc::new([AlertStatus {
            labels: labels(&[("alertname", "HighErr"), ("app", "<a>")]),
            annotations: labels(&[("d", "x")]),
            state: AlertState::Firing,
            active_at_ns: 1_763_689_641_117_769_665,
            keep_firing_since_ns: None,
            value: 26.0,
        }]);
        firing.alerting.as_mut().expect("an alert").alerts = Arc::clone(&alerts);
        let mut failing = rule("Bad", true, &[]);
        failing.health = Health::Err("rule result is not a vector or scalar".to_owned());
        let one = group("ns1", "g1", vec![firing, failing, rule("app:lines", false, &[])]);
        let alert = concat!(
            r#"{"labels":{"alertname":"HighErr","app":"\u003ca\u003e"},"#,
            r#""annotations":{"d":"x"},"state":"firing","#,
            r#""activeAt":"2025-11-21T01:47:21.117769665Z","value":"2.6e+01"}"#,
        );
        let end = r#""lastEvaluation":"0001-01-01T00:00:00Z","evaluationTime":0.003233539}"#;
        let expected = format!(
            concat!(
                r#"{{"status":"success","data":{{"groups":[{{"name":"g1","file":"ns1","rules":["#,
                r#"{{"state":"firing","name":"HighErr","query":"(a \u003e 2)","#,
                r#""duration":5,"labels":{{"severity":"page"}},"annotations":{{"d":"x"}},"#,
                r#""alerts":[{}],"health":"ok","lastError":"","type":"alerting",{},"#,
                r#"{{"state":"inactive","name":"Bad","query":"(a \u003e 2)","duration":5,"#,
                r#""labels":{{}},"annotations":{{"d":"x"}},"alerts":[],"health":"err","#,
                r#""lastError":"rule result is not a vector or scalar","type":"alerting","#,
                r#"{},"#,
                r#"{{"name":"app:lines","query":"(a \u003e 2)","labels":{{}},"health":"ok","lastError":"","type":"recording",{}"#,
                r#"],"interval":10,"limit":5,"#,
                r#""lastEvaluation":"2025-11-21T01:48:01.119253664Z","#,
                r#""evaluationTime":4.2e-8}}]}},"errorType":"","error":""}}"#,
            ),
            alert, end, end, end
        );
        let page = |shows_alerts, next_token| Page {
            groups: vec![(&one, one.rules.iter().collect())],
            shows_alerts,
            next_token,
        };
        assert_eq!(text(|room| rules(&page(true, None), room)), expected);
        let short = text(|room| rules(&page(false, Some("ab".to_owned())), room));
        assert!(!short.contains("\"alerts\""), "{short}");
        assert!(short.contains(r#"],"groupNextToken":"ab"},"errorType""#), "{short}");
        let groups = [Arc::new(one.clone())];
        let expected = format!(
            r#"{{"status":"success","data":{{"alerts":[{alert}]}},"errorType":"","error":""}}"#
        );
        assert_eq!(text(|room| super::alerts(&groups, room)), expected);
        let none = Page { groups: Vec::new(), shows_alerts: true, next_token: None };
        assert_eq!(
            text(|room| rules(&none, room)),
            r#"{"status":"success","data":{"groups":[]},"errorType":"","error":""}"#
        );
    }

    #[test]
    fn a_listing_without_memory_is_refused() {
        let budget = Budget::new("queries", 100_000);
        let long = rule("A", true, &[("l", &"x".repeat(60_000))]);
        let one = group("ns", "g", vec![long]);
        let page = Page {
            groups: vec![(&one, one.rules.iter().collect())],
            shows_alerts: true,
            next_token: None,
        };
        let refused = rules(&page, AnswerMemory::new(&budget, 0)).map(drop);
        assert_eq!(refused.expect_err("no room").status, 413);
    }
}
