//! Looks at the data folder before anything is written into it.
//!
//! Guarantees: a folder that holds files of others, and none of this server's marks, is refused: it
//! is most often the folder of another program, or one that was given by mistake.

use std::io;
use std::path::Path;

use logsvc_runtime::Runtime;
use logsvc_shards::node::NodeError;

use crate::config::Config;

/// The mark of a folder that this server has made.
const FORMAT: &str = "FORMAT";

/// What this server makes in a folder before the mark, and what file systems have of their own.
const OWN: [&str; 10] = [
    "LOCK",
    "wal",
    "segments",
    "filters",
    "deletes",
    "rules",
    "backups",
    "PREPARE_SHUTDOWN",
    "lost+found",
    "FORMAT.tmp",
];

/// Refuses a folder of somebody else.
///
/// # Errors
/// The text for the log.
pub(crate) async fn check<R: Runtime>(runtime: &R, config: &Config) -> Result<(), String> {
    let folder = &config.data_dir;
    match runtime.read_dir(folder).await {
        Ok(entries) => {
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            match foreign(&names, &own_paths(config), folder) {
                None => Ok(()),
                Some(name) => Err(format!(
                    "the data folder {} holds {name:?}, which logsvc did not make, and it has no \
                     file {FORMAT}: it seems to belong to another program. Name an empty folder \
                     with --data-dir, or move {name:?} away",
                    folder.display()
                )),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // The claim tells what is wrong with the folder.
        Err(_) => Ok(()),
    }
}

/// Files that the settings name; they may be in the data folder.
fn own_paths(config: &Config) -> Vec<&Path> {
    let ruler = &config.ruler;
    let storage = &ruler.storage;
    let mut paths = vec![
        Path::new(&ruler.rule_path),
        Path::new(&storage.local_directory),
        Path::new(&storage.old_local_directory),
        Path::new(&config.tls.cert_file),
        Path::new(&config.tls.key_file),
        Path::new(&config.tls.client_ca_file),
    ];
    paths.extend(config.cluster_keys.tls.files().map(Path::new));
    paths.extend(config.runtime_files.iter().map(Path::new));
    paths
}

/// The first name that is not ours.
fn foreign<'n>(names: &[&'n str], own_paths: &[&Path], folder: &Path) -> Option<&'n str> {
    if names.contains(&FORMAT) {
        return None;
    }
    let is_own = |name: &str| {
        let is_config = [".yaml", ".yml"].iter().any(|end| name.ends_with(end));
        // Hidden files are left by file managers and mounts.
        let is_hidden = name.starts_with('.');
        let path = folder.join(name);
        let is_set = own_paths.iter().any(|own| own.starts_with(&path));
        OWN.contains(&name) || is_config || is_hidden || is_set
    };
    names.iter().copied().filter(|name| !is_own(name)).min()
}

/// An error of the data folder with what helps: the folder, the user and the flag.
pub(crate) fn explain(error: &NodeError, folder: &Path, user: &str) -> String {
    let NodeError::Io { source, .. } = error else { return error.to_string() };
    let remedy = match source.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "logsvc runs as {user}, who may not write there: give the folder to this user (chown), \
             or name another one with --data-dir"
        ),
        io::ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only: name another folder with --data-dir".to_owned()
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "there is no room: free some, or name another folder with --data-dir".to_owned()
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is no folder: name another one with --data-dir".to_owned()
        }
        _ => format!("logsvc runs as {user}; --data-dir names the folder"),
    };
    format!("cannot use the data folder {}: {error}; {remedy}", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_found() {
        let folder = Path::new("/data");
        let own = [Path::new("/data/alerts/fake"), Path::new("")];
        let cases = [
            (&["wal", "LOCK", "lost+found", ".snapshot", "a.yaml"][..], None),
            (&["alerts"], None),
            (&["wal", "chunks", "boltdb"], Some("boltdb")),
            (&["notes.txt"], Some("notes.txt")),
            (&["FORMAT", "notes.txt"], None),
            (&[], None),
        ];
        for (names, expected) in cases {
            assert_eq!(foreign(names, &own, folder), expected, "{names:?}");
        }
    }

    #[test]
    fn errors_name_folder_user_and_flag() {
        let error = NodeError::Io {
            action: "make",
            path: "/data/wal/quarantine".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let text = explain(&error, Path::new("/data"), "logsvc (uid 990)");
        for part in ["/data/wal/quarantine", "folder /data:", "logsvc (uid 990)", "--data-dir"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let other = NodeError::InUse("/data".into());
        assert_eq!(explain(&other, Path::new("/data"), "x"), other.to_string());
    }
}
