//! The list of components of the binary, in the format CycloneDX.

use super::{Release, sha256_hex};
use crate::process;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What cargo knows of the workspace and of all that it depends on, for this platform.
pub(super) fn metadata() -> Result<Value> {
    let mut command = process::cargo_command();
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform"]);
    command.arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
    serde_json::from_str(&process::output(command)?).context("cargo metadata")
}

/// The document for the server's binary. It has no serial number and no time, so that equal
/// releases have equal documents.
pub(super) fn cyclonedx(release: &Release) -> Result<String> {
    let metadata = metadata()?;
    let used = used_by_server(&metadata)?;
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    let mut components: Vec<Value> = packages
        .iter()
        .filter(|package| used.contains(package["id"].as_str().unwrap_or("")))
        .filter(|package| package["name"] != "logsvc-server")
        .map(component)
        .collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let main = json!({
        "type": "application", "bom-ref": "logsvc", "name": "logsvc", "version": release.version,
        "licenses": [{"expression": "Apache-2.0"}],
        "properties": [{"name": "commit", "value": release.commit}],
    });
    let document = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": main}, "components": components,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

fn component(package: &Value) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let reference = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({
        "type": "library", "bom-ref": reference, "name": name, "version": version,
        "purl": reference,
    });
    if let Some(licence) = package["license"].as_str() {
        // Old manifests part alternatives by a slash, which is no expression of SPDX.
        let licence = licence.replace('/', " OR ");
        component["licenses"] = json!([{"expression": licence}]);
    }
    component
}

fn text<'p>(package: &'p Value, key: &str) -> &'p str {
    package[key].as_str().unwrap_or("")
}

/// Ids of the packages that are built into the server: those it needs, and those they need,
/// without dependencies of tests and build scripts.
fn used_by_server(metadata: &Value) -> Result<BTreeSet<&str>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("metadata without a graph")?;
    let named = |name: &str| {
        let packages = metadata["packages"].as_array().into_iter().flatten();
        packages
            .filter(|package| package["name"] == name)
            .find_map(|package| package["id"].as_str())
    };
    let mut open = vec![named("logsvc-server").context("there is no package logsvc-server")?];
    let mut used = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !used.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id).context("a package off the graph")?;
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            if kinds.any(|kind| kind["kind"].is_null()) {
                open.extend(dependency["pkg"].as_str());
            }
        }
    }
    Ok(used)
}

/// The checksum of a document, for the label of the image.
pub(super) fn digest(document: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_built_in_is_listed() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("logsvc-server"), package("a"), package("b"), package("t"), package("c")],
            "resolve": {"nodes": [
                {"id": "logsvc-server", "deps": [dep("a", Value::Null), dep("t", json!("dev"))]},
                {"id": "a", "deps": [dep("b", Value::Null), dep("c", json!("build"))]},
                {"id": "b", "deps": [dep("a", Value::Null)]},
                {"id": "t", "deps": []}, {"id": "c", "deps": []},
            ]},
        });
        let used: Vec<&str> = used_by_server(&metadata).unwrap().into_iter().collect();
        assert_eq!(used, ["a", "b", "logsvc-server"]);
        let made = component(&package("a"));
        assert_eq!(made["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(made["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
