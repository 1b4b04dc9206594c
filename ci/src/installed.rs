//! Packages of registries that checks install into a folder, until their list changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::run_within;

/// How long an installation may take.
pub(crate) const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// Installs what the `package-lock.json` of a folder lists, or without one its `package.json`. No
/// script of a package runs.
pub(crate) fn install_npm(folder: &Path) -> Result<()> {
    let is_locked = folder.join("package-lock.json").exists();
    let mut install = npm(folder);
    install.arg(if is_locked { "ci" } else { "install" });
    install.args(["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    run_within(install, INSTALL_LIMIT)
}

/// `npm` in a folder.
pub(crate) fn npm(folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(folder);
    npm
}

/// The record of an installation in a folder: the list that it came from.
pub(crate) struct Installed {
    /// The list as it is now.
    pub(crate) list: String,
    /// Keeps the list that was installed.
    record: PathBuf,
    /// Whether that list is the present one.
    pub(crate) is_current: bool,
}

impl Installed {
    /// What a folder holds, if `list` is what it should hold.
    pub(crate) fn of(folder: &Path, list: &Path) -> Result<Installed> {
        let record = folder.join("installed-from");
        let list =
            std::fs::read_to_string(list).with_context(|| format!("reading {}", list.display()))?;
        // Without a readable record the clients are installed anew.
        let is_current = std::fs::read_to_string(&record).is_ok_and(|known| known == list);
        Ok(Installed { list, record, is_current })
    }

    /// Notes that the list is installed.
    pub(crate) fn remember(&self) -> Result<()> {
        std::fs::write(&self.record, &self.list)
            .with_context(|| format!("writing {}", self.record.display()))
    }
}

/// Removes a folder, if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.with_context(|| format!("removing {}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::DataFolder;

    #[test]
    fn what_is_installed_is_current_until_the_list_changes() {
        let folder = DataFolder::create("installed").unwrap();
        let list = folder.0.join("list.txt");
        std::fs::write(&list, "# clients\na==1\n").unwrap();
        let installed = Installed::of(&folder.0, &list).unwrap();
        assert!(!installed.is_current);
        installed.remember().unwrap();
        assert!(Installed::of(&folder.0, &list).unwrap().is_current);
        std::fs::write(&list, "a==2\n").unwrap();
        assert!(!Installed::of(&folder.0, &list).unwrap().is_current);
    }
}
