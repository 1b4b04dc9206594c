//! What each kind of leaf has beside its entries.

use super::series;
use crate::engine::params::{Direction, Grid, Windows};
use crate::engine::patterns::STEP_MIN_NS;
use crate::engine::place::Place;
use crate::engine::plan::{EntryValue, LeafKind, SeriesLabels};
use crate::engine::range::{Keep, StateParts};
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::Input;
use crate::syntax::ast::Unwrap;

/// The kinds of leaves.
mod kind {
    pub(super) const LOG: u8 = 0;
    pub(super) const RANGE: u8 = 1;
    pub(super) const SAMPLES: u8 = 2;
    pub(super) const PATTERNS: u8 = 3;
}

/// Appends the kind. An `unwrap` is part of the text of the pipeline.
pub(super) fn put(out: &mut Vec<u8>, kind: &LeafKind) {
    match kind {
        LeafKind::Log { direction, limit, interval_ns, after, places } => {
            out.extend([kind::LOG, u8::from(*direction == Direction::Backward)]);
            out.extend((*limit as u64).to_le_bytes());
            out.extend(interval_ns.to_le_bytes());
            out.push(u8::from(after.is_some()));
            if let Some(Place { timestamp_ns, stream_hash, entry_hash, ordinal }) = after {
                out.extend(timestamp_ns.to_le_bytes());
                out.extend(stream_hash.to_le_bytes());
                out.extend(entry_hash.to_le_bytes());
                out.extend(ordinal.to_le_bytes());
            }
            out.push(u8::from(*places));
        }
        LeafKind::Range { windows, value, series } => {
            out.push(kind::RANGE);
            put_windows(out, windows);
            out.push(match value {
                EntryValue::One => 0,
                EntryValue::LineLength => 1,
                EntryValue::StoredSize => 2,
            });
            series::put(out, series);
        }
        LeafKind::Samples { windows, unwrap: _, series, keep } => {
            out.push(kind::SAMPLES);
            put_windows(out, windows);
            series::put(out, series);
            match keep {
                Keep::All => out.push(0),
                Keep::Values => out.push(1),
                Keep::State(parts) => out.extend([2, parts.bits()]),
            }
        }
        LeafKind::Patterns { step_ns } => {
            out.push(kind::PATTERNS);
            out.extend(step_ns.to_le_bytes());
        }
    }
}

/// Reads the kind of a leaf whose pipeline ends with `unwrap`, if with any. `is_plain` says that
/// there are no stages before it.
pub(super) fn read(
    input: &mut Input<'_>,
    unwrap: Option<Unwrap>,
    is_plain: bool,
) -> Result<LeafKind, WireError> {
    match (input.u8()?, unwrap) {
        (kind::LOG, None) => read_log(input),
        (kind::RANGE, None) => read_range(input, is_plain),
        (kind::SAMPLES, Some(unwrap)) => read_samples(input, unwrap),
        (kind::PATTERNS, None) if is_plain => {
            let step_ns = input.i64()?;
            if step_ns < STEP_MIN_NS {
                return Err(WireError::Steps);
            }
            Ok(LeafKind::Patterns { step_ns })
        }
        (kind::LOG..=kind::PATTERNS, _) => Err(WireError::Reference),
        (kind, _) => Err(WireError::Kind(kind)),
    }
}

/// Whether a leaf of this kind may read the entries of these times. A leaf with windows reads what
/// they see, or the part of it that was asked for: for other entries there is no step.
pub(super) fn allows_times(kind: &LeafKind, (start_ns, end_ns): (i64, i64)) -> bool {
    match kind {
        // A further page may begin behind the end.
        LeafKind::Log { .. } => true,
        LeafKind::Range { windows, .. } | LeafKind::Samples { windows, .. } => {
            let (first_ns, behind_ns) = windows.entry_bounds_ns();
            start_ns >= first_ns && end_ns <= behind_ns
        }
        LeafKind::Patterns { .. } => start_ns < end_ns,
    }
}

fn read_log(input: &mut Input<'_>) -> Result<LeafKind, WireError> {
    let direction = if input.flag()? { Direction::Backward } else { Direction::Forward };
    let limit = input.size()?;
    let interval_ns = input.i64()?;
    if interval_ns < 0 {
        return Err(WireError::Number);
    }
    let after = match input.flag()? {
        false => None,
        true => Some(Place {
            timestamp_ns: input.i64()?,
            stream_hash: input.u64()?,
            entry_hash: input.u64()?,
            ordinal: input.u32()?,
        }),
    };
    let places = input.flag()?;
    Ok(LeafKind::Log { direction, limit, interval_ns, after, places })
}

fn read_range(input: &mut Input<'_>, is_plain: bool) -> Result<LeafKind, WireError> {
    let windows = read_windows(input)?;
    let value = match input.u8()? {
        0 => EntryValue::One,
        1 => EntryValue::LineLength,
        2 => EntryValue::StoredSize,
        kind => return Err(WireError::Kind(kind)),
    };
    let series = series::read(input)?;
    // Streams are told apart where their bytes are asked for, and no stage looks at entries there.
    let is_possible = match (&series, value) {
        (SeriesLabels::Stream(_), EntryValue::One) => false,
        (SeriesLabels::Stream(_), _) => is_plain,
        (_, value) => value != EntryValue::StoredSize,
    };
    if is_possible {
        Ok(LeafKind::Range { windows, value, series })
    } else {
        Err(WireError::Reference)
    }
}

fn read_samples(input: &mut Input<'_>, unwrap: Unwrap) -> Result<LeafKind, WireError> {
    let windows = read_windows(input)?;
    let series = series::read(input)?;
    if matches!(series, SeriesLabels::Stream(_)) {
        return Err(WireError::Reference);
    }
    let keep = match input.u8()? {
        0 => Keep::All,
        1 => Keep::Values,
        2 => Keep::State(StateParts::of_bits(input.u8()?).ok_or(WireError::Number)?),
        kind => return Err(WireError::Kind(kind)),
    };
    Ok(LeafKind::Samples { windows, unwrap, series, keep })
}

fn put_windows(out: &mut Vec<u8>, windows: &Windows) {
    let Windows { grid: Grid { start_ns, step_ns, steps }, range_ns, offset_ns } = windows;
    out.extend(start_ns.to_le_bytes());
    out.extend(step_ns.to_le_bytes());
    out.extend(steps.to_le_bytes());
    out.extend(range_ns.to_le_bytes());
    out.extend(offset_ns.to_le_bytes());
}

fn read_windows(input: &mut Input<'_>) -> Result<Windows, WireError> {
    let grid = Grid { start_ns: input.i64()?, step_ns: input.i64()?, steps: input.u32()? };
    let windows = Windows { grid, range_ns: input.i64()?, offset_ns: input.i64()? };
    if windows.are_possible() { Ok(windows) } else { Err(WireError::Steps) }
}
