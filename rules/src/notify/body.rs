//! Alerts as the second API of Alertmanager reads them.
//!
//! Guarantees: every alert begins after the year 2000 and before it ends, in whole milliseconds,
//! because Alertmanager refuses a request for one alert that does not.

use logsvc_proto::encode::{write_json_text, write_label_object};
use logsvc_proto::go::calendar::write_rfc3339;

use crate::sink::Notification;

/// 2001-01-01T00:00:00Z in ms since the Unix epoch.
const FIRST_START_MS: i64 = 978_307_200_000;

/// The alert as JSON. A start before 2001 is a fault of a clock: `now_ns` stands for it then.
pub(super) fn alert_json(alert: &Notification, now_ns: i64) -> Box<[u8]> {
    let (starts_ms, ends_ms) = times_ms(alert, now_ns);
    let mut out = Vec::with_capacity(
        160 + alert.labels.as_bytes().len() * 2
            + alert.annotations.as_bytes().len() * 2
            + alert.generator_url.len(),
    );
    out.push(b'{');
    if !alert.annotations.is_empty() {
        out.extend_from_slice(b"\"annotations\":");
        write_label_object(alert.annotations.iter(), &mut out);
        out.push(b',');
    }
    write_time("endsAt", ends_ms, &mut out);
    write_time("startsAt", starts_ms, &mut out);
    if !alert.generator_url.is_empty() {
        out.extend_from_slice(b"\"generatorURL\":");
        write_json_text(&alert.generator_url, &mut out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"labels\":");
    write_label_object(alert.labels.iter(), &mut out);
    out.push(b'}');
    out.into_boxed_slice()
}

fn times_ms(alert: &Notification, now_ns: i64) -> (i64, i64) {
    let ms = |ns: i64| ns.div_euclid(1_000_000);
    let mut starts_ms = ms(alert.starts_at_ns);
    if starts_ms < FIRST_START_MS {
        starts_ms = ms(now_ns).max(FIRST_START_MS);
    }
    (starts_ms, ms(alert.ends_at_ns).max(starts_ms + 1))
}

/// Appends `"name":"2026-11-21T01:48:11.117Z",`.
fn write_time(name: &str, unix_ms: i64, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    // The last millisecond of the range of ns can be one too much for it.
    write_rfc3339(Some(unix_ms.div_euclid(1000).saturating_mul(1_000_000_000)), out);
    out.pop();
    out.extend_from_slice(format!(".{:03}Z\",", unix_ms.rem_euclid(1000)).as_bytes());
}

#[cfg(test)]
mod tests {
    use logsvc_proto::Labels;
    use logsvc_proto::go::calendar::parse_rfc3339_ns;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied()).expect("valid")
    }

    fn text(alert: &Notification) -> String {
        String::from_utf8(alert_json(alert, 0).into_vec()).expect("JSON is UTF-8")
    }

    #[test]
    fn keys_have_the_order_of_the_reference() {
        let mut alert = Notification {
            labels: labels(&[
                ("alertname", "HighErr"),
                ("app", "shop"),
                ("cluster", "lab"),
                ("severity", "page"),
            ]),
            annotations: labels(&[("summary", "app \"shop\" has <26>\n")]),
            starts_at_ns: parse_rfc3339_ns("2026-11-21T01:47:31.117999Z").expect("a time"),
            ends_at_ns: parse_rfc3339_ns("2026-11-21T01:48:11Z").expect("a time"),
            generator_url: "http://grafana.example:3000/explore?left=%7B%7D&x".to_owned(),
        };
        assert_eq!(
            text(&alert),
            "{\"annotations\":{\"summary\":\"app \\\"shop\\\" has <26>\\n\"},\
             \"endsAt\":\"2026-11-21T01:48:11.000Z\",\"startsAt\":\"2026-11-21T01:47:31.117Z\",\
             \"generatorURL\":\"http://grafana.example:3000/explore?left=%7B%7D&x\",\
             \"labels\":{\"alertname\":\"HighErr\",\"app\":\"shop\",\"cluster\":\"lab\",\
             \"severity\":\"page\"}}"
        );
        alert.annotations = Labels::empty();
        alert.generator_url.clear();
        assert!(text(&alert).starts_with("{\"endsAt\":"));
        assert!(!text(&alert).contains("generatorURL"));
    }

    #[test]
    fn no_alert_ends_before_it_begins_or_begins_in_year_1() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let now_ns = 1_795_000_000_000_000_000 + rng.below(1 << 60) as i64;
            let near = now_ns + rng.below(3_000_000) as i64;
            let times = [i64::MIN, i64::MAX, 0, -1, now_ns, near, rng.next_u64() as i64];
            let alert = Notification {
                labels: labels(&[("alertname", "a")]),
                annotations: Labels::empty(),
                starts_at_ns: *rng.pick(&times),
                ends_at_ns: *rng.pick(&times),
                generator_url: String::new(),
            };
            let json = alert_json(&alert, *rng.pick(&[now_ns, 0, i64::MIN]));
            let value: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            let time = |name: &str| value[name].as_str().expect("a text").to_owned();
            let (starts, ends) = (time("startsAt"), time("endsAt"));
            assert!(starts < ends, "{alert:?}: {starts} {ends}");
            assert!(*"2001" <= *starts && *ends < *"2263", "{alert:?}: {starts} {ends}");
            assert_eq!((starts.len(), ends.len()), (24, 24));
        }
    }
}
