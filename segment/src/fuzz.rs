//! Bodies of fuzz targets over decoders of columns, which this crate keeps to itself.
//!
//! The bodies that need the public API alone are in `logsvc-fuzz-bodies`. A caller outside cannot
//! write these: a [`Decoder`](crate::Decoder) checks each column by its checksum and by the
//! directory, so arbitrary bytes would not reach the code below it.

mod labels;

pub use labels::label_index;

use logsvc_logql::engine::ListedNames;

use crate::columns::lengths::RunLines;
use crate::columns::templates::Timestamps;
use crate::columns::timestamps::RunTimes;
use crate::columns::{lengths, metadata, templates, timestamps};

/// Encodes the bytes as templates of lines, which end with a byte 0xff, and decodes them. It
/// must compare every block, because a writer verifies only a sample of its blocks.
///
/// # Panics
/// If the decoded lines differ.
pub fn lines_as_templates(data: &[u8]) {
    let (mut lines, mut ends) = (Vec::with_capacity(data.len()), Vec::new());
    for line in data.split(|&byte| byte == 0xff) {
        lines.extend_from_slice(line);
        ends.push(lines.len() as u32);
    }
    // The first bytes give the timestamps.
    let head = data.first_chunk::<8>().map_or(0, |head| i64::from_le_bytes(*head));
    let (first_ns, step_ns) = (head, head >> 20);
    let timestamps_ns: Vec<i64> = (0..ends.len() as i64)
        .map(|line| first_ns.saturating_add(step_ns.saturating_mul(line)))
        .collect();
    let mut encoder = templates::Encoder::new();
    let mut scratch = templates::Scratch::default();
    // Twice, since the encoder keeps its buffers and statistics.
    for _ in 0..2 {
        let mut stored = Vec::new();
        let encoded = encoder.encode(&lines, &ends, &timestamps_ns, &mut stored);
        let Some(encoded) = encoded else { return };
        let timestamps = match encoded.has_times {
            true => Timestamps::Of(&timestamps_ns),
            false => Timestamps::None,
        };
        let text = encoded.text.to_vec();
        let as_text = |_: &[u8], _, out: &mut Vec<u8>| {
            out.extend_from_slice(&text);
            Ok(())
        };
        let (len, malformed) = (lines.len(), |malformed| malformed);
        let joined = templates::decode(&stored, len, timestamps, &mut scratch, as_text, malformed);
        assert_eq!(joined.as_deref(), Ok(&lines[..]));
    }
}

/// Decodes the bytes as columns.
///
/// # Panics
/// If an accepted column breaks a guarantee.
pub fn columns(data: &[u8]) {
    let Some((&[first, second], rest)) = data.split_first_chunk::<2>() else { return };
    let entries = u32::from(first) + 1;
    let bound = i64::from(second) << (second % 50);
    let runs = [
        RunTimes { entries, min_ns: -bound, max_ns: bound },
        RunTimes { entries: 1, min_ns: i64::MAX, max_ns: i64::MAX },
    ];
    if let Ok(times) = timestamps::decode(rest, runs.into_iter(), entries as usize + 1) {
        assert!(times[..entries as usize].is_sorted());
        assert_eq!((times[0], times[entries as usize - 1]), (-bound, bound));
    }
    let runs = [entries, 0].map(|entries| RunLines { entries, line_bytes: u32::from(second) });
    if let Ok(ends) = lengths::decode(rest, runs[..1].iter().copied(), entries as usize) {
        assert!(ends.is_sorted());
    }
    let as_text = |text: &[u8], _, out: &mut Vec<u8>| {
        out.extend_from_slice(text);
        Ok(())
    };
    let mut scratch = templates::Scratch::default();
    // Timestamps that often lead to years that cannot be written.
    let times: Vec<i64> = (0..i64::from(second)).map(|line| bound << (line % 64)).collect();
    for timestamps in [Timestamps::None, Timestamps::Of(&times)] {
        let len = usize::from(first);
        let malformed = |malformed| malformed;
        let lines = templates::decode(rest, len, timestamps, &mut scratch, as_text, malformed);
        if let Ok(lines) = lines {
            assert_eq!(lines.len(), len);
        }
    }
    let pairs_bytes = usize::from(second) * 16;
    let listed = ListedNames::new(["a", "level"]);
    let whole = metadata::decode(rest, entries as usize, pairs_bytes);
    let in_part = metadata::decode_listed(rest, entries as usize, pairs_bytes, &listed);
    for metadata in [whole, in_part].into_iter().flatten() {
        assert_eq!(metadata.set_ids.len(), entries as usize);
        assert!(metadata.set_ids.iter().all(|&id| (id as usize) < metadata.sets.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn lines_come_back_from_templates() {
        let words: [&[u8]; 11] = [
            b"id=",
            b"1",
            b"0042",
            b"99999999999999999999",
            b"deadbeef",
            b"\"a b\" ",
            b"\xff",
            b":",
            b"2026-11-22T20:33:01",
            b"22/Nov/2026:20:33:0",
            b".000001",
        ];
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let data: Vec<&[u8]> = (0..rng.below(400)).map(|_| *rng.pick(&words)).collect();
            lines_as_templates(&data.concat());
        }
    }
}
