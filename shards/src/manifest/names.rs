//! Names in the segments folder: days, segments, and logs of the manifest.

use std::path::{Path, PathBuf};

use logsvc_proto::time::{date_of_day, days_from_epoch};
use logsvc_runtime::{OpenMode, Runtime};
use logsvc_store::ObjectName;

/// Nanoseconds of a UTC day; leap seconds do not exist in Unix time.
const DAY_NS: i64 = 86_400_000_000_000;

/// Name of the checkpoint within the segments folder.
pub const CHECKPOINT_NAME: &str = "MANIFEST";

/// Name of the folder for damaged parts of the manifest.
pub(crate) const QUARANTINE_NAME: &str = "quarantine";

/// The additional ending of a segment's file name until the edit that makes the segment live is in
/// force.
pub(crate) const PENDING_ENDING: &str = ".new";

/// Whether a file is of the manifest, by its name here or in the quarantine folder. It holds no
/// entries.
pub(crate) fn is_manifest_file(name: &str) -> bool {
    let of_epoch = name.strip_prefix(CHECKPOINT_NAME);
    of_epoch.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        || ManifestLogName::parse(name).is_some()
}

/// A UTC day, counted from 1970-01-01. Prints as `yyyy-mm-dd`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Day(pub i32);

impl Day {
    /// The day of the earliest timestamp there is, in the year 1677.
    pub const MIN: Day = Day::of(i64::MIN);
    /// The day of the latest timestamp there is, in the year 2262.
    pub const MAX: Day = Day::of(i64::MAX);

    /// The day of a timestamp in ns since the Unix epoch. Every timestamp has one,
    /// with a year of four digits.
    pub const fn of(timestamp_ns: i64) -> Day {
        // At most 106,752 on either side of zero.
        Day(timestamp_ns.div_euclid(DAY_NS) as i32)
    }

    /// The day's first timestamp, or the first that there is.
    pub fn first_ns(self) -> i64 {
        i64::from(self.0).saturating_mul(DAY_NS)
    }

    /// The day's last timestamp, or the last that there is.
    pub fn last_ns(self) -> i64 {
        let last_ns = (i128::from(self.0) + 1) * i128::from(DAY_NS) - 1;
        last_ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// The name of the day's folder.
    pub(crate) fn folder_name(self) -> String {
        self.to_string()
    }

    /// Reads the name of a day's folder; `None` if it is none, or one of a day that
    /// no timestamp has.
    pub fn parse(name: &str) -> Option<Day> {
        let bytes = name.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let number = |range: std::ops::Range<usize>| {
            let digits = &name.get(range)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok()).flatten()
        };
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let found = Day(i32::try_from(days_from_epoch(year, month, day)).ok()?);
        // A date that does not exist is read as another one, which prints differently.
        ((Day::MIN..=Day::MAX).contains(&found) && found.to_string() == name).then_some(found)
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = date_of_day(i64::from(self.0));
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Which segment a file is. Orders by age for the segments of one shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct SegmentName {
    /// The start that wrote it.
    pub epoch: u32,
    /// Number of partitions of that start.
    pub shards: u32,
    /// The partitions of the shard that wrote it, see [`crate::types::Part::numbers`].
    pub shard: u32,
    /// Counts the segments of that shard and start.
    pub seq: u32,
}

impl SegmentName {
    /// The two numbers that tell which streams it may hold, see
    /// [`Part::numbers`](crate::types::Part::numbers).
    pub fn writer(self) -> (u32, u32) {
        (self.shards, self.shard)
    }

    /// The file's name within the folder of its day.
    pub fn file_name(self) -> String {
        format!("{:08x}-{:08x}-{:08x}-{:08x}.seg", self.epoch, self.shards, self.shard, self.seq)
    }

    /// Reads a name; `None` if it is not one of a segment.
    pub fn parse(name: &str) -> Option<SegmentName> {
        let [epoch, shards, shard, seq] = hex_numbers(name.strip_suffix(".seg")?)?;
        Some(SegmentName { epoch, shards, shard, seq })
    }

    /// Reads the name that a file has before its edit is in force, see
    /// [`SegmentName::pending_path`]; `None` if the name has another form.
    pub(crate) fn parse_pending(name: &str) -> Option<SegmentName> {
        SegmentName::parse(name.strip_suffix(PENDING_ENDING)?)
    }

    /// The name of the object that has the bytes of the segment's file.
    pub fn object_name(self, day: Day) -> ObjectName {
        let text = format!("seg/{}/{}", day.folder_name(), self.file_name());
        ObjectName::new(&text).expect("digits, letters and dashes make a name")
    }

    /// Reads such a name; `None` if it has another form.
    pub(crate) fn of_object(name: &ObjectName) -> Option<SegmentName> {
        let (day, file) = name.as_str().strip_prefix("seg/")?.split_once('/')?;
        let found = SegmentName::parse(file)?;
        (found.object_name(Day::parse(day)?) == *name).then_some(found)
    }

    /// The name of the file that has the end of a segment whose own file is not kept.
    pub(crate) fn tail_file_name(self) -> String {
        format!("{:08x}-{:08x}-{:08x}-{:08x}.tail", self.epoch, self.shards, self.shard, self.seq)
    }

    /// Reads such a name; `None` if it has another form.
    pub(crate) fn parse_tail(name: &str) -> Option<SegmentName> {
        let [epoch, shards, shard, seq] = hex_numbers(name.strip_suffix(".tail")?)?;
        Some(SegmentName { epoch, shards, shard, seq })
    }

    /// The name of a bundle of filters, whose numbers are those of a segment's name.
    pub(crate) fn bundle_file_name(self) -> String {
        format!("{:08x}-{:08x}-{:08x}-{:08x}.bun", self.epoch, self.shards, self.shard, self.seq)
    }

    /// Reads such a name; `None` if it has another form.
    pub(crate) fn parse_bundle(name: &str) -> Option<SegmentName> {
        let [epoch, shards, shard, seq] = hex_numbers(name.strip_suffix(".bun")?)?;
        Some(SegmentName { epoch, shards, shard, seq })
    }

    /// The position of a segment that a shard has sealed (and not compacted) in arrival order, see
    /// [`super::LiveSegment::order`].
    pub fn sealed_order(self) -> u64 {
        u64::from(self.epoch) << 32 | u64::from(self.seq)
    }

    /// The file's path.
    pub fn path(self, segments_dir: &Path, day: Day) -> PathBuf {
        segments_dir.join(day.folder_name()).join(self.file_name())
    }

    /// The path of its tail.
    pub(crate) fn tail_path(self, segments_dir: &Path, day: Day) -> PathBuf {
        segments_dir.join(day.folder_name()).join(self.tail_file_name())
    }

    /// The path of the complete file until the edit that makes it live is in force. So a file with
    /// the path of [`SegmentName::path`] has been live, even if the manifest does not say so.
    pub fn pending_path(self, segments_dir: &Path, day: Day) -> PathBuf {
        let name = format!("{}{PENDING_ENDING}", self.file_name());
        segments_dir.join(day.folder_name()).join(name)
    }

    /// Gives the file of a segment its name once the edit that makes it live is in force, durably.
    /// Until this has returned, the log files or the segments that it was made of must stay. May be
    /// repeated.
    ///
    /// # Errors
    /// The file cannot be renamed, or the folder not synced.
    pub async fn finalize<R: Runtime>(
        self,
        runtime: &R,
        segments_dir: &Path,
        day: Day,
    ) -> std::io::Result<()> {
        let (from, to) = (self.pending_path(segments_dir, day), self.path(segments_dir, day));
        match runtime.rename(&from, &to).await {
            // The file has its name, but the folder could not be synced.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                runtime.open(&to, OpenMode::Read).await?;
            }
            other => other?,
        }
        runtime.sync_dir(&segments_dir.join(day.folder_name())).await
    }
}

/// Which log of the manifest a file is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ManifestLogName {
    /// The start that wrote it.
    pub epoch: u32,
    /// The shard that wrote it.
    pub shard: u32,
    /// Counts the logs of that shard and start.
    pub n: u32,
}

impl ManifestLogName {
    /// The file's name within the segments folder.
    pub fn file_name(self) -> String {
        format!("manifest-{:08x}-{:08x}-{:08x}.log", self.epoch, self.shard, self.n)
    }

    /// Reads a name; `None` if it is not one of a log.
    pub fn parse(name: &str) -> Option<ManifestLogName> {
        let numbers = name.strip_prefix("manifest-")?.strip_suffix(".log")?;
        let [epoch, shard, n] = hex_numbers(numbers)?;
        Some(ManifestLogName { epoch, shard, n })
    }
}

/// Numbers of eight lower-case hex digits with `-` between.
fn hex_numbers<const N: usize>(text: &str) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split('-');
    for number in &mut numbers {
        let part = parts.next()?;
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if part.len() != 8 || !part.bytes().all(is_digit) {
            return None;
        }
        *number = u32::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Makes the folder of a day, durably, and gives its path. The names in it need a
/// sync of that path of their own.
///
/// # Errors
/// The folder cannot be made or synced.
pub async fn make_day_folder<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    day: Day,
) -> std::io::Result<PathBuf> {
    let folder = segments_dir.join(day.folder_name());
    runtime.create_dir_all(&folder).await?;
    runtime.sync_dir(segments_dir).await?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn days_print_and_read_back() {
        for (timestamp_ns, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (DAY_NS - 1, "1970-01-01"),
            (DAY_NS, "1970-01-02"),
            (951_782_400_000_000_000, "2000-02-29"),
            (4_107_542_400_000_000_000, "2100-03-01"),
            (i64::MIN, "1677-09-21"),
            (i64::MAX, "2262-04-11"),
        ] {
            let day = Day::of(timestamp_ns);
            assert_eq!(day.to_string(), text);
            assert_eq!(Day::parse(text), Some(day), "{text}");
            assert!((day.first_ns()..=day.last_ns()).contains(&timestamp_ns), "{text}");
        }
        for number in Day::MIN.0..=Day::MAX.0 {
            let day = Day(number);
            assert_eq!(Day::parse(&day.to_string()), Some(day));
            assert_eq!((Day::of(day.first_ns()), Day::of(day.last_ns())), (day, day));
        }
    }

    #[test]
    fn what_is_not_a_day_is_refused() {
        for bad in [
            "",
            "1970-1-1",
            "1970-01-32",
            "1970-02-29",
            "1970-13-01",
            "1970-00-10",
            "1970-01-00",
            "1677-09-20",
            "2262-04-12",
            "9999-12-31",
            "+970-01-01",
            "1970-01-01x",
            "1970/01/01",
            "197é-01-1",
            "0000-01-01",
            "1970-+1-01",
        ] {
            assert_eq!(Day::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_read_back_and_others_are_refused() {
        for seed in seeds(200) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut number = || rng.next_u64() as u32;
            let (epoch, shards, shard, seq) = (number(), number(), number(), number());
            let segment = SegmentName { epoch, shards, shard, seq };
            assert_eq!(SegmentName::parse(&segment.file_name()), Some(segment));
            assert_eq!(ManifestLogName::parse(&segment.file_name()), None);
            assert_eq!(SegmentName::parse_tail(&segment.tail_file_name()), Some(segment));
            assert_eq!(SegmentName::parse(&segment.tail_file_name()), None);
            let log = ManifestLogName { epoch, shard, n: seq };
            assert_eq!(ManifestLogName::parse(&log.file_name()), Some(log));
            assert_eq!(SegmentName::parse(&log.file_name()), None);
        }
        let segment = SegmentName { epoch: 3, shards: 2, shard: 1, seq: 0x1f };
        assert_eq!(segment.file_name(), "00000003-00000002-00000001-0000001f.seg");
        assert_eq!(segment.tail_file_name(), "00000003-00000002-00000001-0000001f.tail");
        let object = segment.object_name(Day(1));
        assert_eq!(object.as_str(), "seg/1970-01-02/00000003-00000002-00000001-0000001f.seg");
        let log = ManifestLogName { epoch: 3, shard: 1, n: 0 };
        assert_eq!(log.file_name(), "manifest-00000003-00000001-00000000.log");
        for bad in [
            "00000003-00000002-00000001.seg",
            "00000003-00000002-00000001-0000001F.seg",
            "00000003-00000002-00000001-0000001f-00000000.seg",
            "00000003-00000002-00000001-0000001f.seg.tmp",
            "+0000003-00000002-00000001-0000001f.seg",
            ".seg",
        ] {
            assert_eq!(SegmentName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn sealed_segments_order_by_start_and_then_by_number() {
        let order = |epoch, seq| SegmentName { epoch, shards: 9, shard: 4, seq }.sealed_order();
        assert!(order(0, 0) < order(0, 1));
        assert!(order(0, u32::MAX) < order(1, 0));
    }
}
