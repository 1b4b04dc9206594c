//! Helpers of the tests: a folder for each test, and parsed options.

use crate::source::SourceArgs;
use clap::Parser;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that is removed when the value is dropped.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("logsvc-bench-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.0.join(name), content).unwrap();
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A folder that stays behind is no reason to fail.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Parser)]
struct SourceCli {
    #[command(flatten)]
    source: SourceArgs,
}

/// Source options as the command line would give them.
pub(crate) fn source_args(args: &[&str]) -> SourceArgs {
    SourceCli::parse_from([&["test"], args].concat()).source
}
