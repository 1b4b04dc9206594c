//! Named cases. The property test against a naive model is in `rules/tests`.

use logsvc_logql::engine::{ResultPoint, VectorSample};
use logsvc_proto::Labels;

use super::*;
use crate::messages::AlertState;
use crate::rule_error::RuleError;

const SECOND_NS: i64 = 1_000_000_000;

fn sample(pairs: &[(&str, &str)], value: f64) -> VectorSample {
    let labels = Labels::from_result_pairs(pairs.iter().copied()).unwrap();
    VectorSample { labels, point: ResultPoint { timestamp_ms: 0, value } }
}

fn texts(labels: &[(&str, &str)], summary: &str) -> RuleTexts {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let labels: Vec<_> = labels.iter().map(owned).collect();
    RuleTexts::new("A", &labels, &[owned(&("summary", summary))])
}

fn terms(time_ns: i64) -> Terms {
    Terms {
        time_ns,
        hold_ns: 0,
        keep_firing_ns: 0,
        limit: 0,
        resend_delay_ns: 60 * SECOND_NS,
        interval_ns: 10 * SECOND_NS,
        sample_ms: None,
        generator_url: String::new(),
    }
}

fn alerts(samples: &[VectorSample], texts: &RuleTexts, answers: &Answers) -> Vec<NewAlert> {
    match prepare(samples, 7 * SECOND_NS, texts, answers, false) {
        Ok(Prepared::Alerts(alerts)) => alerts,
        other => panic!("{other:?}"),
    }
}

fn needs(samples: &[VectorSample], texts: &RuleTexts, answers: &Answers) -> Needs {
    match prepare(samples, 7 * SECOND_NS, texts, answers, false) {
        Ok(Prepared::Needs(needs)) => needs,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rules_labels_win_and_empty_ones_and_the_metrics_name_vanish() {
    let samples = [sample(&[("__name__", "m"), ("a", "1"), ("b", "2"), ("e", "")], 1.0)];
    let texts = texts(&[("a", "rule"), ("alertname", "other"), ("b", "")], "{{ nope }}");
    let alerts = alerts(&samples, &texts, &Answers::default());
    assert_eq!(alerts[0].labels.canonical(), r#"{a="rule", alertname="A"}"#);
    let annotation = alerts[0].annotations.get("summary").unwrap();
    assert!(annotation.starts_with("<error expanding template: "), "{annotation}");
}

#[test]
fn queries_are_asked_until_the_template_has_its_text() {
    let samples = [sample(&[("n", "1")], 1.0), sample(&[("n", "2")], 1.0)];
    let summary = r#"{{ query "vector(1)" | first | value }} {{ query (print "vector(" $labels.n "0)") | first | value }}"#;
    let texts = texts(&[], summary);
    let mut answers = Answers::default();
    let first: Vec<String> = needs(&samples, &texts, &answers).queries.into_iter().collect();
    assert_eq!(first, ["vector(1)"]);
    answers.queries.insert(first[0].clone(), Ok(vec![(Labels::empty(), 7.0)]));
    let second: Vec<String> = needs(&samples, &texts, &answers).queries.into_iter().collect();
    assert_eq!(second, ["vector(10)", "vector(20)"]);
    for (query, value) in second.into_iter().zip([8.0, 9.0]) {
        answers.queries.insert(query, Ok(vec![(Labels::empty(), value)]));
    }
    let alerts = alerts(&samples, &texts, &answers);
    let text = |alert: &NewAlert| alert.annotations.get("summary").unwrap().to_owned();
    assert_eq!(alerts.iter().map(text).collect::<Vec<_>>(), ["7 8", "7 9"]);
    let last = prepare(&samples, 7 * SECOND_NS, &texts, &Answers::default(), true);
    let Ok(Prepared::Alerts(alerts)) = last else { panic!("{last:?}") };
    assert!(text(&alerts[0]).starts_with("<error expanding template: "), "{}", text(&alerts[0]));
}

#[test]
fn many_alerts_may_ask_for_more_queries_than_one_template() {
    let names: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let samples: Vec<VectorSample> = names.iter().map(|n| sample(&[("n", n)], 1.0)).collect();
    let texts = texts(&[], r#"{{ query (print "vector(" $labels.n ")") | first | value }}"#);
    let mut answers = Answers::default();
    for query in needs(&samples, &texts, &answers).queries {
        answers.queries.insert(query, Ok(vec![(Labels::empty(), 1.0)]));
    }
    assert_eq!(answers.queries.len(), 50);
    for alert in alerts(&samples, &texts, &answers) {
        assert_eq!(alert.annotations.get("summary"), Some("1"));
    }
}

#[test]
fn templates_know_the_time_of_the_evaluation() {
    let samples = [sample(&[("n", "1")], 1.0)];
    let alerts = alerts(&samples, &texts(&[], "{{ now }}"), &Answers::default());
    assert_eq!(alerts[0].annotations.get("summary"), Some("7"));
}

#[test]
fn lines_are_asked_for_by_sample() {
    let samples = [sample(&[("n", "1")], 1.0)];
    let texts = texts(&[], "{{ range logLines 2 }}{{ . }};{{ end }}");
    let needed = needs(&samples, &texts, &Answers::default());
    let (key, (labels, limit)) = needed.lines.into_iter().next().unwrap();
    assert_eq!((labels, limit), (samples[0].labels.clone(), 2));
    let mut answers = Answers::default();
    let lines = Ok(vec!["b".to_owned(), "a".to_owned()]);
    answers.lines.insert(key, crate::expand::TemplateLines { limit, lines });
    let alerts = alerts(&samples, &texts, &answers);
    assert_eq!(alerts[0].annotations.get("summary"), Some("b;a;"));
}

#[test]
fn alerts_with_equal_labels_are_an_error() {
    let samples = [sample(&[("pod", "1")], 1.0), sample(&[("pod", "2")], 2.0)];
    let result =
        prepare(&samples, 7 * SECOND_NS, &texts(&[("pod", "all")], ""), &Answers::default(), false);
    assert_eq!(result, Err(RuleError::SameAlert));
}

#[test]
fn an_alert_takes_little_memory() {
    let mut found: Vec<NewAlert> = (0..100_000)
        .map(|pod| {
            let pod = format!("checkout-7d9f8b6c5d-{pod:05}");
            let labels = [
                ("alertname", "HighErrorRate"),
                ("namespace", "shop"),
                ("pod", &pod),
                ("severity", "page"),
            ];
            let summary = format!("{pod} has 26 errors per second");
            NewAlert {
                labels: Labels::from_pairs(labels).unwrap(),
                annotations: Labels::from_pairs([("summary", &summary)]).unwrap(),
                value: 26.0,
            }
        })
        .collect();
    found.sort_by(|a, b| a.labels.as_bytes().cmp(b.labels.as_bytes()));
    let evaluated = AlertTable::default().evaluate(found, &terms(SECOND_NS)).unwrap();
    let bytes = evaluated.table.held_bytes() / 100_000;
    assert!(bytes < 256, "{bytes} bytes per alert");
    assert_eq!(size_of::<Alert>(), 88);
}

#[test]
fn moved_alerts_keep_their_ages() {
    let found = vec![NewAlert {
        labels: Labels::from_pairs([("alertname", "A")]).unwrap(),
        annotations: Labels::empty(),
        value: 1.0,
    }];
    let table = AlertTable::default().evaluate(found, &terms(1000 * SECOND_NS)).unwrap().table;
    let moved = table.moved(-900 * SECOND_NS);
    let alert = &moved.alerts()[0];
    assert_eq!((alert.active_at_ns, alert.fired_at_ns), (100 * SECOND_NS, 100 * SECOND_NS));
    assert_eq!(alert.resolved_at_ns, NEVER_NS);
    let ended = moved.evaluate(Vec::new(), &terms(110 * SECOND_NS)).unwrap();
    assert_eq!(ended.table.alerts()[0].state, AlertState::Inactive);
    assert_eq!(ended.notifications[0].ends_at_ns, 110 * SECOND_NS);
}

#[test]
fn an_outage_does_not_count_as_pending() {
    let labels = Labels::from_pairs([("alertname", "A")]).unwrap();
    let one = Alert::pending(labels, Labels::empty(), 1.0, 100 * SECOND_NS);
    let table = AlertTable::new(vec![one]);
    let outage = Outage {
        last_ns: 140 * SECOND_NS,
        first_ns: 200 * SECOND_NS,
        interval_ns: 10 * SECOND_NS,
        tolerance_ns: 3600 * SECOND_NS,
        grace_ns: 600 * SECOND_NS,
    };
    let active_at = |outage: &Outage, hold_s: i64| {
        let restored = table.restored(outage, hold_s * SECOND_NS);
        restored.alerts().first().map(|alert| alert.active_at_ns / SECOND_NS)
    };
    assert_eq!(active_at(&outage, 60), Some(150), "50 s of outage");
    // 610 s of the `for` are left at 140 s, more than the grace period.
    assert_eq!(active_at(&outage, 650), Some(150));
    // 560 s are left: it fires 600 s from now.
    assert_eq!(active_at(&outage, 600), Some(200));
    let longer = Outage { tolerance_ns: 59 * SECOND_NS, ..outage };
    assert_eq!(active_at(&longer, 60), None);
    let back = Outage { first_ns: 50 * SECOND_NS, ..outage };
    assert_eq!(active_at(&back, 60), Some(0), "as old as at the next evaluation");
}
