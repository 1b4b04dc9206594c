//! The lines that numbers of the ruler become.

use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_rules::messages::{
    AlertmanagerNumbers, GroupNumbers, NotificationNumbers, RulerNumbers,
};

use super::super::ExpositionFormat;
use super::*;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a tenant")
}

fn group(user: &str, namespace: &str, name: &str) -> GroupNumbers {
    GroupNumbers {
        tenant: tenant(user),
        namespace: Arc::from(namespace),
        name: Arc::from(name),
        rules: 2,
        evaluations: 20,
        evaluation_failures: 3,
        iterations: 10,
        iterations_missed: 4,
        interval: Duration::from_secs(60),
        last_evaluation_ns: Some(1_700_000_000_500_000_000),
        last_duration: Duration::from_millis(250),
        last_samples: 7,
        rules_time: Duration::from_millis(1500),
        iterations_time: Duration::from_secs(2),
    }
}

fn lines(numbers: Option<&RulerNumbers>, rule_path: Option<&str>) -> Vec<String> {
    let mut out = Exposition::new(ExpositionFormat::Text);
    expose(numbers, GroupLabels { rule_path }, &mut out);
    out.into_text().lines().map(str::to_owned).collect()
}

#[test]
fn groups_have_the_names_of_loki() {
    let never = GroupNumbers { last_evaluation_ns: None, ..group("b", "n", "g") };
    let numbers = RulerNumbers {
        groups: vec![group("a", "my ns/ü.yaml", "g\"1"), never],
        unreadable: vec![tenant("b"), tenant("c")],
        ..RulerNumbers::default()
    };
    let found = lines(Some(&numbers), Some("/rules/"));
    let labels = r#"{user="a",rule_group="/rules/a/my%20ns%2F%C3%BC.yaml;g\"1"}"#;
    for line in [
        format!("loki_prometheus_rule_evaluations_total{labels} 20"),
        format!("loki_prometheus_rule_evaluation_failures_total{labels} 3"),
        format!("loki_prometheus_rule_group_iterations_total{labels} 14"),
        format!("loki_prometheus_rule_group_iterations_missed_total{labels} 4"),
        format!("loki_prometheus_rule_group_interval_seconds{labels} 60"),
        format!(
            "loki_prometheus_rule_group_last_evaluation_timestamp_seconds{labels} 1700000000.5"
        ),
        format!("loki_prometheus_rule_group_last_duration_seconds{labels} 0.25"),
        format!("loki_prometheus_rule_group_rules{labels} 2"),
        format!("loki_prometheus_last_evaluation_samples{labels} 7"),
        "loki_prometheus_rule_evaluation_duration_seconds_sum{user=\"a\"} 1.5".to_owned(),
        "loki_prometheus_rule_evaluation_duration_seconds_count{user=\"a\"} 20".to_owned(),
        "loki_prometheus_rule_group_duration_seconds_sum{user=\"a\"} 2".to_owned(),
        "loki_prometheus_rule_group_duration_seconds_count{user=\"a\"} 10".to_owned(),
        "loki_prometheus_rule_group_rules{user=\"b\",rule_group=\"/rules/b/n;g\"} 2".to_owned(),
        "loki_ruler_managers_total 2".to_owned(),
        "loki_ruler_config_last_reload_successful{user=\"a\"} 1".to_owned(),
        "loki_ruler_config_last_reload_successful{user=\"b\"} 0".to_owned(),
        "loki_ruler_config_last_reload_successful{user=\"c\"} 0".to_owned(),
    ] {
        assert!(found.contains(&line), "{line}\n{found:#?}");
    }
    let times = "loki_prometheus_rule_group_last_evaluation_timestamp_seconds{user=\"b\"";
    assert!(!found.iter().any(|line| line.starts_with(times)), "{found:#?}");
}

#[test]
fn without_the_label_groups_of_a_tenant_add_up() {
    let later = GroupNumbers {
        last_evaluation_ns: Some(1_700_000_001_000_000_000),
        ..group("a", "n", "h")
    };
    let groups = vec![group("a", "n", "g"), later, group("b", "n", "g")];
    let found = lines(Some(&RulerNumbers { groups, ..RulerNumbers::default() }), None);
    for line in [
        "loki_prometheus_rule_evaluations_total{user=\"a\"} 40",
        "loki_prometheus_rule_evaluations_total{user=\"b\"} 20",
        "loki_prometheus_rule_group_last_evaluation_timestamp_seconds{user=\"a\"} 1700000001",
    ] {
        assert!(found.iter().any(|known| known == line), "{line}\n{found:#?}");
    }
    assert!(!found.iter().any(|line| line.contains("rule_group=")), "{found:#?}");
}

#[test]
fn too_many_groups_and_tenants_count_together() {
    let mut groups: Vec<GroupNumbers> =
        (0..GROUPS_MAX + 2).map(|number| group("a", "n", &format!("g{number:06}"))).collect();
    groups.extend((0..TENANTS_MAX + 1).map(|number| group(&format!("t{number:05}"), "n", "g")));
    let found = lines(Some(&RulerNumbers { groups, ..RulerNumbers::default() }), Some("/rules"));
    for line in [
        "loki_prometheus_rule_evaluations_total{user=\"a\",rule_group=\"/rules/a/n;g009999\"} 20",
        "loki_prometheus_rule_evaluations_total{user=\"a\",rule_group=\"(others)\"} 40",
        "loki_prometheus_rule_evaluations_total{user=\"t00000\",rule_group=\"(others)\"} 20",
        "loki_prometheus_rule_evaluations_total{user=\"(others)\",rule_group=\"(others)\"} 40",
    ] {
        assert!(found.iter().any(|known| known == line), "{line}");
    }
}

#[test]
fn notifications_count_by_tenant_and_alertmanager() {
    let server = AlertmanagerNumbers {
        address: Arc::from("http://am:9093"),
        given: 20,
        sent: 9,
        errors: 3,
        dropped: 4,
        queue_length: 3,
        in_flight: 1,
        requests: 5,
        latency: Duration::from_millis(125),
    };
    let notifications = vec![NotificationNumbers {
        tenant: tenant("a"),
        queue_length: 3,
        queue_capacity: 100,
        dropped: 4,
        alertmanagers: vec![server],
    }];
    let numbers = RulerNumbers { notifications, ..RulerNumbers::default() };
    let found = lines(Some(&numbers), Some("/rules"));
    let both = r#"{user="a",alertmanager="http://am:9093"}"#;
    for line in [
        format!("loki_prometheus_notifications_sent_total{both} 12"),
        format!("loki_prometheus_notifications_errors_total{both} 3"),
        format!("loki_prometheus_notifications_latency_seconds_sum{both} 0.125"),
        format!("loki_prometheus_notifications_latency_seconds_count{both} 5"),
        "loki_prometheus_notifications_dropped_total{user=\"a\"} 4".to_owned(),
        "loki_prometheus_notifications_queue_length{user=\"a\"} 3".to_owned(),
        "loki_prometheus_notifications_queue_capacity{user=\"a\"} 100".to_owned(),
        "loki_prometheus_notifications_alertmanagers_discovered{user=\"a\"} 1".to_owned(),
    ] {
        assert!(found.contains(&line), "{line}\n{found:#?}");
    }
}

#[test]
fn the_names_are_there_before_the_ruler_runs() {
    let found = lines(None, Some("/rules"));
    let values: Vec<&String> = found.iter().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(values, ["loki_ruler_managers_total 0"]);
    assert!(
        found.iter().any(|line| line == "# TYPE loki_prometheus_rule_evaluations_total counter")
    );
}
