//! Templates over small label sets. Expected values are those of the language
//! reference, section 9, or follow Go's documentation.

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

#[test]
fn control_structures() {
    check(&[
        ("{{if .user}}a{{end}}{{if .nope}}b{{else}}c{{end}}", "ac"),
        ("{{if eq .user \"x\"}}a{{else if eq .user \"ann\"}}b{{else}}c{{end}}", "b"),
        ("{{with .nope}}a{{else with .user}}{{.}}{{else}}c{{end}}", "ann"),
        ("{{with $x := .user}}{{$x}}{{$.role}}{{end}}", "annsuper admin"),
        ("{{range 3}}{{.}}{{end}}", "012"),
        ("{{range $i := 2}}{{$i}},{{end}}", "0,1,"),
        ("{{range 0}}a{{else}}none{{end}}", "none"),
        ("{{range .nope | fromJson}}a{{else}}none{{end}}", "none"),
        ("{{range $i, $v := (fromJson .js).a}}{{$i}}={{$v}} {{end}}", "0=1 1=2.5 2=z "),
        (
            "{{range $k, $v := fromJson .js}}{{$k}}:{{$v}} {{end}}",
            "a:[1 2.5 z] b:<no value> c:map[d:deep] ",
        ),
        (
            "{{range (fromJson .js).a}}{{if eq (print .) \"2.5\"}}{{continue}}{{end}}{{.}}{{end}}",
            "1z",
        ),
        ("{{range 5}}{{if eq . 2}}{{break}}{{end}}{{.}}{{end}}", "01"),
        ("{{range $k, $v := .}}{{$k}},{{end}}", "a-b,js,ms,role,user,"),
        ("{{$x := 1}}{{range $x = 3}}{{end}}{{$x}}", "2"),
        ("{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}", "2"),
        ("{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}", "21"),
        (
            "{{define \"t\"}}<{{.}}>{{end}}{{template \"t\" .user}}{{template \"t\"}}",
            "<ann><<no value>>",
        ),
        ("{{block \"b\" .user}}[{{.}}]{{end}}", "[ann]"),
        ("{{define \"line\"}}x{{end}}", "x"),
        ("{{- .user -}}   tail", "anntail"),
        ("a {{- /* c */ -}} b", "ab"),
    ]);
}

#[test]
fn operands_and_printing() {
    check(&[
        ("{{.user}}/{{.nope}}/{{$.role}}", "ann//super admin"),
        (
            "{{\"q\\t\"}} {{'a'}} {{0x1F}} {{1_000}} {{1e3}} {{1000000.0}} {{true}}",
            "q\t 97 31 1000 1000 1e+06 true",
        ),
        ("{{index . \"a-b\"}} {{index . \"zz\"}}|{{len .}}", "dash |5"),
        (
            "{{(fromJson .js).c.d}} {{(fromJson .js).x}} {{with fromJson .js}}{{.c.d}}{{end}}",
            "deep <no value> deep",
        ),
        (
            "{{.}}",
            "map[a-b:dash js:{\"a\":[1,2.5,\"z\"],\"b\":null,\"c\":{\"d\":\"deep\"}} ms:1500 role:super admin user:ann]",
        ),
        ("{{printf \"%T %T %T\" . (add 1) (index .user 0)}}", "map[string]string int64 uint8"),
        (
            "{{and .user .nope}}|{{or .nope .user}}|{{not .user}}|{{.user | and true}}",
            "|ann|false|ann",
        ),
        ("{{fromJson \"oops\"}} {{fromJson \"[1,null]\"}}", "<no value> [1 <nil>]"),
        (
            "{{slice .role 6}} {{slice (fromJson .js).a 1 2}} {{index (fromJson .js) \"a\" 1}}",
            "admin [2.5] 2.5",
        ),
        ("{{__line__}} {{__line__ | len}}", "the line 8"),
        (
            "{{eq .user \"bob\" \"ann\"}} {{ne 1 2}} {{lt 1.5 2.5}} {{gt .ms \"200\"}} {{ge \"b\" \"a\"}} {{le 2 2}}",
            "true true true false true true",
        ),
        (
            "{{eq (index .user 0) 97}} {{eq nil nil}} {{eq (fromJson \"x\") \"a\"}}",
            "true true false",
        ),
        ("{{default \"d\" .nope}}{{.user | default \"d\"}}{{default \"x\" 0}}", "dannx"),
        (
            "{{html \"<\\\"'&>\"}} {{js \"it's <\\n\\\"\"}} {{urlquery \"a b&c\"}}",
            r#"&lt;&#34;&#39;&amp;&gt; it\'s \u003C\u000A\" a+b%26c"#,
        ),
    ]);
}

#[test]
fn strings_of_logql() {
    check(&[
        (
            "{{.role | ToUpper}} {{lower \"ABC\"}} {{title \"hello wORLD foo-bar\"}}",
            "SUPER ADMIN abc Hello WORLD Foo-Bar",
        ),
        (
            "{{replace \" \" \"-\" .role}} {{Replace .role \"s\" \"S\" 1}} {{replace \"\" \".\" \"日x\"}}",
            "super-admin Super admin .日.x.",
        ),
        (
            "{{Replace \"aaa\" \"\" \"-\" 2}} {{Replace \"aaa\" \"a\" \"b\" -1}} {{Replace \"aaa\" \"a\" \"b\" 0}}",
            "-a-aa bbb aaa",
        ),
        (
            "{{trunc 5 .role}}|{{trunc -5 .role}}|{{trunc 99 .user}}|{{trunc -99 .user}}",
            "super|admin|ann|ann",
        ),
        (
            "{{substr 0 5 .role}}|{{substr 6 -1 .role}}|{{substr -1 3 .role}}|{{substr 2 99 .user}}",
            "super|admin|sup|n",
        ),
        (
            "{{trimAll \"sn\" .role}}|{{trimPrefix \"super \" .role}}|{{trimSuffix \"admin\" .role}}|{{trim \" \t x\u{a0}\"}}|",
            "uper admi|admin|super |x|",
        ),
        (
            "{{Trim \"xxaxx\" \"x\"}} {{TrimLeft \"xxa\" \"x\"}} {{TrimRight \"axx\" \"x\"}} {{TrimSpace \" a \"}}",
            "a a a a",
        ),
        (
            "{{TrimPrefix \"ab\" \"a\"}} {{TrimSuffix \"ab\" \"b\"}} {{TrimSuffix \"ab\" \"x\"}}",
            "b a ab",
        ),
        (
            "{{contains \"adm\" .role}} {{hasPrefix \"sup\" .role}} {{hasSuffix \"x\" .role}}",
            "true true false",
        ),
        (
            "{{indent 2 \"a\\nb\"}}|{{nindent 1 \"a\"}}|{{repeat 3 \"ab\"}}|{{repeat 0 \"x\"}}",
            "  a\n  b|\n a|ababab|",
        ),
        (
            "{{alignLeft 6 .user}}|{{alignRight 6 .user}}|{{alignLeft 2 .user}}|{{alignRight 1 \"日本\"}}|{{alignLeft -1 .user}}",
            "ann   |   ann|an|本|ann",
        ),
        (
            "{{count \"e\" .role}} {{regexReplaceAll \"(s)(u)\" .role \"$2$1\"}} {{regexReplaceAllLiteral \"e\" .role \"$1\"}}",
            "1 usper admin sup$1r admin",
        ),
        (
            "{{b64enc \"hi there\"}} {{b64dec \"aGk\"}} {{b64dec \"***\"}}",
            "aGkgdGhlcmU= hi illegal base64 data at input byte 0",
        ),
        ("{{urlencode \"a b&c/é\"}} {{urldecode \"a%20b+c\"}}", "a+b%26c%2F%C3%A9 a b c"),
    ]);
}

#[test]
fn numbers_of_logql() {
    check(&[
        (
            "{{add 1 .ms}} {{add}} {{sub 5 2}} {{mul 1.5 2}} {{div 7 2}} {{div -7 2}} {{mod -7 3}}",
            "1501 0 3 2 3 -3 -1",
        ),
        (
            "{{max 1 9 3}} {{min \"4\" 2}} {{maxf 1.5 1}} {{minf 1.5 1}} {{maxf 1 (float64 \"NaN\")}}",
            "9 2 1.5 1 NaN",
        ),
        (
            "{{addf 0.1 0.2}} {{subf 5 1.5}} {{mulf 1.5 2}} {{divf 1 3}} {{mulf 1e300 1e10}}",
            "0.3 3.5 3 0.3333333333333333 +Inf",
        ),
        (
            "{{ceil \"2.1\"}} {{floor -1.5}} {{round 123.555555 3}} {{round 123.88571428571 5 .2}}",
            "3 -2 123.556 123.88572",
        ),
        ("{{round 2.5 0}} {{round -2.5 0}} {{round -1.5 0}}", "3 -3 -2"),
        (
            "{{int \"12.7\"}} {{int \"0x1f\"}} {{int \"010\"}} {{int \"abc\"}} {{float64 \"1e3\"}} {{int true}}",
            "12 31 8 0 1000 1",
        ),
        (
            "{{bytes \"2KB\"}} {{bytes \"5 MB\"}} {{duration \"1m30s\"}} {{duration_seconds \"250ms\"}}",
            "2000 5e+06 90 0.25",
        ),
        (
            "{{div -9223372036854775808 -1}} {{add 9223372036854775807 1}}",
            "-9223372036854775808 -9223372036854775808",
        ),
    ]);
}

#[test]
fn times_of_logql() {
    check(&[
        ("{{__timestamp__}}", "2026-03-10 00:00:22.06768698 +0000 UTC"),
        ("{{__timestamp__ | date \"2006-01-02T15:04:05.000Z07:00\"}}", "2026-03-10T00:00:22.067Z"),
        (
            "{{unixEpoch __timestamp__}} {{unixEpochMillis __timestamp__}} {{unixEpochNanos __timestamp__}}",
            "1773100822 1773100822067 1773100822067686980",
        ),
        (
            "{{__timestamp__.Year}} {{__timestamp__.Month}} {{__timestamp__.Weekday}} {{__timestamp__.YearDay}} {{__timestamp__.Unix}}",
            "2026 March Tuesday 69 1773100822",
        ),
        (
            "{{__timestamp__.Format \"15:04\"}} {{(__timestamp__.Add 3600000000000).Hour}} {{(now.Sub __timestamp__).Hours | int}}",
            "00:00 1 7471",
        ),
        ("{{if __timestamp__.Before now}}before{{end}} {{now | unixEpoch}}", "before 1800000000"),
        (
            "{{toDate \"2006-01-02\" \"2026-03-10\" | unixEpoch}} {{toDate \"2006\" \"x\"}}",
            "1773100800 0001-01-01 00:00:00 +0000 UTC",
        ),
        (
            "{{toDateInZone \"2006-01-02 15:04\" \"America/New_York\" \"2024-07-04 12:00\" | unixEpoch}}",
            "1720108800",
        ),
        ("{{toDateInZone \"2006-01-02\" \"No/Where\" \"2026-03-10\" | unixEpoch}}", "1773100800"),
        (
            "{{unixToTime \"1773100800\" | date \"2006-01-02 15:04\"}} {{date \"2006\" (unixToTime \"20522\")}}",
            "2026-03-10 00:00 2026",
        ),
        ("{{date \"2006-01-02\" 1773100800}} {{date \"2006\" \"x\"}}", "2026-03-10 2027"),
    ]);
}

#[test]
fn texts_that_are_no_templates() {
    check_errors(&[
        ("{{ .user ", "1: unclosed action"),
        ("{{ nope .user }}", "1: function \"nope\" not defined"),
        ("\n{{ if }}x{{end}}", "2: missing value for if"),
        ("{{ end }}", "1: unexpected {{end}}"),
        ("{{ if .a }}", "1: unexpected EOF"),
        ("{{ $x }}", "1: undefined variable \"$x\""),
        ("{{ .a-b }}", "1: bad character U+002D '-'"),
        ("{{ break }}", "1: {{break}} outside {{range}}"),
        (
            "{{ range . }}{{ define \"x\" }}{{ continue }}{{ end }}{{ end }}",
            "1: unexpected <define> in command",
        ),
        ("{{ if . }}{{ else }}{{ else }}{{ end }}", "1: expected end; found {{else}}"),
        ("{{ .a | 5 }}", "1: non executable command in pipeline stage 2"),
        ("{{ 1.a }}", "1: bad number syntax: \"1.a\""),
        ("{{ \"a\".b }}", "1: unexpected . after term \"\\\"a\\\"\""),
        ("{{ 3k }}", "1: bad number syntax: \"3k\""),
        ("{{ () }}", "1: missing value for parenthesized pipeline"),
        ("{{ | len }}", "1: unexpected \"|\" in command"),
        ("{{ .a |", "1: unclosed action"),
        ("{{ $x, $y := 1 }}", "1: too many declarations in command"),
        ("{{ range $x, 5 := 1 }}{{ end }}", "1: range can only initialize variables"),
        ("{{ template .a }}", "1: unexpected \".a\" in template clause"),
        (
            "{{ define \"a\" }}x{{ end }}{{ define \"a\" }}y{{ end }}",
            "1: template: multiple definition of template \"a\"",
        ),
        ("{{ .a\n.b }}{{ (\n", "3: unclosed action started at line:2"),
        ("{{ .a\n\"b }}", "2: unterminated quoted string in action started at line:1"),
        ("{{ 99999999999999999999 }}", "1: integer overflow: \"99999999999999999999\""),
        ("{{ \"\\q\" }}", "1: invalid syntax"),
        ("{{ end_of_a_long_name }}", "1: function \"end_of_a_long_name\" not defined"),
        ("{{ else }}", "1: unexpected {{else}}"),
        ("{{ .a, }}", "1: unexpected \",\" in operand"),
        ("{{ quote .a }}", "1: function \"quote\" not defined"),
    ]);
}

#[test]
fn executions_that_fail() {
    check_errors(&[
        (
            "{{ div 1 0 }}",
            "1:3: executing \"line\" at <div 1 0>: error calling div: runtime error: integer divide by zero",
        ),
        (
            "a\nb{{ eq .ms 1500 }}",
            "2:4: executing \"line\" at <eq .ms 1500>: error calling eq: incompatible types for comparison: string and int",
        ),
        (
            "{{ .user.first }}",
            "1:8: executing \"line\" at <.user.first>: can't evaluate field first in type string",
        ),
        ("{{ lower 5 }}", "1:9: executing \"line\" at <5>: expected string; found 5"),
        (
            "{{ trunc \"x\" \"abc\" }}",
            "1:9: executing \"line\" at <\"x\">: expected integer; found \"x\"",
        ),
        (
            "{{ trunc .ms \"abc\" }}",
            "1:9: executing \"line\" at <.ms>: wrong type for value; expected int; got string",
        ),
        (
            "{{ replace \"a\" \"b\" }}",
            "1:3: executing \"line\" at <replace>: wrong number of args for replace: want 3 got 2",
        ),
        (
            "{{ mul }}",
            "1:3: executing \"line\" at <mul>: wrong number of args for mul: want at least 1 got 0",
        ),
        (
            "{{ call .user }}",
            "1:3: executing \"line\" at <call .user>: error calling call: non-function .user of type string",
        ),
        (
            "{{ range .user }}{{ end }}",
            "1:9: executing \"line\" at <.user>: range can't iterate over ann",
        ),
        (
            "{{ range 1.5 }}{{ end }}",
            "1:9: executing \"line\" at <1.5>: range can't iterate over 1.5",
        ),
        (
            "{{ range $i, $v := 3 }}{{ end }}",
            "1:19: executing \"line\" at <3>: can't use 3 to iterate over more than one variable",
        ),
        (
            "{{ template \"x\" }}",
            "1:12: executing \"line\" at <{{template \"x\"}}>: template \"x\" not defined",
        ),
        (
            "{{ .user 1 }}",
            "1:3: executing \"line\" at <.user>: user is not a method but has arguments",
        ),
        ("{{ 1 2 }}", "1:3: executing \"line\" at <1>: can't give argument to non-function 1"),
        ("{{ nil }}", "1:3: executing \"line\" at <nil>: nil is not a command"),
        ("{{ $x = 1 }}", "1:8: executing \"line\" at <1>: undefined variable: $x"),
        (
            "{{ index .user 7 }}",
            "1:3: executing \"line\" at <index .user 7>: error calling index: index out of range: 7",
        ),
        (
            "{{ index .user 3 }}",
            "1:3: executing \"line\" at <index .user 3>: error calling index: reflect: string index out of range",
        ),
        ("{{ len 3 }}", "1:3: executing \"line\" at <len 3>: error calling len: len of type int"),
        (
            "{{ lt true false }}",
            "1:3: executing \"line\" at <lt true false>: error calling lt: invalid type for comparison",
        ),
        (
            "{{ eq . . }}",
            "1:3: executing \"line\" at <eq . .>: error calling eq: non-comparable types map[string]string: map[string]string",
        ),
        (
            "{{ eq 1 }}",
            "1:3: executing \"line\" at <eq 1>: error calling eq: missing argument for comparison",
        ),
        (
            "{{ substr 5 2 \"abcdef\" }}",
            "1:3: executing \"line\" at <substr 5 2 \"abcdef\">: error calling substr: runtime error: slice bounds out of range [5:2]",
        ),
        (
            "{{ repeat -1 \"x\" }}",
            "1:3: executing \"line\" at <repeat -1 \"x\">: error calling repeat: strings: negative Repeat count",
        ),
        (
            "{{ bytes \"nope\" }}",
            "1:3: executing \"line\" at <bytes \"nope\">: error calling bytes: strconv.ParseFloat: parsing \"\": invalid syntax",
        ),
        (
            "{{ duration \"bad\" }}",
            "1:3: executing \"line\" at <duration \"bad\">: error calling duration: time: invalid duration \"bad\"",
        ),
        (
            "{{ divf 1 0 }}",
            "1:3: executing \"line\" at <divf 1 0>: error calling divf: decimal division by 0",
        ),
        (
            "{{ urldecode \"bad%zz\" }}",
            "1:3: executing \"line\" at <urldecode \"bad%zz\">: error calling urldecode: invalid URL escape \"%zz\"",
        ),
        (
            "{{ regexReplaceAll \"(\" \"x\" \"y\" }}",
            "1:3: executing \"line\" at <regexReplaceAll \"(\" \"x\" \"y\">: error calling regexReplaceAll: error parsing regexp: missing closing ): `(`",
        ),
        (
            "{{ unixToTime \"12\" }}",
            "1:3: executing \"line\" at <unixToTime \"12\">: error calling unixToTime: unable to parse time '12': %!w(<nil>)",
        ),
        (
            "{{ unixToTime \"abc\" }}",
            "1:3: executing \"line\" at <unixToTime \"abc\">: error calling unixToTime: unable to parse time 'abc': strconv.ParseInt: parsing \"abc\": invalid syntax",
        ),
        (
            "{{ unixEpoch \"1\" }}",
            "1:13: executing \"line\" at <\"1\">: can't handle \"1\" for arg of type time.Time",
        ),
        (
            "{{ define \"t\" }}{{ div 1 . }}{{ end }}{{ template \"t\" 0 }}",
            "1:19: executing \"t\" at <div 1 .>: error calling div: runtime error: integer divide by zero",
        ),
        (
            "{{ (fromJson .js).b.x }}",
            "1:13: executing \"line\" at <.js>: nil pointer evaluating interface {}.x",
        ),
        (
            "{{ __timestamp__.Nope }}",
            "1:3: executing \"line\" at <__timestamp__>: can't evaluate field Nope in type time.Time",
        ),
        (
            "{{ .role | printf .ms | upper .user }}",
            "1:24: executing \"line\" at <upper>: wrong number of args for upper: want 1 got 2",
        ),
        ("{{ upper nil }}", "1:9: executing \"line\" at <nil>: cannot assign nil to string"),
        (
            "{{ upper (fromJson \"x\") }}",
            "1:19: executing \"line\" at <\"x\">: invalid value; expected string",
        ),
    ]);
}

#[test]
fn hostile_templates_end() {
    for template in [
        "{{range 1000000000}}{{end}}",
        "{{range 1000000000}}x{{end}}",
        "{{define \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}",
        "{{define \"r\"}}{{template \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}",
        "{{repeat 1000000000 \"x\"}}",
        "{{range 100000}}{{repeat 1000000 \"x\"}}{{end}}",
        "{{$x := repeat 1000000 \"x\"}}{{range 100000}}{{eq $x $x}}{{end}}",
        "{{$x := repeat 1000000 \"x\"}}{{range 100000}}{{count \"y\" $x}}{{end}}",
        "{{$x := repeat 1000000 \"ab\"}}{{replace \"a\" $x $x}}",
        "{{$x := repeat 1000000 \"ab\"}}{{regexReplaceAll \"a\" $x \"$0$0$0$0$0\"}}",
        "{{$x := repeat 1000000 \"x\"}}{{range 1000}}{{$x = print $x $x}}{{end}}",
        "{{printf \"%9999999d %.9999999f\" 1 1.5}}",
        "{{indent 1000000000 \"a\"}}",
        "{{alignLeft 9223372036854775807 \"a\"}}",
        "{{range $i := 100000}}{{count (repeat $i \"(a|b)*\") \"x\"}}{{end}}",
        "{{count \"((a{100}){10}b){1}((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)((a{100}){10}b)\" .}}",
    ] {
        let error = render(template).expect_err(template);
        assert!(error.starts_with("template: line"), "{template}: {error}");
    }
    for depth in [101, 1000, 100_000] {
        for (open, close) in [("(", ")"), ("{{if 1}}", "{{end}}"), ("{{if 1}}{{else ", "")] {
            let template = match open {
                "(" => format!("{{{{{}1{}}}}}", open.repeat(depth), close.repeat(depth)),
                _ => format!("{}{}", open.repeat(depth), close.repeat(depth)),
            };
            assert!(render(&template).is_err());
        }
    }
    let nested = format!("{{{{{}1{}}}}}", "(".repeat(100), ")".repeat(100));
    assert_eq!(render(&nested).as_deref(), Ok("1"));
}

#[test]
fn templates_know_what_they_read() {
    let names = |template: &str| {
        let mut names = Vec::new();
        let is_known = Template::for_each_name(template.as_bytes(), &mut |name| {
            names.push(name.to_owned());
        });
        is_known.then(|| names.join(","))
    };
    for (template, expected) in [
        ("plain", Some("")),
        ("{{.a}} {{upper .b | printf \"%s\" .c}}", Some("a,b,c")),
        (
            "{{if .a}}{{$.b}}{{else}}{{range $x := fromJson .c}}{{$x.d}}{{end}}{{end}}",
            Some("a,b,c,d"),
        ),
        ("{{__line__}}{{(fromJson .a).b}}", Some("a,b")),
        ("{{.}}", None),
        ("{{index . \"a\"}}", None),
        ("{{template \"x\" $}}", None),
        ("{{with .a}}{{.}}{{end}}", None),
        ("{{nope}}", None),
    ] {
        assert_eq!(names(template).as_deref(), expected, "{template}");
    }
}
