//! Runs the commands of a page of the documentation.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs each block of commands of `docs/<name>` in its order. `replaced` has texts of the page, and
/// what stands for them here; `folder` is for files of this run.
///
/// # Panics
/// If a command fails, or if there are not as many blocks as said.
pub(crate) fn run(name: &str, folder: &Path, replaced: &[(&str, &str)], blocks: usize) {
    let page = format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(page).expect("the page is there");
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("a folder");
    let program = env!("CARGO_BIN_EXE_logsvc");
    std::os::unix::fs::symlink(program, bin.join("logsvc")).expect("a link");
    let others = std::env::var("PATH").expect("there is a shell");
    let mut count = 0;
    for block in page.split("```sh\n").skip(1) {
        let (commands, _) = block.split_once("```").expect("the block ends");
        let mut commands = commands.to_owned();
        for (text, other) in replaced {
            commands = commands.replace(text, other);
        }
        let output = Command::new("sh")
            .args(["-euc", &commands])
            .env("PATH", format!("{}:{others}", bin.display()))
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{name}: {commands}: {output:?}");
        count += 1;
    }
    assert_eq!(count, blocks, "blocks of commands in {name}");
}
