//! Why a leaf failed.

use crate::engine::error::{EvalError, MatchingError};
use crate::engine::meter::Stop;
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_bytes};

/// Appends a failure.
pub(super) fn put(out: &mut Vec<u8>, failure: &EvalError) {
    match failure {
        EvalError::Pipeline { error, series } => {
            out.push(0);
            put_bytes(out, error.as_bytes());
            put_bytes(out, series.as_bytes());
        }
        EvalError::TooManySeries { max_series } => put_numbered(out, 1, *max_series as u64),
        EvalError::TooManyReads { max_reads } => put_numbered(out, 2, *max_reads as u64),
        EvalError::Matching(MatchingError::DuplicateSeries { side: "left" }) => out.push(3),
        // There are two sides.
        EvalError::Matching(MatchingError::DuplicateSeries { .. }) => out.push(4),
        EvalError::Matching(MatchingError::ManyToOne) => out.push(5),
        EvalError::Matching(MatchingError::NotUnique) => out.push(6),
        EvalError::ValueTooLong { label, max_bytes } => {
            put_numbered(out, 7, *max_bytes as u64);
            put_bytes(out, label.as_bytes());
        }
        EvalError::Stopped(Stop::TooLarge { max_bytes }) => put_numbered(out, 8, *max_bytes),
        EvalError::Stopped(Stop::Busy) => out.push(9),
        EvalError::Stopped(Stop::Ended) => out.push(10),
    }
}

fn put_numbered(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.push(kind);
    out.extend(number.to_le_bytes());
}

/// Reads a failure.
pub(super) fn read(input: &mut Input<'_>) -> Result<EvalError, WireError> {
    let duplicate = |side| EvalError::Matching(MatchingError::DuplicateSeries { side });
    Ok(match input.u8()? {
        0 => {
            let (error, series) = (input.text()?.to_owned(), input.text()?.to_owned());
            EvalError::Pipeline { error, series }
        }
        1 => EvalError::TooManySeries { max_series: limit(input)? },
        2 => EvalError::TooManyReads { max_reads: limit(input)? },
        3 => duplicate("left"),
        4 => duplicate("right"),
        5 => EvalError::Matching(MatchingError::ManyToOne),
        6 => EvalError::Matching(MatchingError::NotUnique),
        7 => {
            let max_bytes = limit(input)?;
            EvalError::ValueTooLong { label: input.text()?.to_owned(), max_bytes }
        }
        8 => EvalError::Stopped(Stop::TooLarge { max_bytes: input.u64()? }),
        9 => EvalError::Stopped(Stop::Busy),
        10 => EvalError::Stopped(Stop::Ended),
        kind => return Err(WireError::Kind(kind)),
    })
}

fn limit(input: &mut Input<'_>) -> Result<usize, WireError> {
    usize::try_from(input.u64()?).map_err(|_| WireError::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_failures_come_back() {
        let duplicate = |side| EvalError::Matching(MatchingError::DuplicateSeries { side });
        let failures = [
            EvalError::Pipeline { error: "é".into(), series: String::new() },
            EvalError::TooManySeries { max_series: 500 },
            EvalError::TooManyReads { max_reads: usize::MAX },
            duplicate("left"),
            duplicate("right"),
            EvalError::Matching(MatchingError::ManyToOne),
            EvalError::Matching(MatchingError::NotUnique),
            EvalError::ValueTooLong { label: "a".into(), max_bytes: 3 },
            EvalError::Stopped(Stop::TooLarge { max_bytes: u64::MAX }),
            EvalError::Stopped(Stop::Busy),
            EvalError::Stopped(Stop::Ended),
        ];
        for (kind, failure) in (0u8..).zip(failures) {
            let mut bytes = Vec::new();
            put(&mut bytes, &failure);
            assert_eq!(bytes.first(), Some(&kind));
            let mut input = Input::new(&bytes);
            assert_eq!((read(&mut input), input.end()), (Ok(failure), Ok(())));
            for end in 0..bytes.len() {
                assert_eq!(read(&mut Input::new(&bytes[..end])), Err(WireError::Short));
            }
        }
        assert_eq!(read(&mut Input::new(&[11])), Err(WireError::Kind(11)));
    }
}
