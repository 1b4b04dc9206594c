//! Golden text cases of the parser and the printer.

use logsvc_logql::syntax::{format, parse};

#[test]
fn refused_queries() {
    let text = include_str!("golden/errors.txt");
    let mut cases = 0;
    for block in text.split("\n>>>").skip(1) {
        let (query, message) = block.split_once("\n<<< ").expect("a message follows");
        let query = query.strip_prefix(' ').unwrap_or(query);
        let message = message.strip_suffix('\n').unwrap_or(message);
        let error = parse(query).map(|expr| expr.to_string()).expect_err(query);
        assert_eq!(error.to_string(), message, "{query}");
        cases += 1;
    }
    assert!(cases > 100, "only {cases} cases were found");
}

#[test]
fn formatted_queries() {
    let text = include_str!("golden/format.txt");
    let mut cases = 0;
    let (_, text) = text.split_once('\n').expect("a heading");
    for block in text.split_terminator("\n====\n") {
        let (query, expected) = block.split_once("\n-->\n").expect("a result follows");
        let expr = parse(query).unwrap_or_else(|error| panic!("{query}\n{error}"));
        assert_eq!(format(&expr), expected, "{query}");
        if expected == "NaN" {
            continue;
        }
        assert_eq!(parse(expected).as_ref(), Ok(&expr), "{expected}");
        assert_eq!(parse(&expr.to_string()).as_ref(), Ok(&expr), "{expr}");
        cases += 1;
    }
    assert!(cases > 50, "only {cases} cases were found");
}

#[test]
fn accepted_queries() {
    let text = include_str!("golden/queries.txt");
    let mut cases = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let query = line
            .replace(r"\\", "\u{1}")
            .replace(r"\n", "\n")
            .replace(r"\t", "\t")
            .replace(r"\x1b", "\u{1b}")
            .replace('\u{1}', r"\");
        let expr = parse(&query).unwrap_or_else(|error| panic!("{query}\n{error}"));
        for text in [expr.to_string(), format(&expr)] {
            assert_eq!(parse(&text).as_ref(), Ok(&expr), "{text}");
        }
        cases += 1;
    }
    assert!(cases > 380, "only {cases} cases were found");
}
