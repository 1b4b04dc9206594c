//! Messages of templates that are none, and of executions that fail.

use super::check_errors;

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
        ("{{ 18446744073709551616 }}", "1: integer overflow: \"18446744073709551616\""),
        ("{{ 1e400 }}", "1: illegal number syntax: \"1e400\""),
        ("{{ 0x1p2000 }}", "1: illegal number syntax: \"0x1p2000\""),
        ("{{ 1e400i }}", "1: illegal number syntax: \"1e400i\""),
        ("{{ 0x10i }}", "1: illegal number syntax: \"0x10i\""),
        ("{{ 1+2 }}", "1: bad number syntax: \"1+2\""),
        ("{{ 1+2ix }}", "1: bad number syntax: \"1+2ix\""),
        ("{{ 1+i }}", "1: syntax error scanning complex number"),
        ("{{ 1e400+1i }}", "1: strconv.ParseFloat: parsing \"1e400\": value out of range"),
        ("{{ .a | 1i }}", "1: non executable command in pipeline stage 2"),
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
            "{{ 9223372036854775808 }}",
            "1:3: executing \"line\" at <9223372036854775808>: 9223372036854775808 overflows int",
        ),
        (
            "{{ lt 1i 2i }}",
            "1:3: executing \"line\" at <lt 1i 2i>: error calling lt: invalid type for comparison",
        ),
        (
            "{{ eq 1i 1 }}",
            "1:3: executing \"line\" at <eq 1i 1>: error calling eq: incompatible types for comparison: complex128 and int",
        ),
        (
            "{{ len 1i }}",
            "1:3: executing \"line\" at <len 1i>: error calling len: len of type complex128",
        ),
        ("{{ trunc 1i .user }}", "1:9: executing \"line\" at <1i>: expected integer; found 1i"),
        ("{{ upper 1i }}", "1:9: executing \"line\" at <1i>: expected string; found 1i"),
        (
            "{{ range 1i }}{{ end }}",
            "1:9: executing \"line\" at <1i>: range can't iterate over (0+1i)",
        ),
        (
            "{{ (1i).x }}",
            "1:4: executing \"line\" at <1i>: can't evaluate field x in type complex128",
        ),
        (
            "{{ index .user 1i }}",
            "1:3: executing \"line\" at <index .user 1i>: error calling index: cannot index slice/array with type complex128",
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
