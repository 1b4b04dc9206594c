//! The decoder of the log under arbitrary bytes.

use super::format::{Frame, Header, Record, read_frame, write_frame};
use super::image::Replay;

/// Reads bytes as a header, as frames, and as a run of records, and writes what was understood
/// anew.
///
/// # Panics
/// If something changes on the way.
pub fn rule_state(data: &[u8]) {
    if let Ok(header) = Header::decode(data) {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
    let mut rest = data;
    while let Frame::Good(payload) = read_frame(0, rest) {
        let mut again = Vec::new();
        write_frame(0, payload, &mut again);
        assert_eq!(&rest[..again.len()], &again);
        rest = &rest[again.len()..];
    }
    let (mut rest, mut again) = (data, Vec::new());
    while let Some(record) = Record::take(&mut rest) {
        record.write(&mut again);
    }
    assert_eq!(&data[..again.len()], &again, "a record has one encoding");
    let mut replay = Replay::default();
    let is_whole = replay.apply(data);
    assert_eq!(is_whole, again.len() == data.len());
    for group in replay.finish().values() {
        assert!(!group.rules.is_empty());
        assert!(group.rules.iter().all(|rule| !rule.table.is_empty()));
    }
}
