//! The house rules that neither the formatter nor clippy can check. Each fault names file,
//! line and rule.
//!
//! The check reads the files that git knows or would take, so it sees a fault before it is
//! committed.

mod types;

use crate::process;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// A longer source file holds more than one idea.
const MAX_LINES: usize = 700;

/// The beginning of an attribute that skips a test. Written in two parts, so that this file holds
/// its own rule.
const SKIPPED_TEST: &str = concat!("#[ig", "nore");

/// Beginnings of absolute paths that exist on one machine only.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
];

/// A neighbour of the repository that only [`CORPUS_USER`] may know.
const CORPUS: &str = concat!("../sha", "red");
const CORPUS_USER: &str = ".ci/run";

/// Runs the check on the repository.
pub(crate) fn check() -> Result<()> {
    let mut faults = Vec::new();
    let files = process::repository_files()?;
    let mut types = types::Types::default();
    for name in &files {
        let bytes = std::fs::read(name).with_context(|| format!("reading {name}"))?;
        // A file that is not text has no lines to judge.
        if let Ok(text) = std::str::from_utf8(&bytes) {
            faults.extend(file_faults(name, text));
            if name.ends_with(".rs") && !is_test(name) {
                types.read(name, text)?;
            }
        }
    }
    faults.extend(types.faults());
    if !Path::new("LICENSE").is_file() {
        faults.push("LICENSE is missing".to_owned());
    }
    if !faults.is_empty() {
        bail!("tidy: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: {} files are tidy", files.len());
    Ok(())
}

/// Faults of one file, as `name:line: fault`.
fn file_faults(name: &str, text: &str) -> Vec<String> {
    // Whole files that others have written are not ours to judge.
    if matches!(name, "LICENSE" | "Cargo.lock") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut fault = |index: usize, what: &str| faults.push(format!("{name}:{}: {what}", index + 1));
    for (index, line) in text.lines().enumerate() {
        if MACHINE_PATHS.iter().any(|path| line.contains(path)) {
            fault(index, "names a path of one machine");
        }
        if name != CORPUS_USER && line.contains(CORPUS) {
            fault(index, "names a folder outside the repository");
        }
    }
    if name.ends_with(".rs") {
        if !is_unit_test(name) && !text.trim_start().starts_with("//!") {
            fault(0, "does not begin with a //! header");
        }
        rust_faults(text, &mut fault);
    }
    faults
}

/// Whether a file holds nothing but tests.
fn is_test(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.ends_with("_tests.rs") || name.contains("/tests/")
}

/// Unit tests in a file of their own: the header of the module under test states the guarantees.
fn is_unit_test(name: &str) -> bool {
    let beside_code = name.split('/').any(|part| part == "src");
    beside_code && is_test(name)
}

fn rust_faults(text: &str, fault: &mut impl FnMut(usize, &str)) {
    let count = text.lines().count();
    if count > MAX_LINES {
        fault(count - 1, &format!("more than {MAX_LINES} lines: split the file"));
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(SKIPPED_TEST) {
            fault(index, "a test that does not run");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(source: &str) -> Vec<String> {
        file_faults("a.rs", source)
    }

    fn one_fault(source: &str, what: &str) {
        let found = faults(source);
        assert!(found.len() == 1 && found[0].contains(what), "{source:?}: {found:?}");
    }

    #[test]
    fn clean_source_has_no_faults() {
        assert_eq!(faults(&format!("//! Header.\n\nfn f() {{}} // {SKIPPED_TEST}]\n")), [""; 0]);
    }

    #[test]
    fn unit_tests_beside_the_code_need_no_header() {
        for name in ["x/src/a/tests.rs", "x/src/a/tests/b.rs"] {
            assert_eq!(file_faults(name, "fn f() {}\n"), [""; 0], "{name}");
        }
        for name in ["x/tests/a.rs", "x/src/tests_of_a.rs"] {
            assert_eq!(file_faults(name, "fn f() {}\n").len(), 1, "{name}");
        }
    }

    #[test]
    fn form() {
        one_fault("fn f() {}\n", "header");
        one_fault(&format!("//! H\n    {SKIPPED_TEST}]\n"), "a.rs:2: a test that does not run");
        one_fault(&format!("//! H\n{}", "f();\n".repeat(MAX_LINES)), "more than 700 lines");
    }

    #[test]
    fn machine_paths_are_found_in_every_text() {
        for path in MACHINE_PATHS {
            let found = file_faults("docs/a.md", &format!("see\n{path}x\n"));
            assert_eq!(found, ["docs/a.md:2: names a path of one machine"]);
        }
        assert_eq!(file_faults("a.md", CORPUS).len(), 1);
        assert_eq!(file_faults(CORPUS_USER, CORPUS), [""; 0]);
        assert_eq!(file_faults("LICENSE", MACHINE_PATHS[0]), [""; 0]);
    }
}
