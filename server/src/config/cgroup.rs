//! The limits of the control groups that the process is in: memory and CPU time.
//!
//! Guarantees: the least of the group and of everything above it counts, in version 2 and in
//! version 1, also where a container sees its own group as the root. What cannot be read limits
//! nothing.

use std::path::{Component, Path, PathBuf};

/// The limits that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GroupLimits {
    /// Bytes of memory.
    pub(super) memory_bytes: Option<u64>,
    /// CPUs, also in parts.
    pub(super) cpus: Option<f64>,
}

/// Reads them. `read` gives the text of a file by its path, if there is one.
pub(super) fn limits(read: &dyn Fn(&Path) -> Option<String>) -> GroupLimits {
    let text = |path: &str| read(Path::new(path)).unwrap_or_default();
    let (groups, mounts) = (text("/proc/self/cgroup"), text("/proc/self/mountinfo"));
    let mut found = GroupLimits::default();
    for line in groups.lines() {
        // 0::/a/b, or 4:cpu,cpuacct:/a/b
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let names: Vec<&str> = controllers.split(',').filter(|name| !name.is_empty()).collect();
        let Some((root, mount)) = mount_of(&mounts, &names) else { continue };
        for folder in upwards(&root, &mount, path) {
            let value = |name: &str| read(&folder.join(name));
            let number = |name: &str| value(name)?.trim().parse::<f64>().ok();
            if names.is_empty() {
                // `max` is no number, and no limit.
                least(
                    &mut found.memory_bytes,
                    value("memory.max").and_then(|t| t.trim().parse().ok()),
                );
                least(&mut found.cpus, value("cpu.max").and_then(|text| cpus_of(&text)));
            } else {
                let bytes = value("memory.limit_in_bytes").and_then(|t| t.trim().parse().ok());
                least(&mut found.memory_bytes, bytes);
                // Minus one is no limit.
                let quota = number("cpu.cfs_quota_us").filter(|quota| *quota > 0.0);
                let period = number("cpu.cfs_period_us").filter(|period| *period > 0.0);
                least(&mut found.cpus, quota.zip(period).map(|(quota, period)| quota / period));
            }
        }
    }
    found
}

fn least<T: PartialOrd + Copy>(known: &mut Option<T>, found: Option<T>) {
    if let Some(found) = found
        && known.is_none_or(|known| found < known)
    {
        *known = Some(found);
    }
}

/// `150000 100000` is one CPU and a half.
fn cpus_of(text: &str) -> Option<f64> {
    let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().ok());
    let (quota, period) = (numbers.next()??, numbers.next()??);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The root and the place of the mount with these controllers, in /proc/self/mountinfo:
/// `31 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw`.
fn mount_of(mounts: &str, controllers: &[&str]) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split(' ');
        let (kind, options) = (tail.next()?, tail.next_back()?);
        let fits = match controllers {
            [] => kind == "cgroup2",
            names => kind == "cgroup" && options.split(',').any(|option| names.contains(&option)),
        };
        let mut head = head.split(' ').skip(3);
        let (root, place) = (head.next()?, head.next()?);
        fits.then(|| (PathBuf::from(root), PathBuf::from(place)))
    })
}

/// The folders of a group and of all above it that the mount shows.
fn upwards(root: &Path, mount: &Path, path: &str) -> Vec<PathBuf> {
    let path = Path::new(path);
    let below = path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    // A group outside of the namespace is shown with `..`: the mount's own root is the nearest.
    let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    let mut folder = if is_inside { mount.join(below) } else { mount.to_path_buf() };
    let mut all = Vec::new();
    while folder.starts_with(mount) {
        all.push(folder.clone());
        if !folder.pop() {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn found(files: &[(&str, &str)]) -> GroupLimits {
        let files: BTreeMap<&Path, &str> =
            files.iter().map(|&(path, text)| (Path::new(path), text)).collect();
        limits(&|path| files.get(path).map(|text| (*text).to_owned()))
    }

    const V2: &str = "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_least_of_all_groups_upwards_counts() {
        let files = [
            ("/proc/self/cgroup", "0::/pods/logsvc\n"),
            ("/proc/self/mountinfo", V2),
            ("/sys/fs/cgroup/pods/logsvc/memory.max", "max\n"),
            ("/sys/fs/cgroup/pods/logsvc/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/pods/memory.max", "536870912\n"),
            ("/sys/fs/cgroup/pods/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/memory.max", "999999999999\n"),
        ];
        let expected = GroupLimits { memory_bytes: Some(512 << 20), cpus: Some(1.5) };
        assert_eq!(found(&files), expected);
        assert_eq!(found(&files[..4]), GroupLimits::default(), "no limit at all");
    }

    #[test]
    fn a_container_sees_its_group_as_the_root() {
        for path in ["0::/\n", "0::/../../other\n"] {
            let files = [
                ("/proc/self/cgroup", path),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/memory.max", "4096\n"),
            ];
            assert_eq!(found(&files).memory_bytes, Some(4096), "{path}");
        }
    }

    #[test]
    fn version_1_has_a_mount_for_each_controller() {
        let mounts = "40 30 0:33 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                      41 30 0:34 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n";
        let files = [
            ("/proc/self/cgroup", "5:cpu,cpuacct:/a/b\n4:memory:/docker/abc/inner\n"),
            ("/proc/self/mountinfo", mounts),
            ("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"),
            ("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n"),
            ("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
        ];
        let expected = GroupLimits { memory_bytes: Some(1 << 20), cpus: Some(2.0) };
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn what_is_no_group_limits_nothing() {
        for text in ["", "x", "0::", "::", "0::/a\n\n1:name=systemd:/"] {
            for mounts in ["", "- cgroup2", "a b c d e - cgroup2", V2] {
                let files = [("/proc/self/cgroup", text), ("/proc/self/mountinfo", mounts)];
                assert_eq!(found(&files), GroupLimits::default(), "{text} {mounts}");
            }
        }
    }
}
