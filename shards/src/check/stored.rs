//! Verifies segments that are objects of a bucket.
//!
//! Guarantees: a server may work with the bucket meanwhile. It removes objects of segments that have
//! left the live set, so what looks like damage counts only if the bucket still names the segment
//! afterwards.

use std::io;
use std::path::PathBuf;

use logsvc_runtime::Runtime;
use logsvc_store::{ObjectName, Store};

use super::segment::{Expected, check_segment};
use super::source::{PATIENCE, Source, bucket_failure};
use super::store::CheckError;
use super::{CheckReport, Finding};
use crate::ledger::peek;
use crate::manifest::SegmentName;

/// See the module.
pub(super) struct StoredSegments<'s, R: Runtime> {
    runtime: &'s R,
    store: &'s Store<R>,
    /// What was found, which may only look like damage.
    suspects: Vec<(SegmentName, Vec<Finding>)>,
}

/// The name of an object in findings.
pub(super) fn path_of<R: Runtime>(store: &Store<R>, name: &ObjectName) -> PathBuf {
    PathBuf::from(format!("{}/{name}", store.address().trim_end_matches('/')))
}

impl<'s, R: Runtime> StoredSegments<'s, R> {
    pub(super) fn new(runtime: &'s R, store: &'s Store<R>) -> StoredSegments<'s, R> {
        StoredSegments { runtime, store, suspects: Vec::new() }
    }

    /// Verifies the object of a segment.
    ///
    /// # Errors
    /// The bucket does not answer.
    pub(super) async fn check(
        &mut self,
        expected: Expected<'_>,
        report: &mut CheckReport,
    ) -> Result<(), CheckError> {
        let live = expected.live;
        let object = live.name.object_name(live.day);
        let path = path_of(self.store, &object);
        let findings = std::mem::take(&mut report.findings);
        let checked = match Source::object(self.runtime, self.store, &object).await {
            Err(error) => match bucket_failure(&error) {
                Some(failure) => Err(failure.clone()),
                None => {
                    report.damage(&path, 0, "the object is missing");
                    Ok(())
                }
            },
            Ok(source) => match source.len_bytes().await.map_err(io_text) {
                Ok(len) if len == live.file_len => {
                    check_segment(self.runtime, &path, Ok(source), expected, report).await
                }
                Ok(len) => {
                    let what = format!("the segment has {len} bytes instead of {}", live.file_len);
                    report.damage(&path, len.min(live.file_len), what);
                    Ok(())
                }
                Err(what) => {
                    report.damage(&path, 0, what);
                    Ok(())
                }
            },
        };
        let mut found = std::mem::replace(&mut report.findings, findings);
        if found.iter().any(|finding| finding.severity == super::Severity::Damage) {
            self.suspects.push((live.name, found));
        } else {
            report.findings.append(&mut found);
        }
        report.stored_segments += 1;
        Ok(checked?)
    }

    /// Tells the damage of segments that the bucket still names.
    ///
    /// # Errors
    /// The bucket does not answer.
    pub(super) async fn settle(self, report: &mut CheckReport) -> Result<(), CheckError> {
        if self.suspects.is_empty() {
            return Ok(());
        }
        let peeked = peek(self.store, None, self.runtime.now().after(PATIENCE)).await?;
        let state = peeked.map(|peeked| peeked.state).unwrap_or_default();
        let mut gone = 0;
        for (name, mut findings) in self.suspects {
            if state.live.contains_key(&name) {
                report.findings.append(&mut findings);
            } else {
                gone += 1;
            }
        }
        if gone > 0 {
            let what = format!(
                "{gone} segments have left the bucket's live set meanwhile and were not checked"
            );
            report.note(self.store.address().as_ref(), 0, what);
        }
        Ok(())
    }
}

fn io_text(error: io::Error) -> String {
    format!("cannot read it: {error}")
}
