//! Control structures, operands and the functions of the template engine.

use super::check;

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
fn complex_constants() {
    check(&[
        (
            "{{1i}} {{0i}} {{-2.5i}} {{1+2i}} {{-1.5-0.5i}}",
            "(0+1i) (0+0i) (0-2.5i) (1+2i) (-1.5-0.5i)",
        ),
        ("{{1e7+1e-7i}} {{0x1p4i}} {{1_0i}}", "(1e+07+1e-07i) (0+16i) (0+10i)"),
        ("{{print 1i 2i \"x\" 3i}}", "(0+1i) (0+2i)x(0+3i)"),
        ("{{printf \"%v %g %T\" 1i 1+2i 1i}}", "(0+1i) (1+2i) complex128"),
        (
            "{{printf \"%.2f|%6.1f|%+.1e\" 1-2i 1-2i 1-2i}}",
            "(1.00-2.00i)|(   1.0  -2.0i)|(+1.0e+00-2.0e+00i)",
        ),
        (
            "{{printf \"%d|%s|%x\" 1i 1i 1+2i}}",
            "%!d(complex128=(0+1i))|%!s(complex128=(0+1i))|(0x1p+00+0x1p+01i)",
        ),
        ("{{if 1i}}a{{end}}{{if 0i}}b{{end}}{{not 0i}}{{default 1i 0i}}", "atrue(0+1i)"),
        ("{{eq 1i 1i}} {{eq 1i 2i 1i}} {{ne 1+2i 1+3i}} {{eq 1+0i 1+0i}}", "true true true true"),
        // Anything that is no number counts as zero.
        ("{{int 1i}} {{float64 1+2i}} {{add 1 5i}}", "0 0 1"),
        // Where an integer or a float is wanted a constant without imaginary part is one.
        ("{{trunc 2+0i .user}} {{repeat 0i .user}}|{{alignLeft 3-0i .user}}", "an |ann"),
        ("{{$c := 1i}}{{$c}} {{(2i)}} {{3i | print}}", "(0+1i) (0+2i) (0+3i)"),
        ("{{html 1i}} {{urlquery 1+2i}}", "(0+1i) %281%2B2i%29"),
    ]);
}

#[test]
fn numbers_at_the_ends_of_their_ranges() {
    check(&[
        (
            "{{9223372036854775807}} {{-9223372036854775808}}",
            "9223372036854775807 -9223372036854775808",
        ),
        ("{{1e308}} {{-1e308}} {{1e-400}} {{0x1p1023}}", "1e+308 -1e+308 0 8.98846567431158e+307"),
        (
            "{{fromJson \"1e400\"}} {{fromJson \"-1e400\"}}",
            "1.7976931348623157e+308 -1.7976931348623157e+308",
        ),
        (
            "{{fromJson \"[1e400,-1e999,2,1e-400]\"}}",
            "[1.7976931348623157e+308 -1.7976931348623157e+308 2 0]",
        ),
        ("{{(fromJson \"{\\\"a\\\":1e309,\\\"b\\\":2}\").b}}", "2"),
        ("{{with fromJson \"1e400\"}}{{gt . 1e300}}{{end}}", "true"),
    ]);
}
