//! Hostile templates, and the properties of a template that are known without executing it.

use super::{Template, render};

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
    let many = "1.23456789012345 ".repeat(6000);
    assert!(render(&format!("{{{{mulf {many}}}}}")).is_err());
    let set: String = ('\u{100}'..'\u{8000}').collect();
    let some: String = set.chars().take(20_000).collect();
    let cut = format!("{{{{trimAll \"{set}\" \"{some}a{some}\"}}}}");
    assert_eq!(render(&cut).as_deref(), Ok("a"));
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
