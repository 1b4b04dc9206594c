use super::*;

fn message(pattern: &str) -> String {
    compile(pattern.as_bytes()).expect_err(pattern)
}

#[test]
fn errors_use_the_words_of_go() {
    for (pattern, detail) in [
        ("*", "missing argument to repetition operator: `*`"),
        ("+", "missing argument to repetition operator: `+`"),
        ("a|?", "missing argument to repetition operator: `?`"),
        ("(*)", "missing argument to repetition operator: `*`"),
        ("(?i)*", "missing argument to repetition operator: `*`"),
        ("(abc", "missing closing ): `(abc`"),
        ("(", "missing closing ): `(`"),
        ("abc)", "unexpected ): `abc)`"),
        ("x[a-z", "missing closing ]: `[a-z`"),
        ("[", "missing closing ]: `[`"),
        ("[]", "missing closing ]: `[]`"),
        ("[^]", "missing closing ]: `[^]`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"abc\", "trailing backslash at end of expression: ``"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a??*", "invalid nested repetition operator: `??*`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        (r"\x", r"invalid escape sequence: `\x`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{1001,}", "invalid repeat count: `{1001,}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("a{99999999999}", "invalid repeat count: `{99999999999}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(?P<a-b>x)", "invalid named capture: `(?P<a-b>`"),
        ("(?P<>x)", "invalid named capture: `(?P<>`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
    ] {
        assert_eq!(message(pattern), format!("error parsing regexp: {detail}"), "{pattern}");
    }
    assert_eq!(
        compile(b"a\xff").expect_err("bytes"),
        "error parsing regexp: invalid UTF-8: `a\u{fffd}`"
    );
}

#[test]
fn go_meanings() {
    for (pattern, text, expected) in [
        ("a{", "xa{", true),
        ("{foo}", "{foo}", true),
        ("a{,5}", "a{,5}", true),
        ("a{01}", "a{01}", true),
        (r"\Qa.b*\E+", "a.b**", true),
        (r"^\Qa.b\E$", "axb", false),
        (r"^\Qa.b", "a.b", true),
        (r"\123", "S", true),
        (r"\0", "\0", true),
        (r"\<", "<", true),
        (r"^\<$", "a", false),
        (r"[a&&b]", "&", true),
        (r"^[[a]b]$", "[b]", true),
        (r"^[[a]b]$", "b", false),
        (r"[+--]", "-", true),
        (r"[~]", "~", true),
        (r"^\d$", "٣", false),
        (r"^\w$", "é", false),
        (r"^\s$", "\u{b}", false),
        (r"^\s$", "\u{c}", true),
        (r"^[\s]$", "\u{a0}", false),
        (r"^\W$", "é", true),
        (r"\bfoo\b", "éfooé", true),
        (r"a\Bb", "ab", true),
        ("a.b", "a\nb", false),
        ("(?s)a.b", "a\nb", true),
        ("^b$", "a\nb", false),
        ("(?m)^b$", "a\nb", true),
        ("(?i)K", "\u{212a}", true),
        ("(?i)a(?-i)b", "AB", false),
        ("(?i)a(?-i)b", "Ab", true),
        ("((?i)a)b", "AB", false),
        ("a|(?i)b|c", "C", true),
        ("(?ii)x", "X", true),
        ("(?)x", "x", true),
        ("[^a]", "\n", true),
        ("[]a]", "]", true),
        ("[a-]", "-", true),
        ("[[:alpha:]]", "x", true),
        ("[[:^alpha:]]", "x", false),
        (r"[\x{D800}]", "x", false),
        (r"[^\x{D800}]", "x", true),
        (r"[\x{D700}-\x{E100}]", "\u{E001}", true),
        (r"\x{D800}", "x", false),
        (r"\pL", "é", true),
        (r"\p{^L}", "é", false),
        (r"\P{^Greek}", "α", true),
        (r"[\p{Lu}\d]", "7", true),
        (r"a*\Q\E*", "aa", true),
        (r"^a*(?i)*B$", "aab", true),
        (r"^*x", "x", true),
        (r"(?:)*x", "x", true),
        (r"(|a)*b", "aab", true),
        (r"#a b", "#a b", true),
        ("x{0}y", "y", true),
    ] {
        let regex = compile(pattern.as_bytes()).expect(pattern);
        assert_eq!(regex.is_match(text.as_bytes()), expected, "{pattern} on {text:?}");
    }
}

#[test]
fn anchoring_covers_the_whole_alternation() {
    let label = compile_matcher(b"error|warn").expect("valid");
    assert!(label.is_match(b"warn") && !label.is_match(b"xwarn") && !label.is_match(b"errorx"));
    assert!(compile_matcher(b"a.b").expect("valid").is_match(b"a\nb"));
    assert!(!compile_matcher(b"a$").expect("valid").is_match(b"a\n"));
    assert!(!compile_matcher(b"(?m)a$").expect("valid").is_match(b"a\nb"));
}

#[test]
fn matchers_begin_with_the_dot_of_all_characters_and_flags_change_it() {
    for (pattern, text, expected) in [
        ("(?-s)a.*", "a\nb", false),
        ("(?-s)a.*", "axb", true),
        ("a(?-s).*", "a\nb", false),
        ("(?-s:a.)b", "a\nb", false),
        ("(?-s:a).b", "a\nb", true),
        ("(?-s)a(?s).b", "a\nb", true),
        ("(?-s)a(?s:.)b.*", "a\nb\n", false),
        ("((?-s)a.b|c).d", "c\nd", true),
        ("((?-s)a.b|c).d", "a\nb\nd", false),
        ("(?s)a.b", "a\nb", true),
        ("(?i-s)A.b", "a\nB", false),
        ("(?i)A.b", "a\nB", true),
        ("(?s-i)A.b", "a\nb", false),
        ("(?m)a.^b", "a\nb", true),
        ("(?m-s)a.^b", "a\nb", false),
        ("(?U)a.*", "a\nb", true),
        ("(?U-s)a.+", "a\nb", false),
        (r"a\Q.\Eb", "a\nb", false),
        ("(?-s)a[^x]b", "a\nb", true),
        (r"(?-s)a\sb", "a\nb", true),
    ] {
        let regex = compile_matcher(pattern.as_bytes()).expect(pattern);
        assert_eq!(regex.is_match(text.as_bytes()), expected, "{pattern} on {text:?}");
    }
}

#[test]
fn groups_keep_numbers_and_names() {
    let capturing = compile_capturing(b"(?P<a>x)(y)(?:z)(?<1>w)(?P<a>v)").expect("valid");
    let names: Vec<_> = capturing.group_names.iter().map(Option::as_deref).collect();
    assert_eq!(names, [Some("a"), None, Some("1"), Some("a")]);
    assert_eq!(capturing.regex.captures_len(), 5);
    let captures = capturing.regex.captures(b"-xyzwv-").expect("match");
    assert_eq!(captures.get(3).map(|m| m.as_bytes()), Some(&b"w"[..]));
    assert_eq!(compile(b"(a)(b)").expect("valid").captures_len(), 1);
}

#[test]
fn hostile_patterns_are_refused_quickly() {
    let deep = format!("{}{}", "(".repeat(5000), ")".repeat(5000));
    assert!(message(&deep).contains("nests too deeply"));
    let nested = format!("{}a{}", "(".repeat(100), ")*".repeat(100));
    assert!(compile(nested.as_bytes()).is_ok());
    assert!(message(&r"\pL".repeat(27_000)).contains("expression too large"));
    assert!(message("(?:a{100}b{900}){10}").contains("invalid repeat count"));
    assert!(message(&r"\pL{999}".repeat(50)).contains("expression too large"));
    assert!(compile(r"\pL{999}".as_bytes()).is_err_and(|e| e.contains("too large")));
}
