//! Documents: their lengths, the paths and places that they name, and their words.
//!
//! - [`limits`]: no document is longer than its limit.
//! - [`paths`]: every path and every link leads to something that exists.
//! - [`words`]: neither documents nor comments tell the history of the code, or refer to texts
//!   that the repository lacks.
//! - [`places`]: each crate, each route and each page of `docs/` has its place.
//!
//! Each fault names its file, and its line if it has one.

mod limits;
mod paths;
mod places;
mod prose;
mod words;

use crate::process;
use anyhow::{Context, Result, bail};

/// Where the changes of each release are listed, and history is in its place.
const CHANGELOG: &str = "CHANGELOG.md";

/// A document.
struct Document {
    /// Path from the root of the repository.
    name: String,
    text: String,
}

/// Runs the check on the repository.
pub(crate) fn check() -> Result<()> {
    let files = process::repository_files()?;
    let mut documents = Vec::new();
    let mut faults = Vec::new();
    for name in &files {
        let read = || std::fs::read_to_string(name).with_context(|| format!("reading {name}"));
        if name.ends_with(".md") {
            documents.push(Document { name: name.clone(), text: read()? });
        } else if name.ends_with(".rs") {
            faults.extend(words::faults(name, &prose::of_source(&read()?), &[words::COMMENTS]));
        }
    }
    for document in &documents {
        faults.extend(limits::faults(document));
        faults.extend(paths::faults(document, &documents, &files));
        if document.name != CHANGELOG {
            let prose = prose::of_document(&document.text);
            faults.extend(words::faults(&document.name, &prose, words::DOCUMENTS));
        }
    }
    match std::fs::read_to_string(places::ROUTES) {
        Ok(routes) => faults.extend(places::faults(&documents, &places::crates()?, &routes)),
        Err(error) => faults.push(format!("{}: {error}", places::ROUTES)),
    }
    if !faults.is_empty() {
        bail!("docs: {} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("ci: {} documents hold", documents.len());
    Ok(())
}
