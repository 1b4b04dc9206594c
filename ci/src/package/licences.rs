//! The licences of dependencies: each must be one of the list in `deny.toml`, so that `cargo deny`
//! and this check agree. It needs no network: the manifests of the dependencies say their licences.
//!
//! Advisories are not judged here; their list is on the network (`cargo deny check advisories`).

use super::read;
use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;

/// The settings of `cargo deny`.
const SETTINGS: &str = "deny.toml";

/// Judges every package that the workspace may use, on any platform.
pub(crate) fn check() -> Result<()> {
    let settings = String::from_utf8(read(Path::new(SETTINGS))?)?;
    let allowed = allowed(&settings)?;
    let mut command = process::cargo_command();
    command.args(["metadata", "--locked", "--format-version", "1"]);
    let metadata: Value =
        serde_json::from_str(&process::output(command)?).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    let faults: Vec<String> =
        packages.iter().filter_map(|package| fault(package, &allowed)).collect();
    if !faults.is_empty() {
        bail!("licences: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: the licences of {} packages are allowed", packages.len());
    Ok(())
}

/// The strings of the list `allow` in the section of licences.
fn allowed(settings: &str) -> Result<Vec<String>> {
    let section = settings.split("[licenses]").nth(1).context("deny.toml has no [licenses]")?;
    let list = section.split("allow = [").nth(1).and_then(|rest| rest.split(']').next());
    let list = list.context("deny.toml allows no licences")?;
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or(""));
    let names = lines.flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned));
    Ok(names.collect())
}

fn fault(package: &Value, allowed: &[String]) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} names no licence"));
    };
    match is_allowed(licence, allowed) {
        Some(true) => None,
        Some(false) => Some(format!("{name}: {licence} is not allowed by {SETTINGS}")),
        None => Some(format!("{name}: {licence:?} is no expression of licences")),
    }
}

/// Whether one choice of an SPDX expression has allowed licences only; none if it is none.
fn is_allowed(expression: &str, allowed: &[String]) -> Option<bool> {
    // Old manifests part alternatives by a slash.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let holds = either(&mut rest, allowed)?;
    rest.is_empty().then_some(holds)
}

fn either(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut holds = both(words, allowed)?;
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        holds |= both(words, allowed)?;
    }
    Some(holds)
}

fn both(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut holds = single(words, allowed)?;
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        holds &= single(words, allowed)?;
    }
    Some(holds)
}

fn single(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let (&first, rest) = words.split_first()?;
    *words = rest;
    match first {
        "(" => {
            let holds = either(words, allowed)?;
            let (&end, rest) = words.split_first()?;
            *words = rest;
            (end == ")").then_some(holds)
        }
        ")" | "AND" | "OR" | "WITH" => None,
        name => {
            // A later version of the same licence will do.
            let mut name = name.trim_end_matches('+').to_owned();
            if let ["WITH", exception, rest @ ..] = *words {
                name = format!("{name} WITH {exception}");
                *words = rest;
            }
            Some(allowed.contains(&name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_are_judged() {
        let allowed = ["MIT", "Apache-2.0", "A WITH e", "MPL-2.0"].map(str::to_owned);
        for (text, holds) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("MIT/GPL-3.0", Some(true)),
            ("MIT AND GPL-3.0", Some(false)),
            ("GPL-3.0 OR (MIT AND Apache-2.0)", Some(true)),
            ("(MIT OR GPL-3.0) AND X", Some(false)),
            ("A WITH e OR X", Some(true)),
            ("MIT WITH e", Some(false)),
            ("MPL-2.0+", Some(true)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT Apache-2.0", None),
        ] {
            assert_eq!(is_allowed(text, &allowed), holds, "{text}");
        }
    }

    #[test]
    fn the_list_is_read_and_faults_name_the_package() {
        let settings =
            "[x]\nallow = [\"no\"]\n[licenses]\nallow = [\n  \"MIT\", # \"GPL\"\n \"ISC\"]\n";
        let allowed = allowed(settings).unwrap();
        assert_eq!(allowed, ["MIT", "ISC"]);
        let package = |licence: Value| json!({"name": "a", "version": "1.0.0", "license": licence});
        assert_eq!(fault(&package(json!("MIT")), &allowed), None);
        let found = fault(&package(json!("GPL-2.0")), &allowed).unwrap();
        assert!(found.starts_with("a 1.0.0: GPL-2.0 is not allowed"), "{found}");
        assert_eq!(fault(&package(Value::Null), &allowed).unwrap(), "a 1.0.0 names no licence");
        assert!(super::allowed("[bans]").is_err());
    }
}
