use super::*;
use crate::engine::meter::Meter;

fn printf(format: &str, values: &[Value<'_>]) -> String {
    let mut bytes = Vec::new();
    let meter = Meter::default();
    sprintf(&mut Out::new(&mut bytes, 1 << 20, &meter), format.as_bytes(), values)
        .expect("short output");
    String::from_utf8(bytes).expect("UTF-8")
}

fn text(text: &str) -> Value<'_> {
    Value::text(text.as_bytes())
}

/// Expected values follow Go's documentation and tests of `fmt`.
#[test]
fn integers() {
    for (format, number, expected) in [
        ("%d", 42, "42"),
        ("%+d", 7, "+7"),
        ("% d", 7, " 7"),
        ("%05d", -42, "-0042"),
        ("%-05d|", 42, "42   |"),
        ("%.5d", 42, "00042"),
        ("%8.5d", -42, "  -00042"),
        ("%.0d", 0, ""),
        ("%x", 255, "ff"),
        ("%#X", 255, "0XFF"),
        ("%#x", -255, "-0xff"),
        ("%o", 8, "10"),
        ("%#o", 8, "010"),
        ("%O", 8, "0o10"),
        ("%b", 5, "101"),
        ("%#b", 5, "0b101"),
        ("%c", 65, "A"),
        ("%c", -1, "\u{fffd}"),
        ("%q", 65, "'A'"),
        ("%q", 39, r"'\''"),
        ("%+q", 0x2603, r"'\u2603'"),
        ("%U", 0x2603, "U+2603"),
        ("%#U", 0x2603, "U+2603 '\u{2603}'"),
        ("%v", 42, "42"),
        ("%s", 5, "%!s(int=5)"),
        ("%t", 5, "%!t(int=5)"),
        ("%3c|", 65, "  A|"),
        ("%z", 5, "%!z(int=5)"),
        ("%6s", 5, "%!s(int=     5)"),
    ] {
        assert_eq!(printf(format, &[Value::Int(number)]), expected, "{format}");
    }
    assert_eq!(printf("%d", &[Value::Int64(i64::MIN)]), "-9223372036854775808");
    assert_eq!(printf("%#v %v", &[Value::Byte(7), Value::Byte(7)]), "0x7 7");
}

#[test]
fn floats() {
    for (format, number, expected) in [
        ("%f", 3.24159, "3.241590"),
        ("%.2f", 3.24159, "3.24"),
        ("%8.3f", 3.24159, "   3.242"),
        ("%08.3f", 3.24159, "0003.242"),
        ("%08.3f", -3.24159, "-003.242"),
        ("%+.1e", 12345.678, "+1.2e+04"),
        ("%e", 1_234_567.0, "1.234567e+06"),
        ("%g", 1e21, "1e+21"),
        ("%G", 0.00001, "1E-05"),
        ("%g", 100_000.0, "100000"),
        ("%v", 1_000_000.0, "1e+06"),
        ("%v", 0.0001, "0.0001"),
        ("%v", 0.00001, "1e-05"),
        ("%v", -0.0, "-0"),
        ("%v", 0.0, "0"),
        ("%.3g", 100.0, "100"),
        ("%.3g", 1234.5, "1.23e+03"),
        ("%.10g", 1234.5, "1234.5"),
        ("%.3g", 0.00012345, "0.000123"),
        ("%#.3g", 1.0, "1.00"),
        ("%#g", 1.0, "1.00000"),
        ("%.0f", 2.5, "2"),
        ("%.0f", 3.5, "4"),
        ("%#.0f", 3.0, "3."),
        ("% .1f", 1.0, " 1.0"),
        ("%6.2f%%", 33.333, " 33.33%"),
        ("%-8.2f|", 1.5, "1.50    |"),
        ("%v", f64::INFINITY, "+Inf"),
        ("%f", f64::NEG_INFINITY, "-Inf"),
        ("%08.1f", f64::INFINITY, "    +Inf"),
        ("%v", f64::NAN, "NaN"),
        ("%+v", f64::NAN, "NaN"),
        ("%b", 1.0, "4503599627370496p-52"),
        ("%x", 1.5, "0x1.8p+00"),
        ("%x", 0.1, "0x1.999999999999ap-04"),
        ("%.3x", 1.0, "0x1.000p+00"),
        ("%.0X", 1.75, "0X1P+01"),
        ("%d", 1.5, "%!d(float64=1.5)"),
        ("%s", 1.5, "%!s(float64=1.5)"),
        ("%.3e", 0.0, "0.000e+00"),
        ("%e", 5e-324, "4.940656e-324"),
    ] {
        assert_eq!(printf(format, &[Value::Float(number)]), expected, "{format} of {number}");
    }
    let long = printf("%.2000f", &[Value::Float(0.1)]);
    assert_eq!(long.len(), 2002);
    assert!(long.starts_with("0.1000000000000000055511151231257827021181583404541015625000"));
}

#[test]
fn strings() {
    for (format, value, expected) in [
        ("%s|%10s", "a", "a|%!s(MISSING)"),
        ("%10s", "POST", "      POST"),
        ("%-10s|", "POST", "POST      |"),
        ("%010s", "POST", "000000POST"),
        ("%.3s", "/v3/x", "/v3"),
        ("%.2s", "日本語", "日本"),
        ("%5s", "日本語", "  日本語"),
        ("%q", "a\"b\n", r#""a\"b\n""#),
        ("%+q", "é", r#""\u00e9""#),
        ("%#q", "a\"b", "`a\"b`"),
        ("%x", "hi", "6869"),
        ("%X", "hi~", "68697E"),
        ("% x", "hi", "68 69"),
        ("%#x", "hi", "0x6869"),
        ("% #x", "hi", "0x68 0x69"),
        ("%.1x", "hi", "68"),
        ("%6x", "hi", "  6869"),
        ("%d", "1500", "%!d(string=1500)"),
        ("%5d", "ab", "%!d(string=   ab)"),
        ("%#v", "a", "\"a\""),
        ("%T", "a", "string"),
        ("%8T|", "a", "  string|"),
        ("%", "a", "%!(NOVERB)%!(EXTRA string=a)"),
        ("%[2]s", "a", "%!s(BADINDEX)"),
        ("%[]s", "a", "%!s(BADINDEX)"),
        ("%[1", "a", "%!(NOVERB)"),
        ("%[1]5s", "a", "%!s(BADINDEX)"),
        ("%99999999s", "a", "%!(NOVERB)%!(EXTRA string=a)"),
        ("%!", "a", "%!!(string=a)"),
        ("%w", "a", "%!w(string=a)"),
        ("%é", "a", "%!é(string=a)"),
    ] {
        assert_eq!(printf(format, &[text(value)]), expected, "{format}");
    }
}

#[test]
fn operands_are_counted() {
    assert_eq!(printf("%s", &[]), "%!s(MISSING)");
    assert_eq!(printf("%!", &[]), "%!!(MISSING)");
    assert_eq!(printf("%s", &[text("a"), text("b"), Value::Int(1)]), "a%!(EXTRA string=b, int=1)");
    assert_eq!(printf("", &[Value::Nothing]), "%!(EXTRA <nil>)");
    assert_eq!(printf("%[2]s %[1]s", &[text("a"), text("b")]), "b a");
    assert_eq!(printf("%[1]s %[1]T", &[text("a"), text("b")]), "a string");
    assert_eq!(
        printf("%*d|%-*d|", &[Value::Int(5), Value::Int(42), Value::Int(4), Value::Int(1)]),
        "   42|1   |"
    );
    assert_eq!(printf("%*d|", &[Value::Int(-5), Value::Int(42)]), "42   |");
    assert_eq!(printf("%*d", &[text("x"), Value::Int(42)]), "%!(BADWIDTH)42");
    assert_eq!(printf("%.*f", &[Value::Int(1), Value::Float(1.25)]), "1.2");
    assert_eq!(printf("%.*f", &[Value::Int(-1), Value::Float(1.25)]), "%!(BADPREC)1.250000");
    assert_eq!(printf("%[2]*[1]d", &[Value::Int(1), Value::Int(3)]), "  1");
}

#[test]
fn other_values() {
    let json = |text: &str| {
        Value::Element(
            super::super::json::parse(text.as_bytes(), &Meter::default()).0.expect("JSON"),
        )
    };
    assert_eq!(
        printf("%v %s %d", &[Value::Nothing, Value::Nothing, Value::Nothing]),
        "<nil> %!s(<nil>) %!d(<nil>)"
    );
    assert_eq!(
        printf(
            "%t %5t|%v %s",
            &[Value::Bool(true), Value::Bool(true), Value::Bool(false), Value::Bool(true)]
        ),
        "true  true|false %!s(bool=true)"
    );
    assert_eq!(
        printf("%v", &[json(r#"{"b":[1,null,"x"],"a":{"c":true}}"#)]),
        "map[a:map[c:true] b:[1 <nil> x]]"
    );
    assert_eq!(printf("%s", &[json(r#"["a",1]"#)]), "[a %!s(float64=1)]");
    assert_eq!(
        printf("%#v", &[json(r#"{"a":[1,null]}"#)]),
        r#"map[string]interface {}{"a":[]interface {}{1, interface {}(nil)}}"#
    );
    assert_eq!(
        printf("%T %T %T", &[json("{}"), json("[]"), json("1")]),
        "map[string]interface {} []interface {} float64"
    );
    assert_eq!(printf("%T", &[Value::Nothing]), "<nil>");
    assert_eq!(
        printf(
            "%v %d %v %d",
            &[Value::Month(3), Value::Month(3), Value::Weekday(0), Value::Weekday(0)]
        ),
        "March 3 Sunday 0"
    );
    assert_eq!(printf("%v %d", &[Value::Duration(1_500_000_000), Value::Duration(5)]), "1.5s 5");
}

#[test]
fn spaces_between_operands() {
    let printed = |print: fn(&mut Out<'_>, &[Value<'_>]) -> Result<(), String>,
                   values: &[Value<'_>]| {
        let mut bytes = Vec::new();
        print(&mut Out::new(&mut bytes, 1000, &Meter::default()), values).expect("short output");
        String::from_utf8(bytes).expect("UTF-8")
    };
    let values =
        [Value::Int(1), Value::Int(2), text("a"), text("b"), Value::Int(3), Value::Nothing];
    assert_eq!(printed(sprint, &values), "1 2ab3 <nil>");
    assert_eq!(printed(sprintln, &values), "1 2 a b 3 <nil>\n");
    assert_eq!(printed(sprintln, &[]), "\n");
}

#[test]
fn long_output_is_refused() {
    let mut bytes = Vec::new();
    let error =
        sprintf(&mut Out::new(&mut bytes, 5000, &Meter::default()), b"%1000000d", &[Value::Int(1)]);
    assert_eq!(error, Err("the output exceeds 5000 bytes".to_owned()));
}
