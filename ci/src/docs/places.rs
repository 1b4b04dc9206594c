//! Each crate, each route and each page of `docs/` has its place in a document.

use super::{Document, paths};
use crate::process;
use anyhow::{Context, Result};
use serde_json::Value;

/// The table of routes.
pub(super) const ROUTES: &str = "server/src/front/routes.rs";
/// Where each route is explained.
const API: &str = "docs/api.md";
/// The map of the code.
const MAP: &str = "ARCHITECTURE.md";
/// Documents from which readers set out.
const ENTRIES: [&str; 2] = ["README.md", MAP];
/// A second name of each route below `/loki/`, which the reference explains once.
const SECOND_NAME: &str = "/logsvc/";

/// Folders of the crates of the workspace.
pub(super) fn crates() -> Result<Vec<String>> {
    let mut command = process::cargo_command();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value =
        serde_json::from_str(&process::output(command)?).context("cargo metadata")?;
    let root = metadata["workspace_root"].as_str().context("metadata without a root")?;
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    let folders = packages.iter().map(|package| {
        let manifest = package["manifest_path"].as_str().context("package without a manifest")?;
        let folder = manifest.strip_prefix(root).context("package outside of the workspace")?;
        Ok(folder.trim_end_matches("Cargo.toml").trim_matches('/').to_owned())
    });
    folders.collect()
}

/// Routes, crates and pages without a place.
pub(super) fn faults(documents: &[Document], crates: &[String], routes: &str) -> Vec<String> {
    let text = |name: &str| {
        let document = documents.iter().find(|document| document.name == name);
        document.map_or("", |document| document.text.as_str())
    };
    let mut faults = Vec::new();
    let api = text(API);
    let paths = route_paths(routes);
    if paths.is_empty() {
        faults.push(format!("{ROUTES} holds no route"));
    }
    for (line, path) in paths {
        // The end of a path, as rows have it behind a common beginning, is enough.
        if !api.contains(&format!("{path}`")) {
            faults.push(format!("{ROUTES}:{line}: {path} has no place in {API}"));
        }
    }
    for name in crates {
        if !mentions(text(MAP), name) {
            faults.push(format!("{MAP} does not name the crate {name}"));
        }
    }
    // Everything that links lead to from the entries, from page to page.
    let mut reached: Vec<String> = ENTRIES.map(str::to_owned).to_vec();
    let mut next = 0;
    while let Some(page) = reached.get(next).cloned() {
        next += 1;
        for link in paths::all_links(text(&page)) {
            let target = paths::resolve(&page, link.split('#').next().unwrap_or(""));
            if !reached.contains(&target) {
                reached.push(target);
            }
        }
    }
    for document in documents.iter().filter(|document| document.name.starts_with("docs/")) {
        if !reached.contains(&document.name) {
            faults.push(format!(
                "{}: neither {} leads to it",
                document.name,
                ENTRIES.join(" nor ")
            ));
        }
    }
    faults
}

/// Path literals of the table with their lines, up to its tests. A literal that ends with a
/// slash is the beginning of other paths.
fn route_paths(source: &str) -> Vec<(usize, &str)> {
    let code = source.split("#[cfg(test)]").next().unwrap_or("");
    let mut paths = Vec::new();
    for (index, line) in code.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let literals = line.split('"').skip(1).step_by(2);
        let literals = literals.filter(|text| text.starts_with('/') && !text.ends_with('/'));
        let named = literals.filter(|text| !text.starts_with(SECOND_NAME));
        paths.extend(named.map(|path| (index + 1, path)));
    }
    paths
}

/// Whether the text names a folder.
fn mentions(text: &str, folder: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-/".contains(c);
    text.split(|c| !is_part(c)).any(|part| part.trim_end_matches('/') == folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(map: &str, api: &str, routes: &str) -> Vec<String> {
        let document =
            |name: &str, text: &str| Document { name: name.to_owned(), text: text.to_owned() };
        let documents = [
            document("README.md", "[x](docs/api.md#push)"),
            document("ARCHITECTURE.md", map),
            document("docs/api.md", api),
            document("docs/design/wal.md", ""),
        ];
        faults(&documents, &["storage".to_owned()], routes)
    }

    const MAP: &str = "`storage/`: the log. [y](docs/design/wal.md)";
    const API: &str = "`POST /loki/api/v1/push`: pushes";
    const ROUTES: &str = "// \"/comment\"\nrow(\"/push\"),\nrow(\"/logsvc/api/v1/x\"),\nrow(\"/loki/api/v1/\")\n\
                          #[cfg(test)]\nmod tests { f(\"/test\") }";

    #[test]
    fn everything_has_its_place() {
        assert_eq!(found(MAP, API, ROUTES), [""; 0]);
    }

    #[test]
    fn a_route_without_documentation_is_a_fault() {
        let expected = "server/src/front/routes.rs:2: /push has no place in docs/api.md";
        assert_eq!(found(MAP, "`/loki/api/v1/push_more`", ROUTES), [expected]);
        assert_eq!(found(MAP, API, ""), ["server/src/front/routes.rs holds no route"]);
    }

    #[test]
    fn a_crate_that_the_map_leaves_out_is_a_fault() {
        let map = "storages [y](docs/design/wal.md)";
        assert_eq!(found(map, API, ROUTES), ["ARCHITECTURE.md does not name the crate storage"]);
    }

    #[test]
    fn a_page_that_nothing_links_to_is_a_fault() {
        let expected = "docs/design/wal.md: neither README.md nor ARCHITECTURE.md leads to it";
        assert_eq!(found("storage", API, ROUTES), [expected]);
        // A page that is reached may link to it.
        let api = format!("{API} [y](design/wal.md)");
        assert_eq!(found("storage", &api, ROUTES), [""; 0]);
    }
}
