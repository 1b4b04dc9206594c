//! `ci`: the project's checks, as commands that print their faults.
//!
//! Every check ends with exit status 0 or 1 and can run alone. `all` runs them from the
//! cheapest to the most expensive and stops at the first failure. The checks know the rules of
//! the repository and nothing of the meaning of the code.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a plain command-line tool: it is never simulated and owns its processes"
)]

mod areas;
mod attack;
mod blackbox;
mod buckets;
mod clients;
mod cluster;
mod docs;
mod installed;
mod layers;
mod operations;
mod package;
mod process;
mod python;
mod rules;
mod senders;
mod server;
mod tidy;
mod web_page;

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: ci COMMAND [OPTIONS]

  fmt        the code is formatted
  layers     crates and modules import each other only downward
  floors     the order of a crate's modules as their imports have it
  tidy       the house rules that neither the formatter nor clippy can check
  docs       documents are short, name what exists, and have a place for everything
  licences   the licences of dependencies are those that deny.toml allows
  panels     dashboards, alerts and runbooks fit the server's source and each other
  dashboards makes the dashboards in deploy/grafana from their source
  checks     layers, tidy, docs, licences and panels: everything that needs no build of the product
  lint       clippy has nothing to say, also of the server without its features and with Swift
  test       all tests of the workspace
  clients    real clients from package registries against a running server
  buckets    the tests of buckets against servers of S3, Azure, Swift and Google
  cluster    three nodes and SeaweedFS in a network of their own, with all kinds of trouble
  senders    real senders of syslog and of journals against a running server
  rules      rules with the real Prometheus and Alertmanager
  page       the web page: build, sizes and tests in Chromium, against a running server
  operations dashboards and alerts with the real Prometheus, beside a server under load
  blackbox   the black-box corpus against a running server
  attack     requests that ask for too much, against a running server
  package    the artefacts of a release from a built server, and with --try their trial
  all        fmt, checks, lint and test, then clients, buckets, cluster, senders, page, rules and
             operations, and blackbox if --corpus is given

options of clients, cluster, senders, page, rules, operations, blackbox, attack and all:
  --corpus DIR   the corpus; blackbox is skipped where the folder is missing
  --binary FILE  the server (default: target/release/logsvc for blackbox and attack,
                 and target/debug/logsvc, which cargo test builds, for the others)
  --nodes N      how many nodes the black-box corpus runs against (default: 1)
  --only TEXT    the attacks whose names contain it

options of package (with --binary, default: target/release/logsvc):
  --out DIR      the folder for artefacts, which is emptied (default: target/package)
  --try          install, start, update and remove what was made

options of floors:
  --crate DIR    the folder of the crate
  --module PATH  the module whose children are ordered (default: the crate's root)
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ci: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let command = args.next().unwrap_or_default();
    let options = Options::parse(args)?;
    let root = process::workspace_root()?;
    std::env::set_current_dir(&root).with_context(|| format!("entering {root:?}"))?;
    match command.as_str() {
        "fmt" => fmt(),
        "layers" => layers::check(),
        "floors" => {
            let krate = options.krate.as_ref().context("floors needs --crate DIR")?;
            layers::print_floors(krate, options.module.as_deref().unwrap_or(""))
        }
        "tidy" => tidy::check(),
        "docs" => docs::check(),
        "lint" => lint(),
        "checks" => checks(),
        "test" => test(),
        "clients" => clients::check(&options.binary("debug")),
        "buckets" => buckets::check(),
        "cluster" => cluster::check(&options.binary("debug")),
        "senders" => senders::check(&options.binary("debug")),
        "page" => web_page::check(&options.binary("debug")),
        "rules" => rules::check(&options.binary("debug")),
        "panels" => operations::check(),
        "dashboards" => operations::write_dashboards(),
        "operations" => operations::run(&options.binary("debug")),
        "blackbox" => {
            let corpus = options.corpus.as_ref().context("blackbox needs --corpus DIR")?;
            blackbox::check(corpus, &options.binary("release"), options.nodes.unwrap_or(1))
        }
        "attack" => {
            attack::check(&options.binary("release"), options.only.as_deref().unwrap_or(""))
        }
        "licences" => package::licences::check(),
        "package" => {
            let out = options.out.clone().unwrap_or_else(package::default_folder);
            package::run(&options.binary("release"), &out, options.tries)
        }
        "all" => {
            fmt()?;
            checks()?;
            lint()?;
            test()?;
            clients::check(&options.binary("debug"))?;
            buckets::check()?;
            cluster::check(&options.binary("debug"))?;
            senders::check(&options.binary("debug"))?;
            web_page::check(&options.binary("debug"))?;
            rules::check(&options.binary("debug"))?;
            operations::run(&options.binary("debug"))?;
            match &options.corpus {
                Some(corpus) => {
                    blackbox::check(corpus, &options.binary("release"), options.nodes.unwrap_or(1))
                }
                None => Ok(()),
            }
        }
        _ => bail!("unknown command {command:?}\n\n{USAGE}"),
    }
}

/// Runs all checks that need no build of the product. Shows the faults of all checks, not only of
/// the first that fails.
fn checks() -> Result<()> {
    let outcomes = [
        layers::check(),
        tidy::check(),
        docs::check(),
        package::licences::check(),
        operations::check(),
    ];
    let faults: Vec<String> =
        outcomes.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    if !faults.is_empty() {
        bail!("{}", faults.join("\nci: "));
    }
    Ok(())
}

fn fmt() -> Result<()> {
    process::cargo(&["fmt", "--all", "--check"])
}

fn lint() -> Result<()> {
    process::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // Its dependencies have been checked, so this costs one crate.
    let server = ["clippy", "-p", "logsvc-server", "--no-default-features"];
    process::cargo(&[&server[..], &["--", "-D", "warnings"]].concat())?;
    let swift = ["clippy", "-p", "logsvc-server", "-p", "logsvc-store", "--all-targets"];
    process::cargo(&[&swift[..], &["--features", "swift", "--", "-D", "warnings"]].concat())
}

fn test() -> Result<()> {
    process::cargo(&["test", "--workspace"])
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    corpus: Option<PathBuf>,
    binary: Option<PathBuf>,
    only: Option<String>,
    krate: Option<PathBuf>,
    module: Option<String>,
    out: Option<PathBuf>,
    tries: bool,
    nodes: Option<u8>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options::default();
        while let Some(name) = args.next() {
            if name == "--try" {
                options.tries = true;
                continue;
            }
            if name == "--nodes" {
                let number = args.next().context("--nodes needs a value")?;
                let nodes = number.parse().ok().filter(|nodes| (1..=9).contains(nodes));
                options.nodes = Some(nodes.context("--nodes: 1 to 9")?);
                continue;
            }
            let text = match name.as_str() {
                "--only" => Some(&mut options.only),
                "--module" => Some(&mut options.module),
                _ => None,
            };
            if let Some(text) = text {
                *text = Some(args.next().with_context(|| format!("{name} needs a value"))?);
                continue;
            }
            let slot = match name.as_str() {
                "--corpus" => &mut options.corpus,
                "--binary" => &mut options.binary,
                "--crate" => &mut options.krate,
                "--out" => &mut options.out,
                _ => bail!("unknown option {name:?}\n\n{USAGE}"),
            };
            let value = args.next().with_context(|| format!("{name} needs a value"))?;
            // The command runs in the workspace's folder, its arguments were given
            // in the caller's.
            *slot = Some(std::path::absolute(&value).with_context(|| format!("{value:?}"))?);
        }
        Ok(options)
    }

    fn binary(&self, profile: &str) -> PathBuf {
        let built = || process::target_folder().join(profile).join("logsvc");
        self.binary.clone().unwrap_or_else(built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let parse = |args: &[&str]| Options::parse(args.iter().map(|&arg| arg.to_owned()));
        let options = parse(&["--binary", "/b", "--only", "x", "--corpus", "/c"]).unwrap();
        let expected = Options {
            corpus: Some("/c".into()),
            binary: Some("/b".into()),
            only: Some("x".into()),
            ..Options::default()
        };
        assert_eq!(options, expected);
        let options = parse(&["--try", "--out", "/o"]).unwrap();
        assert!(options.tries && options.out == Some("/o".into()));
        assert_eq!(parse(&["--nodes", "3"]).unwrap().nodes, Some(3));
        assert!(parse(&["--nodes", "0"]).is_err());
        assert!(parse(&["--corpus"]).is_err());
        assert!(parse(&["--faster"]).is_err());
    }

    #[test]
    fn an_unknown_command_is_an_error() {
        assert!(run(std::iter::once("deploy".to_owned())).is_err());
    }
}
