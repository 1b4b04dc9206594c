//! Templates over small label sets. Expected values are answers of Loki, or follow Go's
//! documentation.

mod alerts;
mod bounds;
mod errors;
mod functions;
mod language;

use logsvc_proto::Labels;

use super::*;

const TIMESTAMP_NS: i64 = 1_773_100_822_067_686_980;

/// The output over the labels `user`, `role`, `ms`, `js` and an empty-valued one.
fn render(template: &str) -> Result<String, String> {
    let mut labels = EntryLabels::new();
    let template = Template::compile("line", template.as_bytes(), &mut labels)?;
    let stream = Labels::from_pairs([("user", "ann"), ("role", "super admin"), ("ms", "1500")])
        .expect("valid");
    let base = labels.base(&stream);
    labels.start(&base);
    let js = labels.name_id(b"js");
    labels.set(js, br#"{"a":[1,2.5,"z"],"b":null,"c":{"d":"deep"}}"#);
    let dashed = labels.name_id(b"a-b");
    labels.set(dashed, b"dash");
    let mut out = Vec::new();
    template.execute(
        Input {
            labels: &labels,
            line: b"the line",
            timestamp_ns: TIMESTAMP_NS,
            now_ns: 1_800_000_000_000_000_000,
        },
        &mut out,
    )?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        assert_eq!(render(template).as_deref(), Ok(*expected), "{template}");
    }
}

#[track_caller]
fn check_errors(cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        let error = render(template).expect_err(template);
        let error = error.strip_prefix("template: line:").unwrap_or(&error);
        assert_eq!(error, *expected, "{template}");
    }
}
