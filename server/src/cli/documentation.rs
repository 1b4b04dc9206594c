//! Manual pages and completions of shells, made from the definition of the command line. They are
//! kept in the repository, so that packages are made without a build of the server for it.

use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;

use super::*;

/// Where the packages' files lie.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// Compares a file with what it should be, or writes it if `UPDATE_DOCS` is set.
#[expect(clippy::disallowed_methods, reason = "it compares a file of the repository")]
fn compare(name: &str, made: &[u8]) {
    let path = Path::new(DEPLOY).join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, made).expect("the folder can be written");
        return;
    }
    let kept = std::fs::read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(
        kept == made,
        "deploy/{name} differs from the command line: run\n\
         UPDATE_DOCS=1 cargo test -p logsvc-server documentation"
    );
}

/// The command line, without the parts that differ from build to build.
fn stable() -> Command {
    command().version(env!("CARGO_PKG_VERSION"))
}

/// A manual page. Lines end where their text ends.
fn page(command: Command) -> Vec<u8> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).expect("a Vec takes all");
    page
}

#[test]
fn manual_pages_are_documentation_that_is_up_to_date() {
    let command = stable();
    for tool in command.get_subcommands() {
        let name = format!("logsvc-{}", tool.get_name());
        let called = format!("logsvc {}", tool.get_name());
        let tool = tool.clone().display_name(&name).bin_name(called);
        let tool = tool.version(env!("CARGO_PKG_VERSION"));
        compare(&format!("man/{name}.1"), &page(tool));
    }
    let page = page(command);
    let text = String::from_utf8_lossy(&page);
    for setting in SETTINGS {
        let flag = setting.flag.replace('-', "\\-");
        assert!(text.contains(&flag), "{flag} is not in the page");
    }
    compare("man/logsvc.1", &page);
}

#[test]
fn completions_are_documentation_that_is_up_to_date() {
    for (shell, name) in
        [(Shell::Bash, "logsvc.bash"), (Shell::Zsh, "_logsvc"), (Shell::Fish, "logsvc.fish")]
    {
        let mut made = Vec::new();
        clap_complete::generate(shell, &mut stable(), "logsvc", &mut made);
        let text = String::from_utf8_lossy(&made);
        for word in ["server.http-listen-port", "inspect", "limits.retention-period", "health"] {
            assert!(text.contains(word), "{name} lacks {word}");
        }
        compare(&format!("completions/{name}"), &made);
    }
}
