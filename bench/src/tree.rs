//! The resources that a server has used: the process that was started and all of its children,
//! read from `/proc` (proc_pid_stat(5), proc_pid_io(5)).

use crate::procfs::Usage;
use std::collections::BTreeMap;
use std::path::Path;

/// Nanoseconds of a process tree's threads on a CPU. Finer than the ticks of
/// [`Usage`], but threads that have ended are not in it: for short measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ThreadTime(u64);

impl ThreadTime {
    /// Now; none if the kernel does not show it.
    pub(crate) fn of_tree(pid: u32) -> Option<ThreadTime> {
        let mut total_nanos: Option<u64> = None;
        for member in members(pid) {
            let tasks = std::fs::read_dir(format!("/proc/{member}/task")).ok()?;
            // A thread may end between the listing and the reading.
            for task in tasks.filter_map(Result::ok) {
                if let Some(nanos) = thread_nanos(&task.path()) {
                    total_nanos = Some(total_nanos.unwrap_or(0) + nanos);
                }
            }
        }
        total_nanos.map(ThreadTime)
    }

    /// Of the calling thread alone.
    pub(crate) fn own_thread() -> Option<ThreadTime> {
        // The kernel brings the figure up to date when the thread is scheduled.
        std::thread::yield_now();
        thread_nanos(Path::new("/proc/thread-self")).map(ThreadTime)
    }

    /// Seconds since `earlier`; none if threads have ended in between.
    pub(crate) fn seconds_since(self, earlier: ThreadTime) -> Option<f64> {
        Some(self.0.checked_sub(earlier.0)? as f64 / 1e9)
    }
}

/// The first number of `schedstat`: time on a CPU.
fn thread_nanos(folder: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Counters of a process tree, added up. Peaks are added too: an upper bound if there
/// is more than one process.
pub(crate) fn usage(pid: u32) -> Usage {
    let usages = members(pid).into_iter().map(Usage::of);
    usages.reduce(|sum, usage| sum.plus(&usage)).unwrap_or_default()
}

/// A process and its descendants.
pub(crate) fn members(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        // A removed process is not found twice, so this ends for any content of `/proc`.
        found.extend(children.remove(parent).into_iter().flatten());
        next += 1;
    }
    found
}

/// The fourth field of `stat`, counted from behind the command's name.
fn parent(stat: &str) -> Option<u32> {
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_belong_to_the_tree() {
        let mut shell = Command::new("sh")
            .args(["-c", "cat; true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        // The shell has started its child when the child has read something: the
        // pipe is full before.
        std::io::Write::write_all(&mut stdin, &[b'x'; 1 << 20]).unwrap();
        let found = members(shell.id());
        assert!(found.len() == 2 && found[0] == shell.id(), "{found:?}");
        assert!(members(std::process::id()).contains(&found[1]));
        assert!(usage(shell.id()).peak_rss_bytes > Usage::of(found[1]).peak_rss_bytes);
        drop(stdin);
        shell.wait().unwrap();
    }

    #[test]
    fn parents_are_read_behind_the_command_name() {
        assert_eq!(parent("17 (a b) c) S 4 2 3"), Some(4));
        assert_eq!(parent("17 (cut"), None);
    }

    #[test]
    fn work_takes_time() {
        let Some(before) = ThreadTime::own_thread() else { return };
        let mut sum = 0_u64;
        let mut after = before;
        // Ends when the counter has moved.
        while after == before {
            sum = (0..100_000).fold(sum, |sum, i| std::hint::black_box(sum.wrapping_add(i)));
            after = ThreadTime::own_thread().unwrap();
        }
        assert!(after.seconds_since(before) > Some(0.0));
        assert_eq!(before.seconds_since(after), None);
    }
}
