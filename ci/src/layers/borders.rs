//! No source file is compiled into another crate: neither by `#[path]` nor by `include!`,
//! and no crate embeds the source of another one.
//!
//! Such a file is part of two crates, so neither can change it alone.

use crate::process;
use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// Every reference that leaves its crate, in words.
pub(super) fn faults() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for name in process::repository_files()?.iter().filter(|name| name.ends_with(".rs")) {
        let text = std::fs::read_to_string(name).with_context(|| format!("reading {name}"))?;
        faults.extend(file_faults(name, &text)?);
    }
    Ok(faults)
}

/// Faults of the file `name`, whose first folder is its crate.
fn file_faults(name: &str, text: &str) -> Result<Vec<String>> {
    let mut references = Vec::new();
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{name}: {error}"))?;
    find_references(tokens, &mut references);
    let folder = Path::new(name).parent().context("a source file has no folder")?;
    let krate = Path::new(name).components().next();
    let faults = references.into_iter().filter(|(_, path)| {
        path.ends_with(".rs") && normal(&folder.join(path)).components().next() != krate
    });
    Ok(faults.map(|(how, path)| format!("{name}: {how} of {path} leaves the crate")).collect())
}

/// Adds the files of `#[path]`, `include!` and its like.
fn find_references(tokens: TokenStream, references: &mut Vec<(&'static str, String)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |index: Option<usize>| index.map(|at| tokens[at].to_string()).unwrap_or_default();
    for (index, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let inner = group.stream();
        let mark = word(index.checked_sub(1));
        let content: Vec<String> =
            inner.clone().into_iter().map(|token| token.to_string()).collect();
        match (mark.as_str(), content.as_slice()) {
            ("#", [path, equals, file]) if path == "path" && equals == "=" => {
                references.push(("#[path]", file.trim_matches('"').to_owned()));
            }
            ("!", [file, ..]) => {
                let how = match word(index.checked_sub(2)).as_str() {
                    "include" => Some("include!"),
                    "include_str" => Some("include_str!"),
                    "include_bytes" => Some("include_bytes!"),
                    _ => None,
                };
                references.extend(how.map(|how| (how, file.trim_matches('"').to_owned())));
            }
            _ => {}
        }
        find_references(inner, references);
    }
}

/// The path without its `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_of_other_crates_is_refused() {
        for (text, how) in [
            ("#[path = \"../../b/src/x.rs\"] mod x;", "#[path]"),
            ("#[cfg(test)]\n#[path = \"../../b/src/x.rs\"]\nmod x;", "#[path]"),
            ("include!(\"../../b/src/x.rs\");", "include!"),
            ("fn f() { g(include_str!(\"../../b/src/x.rs\")) }", "include_str!"),
            ("const X: &[u8] = include_bytes!(\"../../b/src/x.rs\");", "include_bytes!"),
        ] {
            let expected = format!("a/src/lib.rs: {how} of ../../b/src/x.rs leaves the crate");
            assert_eq!(file_faults("a/src/lib.rs", text).unwrap(), [expected]);
        }
    }

    #[test]
    fn own_source_and_data_are_allowed() {
        for text in [
            "#[path = \"x_tests.rs\"] mod tests;",
            "#[path = \"../tests/x.rs\"] mod x;",
            "const X: &str = include_str!(\"../../docs/api.md\");",
            "// #[path = \"../../b/src/x.rs\"]",
        ] {
            assert_eq!(file_faults("a/src/lib.rs", text).unwrap(), [""; 0], "{text}");
        }
    }
}
