//! The alerts of a rule against a naive model of Prometheus' semantics, over random traces with
//! failing evaluations, limits, and rules that are replaced.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_proto::Labels;
use logsvc_rules::alert::{AlertTable, NEVER_NS, NewAlert, Terms};
use logsvc_rules::messages::AlertState;
use logsvc_testkit::{Rng, SeedGuard, seeds};

const SECOND_NS: i64 = 1_000_000_000;

/// What Prometheus keeps of an alert. Times are in seconds; 0 is a time that has not come.
#[derive(Clone, Debug, PartialEq)]
struct ModelAlert {
    state: &'static str,
    value: f64,
    active_at: i64,
    fired_at: i64,
    resolved_at: i64,
    keep_firing_since: i64,
    last_sent_at: i64,
}

#[derive(Clone, Debug)]
struct ModelRule {
    hold: i64,
    keep_firing: i64,
    limit: usize,
    resend_delay: i64,
    interval: i64,
}

/// Labels, start, end.
type Sent = BTreeSet<(String, i64, i64)>;
/// Series by their texts, with their values.
type Samples = BTreeMap<String, i64>;

#[derive(Default)]
struct Model {
    active: BTreeMap<String, ModelAlert>,
    series: BTreeSet<String>,
}

struct Outcome {
    error: Option<String>,
    sent: Sent,
    samples: Samples,
    stale: BTreeSet<String>,
}

impl Model {
    fn eval(&mut self, at: i64, result: &[(String, f64)], rule: &ModelRule) -> Outcome {
        let mut outcome = Outcome {
            error: None,
            sent: Sent::new(),
            samples: Samples::new(),
            stale: BTreeSet::new(),
        };
        for (labels, value) in result {
            match self.active.get_mut(labels) {
                Some(alert) if alert.state != "inactive" => alert.value = *value,
                _ => {
                    let alert = ModelAlert {
                        state: "pending",
                        value: *value,
                        active_at: at,
                        fired_at: 0,
                        resolved_at: 0,
                        keep_firing_since: 0,
                        last_sent_at: 0,
                    };
                    self.active.insert(labels.clone(), alert);
                }
            }
        }
        let mut count = 0;
        let all: Vec<String> = self.active.keys().cloned().collect();
        for labels in all {
            let is_found = result.iter().any(|(found, _)| *found == labels);
            let alert = self.active.get_mut(&labels).expect("it is there");
            if is_found {
                alert.keep_firing_since = 0;
            } else {
                let mut keeps = false;
                if alert.state == "firing" && rule.keep_firing > 0 {
                    if alert.keep_firing_since == 0 {
                        alert.keep_firing_since = at;
                    }
                    keeps = at - alert.keep_firing_since < rule.keep_firing;
                }
                let is_old = alert.resolved_at != 0 && at - alert.resolved_at > 15 * 60;
                let goes = alert.state == "pending" || is_old;
                if alert.state != "inactive" && !keeps {
                    alert.state = "inactive";
                    alert.resolved_at = at;
                }
                if goes {
                    self.active.remove(&labels);
                }
                if !keeps {
                    continue;
                }
            }
            count += 1;
            let alert = self.active.get_mut(&labels).expect("it is there");
            if alert.state == "pending" && at - alert.active_at >= rule.hold {
                alert.state = "firing";
                alert.fired_at = at;
            }
            outcome.samples.insert(format!("ALERTS {} {labels}", alert.state), 1);
            outcome.samples.insert(format!("FOR {labels}"), alert.active_at);
        }
        if rule.limit > 0 && count > rule.limit {
            self.active.clear();
            let limit = rule.limit;
            outcome.error = Some(format!("exceeded limit of {limit} with {count} alerts"));
            outcome.samples.clear();
            return outcome;
        }
        for (labels, alert) in &mut self.active {
            let is_due = alert.resolved_at > alert.last_sent_at
                || alert.last_sent_at + rule.resend_delay < at;
            if alert.state != "pending" && is_due {
                alert.last_sent_at = at;
                let valid_until = at + 4 * rule.resend_delay.max(rule.interval);
                let end = if alert.resolved_at != 0 { alert.resolved_at } else { valid_until };
                outcome.sent.insert((labels.clone(), alert.fired_at, end));
            }
        }
        let series: BTreeSet<String> = outcome.samples.keys().cloned().collect();
        outcome.stale = self.series.difference(&series).cloned().collect();
        self.series = series;
        outcome
    }
}

fn labels(name: &str) -> Labels {
    Labels::from_pairs([("alertname", "A"), ("pod", name)]).expect("valid")
}

/// The model's name of a series.
fn series_text(labels: &Labels) -> String {
    let pod = labels.get("pod").expect("has a pod");
    match labels.get("alertstate") {
        Some(state) => format!("ALERTS {state} {pod}"),
        None => format!("FOR {pod}"),
    }
}

fn compare(table: &AlertTable, model: &Model) {
    let seconds = |time_ns: i64| if time_ns == NEVER_NS { 0 } else { time_ns / SECOND_NS };
    let ours: BTreeMap<String, ModelAlert> = table
        .alerts()
        .iter()
        .map(|alert| {
            let state = match alert.state {
                AlertState::Inactive => "inactive",
                AlertState::Pending => "pending",
                AlertState::Firing => "firing",
            };
            let alert_model = ModelAlert {
                state,
                value: alert.value,
                active_at: seconds(alert.active_at_ns),
                fired_at: seconds(alert.fired_at_ns),
                resolved_at: seconds(alert.resolved_at_ns),
                keep_firing_since: seconds(alert.keep_firing_since_ns),
                last_sent_at: seconds(alert.last_sent_ns),
            };
            (alert.labels.get("pod").expect("has a pod").to_owned(), alert_model)
        })
        .collect();
    assert_eq!(ours, model.active);
}

#[test]
fn alerts_are_those_of_the_model() {
    let mut seen = BTreeMap::<&str, u32>::new();
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut rule = random_rule(&mut rng);
        let (mut table, mut model) = (AlertTable::default(), Model::default());
        // Series of alerts that a limit has dropped, as the driver keeps them.
        let mut owed = BTreeSet::new();
        let mut at = 1_700_000_000;
        let mut chances: BTreeMap<String, u64> = BTreeMap::new();
        for pod in 0..rng.between(1, 8) {
            chances.insert(format!("p{pod}"), rng.between(1, 12));
        }
        for _ in 0..rng.between(20, 150) {
            at += rule.interval * if rng.one_in(20) { rng.between(2, 100) as i64 } else { 1 };
            if rng.one_in(12) {
                // A failing evaluation changes nothing.
                *seen.entry("errors").or_default() += 1;
                continue;
            }
            if rng.one_in(30) {
                // The rule is replaced; its name and labels stay.
                let interval = rule.interval;
                rule = ModelRule { interval, ..random_rule(&mut rng) };
            }
            let result: Vec<(String, f64)> = chances
                .iter()
                .filter(|(_, chance)| !rng.one_in(**chance))
                .map(|(pod, _)| (pod.clone(), at as f64))
                .collect();
            let expected = model.eval(at, &result, &rule);
            let mut found: Vec<NewAlert> = result
                .iter()
                .map(|(pod, value)| NewAlert {
                    labels: labels(pod),
                    annotations: Labels::empty(),
                    value: *value,
                })
                .collect();
            found.sort_by(|a, b| a.labels.as_bytes().cmp(b.labels.as_bytes()));
            let terms = Terms {
                time_ns: at * SECOND_NS,
                hold_ns: rule.hold * SECOND_NS,
                keep_firing_ns: rule.keep_firing * SECOND_NS,
                limit: rule.limit as u64,
                resend_delay_ns: rule.resend_delay * SECOND_NS,
                interval_ns: rule.interval * SECOND_NS,
                sample_ms: Some(at * 1000),
                generator_url: "http://g".to_owned(),
            };
            match table.evaluate(found, &terms) {
                Err(error) => {
                    *seen.entry("limits").or_default() += 1;
                    assert_eq!(Some(error.to_string()), expected.error);
                    owed.extend(table.series().iter().map(series_text));
                    table = AlertTable::default();
                }
                Ok(evaluated) => {
                    assert_eq!(expected.error, None);
                    let samples: Samples = evaluated
                        .samples
                        .iter()
                        .map(|sample| {
                            assert_eq!(sample.timestamp_ms, at * 1000);
                            (series_text(&sample.labels), sample.value as i64)
                        })
                        .collect();
                    assert_eq!(samples, expected.samples);
                    assert_eq!(evaluated.samples.len(), samples.len(), "each once");
                    let mut stale: BTreeSet<String> =
                        evaluated.ended.iter().map(series_text).collect();
                    assert_eq!(stale.len(), evaluated.ended.len(), "each once");
                    stale.extend(std::mem::take(&mut owed));
                    stale.retain(|series| !samples.contains_key(series));
                    assert_eq!(stale, expected.stale);
                    let sent: Sent = evaluated
                        .notifications
                        .iter()
                        .map(|one| {
                            assert!(one.starts_at_ns < one.ends_at_ns, "starts before it ends");
                            let pod = one.labels.get("pod").expect("has a pod").to_owned();
                            (pod, one.starts_at_ns / SECOND_NS, one.ends_at_ns / SECOND_NS)
                        })
                        .collect();
                    *seen.entry("sent").or_default() += sent.len() as u32;
                    assert_eq!(sent, expected.sent);
                    check_changes(&table, &evaluated);
                    table = evaluated.table;
                }
            }
            compare(&table, &model);
            for alert in model.active.values() {
                *seen.entry(alert.state).or_default() += 1;
                *seen.entry("kept").or_default() += u32::from(alert.keep_firing_since != 0);
            }
        }
    }
    if std::env::var_os("LOGSVC_SEED").is_none() {
        for what in ["errors", "limits", "sent", "pending", "firing", "inactive", "kept"] {
            assert!(seen.get(what).is_some_and(|&count| count > 100), "{what}: {seen:?}");
        }
    }
}

fn random_rule(rng: &mut Rng) -> ModelRule {
    ModelRule {
        hold: *rng.pick(&[0, 0, 10, 60, 300]),
        keep_firing: *rng.pick(&[0, 0, 20, 120]),
        limit: *rng.pick(&[0, 0, 3, 6]),
        resend_delay: *rng.pick(&[5, 30, 60, 600]),
        interval: *rng.pick(&[5, 10, 60]),
    }
}

/// What an evaluation says has changed turns a copy of the old table into the new one, but for what
/// a start does not restore.
fn check_changes(before: &AlertTable, evaluated: &logsvc_rules::alert::Evaluated) {
    let kept = |table: &AlertTable| -> BTreeMap<Vec<u8>, _> {
        let alerts = table.alerts().iter();
        alerts
            .map(|alert| {
                let times = (alert.active_at_ns, alert.fired_at_ns, alert.resolved_at_ns);
                let rest = (alert.state, alert.keep_firing_since_ns);
                (alert.labels.as_bytes().to_vec(), (times, rest))
            })
            .collect()
    };
    let (mut rebuilt, after) = (kept(before), kept(&evaluated.table));
    for labels in &evaluated.gone {
        assert!(rebuilt.remove(labels.as_bytes()).is_some(), "{labels} was there");
    }
    for &index in &evaluated.changed {
        let key = evaluated.table.alerts()[index].labels.as_bytes().to_vec();
        let value = after[&key];
        assert_ne!(rebuilt.insert(key, value), Some(value), "it has changed");
    }
    assert_eq!(rebuilt, after);
}
