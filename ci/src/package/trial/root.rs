//! A folder that is the root of programs: a clean Debian, or the content of an image.

use super::LIMIT;
use crate::package::image::DATA;
use crate::package::read;
use crate::process::{output, run_within};
use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that programs see as their root.
pub(super) struct Root {
    folder: PathBuf,
}

impl Root {
    /// A Debian of the same release as this machine, with what is essential, and what the package
    /// depends on.
    pub(super) fn create(folder: &Path) -> Result<Root> {
        let mut suite = Command::new("sh");
        suite.args(["-c", ". /etc/os-release && echo \"$VERSION_CODENAME\""]);
        let suite = output(suite)?;
        let mut debian = Command::new("mmdebstrap");
        debian.args(["--quiet", "--variant=essential", "--include=passwd,libgcc-s1"]);
        debian.arg(suite.trim()).arg(folder);
        run_within(debian, LIMIT).context("making a clean Debian")?;
        Ok(Root { folder: folder.to_owned() })
    }

    /// The content of the only layer of an image, with mount points that a runtime would make.
    pub(super) fn of_image(image: &Path, folder: &Path) -> Result<Root> {
        let layout = folder.with_extension("layout");
        let bytes = read(image)?;
        tar::Archive::new(bytes.as_slice()).unpack(&layout).context("unpacking the image")?;
        let json = |path: PathBuf| -> Result<Value> { Ok(serde_json::from_slice(&read(&path)?)?) };
        let blob = |value: &Value| {
            let digest = value["digest"].as_str().unwrap_or("").replace(':', "/");
            layout.join("blobs").join(digest)
        };
        let index = json(layout.join("index.json"))?;
        let manifest = json(blob(&index["manifests"][0]))?;
        let layer = read(&blob(&manifest["layers"][0]))?;
        let mut archive = tar::Archive::new(GzDecoder::new(layer.as_slice()));
        archive.set_preserve_ownerships(true);
        archive.set_preserve_permissions(true);
        archive.unpack(folder).context("unpacking the layer")?;
        for mount_point in ["proc", "dev"] {
            std::fs::create_dir_all(folder.join(mount_point))?;
        }
        ensure!(!folder.join("bin/sh").exists(), "the image has a shell");
        Ok(Root { folder: folder.to_owned() })
    }

    /// Where a path of the root is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// Where the log of its server is.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Copies a file into the root; gives its path there.
    pub(super) fn bring(&self, file: &Path) -> Result<String> {
        let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        std::fs::copy(file, self.path(&name)).with_context(|| format!("copying {name}"))?;
        Ok(format!("/{name}"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.folder).args(args).env_clear();
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Runs a program in the root.
    pub(super) fn run(&self, args: &[&str]) -> Result<()> {
        run_within(self.command(args), LIMIT).with_context(|| args.join(" "))
    }

    /// What a program in the root says.
    pub(super) fn output(&self, args: &[&str]) -> Result<String> {
        output(self.command(args))
    }

    /// Runs this machine's rpm with the root.
    pub(super) fn rpm(&self, args: &[&str]) -> Result<()> {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(&self.folder).args(args);
        run_within(rpm, LIMIT).with_context(|| format!("rpm {}", args.join(" ")))
    }

    /// User, group and permissions of a file, by the names of the root.
    pub(super) fn owner(&self, path: &str) -> Result<String> {
        Ok(self.output(&["stat", "-c", "%U:%G %a", &format!("/{path}")])?.trim().to_owned())
    }

    /// A program in the root, as a user, with an empty environment. It sees the files of processes
    /// and devices. With `is_sealed` only the data folder can be written to.
    pub(super) fn start(
        &self,
        user: &str,
        workdir: &str,
        is_sealed: bool,
        args: &[String],
    ) -> Command {
        let data = if is_sealed {
            format!(
                "mount --bind \"$root\" \"$root\" && mount --bind \"$root/{DATA}\" \"$root/{DATA}\" \
                 && mount -o remount,ro,bind \"$root\" && "
            )
        } else {
            String::new()
        };
        let script = format!(
            "root=$1 user=$2; shift 2; {data}mount --rbind /proc \"$root/proc\" && \
             mount --rbind /dev \"$root/dev\" && \
             exec env -i \"$(command -v chroot)\" --userspec=\"$user\" \"$root\" \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        command.arg(&self.folder).arg(user);
        if !is_sealed {
            command.args(["env", &format!("--chdir={workdir}")]);
        }
        command.args(args);
        command
    }
}
