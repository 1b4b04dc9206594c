//! Which labels tell the series of a leaf apart, and how many series there may be.

use crate::engine::plan::{SeriesLabels, SeriesLimit, StreamLabels};
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_bytes, put_count};
use crate::syntax::ast::{Grouping, GroupingKind};

/// Appends a limit, if there is one.
pub(super) fn put_limit(out: &mut Vec<u8>, limit: Option<&SeriesLimit>) {
    let Some(SeriesLimit { max_series, grouping }) = limit else { return out.push(0) };
    out.push(if grouping.is_some() { 2 } else { 1 });
    out.extend((*max_series as u64).to_le_bytes());
    if let Some(grouping) = grouping {
        put_grouping(out, grouping);
    }
}

/// Reads a limit, if there is one. No query has a limit of no series.
pub(super) fn read_limit(input: &mut Input<'_>) -> Result<Option<SeriesLimit>, WireError> {
    let is_grouped = match input.u8()? {
        0 => return Ok(None),
        1 => false,
        2 => true,
        kind => return Err(WireError::Kind(kind)),
    };
    let max_series = input.size()?;
    if max_series == 0 {
        return Err(WireError::Number);
    }
    let grouping = if is_grouped { Some(read_grouping(input)?) } else { None };
    Ok(Some(SeriesLimit { max_series, grouping }))
}

/// Appends the labels of series.
pub(super) fn put(out: &mut Vec<u8>, series: &SeriesLabels) {
    match series {
        SeriesLabels::All => out.push(0),
        SeriesLabels::None => out.push(1),
        SeriesLabels::Grouped(grouping) => {
            out.push(2);
            put_grouping(out, grouping);
        }
        SeriesLabels::Stream(StreamLabels::All) => out.push(3),
        SeriesLabels::Stream(StreamLabels::Listed(names)) => {
            out.push(4);
            put_names(out, names);
        }
        SeriesLabels::Stream(StreamLabels::Names(None)) => out.push(5),
        SeriesLabels::Stream(StreamLabels::Names(Some(names))) => {
            out.push(6);
            put_names(out, names);
        }
    }
}

/// Reads the labels of series. Listed names ascend.
pub(super) fn read(input: &mut Input<'_>) -> Result<SeriesLabels, WireError> {
    let series = match input.u8()? {
        0 => SeriesLabels::All,
        1 => SeriesLabels::None,
        2 => SeriesLabels::Grouped(read_grouping(input)?),
        3 => SeriesLabels::Stream(StreamLabels::All),
        4 => SeriesLabels::Stream(StreamLabels::Listed(read_names(input)?)),
        5 => SeriesLabels::Stream(StreamLabels::Names(None)),
        6 => SeriesLabels::Stream(StreamLabels::Names(Some(read_names(input)?))),
        kind => return Err(WireError::Kind(kind)),
    };
    let listed: &[String] = match &series {
        SeriesLabels::Grouped(grouping) => &grouping.labels,
        SeriesLabels::Stream(StreamLabels::Listed(names) | StreamLabels::Names(Some(names))) => {
            names
        }
        _ => &[],
    };
    if listed.is_sorted_by(|a, b| a < b) { Ok(series) } else { Err(WireError::Order) }
}

fn put_grouping(out: &mut Vec<u8>, Grouping { kind, labels }: &Grouping) {
    out.push(match kind {
        GroupingKind::By => 0,
        GroupingKind::Without => 1,
    });
    put_names(out, labels);
}

fn read_grouping(input: &mut Input<'_>) -> Result<Grouping, WireError> {
    let kind = if input.flag()? { GroupingKind::Without } else { GroupingKind::By };
    Ok(Grouping { kind, labels: read_names(input)? })
}

fn put_names(out: &mut Vec<u8>, names: &[String]) {
    put_count(out, names.len());
    names.iter().for_each(|name| put_bytes(out, name.as_bytes()));
}

fn read_names(input: &mut Input<'_>) -> Result<Vec<String>, WireError> {
    input.list(1, |input| Ok(input.text()?.to_owned()))
}
