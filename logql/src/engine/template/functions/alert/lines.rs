//! `logLines`: lines behind an alert, cut to what a message can hold.

use std::rc::Rc;

use super::alert;
use crate::engine::template::alert::{AlertNeed, MAX_LINES};
use crate::engine::template::execution::Execution;
use crate::engine::template::json::Json;
use crate::engine::template::value::Value;

/// Bytes of all lines together.
const MAX_BYTES: usize = 4 << 10;
/// Stands for the rest of a line.
const ELLIPSIS: &str = "…";

/// At most `count` lines; none for less than one.
pub(super) fn log_lines<'v>(run: &Execution<'v>, count: i64) -> Result<Value<'v>, String> {
    let alert = alert(run)?;
    let limit = usize::try_from(count).unwrap_or(0).min(MAX_LINES);
    if limit == 0 {
        return Ok(Value::Array(Rc::default()));
    }
    match alert.data.lines {
        Some(known) if known.limit >= limit => {
            let lines = known.lines.as_ref().map_err(Clone::clone)?;
            run.work(MAX_BYTES)?;
            let shown: Vec<Json> = cut(&lines[..lines.len().min(limit)])
                .into_iter()
                .map(|line| Json::Text(line.as_bytes().into()))
                .collect();
            Ok(Value::Array(shown.into()))
        }
        _ => Err(alert.need(AlertNeed::Lines { limit })),
    }
}

/// Cuts lines so that together they fit. A line has its share of the room that is left.
fn cut(lines: &[String]) -> Vec<String> {
    let mut room = MAX_BYTES;
    let mut shown = Vec::with_capacity(lines.len());
    for (i, line) in lines.iter().enumerate() {
        let share = room / (lines.len() - i);
        let line = if line.len() <= share {
            line.clone()
        } else {
            let end = line.floor_char_boundary(share.saturating_sub(ELLIPSIS.len()));
            [&line[..end], ELLIPSIS].concat()
        };
        room = room.saturating_sub(line.len());
        shown.push(line);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_share_the_room() {
        let short = vec!["a".to_owned(), "é".to_owned()];
        assert_eq!(cut(&short), short);
        let long = vec!["é".repeat(10_000), "b".to_owned(), "c".repeat(3000)];
        let shown = cut(&long);
        assert_eq!(shown[1], "b");
        assert!(shown[0].ends_with("é…") && shown[2].ends_with("c…"));
        let total: usize = shown.iter().map(String::len).sum();
        assert!(total <= MAX_BYTES && total > MAX_BYTES - 8, "{total}");
        let many = vec!["x".repeat(5000); MAX_LINES];
        let shown = cut(&many);
        assert!(shown.iter().map(String::len).sum::<usize>() <= MAX_BYTES);
        assert!(shown.iter().all(|line| line.len() > 200));
    }
}
