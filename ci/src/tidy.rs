//! The house rules that a program can see. Each fault names file, line and rule.
//!
//! The check reads the files that git knows or would take, so it sees a fault before it is
//! committed.

use crate::code::{self, Line};
use crate::process;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// A longer source file holds more than one idea.
const MAX_LINES: usize = 700;

/// Macros and attributes that may not be left behind. Written in two parts, here
/// and below, so that this file does not offend against its own rules.
const LEFT_BEHIND: [&str; 4] = [
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("#[ig", "nore"),
    concat!("db", "g!"),
];

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

/// How many lines above an `unsafe` its argument may begin.
const SAFETY_LINES: usize = 12;

/// Runs the check on the repository.
pub(crate) fn check() -> Result<()> {
    let mut faults = Vec::new();
    let files = process::repository_files()?;
    for name in &files {
        let bytes = std::fs::read(name).with_context(|| format!("reading {name}"))?;
        // A file that is not text has no lines to judge.
        if let Ok(text) = std::str::from_utf8(&bytes) {
            faults.extend(file_faults(name, text));
        }
    }
    if !Path::new("LICENSE").is_file() {
        faults.push("LICENSE is missing".to_owned());
    }
    if !faults.is_empty() {
        bail!("tidy: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: {} files are tidy", files.len());
    Ok(())
}

/// Faults of one file, as `name:line: what is wrong`.
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

/// Unit tests in a file of their own: the header of the module that they test says
/// what it guarantees.
fn is_unit_test(name: &str) -> bool {
    let beside_code = name.split('/').any(|part| part == "src");
    beside_code && (name.ends_with("/tests.rs") || name.contains("/tests/"))
}

fn rust_faults(text: &str, fault: &mut impl FnMut(usize, &str)) {
    let count = text.lines().count();
    if count > MAX_LINES {
        fault(count - 1, &format!("more than {MAX_LINES} lines: split the file"));
    }
    for (index, line) in text.lines().enumerate() {
        if line.contains('\t') {
            fault(index, "holds a tab");
        }
        if line.ends_with([' ', '\r']) {
            fault(index, "ends with white space");
        }
    }
    let lines = code::split(text);
    for (index, line) in lines.iter().enumerate() {
        for word in LEFT_BEHIND {
            if contains_word(&line.code, word) {
                fault(index, &format!("holds {word}"));
            }
        }
        if contains_word(&line.code, "unsafe") && !has_safety_argument(&lines, index) {
            fault(index, "unsafe without a SAFETY comment");
        }
    }
}

/// Whether `word` stands in `code` and does not merely end a longer name.
fn contains_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let begins = !before.is_some_and(code::is_word);
        // A mark such as `!` ends the word whatever follows.
        let ends = !word.ends_with(code::is_word) || !after.is_some_and(code::is_word);
        begins && ends
    })
}

/// Whether the comment on the line, or above it in the same paragraph, argues why
/// the `unsafe` is sound: `SAFETY:` or the doc section of an unsafe function.
/// A declaration (`unsafe fn`) needs none: it puts the burden on its callers, and
/// clippy asks public ones for their `# Safety` section.
fn has_safety_argument(lines: &[Line], index: usize) -> bool {
    if lines[index].code.contains("unsafe fn") || lines[index].code.contains("unsafe_") {
        return true;
    }
    let first = index.saturating_sub(SAFETY_LINES);
    lines[first..=index]
        .iter()
        .rev()
        .take_while(|line| !is_blank(line))
        .any(|line| line.comment.contains("SAFETY:") || line.comment.contains("# Safety"))
}

fn is_blank(line: &Line) -> bool {
    line.code.trim().is_empty() && line.comment.is_empty()
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
        let source = "//! Header.\n\n// SAFETY: x is valid.\nlet y = unsafe { f(x) };\n\
                      let word = \"unsafe\"; // unsafe\n";
        assert_eq!(faults(source), [""; 0]);
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
    fn unfinished_code_is_found_in_code_only() {
        for word in LEFT_BEHIND {
            one_fault(&format!("//! H\n{word}(x)]\n"), &format!("a.rs:2: holds {word}"));
            assert_eq!(faults(&format!("//! H {word}\nf(\"{word}\"); // {word}\n")), [""; 0]);
            let longer = word.trim_start_matches("#[");
            assert_eq!(faults(&format!("//! H\nmy_{longer}(x)\n")), [""; 0]);
        }
    }

    #[test]
    fn unsafe_needs_an_argument_in_its_paragraph() {
        let missing = "unsafe without a SAFETY comment";
        one_fault("//! H\nunsafe { f() }\n", missing);
        one_fault("//! H\n// SAFETY: of something else.\n\nunsafe { f() }\n", missing);
        one_fault("//! H\nunsafe impl Send for X {}\n", missing);
        let documented =
            "//! H\n/// Does.\n///\n/// # Safety\n/// Hold it.\n#[inline]\npub unsafe fn f() {}\n";
        assert_eq!(faults(documented), [""; 0]);
        assert_eq!(faults("//! H\nstruct V { drop: unsafe fn(*mut u8) }\n"), [""; 0]);
        assert_eq!(faults("//! H\n#![deny(unsafe_op_in_unsafe_fn)]\n"), [""; 0]);
    }

    #[test]
    fn form() {
        one_fault("fn f() {}\n", "header");
        one_fault("//! H\n\tfn f() {}\n", "a.rs:2: holds a tab");
        one_fault("//! H\nfn f() {} \n", "a.rs:2: ends with white space");
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
