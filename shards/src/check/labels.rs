//! Verifies the label index of one segment: every page is read and decoded.
//!
//! Guarantees: damage in the root and in each page is found. Of each name the streams that have it
//! must be the streams of its values.

use std::io;
use std::ops::Range;
use std::path::Path;

use logsvc_runtime::Runtime;
use logsvc_segment::{Decoder, LabelIndex, RowSet, SegmentError, StoredRows};

use super::CheckReport;
use super::segment::OpenSegment;

/// Verifies the label index of a segment, if it has one.
pub(super) async fn check_label_index<R: Runtime>(
    path: &Path,
    segment: &mut OpenSegment<R>,
    report: &mut CheckReport,
) -> io::Result<()> {
    let footer = *segment.directory.footer();
    let Some(root) = footer.label_index_root_range() else { return Ok(()) };
    let offset = root.start;
    let bytes = segment.read(root).await?;
    let index = match LabelIndex::open(&footer, bytes) {
        Ok(index) => index,
        Err(error) => {
            report.damage(path, offset, error.to_string());
            return Ok(());
        }
    };
    let tenants: Vec<String> = index.tenants().map(|(name, _)| name.to_owned()).collect();
    for tenant in tenants {
        if let Err(error) = check_tenant(path, segment, &index, &tenant, report).await? {
            report.damage(path, offset, error.to_string());
        }
    }
    Ok(())
}

async fn check_tenant<R: Runtime>(
    path: &Path,
    segment: &mut OpenSegment<R>,
    index: &LabelIndex,
    tenant: &str,
    report: &mut CheckReport,
) -> io::Result<Result<(), SegmentError>> {
    let mut decoder = Decoder::new();
    let mut names: Vec<(String, RowSet)> = Vec::new();
    let mut listing = index.names(tenant);
    while let Some(ranges) = listing.next_reads() {
        let ranges = ranges.to_vec();
        let mut pieces = Vec::with_capacity(ranges.len());
        for range in ranges {
            pieces.push(segment.read(range).await?);
        }
        let each = |name: &str, rows: StoredRows<'_>| {
            names.push((name.to_owned(), rows.to_set()));
        };
        if let Err(error) = listing.supply(&mut decoder, &pieces, each) {
            return Ok(Err(error));
        }
    }
    for (name, rows) in names {
        let mut of_values = RowSet::new();
        let mut listing = index.values(tenant, &name);
        while let Some(ranges) = listing.next_reads() {
            let ranges = ranges.to_vec();
            let mut pieces = Vec::with_capacity(ranges.len());
            for range in ranges {
                pieces.push(segment.read(range).await?);
            }
            let mut found: Vec<Range<u32>> = of_values.ranges().to_vec();
            let each = |_: &str, rows: StoredRows<'_>| {
                found.extend_from_slice(rows.to_set().ranges());
            };
            if let Err(error) = listing.supply(&mut decoder, &pieces, each) {
                return Ok(Err(error));
            }
            of_values = RowSet::from_ranges(found);
        }
        if of_values != rows {
            let offset = segment.directory.footer().directory_offset;
            report.damage(path, offset, format!("the streams with the label {name} differ"));
        }
    }
    Ok(Ok(()))
}
