//! The files in the segments folder.

use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use super::names::{CHECKPOINT_NAME, Day, ManifestLogName, QUARANTINE_NAME, SegmentName};

/// The files of the segments folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentsSurvey {
    /// Folders of days.
    pub days: Vec<Day>,
    /// Segment files.
    pub segments: Vec<FoundSegment>,
    /// Complete files of segments whose edits were not known to be in force.
    pub pending: Vec<FoundSegment>,
    /// Ends of segments whose own files need not be there.
    pub tails: Vec<FoundSegment>,
    /// Logs of the manifest.
    pub logs: Vec<ManifestLogName>,
    /// Left-overs of writes that did not end.
    pub temporary: Vec<PathBuf>,
    /// Files that do not belong there.
    pub strangers: Vec<PathBuf>,
}

/// A segment file, or the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSegment {
    /// The day of its folder.
    pub day: Day,
    /// Its name.
    pub name: SegmentName,
    /// Its length in bytes.
    pub len_bytes: u64,
}

impl SegmentsSurvey {
    /// The largest epoch that occurs in a name.
    pub(crate) fn max_epoch(&self) -> Option<u32> {
        let files = self.segments.iter().chain(&self.pending).chain(&self.tails);
        files.map(|found| found.name.epoch).chain(self.logs.iter().map(|name| name.epoch)).max()
    }
}

/// Lists the segments folder and the folders of the days. Changes nothing.
///
/// # Errors
/// A folder cannot be listed.
pub async fn survey_segments<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
) -> io::Result<SegmentsSurvey> {
    let mut survey = SegmentsSurvey::default();
    for entry in runtime.read_dir(segments_dir).await? {
        let path = segments_dir.join(&entry.name);
        if entry.is_dir {
            match Day::parse(&entry.name) {
                Some(day) => survey_day(runtime, &path, day, &mut survey).await?,
                None if entry.name == QUARANTINE_NAME => {}
                None => survey.strangers.push(path),
            }
        } else if let Some(name) = ManifestLogName::parse(&entry.name) {
            survey.logs.push(name);
        } else if entry.name.ends_with(".tmp") {
            survey.temporary.push(path);
        } else if entry.name != CHECKPOINT_NAME {
            survey.strangers.push(path);
        }
    }
    Ok(survey)
}

async fn survey_day<R: Runtime>(
    runtime: &R,
    folder: &Path,
    day: Day,
    survey: &mut SegmentsSurvey,
) -> io::Result<()> {
    survey.days.push(day);
    for entry in runtime.read_dir(folder).await? {
        let path = folder.join(&entry.name);
        let found = |name| FoundSegment { day, name, len_bytes: entry.len_bytes };
        match (SegmentName::parse(&entry.name), SegmentName::parse_pending(&entry.name)) {
            (Some(name), _) if !entry.is_dir => survey.segments.push(found(name)),
            (_, Some(name)) if !entry.is_dir => survey.pending.push(found(name)),
            _ if entry.is_dir => survey.strangers.push(path),
            _ if entry.name.ends_with(".tmp") => survey.temporary.push(path),
            _ => match SegmentName::parse_tail(&entry.name) {
                Some(name) => survey.tails.push(found(name)),
                None => survey.strangers.push(path),
            },
        }
    }
    Ok(())
}
