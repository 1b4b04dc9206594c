//! The order of crates: which crate of the workspace may depend on which, and that
//! the runtimes `monoio` and `glommio` are known to `logsvc-runtime` alone.
//!
//! The judge is `cargo metadata`. Dependencies for tests and build scripts count too: a test that
//! reaches across a layer ties the crates together as well. Packages that serve tests
//! ([`FOR_TESTS`]) are the exception: the tests of every package may use them, and the product may
//! not.

use crate::process;
use anyhow::{Context, Result};
use serde_json::Value;

/// Every package of the workspace with the packages it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    // Tests and benchmarks share it.
    ("logsvc-testkit", &[]),
    ("logsvc-proto", &[]),
    ("logsvc-runtime", &[]),
    ("logsvc-logql", &["logsvc-proto"]),
    ("logsvc-http", &["logsvc-runtime"]),
    // Its tests run HTTP over it.
    ("logsvc-tls", &["logsvc-runtime", "logsvc-http"]),
    ("logsvc-store", &["logsvc-runtime", "logsvc-http"]),
    ("logsvc-cluster", &["logsvc-runtime"]),
    // Its tests gossip over TLS.
    ("logsvc-membership", &["logsvc-runtime", "logsvc-http", "logsvc-tls"]),
    ("logsvc-segment", &["logsvc-runtime", "logsvc-proto", "logsvc-logql"]),
    (
        "logsvc-shards",
        &[
            "logsvc-runtime",
            "logsvc-proto",
            "logsvc-logql",
            "logsvc-segment",
            "logsvc-store",
            "logsvc-cluster",
        ],
    ),
    (
        "logsvc-peers",
        &[
            "logsvc-runtime",
            "logsvc-proto",
            "logsvc-logql",
            "logsvc-http",
            "logsvc-segment",
            "logsvc-shards",
        ],
    ),
    ("logsvc-rules", &["logsvc-runtime", "logsvc-proto", "logsvc-logql", "logsvc-http"]),
    (
        "logsvc-server",
        &[
            "logsvc-proto",
            "logsvc-runtime",
            "logsvc-logql",
            "logsvc-tls",
            "logsvc-http",
            "logsvc-store",
            "logsvc-membership",
            "logsvc-segment",
            "logsvc-shards",
            "logsvc-cluster",
            "logsvc-membership",
            "logsvc-peers",
            "logsvc-rules",
        ],
    ),
    // What loads and judges a server uses `proto` alone; the others are for benchmarks.
    (
        "logsvc-bench",
        &["logsvc-proto", "logsvc-logql", "logsvc-segment", "logsvc-shards", "logsvc-testkit"],
    ),
    ("logsvc-ci", &[]),
    (
        "logsvc-fuzz-bodies",
        &[
            "logsvc-proto",
            "logsvc-runtime",
            "logsvc-logql",
            "logsvc-http",
            "logsvc-segment",
            "logsvc-shards",
            "logsvc-rules",
            "logsvc-cluster",
            "logsvc-membership",
            "logsvc-peers",
            "logsvc-testkit",
        ],
    ),
];

/// Packages that the tests of every package may use. A dependency that is not for tests needs an
/// arrow of its own.
const FOR_TESTS: &[&str] = &["logsvc-testkit", "logsvc-fuzz-bodies"];

/// Packages that only one package may name.
const OWNED: &[(&str, &str)] = &[("monoio", "logsvc-runtime"), ("glommio", "logsvc-runtime")];

/// Every dependency of the workspace that breaks the rule, in words.
pub(super) fn faults() -> Result<Vec<String>> {
    let mut command = process::cargo_command();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value =
        serde_json::from_str(&process::output(command)?).context("cargo metadata")?;
    faults_of_metadata(&metadata)
}

fn faults_of_metadata(metadata: &Value) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    for package in packages {
        let name = package["name"].as_str().context("package without a name")?;
        let Some((_, allowed)) = ARROWS.iter().find(|(package, _)| *package == name) else {
            faults.push(format!("{name} has no place in the layers: add it to ARROWS"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().context("no dependencies")?;
        for dependency in dependencies {
            // The package's own name; a rename within Cargo.toml does not hide it.
            let on = dependency["name"].as_str().context("dependency without a name")?;
            let ours = on.starts_with("logsvc-") || !dependency["path"].is_null();
            let of_tests = FOR_TESTS.contains(&on) && dependency["kind"] == "dev";
            if ours && !of_tests && !allowed.contains(&on) {
                faults.push(format!("{name} must not depend on {on}"));
            }
            if let Some((_, owner)) = OWNED.iter().find(|(package, _)| *package == on)
                && *owner != name
            {
                faults.push(format!("{name} must not depend on {on}: only {owner} may"));
            }
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults_of(package: &str, dependencies: &[&str]) -> Vec<String> {
        faults_of_kind(package, dependencies, Some("dev"))
    }

    fn faults_of_kind(package: &str, dependencies: &[&str], kind: Option<&str>) -> Vec<String> {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|name| {
                let path = name.starts_with("logsvc-").then(|| format!("/somewhere/{name}"));
                json!({"name": name, "path": path, "kind": kind, "rename": "harmless"})
            })
            .collect();
        let metadata = json!({"packages": [{"name": package, "dependencies": dependencies}]});
        faults_of_metadata(&metadata).unwrap()
    }

    #[test]
    fn allowed_arrows_are_allowed() {
        assert_eq!(faults_of("logsvc-logql", &["logsvc-proto", "regex"]), [""; 0]);
        assert_eq!(faults_of("logsvc-runtime", &["monoio", "glommio", "libc"]), [""; 0]);
        assert_eq!(faults_of("logsvc-bench", &["logsvc-proto", "logsvc-logql"]), [""; 0]);
    }

    #[test]
    fn other_arrows_are_faults() {
        for (package, on) in [
            ("logsvc-proto", "logsvc-runtime"),
            ("logsvc-runtime", "logsvc-proto"),
            ("logsvc-http", "logsvc-proto"),
            ("logsvc-segment", "logsvc-shards"),
            ("logsvc-shards", "logsvc-http"),
            ("logsvc-testkit", "logsvc-proto"),
            ("logsvc-bench", "logsvc-server"),
            ("logsvc-ci", "logsvc-proto"),
        ] {
            assert_eq!(faults_of(package, &[on]), [format!("{package} must not depend on {on}")]);
        }
    }

    #[test]
    fn packages_for_tests_are_for_tests_only() {
        for package in ["logsvc-proto", "logsvc-segment", "logsvc-shards", "logsvc-server"] {
            for &on in FOR_TESTS {
                assert_eq!(faults_of_kind(package, &[on], Some("dev")), [""; 0]);
                for kind in [None, Some("build")] {
                    let expected = format!("{package} must not depend on {on}");
                    assert_eq!(faults_of_kind(package, &[on], kind), [expected]);
                }
            }
        }
    }

    #[test]
    fn benchmarks_may_share_what_tests_share() {
        assert_eq!(faults_of_kind("logsvc-bench", &["logsvc-testkit"], None), [""; 0]);
        assert_eq!(faults_of_kind("logsvc-bench", &["logsvc-fuzz-bodies"], None).len(), 1);
    }

    #[test]
    fn runtimes_have_one_owner_and_new_packages_need_a_place() {
        for runtime in ["monoio", "glommio"] {
            let found = faults_of("logsvc-server", &["logsvc-runtime", runtime]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("only logsvc-runtime may"), "{found:?}");
        }
        assert_eq!(faults_of("logsvc-new", &[]).len(), 1);
    }

    #[test]
    fn arrows_have_no_cycle() {
        // Every package depends only on such that can be placed before it.
        let mut placed: Vec<&str> = Vec::new();
        while placed.len() < ARROWS.len() {
            let before = placed.len();
            for (package, allowed) in ARROWS {
                if !placed.contains(package) && allowed.iter().all(|on| placed.contains(on)) {
                    placed.push(package);
                }
            }
            assert!(placed.len() > before, "cycle beyond {placed:?}");
        }
    }
}
