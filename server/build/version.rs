//! Tells the binary its commit and date.
//!
//! `LOGSVC_COMMIT` and `SOURCE_DATE_EPOCH` (seconds) say them where packages are built. Otherwise a
//! release build asks git; the date is that of the commit, so equal sources give equal binaries.
//! Other builds are not made again for each commit: they say that they are for development.

use std::process::Command;

/// See the module.
pub(crate) fn tell() {
    println!("cargo::rerun-if-env-changed=LOGSVC_COMMIT");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let asks_git = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let git = |args: &[&str]| if asks_git { git(args) } else { None };
    if asks_git && let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = given("LOGSVC_COMMIT").or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let seconds = given("SOURCE_DATE_EPOCH").or_else(|| git(&["show", "-s", "--format=%ct"]));
    let date = seconds.and_then(|seconds| day(seconds.parse().ok()?));
    let words = [commit.as_deref().or(Some("development")), date.as_deref()];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    println!("cargo::rustc-env=LOGSVC_BUILD_COMMIT={}", words[0]);
    println!("cargo::rustc-env=LOGSVC_BUILD_DATE={}", date.as_deref().unwrap_or_default());
    println!("cargo::rustc-env=LOGSVC_BUILD_WORDS={}", words.join(", "));
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The day of a time in seconds since 1970, in UTC, as 2026-11-25.
fn day(seconds: u64) -> Option<String> {
    let mut days = i64::try_from(seconds / 86_400).ok()?;
    let (mut year, mut month) = (1970, 0);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
        if year > 9999 {
            return None;
        }
    }
    let february = 28 + i64::from(is_leap(year));
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    Some(format!("{year:04}-{:02}-{:02}", month + 1, days + 1))
}
