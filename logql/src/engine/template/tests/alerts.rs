//! Templates of alerts. Expected values are answers of Prometheus, if not said otherwise.

use std::collections::BTreeMap;

use logsvc_proto::Labels;

use crate::engine::{AlertData, AlertLines, AlertNeed, AlertOutput, AlertTemplate, MAX_QUERIES};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid")
}

/// The output for a sample of 1234567.891, with some queries known.
fn output(text: &str) -> Result<AlertOutput, String> {
    let template = AlertTemplate::parse("__alert_X", text)?;
    let own = labels(&[("a", "b"), ("inst", "h:9")]);
    let external = labels(&[("dc", "eu")]);
    let m = vec![
        (labels(&[("a", "z"), ("__value__", "seven")]), 7.0),
        (labels(&[("a", "c"), ("n", "1")]), 2.5),
    ];
    let queries = BTreeMap::from([
        ("m".to_owned(), Ok(m)),
        ("nix".to_owned(), Ok(Vec::new())),
        ("bad".to_owned(), Err("parse error".to_owned())),
    ]);
    let lines = ["one", "two", "three"].map(str::to_owned).to_vec();
    let lines = AlertLines { limit: 3, lines: Ok(lines) };
    template.execute(&AlertData {
        labels: &own,
        value: 1_234_567.891,
        external_labels: &external,
        external_url: "http://x.example:9090/base/p?q#f",
        time_ns: 1_700_000_000_500_456_789,
        queries: &queries,
        lines: Some(&lines),
    })
}

fn render(text: &str) -> Result<String, String> {
    match output(text)? {
        AlertOutput::Text(text) => Ok(text),
        AlertOutput::Needs(need) => Err(format!("{need:?}")),
    }
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        assert_eq!(render(template).as_deref(), Ok(*expected), "{template}");
    }
}

#[test]
fn alerts_have_variables() {
    check(&[
        ("plain", "plain"),
        (
            "{{ $value }} {{ .Value }} {{ $labels }}",
            "1.234567891e+06 1.234567891e+06 map[a:b inst:h:9]",
        ),
        (
            "{{ $labels.a }}{{ $labels.none }}|{{ .Labels.inst }}{{ index $labels \"none\" }}",
            "b|h:9",
        ),
        (
            "{{ . }}",
            "{map[a:b inst:h:9] map[dc:eu] http://x.example:9090/base/p?q#f 1.234567891e+06}",
        ),
        (
            "{{ $externalLabels.dc }} {{ .ExternalLabels.dc }} {{ $externalURL }}",
            "eu eu http://x.example:9090/base/p?q#f",
        ),
        (
            "{{ range $k, $v := $labels }}{{ $k }}={{ $v }};{{ end }}{{ len $labels }}",
            "a=b;inst=h:9;2",
        ),
        (
            "{{ if gt $value 5.0 }}high{{ else }}low{{ end }}{{ with $labels.none }}x{{ end }}",
            "high",
        ),
        (
            "{{ printf \"%T\" . }}",
            "struct { Labels map[string]string; ExternalLabels map[string]string; ExternalURL string; Value float64 }",
        ),
        (
            "{{ define \"t\" }}<{{ .arg0 }} {{ .arg1 }}>{{ end }}{{ template \"t\" (args $labels.a 5) }}",
            "<b 5>",
        ),
    ]);
}

#[test]
fn numbers_are_for_people() {
    check(&[
        ("{{ $value | humanize }} {{ humanize 0.00012 }} {{ humanize 0.0 }}", "1.235M 120u 0"),
        (
            "{{ humanize \"-1234.5\" }} {{ humanize 999.96 }} {{ humanize -0.0001 }} {{ humanize \"+Inf\" }}",
            "-1.234k 1000 -100u +Inf",
        ),
        (
            "{{ humanize1024 1048576 }} {{ humanize1024 1023 }} {{ humanize1024 -2048 }}",
            "1Mi 1023 -2ki",
        ),
        (
            "{{ humanizeDuration 93784.5 }} {{ humanizeDuration 0.0123 }} {{ humanizeDuration \"90\" }}",
            "1d 2h 3m 4s 12.3ms 1m 30s",
        ),
        (
            "{{ humanizeDuration -3661 }} {{ humanizeDuration 1.5 }} {{ humanizeDuration 0 }} {{ humanizeDuration \"NaN\" }}",
            "-1h 1m 1s 1.5s 0s NaN",
        ),
        (
            "{{ humanizePercentage 0.1234 }} {{ humanizePercentage 1.0 }} {{ humanizePercentage 0.000012345 }}",
            "12.34% 100% 0.001234%",
        ),
        (
            "{{ humanizeTimestamp 1700000000 }} {{ humanizeTimestamp \"NaN\" }}",
            "2023-11-14 22:13:20 +0000 UTC NaN",
        ),
        ("{{ humanizeTimestamp 1700000000.1239 }}", "2023-11-14 22:13:20.123 +0000 UTC"),
        (
            "{{ 1435065584.128 | toTime }} {{ (toTime 1700000000).Year }}",
            "2015-06-23 13:19:44.128 +0000 UTC 2023",
        ),
        ("{{ parseDuration \"1h30m\" }} {{ parseDuration \"1ms\" }}", "5400 0.001"),
    ]);
}

#[test]
fn texts_are_changed() {
    check(&[
        ("{{ title \"two words\" }} {{ toUpper \"aé\" }} {{ toLower \"AÉ\" }}", "Two Words AÉ aé"),
        ("{{ match \"a.c\" \"abc\" }} {{ match \"^b\" \"abc\" }}", "true false"),
        ("{{ reReplaceAll \"(a+)b\" \"<$1>\" \"aab ab b\" }}", "<aa> <a> b"),
        (
            "{{ stripPort \"a.example.org:9100\" }} {{ stripPort \"[::1]:80\" }} {{ stripPort \"a\" }} {{ stripPort \"a:b:c\" }}",
            "a.example.org ::1 a a:b:c",
        ),
        (
            "{{ stripDomain \"a.example.org:9100\" }} {{ stripDomain \"10.0.0.1:80\" }} {{ stripDomain \"[::1]:80\" }}",
            "a:9100 10.0.0.1:80 [::1]:80",
        ),
        (
            "{{ stripDomain \"a.b\" }} {{ stripDomain \"::1\" }} {{ stripDomain \":80\" }}",
            "a ::1 :80",
        ),
        (
            "{{ graphLink \"up == 0\" }} {{ tableLink \"up == 0\" }}",
            "/graph?g0.expr=up+%3D%3D+0&g0.tab=0 /graph?g0.expr=up+%3D%3D+0&g0.tab=1",
        ),
        ("{{ externalURL }} {{ pathPrefix }}", "http://x.example:9090/base/p?q#f /base/p"),
        ("{{ safeHtml \"<a>\" }} {{ html \"<a>\" }} {{ urlquery \"a b\" }}", "<a> &lt;a&gt; a+b"),
        (
            "{{ args 1 \"b\" }} {{ (args 1 \"b\").arg1 }} {{ len (args 1 2) }}",
            "map[arg0:1 arg1:b] b 2",
        ),
        ("{{ range $k, $v := args 1 \"b\" }}{{ $k }}:{{ $v }} {{ end }}", "arg0:1 arg1:b "),
    ]);
}

#[test]
fn queries_give_samples() {
    check(&[
        ("{{ with query \"m\" }}{{ . | first | value }}{{ end }}", "7"),
        (
            "{{ query \"m\" | first | strvalue }} {{ query \"m\" | first | label \"a\" }} {{ len (query \"m\") }}",
            "seven z 2",
        ),
        ("{{ (index (query \"m\") 1).Labels.a }} {{ (query \"m\" | first).Value }}", "c 7"),
        (
            "{{ range query \"m\" | sortByLabel \"a\" }}{{ .Labels.a }}={{ .Value | humanize }} {{ end }}",
            "c=2.5 z=7 ",
        ),
        (
            "{{ range query \"nix\" }}x{{ else }}none{{ end }}{{ with query \"nix\" }}x{{ end }}",
            "none",
        ),
        ("{{ query \"m\" | first }}", "{map[__value__:seven a:z] 7}"),
        (
            "{{ printf \"%T %T\" (query \"m\") (query \"m\" | first) }}",
            "template.queryResult *template.sample",
        ),
        ("{{ (slice (query \"m\") 1 2) | first | value | printf \"%.2f\" }}", "2.50"),
        // Not of Prometheus.
        (
            "{{ range logLines 2 }}[{{ . }}]{{ end }}{{ len (logLines 3) }}{{ logLines 0 }}",
            "[one][two]3[]",
        ),
        ("{{ range $i, $line := logLines 2 }}{{ $i }}{{ $line | toUpper }}{{ end }}", "0ONE1TWO"),
    ]);
    for (template, expected) in [
        ("{{ query \"other\" }}", AlertNeed::Query("other".to_owned())),
        ("{{ $x := 1 }}{{ range query $labels.a }}x{{ end }}", AlertNeed::Query("b".to_owned())),
        ("{{ logLines 4 }}", AlertNeed::Lines { limit: 4 }),
        ("{{ logLines 400 }}", AlertNeed::Lines { limit: 20 }),
    ] {
        assert_eq!(output(template), Ok(AlertOutput::Needs(expected)), "{template}");
    }
}

#[test]
fn errors_are_those_of_prometheus() {
    for (template, expected) in [
        (
            "{{ .Nope }}",
            "1:115: executing \"__alert_X\" at <.Nope>: can't evaluate field Nope in type \
             struct { Labels map[string]string; ExternalLabels map[string]string; ExternalURL \
             string; Value float64 }",
        ),
        (
            "{{ first 1 }}",
            "1:121: executing \"__alert_X\" at <1>: can't handle 1 for arg of type template.queryResult",
        ),
        (
            "{{ (query \"m\" | first).Nope }}",
            "1:128: executing \"__alert_X\" at <first>: can't evaluate field Nope in type *template.sample",
        ),
        (
            "{{ query \"nix\" | first | value }}",
            "1:129: executing \"__alert_X\" at <first>: error calling first: first() called on vector with no elements",
        ),
        (
            "{{ reReplaceAll \"(\" \"x\" \"y\" }}",
            "1:115: executing \"__alert_X\" at <reReplaceAll \"(\" \"x\" \"y\">: error calling \
             reReplaceAll: regexp: Compile(`(`): error parsing regexp: missing closing ): `(`",
        ),
        (
            "{{ match \"(\" \"x\" }}",
            "1:115: executing \"__alert_X\" at <match \"(\" \"x\">: error calling match: error parsing regexp: missing closing ): `(`",
        ),
        (
            "{{ humanize \"x\" }}",
            "1:115: executing \"__alert_X\" at <humanize \"x\">: error calling humanize: strconv.ParseFloat: parsing \"x\": invalid syntax",
        ),
        (
            "{{ humanize true }}",
            "1:115: executing \"__alert_X\" at <humanize true>: error calling humanize: can't convert bool to float",
        ),
        (
            "{{ humanizeTimestamp 1e18 }}",
            "1:115: executing \"__alert_X\" at <humanizeTimestamp 1e18>: error calling \
             humanizeTimestamp: 1e+18 cannot be represented as a nanoseconds timestamp since it \
             overflows int64",
        ),
        (
            "{{ parseDuration \"x\" }}",
            "1:115: executing \"__alert_X\" at <parseDuration \"x\">: error calling parseDuration: not a valid duration string: \"x\"",
        ),
        (
            "{{ query \"bad\" }}",
            "1:115: executing \"__alert_X\" at <query \"bad\">: error calling query: parse error",
        ),
    ] {
        let error = render(template).expect_err(template);
        assert_eq!(error, format!("template: __alert_X:{expected}"), "{template}");
    }
}

#[test]
fn hostile_templates_of_alerts_end() {
    for template in [
        "{{ range $i := query \"m\" }}{{ template \"x\" }}{{ end }}{{ define \"x\" }}{{ template \"x\" }}{{ end }}",
        "{{ $x := args 1 }}{{ range $a := printf \"%1000d\" 1 | args }}{{ $x = args $x $x }}{{ \
         $x = args $x $x }}{{ $x = args $x $x }}{{ $x = args $x $x }}{{ $x = args $x $x }}{{ $x \
         = args $x $x }}{{ $x = args $x $x }}{{ $x = args $x $x }}{{ $x = args $x $x }}{{ $x = \
         args $x $x }}{{ $x = args $x $x }}{{ $x = args $x $x }}{{ $x = args $x $x }}{{ $x = \
         args $x $x }}{{ end }}{{ $x }}",
        "{{ printf \"%70000d\" 1 }}",
    ] {
        render(template).expect_err(template);
    }
    let mut deep = "{{ $x := 1 }}".to_owned();
    deep.push_str(&"{{ $x = args $x }}".repeat(1000));
    let error = render(&deep).expect_err("deep");
    assert!(error.ends_with("arguments are nested deeper than 20"), "{error}");
}

#[test]
fn a_template_asks_for_few_queries() {
    let template =
        AlertTemplate::parse("x", "{{ query \"0\" }}{{ query \"new\" }}").expect("a template");
    let empty = Labels::empty();
    for (known, is_asked) in [(MAX_QUERIES - 1, true), (MAX_QUERIES, false)] {
        let queries = (0..known).map(|i| (i.to_string(), Ok(Vec::new()))).collect();
        let data = AlertData {
            labels: &empty,
            value: 0.0,
            external_labels: &empty,
            external_url: "",
            time_ns: 0,
            queries: &queries,
            lines: None,
        };
        assert_eq!(template.execute(&data).is_ok(), is_asked);
    }
}

#[test]
fn cores_may_share_a_template() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<AlertTemplate>();
}

/// By the documentation of Prometheus.
#[test]
fn times_and_addresses_of_queries() {
    check(&[
        (
            "{{ now | printf \"%.3f\" }} {{ now | humanizeTimestamp }}",
            "1700000000.500 2023-11-14 22:13:20.5 +0000 UTC",
        ),
        ("{{ (now | toTime).Year }} {{ printf \"%T\" now }}", "2023 float64"),
        ("{{ toDuration 90 }} {{ toDuration \"1.5\" }} {{ toDuration -0.001 }}", "1m30s 1.5s -1ms"),
        ("{{ (toTime now).Sub (toTime 1699999910.5) | humanizeDuration }}", "1m 30s"),
        ("{{ (toTime 0).Add (toDuration 3600) }}", "1970-01-01 01:00:00 +0000 UTC"),
        (
            "{{ urlQueryEscape \"a b&c=\u{e4}/%\" }} {{ $labels.inst | urlQueryEscape }}",
            "a+b%26c%3D%C3%A4%2F%25 h%3A9",
        ),
    ]);
    for template in ["{{ toDuration \"NaN\" }}", "{{ toDuration 1e10 }}", "{{ toDuration \"x\" }}"]
    {
        let error = render(template).expect_err(template);
        assert!(error.contains("error calling toDuration: "), "{error}");
    }
}

/// The first executions compile, the others find what is kept: nobody sees a difference.
#[test]
fn kept_patterns_change_no_output() {
    let text = r#"{{ range $i, $p := (args "^a" "b$" "(.)-" "x*" "[0-9]+" "^a" $labels.p) }}
        {{- match $p $labels.v }}{{ reReplaceAll $p "<$1>" $labels.v }};{{ end }}"#;
    let template = AlertTemplate::parse("__alert_X", text).expect("a template");
    let external = Labels::empty();
    let execute = |template: &AlertTemplate, pattern: &str, value: &str| {
        let own = labels(&[("p", pattern), ("v", value)]);
        template.execute(&AlertData {
            labels: &own,
            value: 0.0,
            external_labels: &external,
            external_url: "",
            time_ns: 0,
            queries: &BTreeMap::new(),
            lines: None,
        })
    };
    for value in ["ab", "a-1b", "", "9-x-8"] {
        for pattern in ["^a", "[", "(", "q", "b|c", "q"] {
            let fresh = AlertTemplate::parse("__alert_X", text).expect("a template");
            let expected = execute(&fresh, pattern, value);
            assert_eq!(execute(&template, pattern, value), expected, "{pattern} {value}");
            assert_eq!(execute(&template, pattern, value), expected, "{pattern} {value}");
        }
    }
}
