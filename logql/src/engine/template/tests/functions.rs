//! The functions of LogQL.

use super::check;

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
