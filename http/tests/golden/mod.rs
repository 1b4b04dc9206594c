//! Golden cases in text files.
//!
//! A file holds cases: a line `=== name`, lines of input, a line `--->`, lines of
//! the expected result. Line ends of the file are no input; escapes are `\r`,
//! `\n`, `\t`, `\\`, `\xNN`, and `\(text*count)` for a repeated text. Lines that
//! start with `#` before the first case are comments. With `UPDATE_GOLDEN=1` in
//! the environment the results are written instead of compared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) input_text: String,
    pub(crate) input: Vec<u8>,
    pub(crate) expected: String,
}

/// Runs `result_of` over all cases of a folder of `tests/golden`, at least
/// `min_cases`, so that a moved folder does not pass as an empty one.
#[allow(clippy::disallowed_methods, reason = "tests read their cases from real files")]
pub(crate) fn check_folder(folder: &str, min_cases: usize, result_of: impl Fn(&Case) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of golden cases")
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    files.sort();
    let mut case_count = 0;
    let mut failures = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of golden cases");
        let (comments, cases) = parse(&text);
        let mut updated = comments;
        for case in &cases {
            let result = result_of(case);
            let result = result.trim_end();
            case_count += 1;
            if result != case.expected {
                let place = file.display();
                let (name, expected) = (&case.name, &case.expected);
                writeln!(
                    failures,
                    "{place}: {name}\n--- expected\n{expected}\n--- got\n{result}\n"
                )
                .expect("strings take all text");
            }
            let (name, input) = (&case.name, &case.input_text);
            write!(updated, "=== {name}\n{input}--->\n{result}\n\n")
                .expect("strings take all text");
        }
        if update {
            std::fs::write(&file, updated.trim_end().to_owned() + "\n").expect("writing results");
        }
    }
    assert!(update || failures.is_empty(), "{failures}");
    assert!(case_count >= min_cases, "only {case_count} cases in {}", folder.display());
}

fn parse(text: &str) -> (String, Vec<Case>) {
    let mut parts = text.split("=== ");
    let comments = parts.next().unwrap_or_default().to_owned();
    let cases = parts.map(|part| {
        let (name, rest) = part.split_once('\n').expect("a case has a name");
        let (input_text, expected) = rest.split_once("--->\n").expect("a case has an arrow");
        Case {
            name: name.to_owned(),
            input_text: input_text.to_owned(),
            input: unescape(&input_text.replace('\n', "")),
            expected: expected.trim_end().to_owned(),
        }
    });
    (comments, cases.collect())
}

pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let kind = rest.chars().next().expect("an escape has a letter");
        rest = &rest[1..];
        match kind {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '\\' => bytes.push(b'\\'),
            'x' => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).expect("two hexadecimal digits"));
                rest = &rest[2..];
            }
            '(' => {
                let (inner, after) = rest.split_once(')').expect("a repetition ends");
                let (unit, count) = inner.rsplit_once('*').expect("a repetition has a count");
                let unit = unescape(unit);
                for _ in 0..count.parse::<usize>().expect("a count is a number") {
                    bytes.extend_from_slice(&unit);
                }
                rest = after;
            }
            other => panic!("unknown escape \\{other}"),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
