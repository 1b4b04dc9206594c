//! Runs the black-box corpus against the built server, as one node or as several: empty data folders, free
//! ports, the corpus's own configuration, its runner's `load` and `check`.
//!
//! The corpus is not part of the repository. The check is skipped, with a message, where the
//! corpus or Python is missing. Everything else that goes wrong is a failure, and the check
//! shows the server's log.

mod nodes;

use crate::areas::{self, Corpus};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nodes::Nodes;

/// Runs all areas of the corpus. Of several nodes the first one takes the data set, and the last one is
/// asked.
pub(crate) fn check(corpus: &Path, binary: &Path, nodes: u8) -> Result<()> {
    if !corpus.join("run.py").is_file() {
        println!("ci: black-box check skipped: there is no corpus in {}", corpus.display());
        return Ok(());
    }
    if !has_python() {
        println!("ci: black-box check skipped: python3 is not installed");
        return Ok(());
    }
    if !binary.is_file() {
        bail!("{} is missing: cargo build --release --bin logsvc", binary.display());
    }
    let corpora = areas::find(corpus)?;
    let mut total = (0, 0);
    let mut broken = Vec::new();
    for part in &corpora {
        let run = run_corpus(corpus, binary, part, nodes)?;
        total = (total.0 + run.passed, total.1 + run.failed);
        broken.extend(run.complaint);
    }
    println!("blackbox: {} passed, {} failed", total.0, total.1);
    if !broken.is_empty() || total.1 > 0 {
        bail!("the black-box check failed {}", broken.join("; "));
    }
    if total.0 == 0 {
        bail!("the black-box check ran no case");
    }
    Ok(())
}

fn has_python() -> bool {
    let mut command = Command::new("python3");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The result of one corpus.
struct Run {
    passed: u64,
    failed: u64,
    complaint: Option<String>,
}

fn run_corpus(corpus: &Path, binary: &Path, part: &Corpus, nodes: u8) -> Result<Run> {
    let name = if part.folder.is_empty() { "main" } else { &part.folder };
    println!("ci: black-box corpus {name}, {nodes} nodes: {}", part.areas.join(", "));
    let template = corpus.join("reference-config.yaml");
    let template = std::fs::read_to_string(&template)
        .with_context(|| format!("reading {}", template.display()))?;
    let mut run = Run { passed: 0, failed: 0, complaint: None };
    let discovery = !part.folder.is_empty();
    let mut servers = match Nodes::start(binary, &template, discovery, (name, nodes)) {
        Ok(servers) => servers,
        Err(error) => {
            run.complaint = Some(format!("({name}: {error:#})"));
            return Ok(run);
        }
    };
    let (first, last) = servers.bases();
    let runner = |verb: &str, base: &str| {
        let mut command = Command::new("python3");
        command.arg(corpus.join("run.py")).args([verb, "--base", base, "--corpus"]);
        command.arg(corpus.join(&part.folder));
        command
    };
    let loaded = pass_through(runner("load", &first))?;
    if loaded.success {
        let mut check = runner("check", &last);
        check.args(["--area", &part.areas.join(",")]);
        let checked = pass_through(check)?;
        (run.passed, run.failed) = areas::sum_counts(&checked.output);
        if !checked.success {
            run.complaint = Some(format!("({name}: the runner reports failures)"));
        }
    } else {
        run.complaint = Some(format!("({name}: the data set could not be loaded)"));
    }
    if let Err(error) = servers.stop() {
        run.complaint = Some(format!("({name}: {error:#})"));
    }
    if run.complaint.is_some() {
        servers.show_logs();
    }
    Ok(run)
}

/// The outcome and the output of a program.
struct Passed {
    success: bool,
    output: String,
}

/// Runs a program, shows its output as it comes, and keeps it.
fn pass_through(mut command: Command) -> Result<Passed> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let stdout = child.stdout.take().context("the program has no output")?;
    let mut output = String::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        output.push_str(&line);
        output.push('\n');
    }
    Ok(Passed { success: child.wait()?.success(), output })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::DataFolder;

    #[test]
    fn a_missing_corpus_is_skipped_and_a_missing_server_is_not() {
        let data = DataFolder::create("test").unwrap();
        check(&data.0, Path::new("/nowhere"), 1).unwrap();
        std::fs::write(data.0.join("run.py"), "").unwrap();
        if has_python() {
            let error = check(&data.0, Path::new("/nowhere"), 1).unwrap_err();
            assert!(error.to_string().contains("cargo build"), "{error}");
        }
    }

    #[test]
    fn output_is_shown_and_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; exit 3"]);
        let passed = pass_through(command).unwrap();
        assert_eq!((passed.success, passed.output.as_str()), (false, "one\ntwo\n"));
    }
}
