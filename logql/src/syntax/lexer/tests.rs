use super::*;
use crate::syntax::ast::{Flag, Keyword, RangeFunction, VectorFunction};

fn kinds(text: &str) -> Vec<Kind> {
    let mut lexer = Lexer::new(text);
    let mut kinds = Vec::new();
    loop {
        let token = lexer.next_token().unwrap_or_else(|error| panic!("{text}: {error}"));
        if token.kind == Kind::End {
            return kinds;
        }
        kinds.push(token.kind);
    }
}

fn error(text: &str) -> String {
    let mut lexer = Lexer::new(text);
    loop {
        match lexer.next_token() {
            Err(error) => return error.to_string(),
            Ok(token) => assert_ne!(token.kind, Kind::End, "{text}"),
        }
    }
}

const SECOND: i64 = 1_000_000_000;

#[test]
fn numbers_durations_and_sizes() {
    use Kind::{Bytes, Duration, Fixed as F, Ident, Number};
    for (text, expected) in [
        ("1 1. .5 1e6 1E-3 017 08.5 1__0 0x10 0o17", vec![Number; 10]),
        ("5m", vec![Duration(300 * SECOND)]),
        ("1d12h", vec![Duration(36 * 3600 * SECOND)]),
        ("1.5h", vec![Duration(5400 * SECOND)]),
        ("1m1h", vec![Duration(3660 * SECOND)]),
        ("10\u{b5}s", vec![Duration(10_000)]),
        ("0s", vec![Duration(0)]),
        ("-1h", vec![Duration(-3600 * SECOND)]),
        ("1.5d", vec![Number, Ident]),
        ("1d1w", vec![Number, Ident]),
        ("5m30", vec![Number, Ident]),
        ("300y", vec![Number, Ident]),
        ("10\u{3bc}s", vec![Number, Ident]),
        ("-1d", vec![F(Fixed::Sub), Duration(86_400 * SECOND)]),
        ("-0", vec![F(Fixed::Sub), Number]),
        ("-5", vec![F(Fixed::Sub), Number]),
        ("5M", vec![Bytes(5_000_000)]),
        ("5PB", vec![Bytes(5_000_000_000_000_000)]),
        ("5kb", vec![Bytes(5_000), Ident]),
        ("0B", vec![Bytes(0)]),
        ("0KB", vec![Bytes(0)]),
        ("5 KB", vec![Number, Ident]),
        ("1e3KB", vec![Number, Ident]),
        ("-5KB", vec![F(Fixed::Sub), Bytes(5_000)]),
        ("0B1", vec![Number, Ident]),
    ] {
        assert_eq!(kinds(text), expected, "{text}");
    }
    for (text, message) in [
        ("08", "line 1, col 1: invalid digit '8' in octal literal"),
        ("09s", "line 1, col 1: invalid digit '9' in octal literal"),
        ("1e", "line 1, col 1: exponent has no digits"),
        (" 1EB", "line 1, col 2: exponent has no digits"),
        ("0x", "line 1, col 1: hexadecimal literal has no digits"),
        ("0x1.8", "line 1, col 1: hexadecimal mantissa requires a 'p' exponent"),
        ("0o8", "line 1, col 1: invalid digit '8' in octal literal"),
    ] {
        assert_eq!(error(text), format!("parse error at {message}"));
    }
}

#[test]
fn keywords_depend_on_what_follows() {
    use Kind::{Fixed as F, Ident, RangeFn, VectorFn};
    let (open, sum) = (F(Fixed::OpenParen), VectorFn(VectorFunction::Sum));
    for (text, expected) in [
        ("JSON By", vec![Kind::Stage(Keyword::Json), F(Fixed::By)]),
        ("sum(", vec![sum.clone(), open.clone()]),
        ("SUM \u{a0}(", vec![sum.clone(), Ident, open.clone()]),
        ("sum BY (", vec![sum.clone(), F(Fixed::By), open.clone()]),
        ("sum without(", vec![sum, F(Fixed::Without), open.clone()]),
        ("sum by a (", vec![Ident, F(Fixed::By), Ident, open.clone()]),
        ("sum rate(", vec![Ident, RangeFn(RangeFunction::Rate), open.clone()]),
        ("sum /**/ (", vec![Ident, open.clone()]),
        ("duration > bytes", vec![Ident, F(Fixed::Greater), Ident]),
        ("duration_seconds(", vec![F(Fixed::DurationSecondsConversion), open]),
        ("é_9 sumx _", vec![Ident; 3]),
        ("--strict --keep-empty", vec![Kind::Flag(Flag::Strict), Kind::Flag(Flag::KeepEmpty)]),
        ("--stricter", vec![F(Fixed::Sub), F(Fixed::Sub), Ident]),
        ("--STRICT", vec![F(Fixed::Sub), F(Fixed::Sub), Ident]),
    ] {
        assert_eq!(kinds(text), expected, "{text}");
    }
}

#[test]
fn strings() {
    for (text, bytes) in [
        (r#""a\tb\"\\""#, &b"a\tb\"\\"[..]),
        (r#""\x41\101\u00e9""#, "AA\u{e9}".as_bytes()),
        (r#""\xff""#, b"\xff"),
        ("`raw \\n \"\nline`", b"raw \\n \"\nline"),
        ("\"# // /* text\"", b"# // /* text"),
    ] {
        assert_eq!(kinds(text), [Kind::String(bytes.to_vec())], "{text}");
    }
    assert_eq!(kinds("'b' '\\n' $ @ ! \u{a0}"), vec![Kind::Ident; 6]);
    for (text, message) in [
        ("'bar'", "invalid char literal"),
        ("''", "invalid char literal"),
        ("\"open", "literal not terminated"),
        ("\"new\nline\"", "literal not terminated"),
        ("`open", "literal not terminated"),
        (r#""\q""#, "invalid char escape"),
        (r#""\'""#, "invalid char escape"),
        (r#""\400""#, "invalid char escape"),
        (r#""\q open"#, "invalid char escape"),
    ] {
        assert_eq!(error(text), format!("parse error at line 1, col 1: {message}"), "{text}");
    }
}

#[test]
fn positions_count_code_points() {
    let mut lexer = Lexer::new("\u{feff}é # ü\n  |= /* ö\n*/ `ä\n` [5m] >");
    let mut seen = Vec::new();
    loop {
        let token = lexer.next_token().expect("valid");
        seen.push((token.line, token.col));
        if token.kind == Kind::End {
            break;
        }
    }
    assert_eq!(seen, [(1, 1), (0, 3), (3, 4), (0, 3), (4, 8), (4, 9)]);
    assert_eq!(error("\n /* open"), "parse error at line 2, col 2: comment not terminated");
    assert_eq!(error("a \"x\0\""), "parse error at line 1, col 5: invalid character NUL");
    assert_eq!(error("a # x\0"), "parse error at line 1, col 6: invalid character NUL");
}

#[test]
fn ranges() {
    assert_eq!(kinds("[5m][0][0s]"), [Kind::Range(300 * SECOND), Kind::Range(0), Kind::Range(0)]);
    for (text, message) in [
        ("[5m", "missing closing ']' in duration"),
        ("[]", "empty duration string"),
        ("[5minutes]", "unknown unit \"minutes\" in duration \"5minutes\""),
        ("[ 5m]", "not a valid duration string: \" 5m\""),
        ("[$__interval]", "not a valid duration string: \"$__interval\""),
        ("[300y]", "duration out of range"),
    ] {
        assert_eq!(error(text), format!("parse error at line 0, col 1: {message}"));
    }
}
