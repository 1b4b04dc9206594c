//! When each stream of a day has its lines, and which push carries them.
//!
//! A day is divided into steps of equal length. Streams begin in groups, one group in each step,
//! and live for a few steps. In each step a stream has one part of its lines, and one push per node
//! carries the parts of all of the node's streams. So about the same number of streams is active
//! at any time, and all of it follows from numbers alone: nothing has to be kept to know what was
//! pushed. What can go wrong: days whose steps are too short for their lines are refused.

use anyhow::{Result, bail};
use std::ops::Range;

/// Nanoseconds of a day.
pub(crate) const DAY_NANOS: i64 = 86_400_000_000_000;
/// Nodes, each with an agent that pushes.
pub(crate) const NODES: u64 = 100;
/// Steps that a stream lives for, at most.
const MOST_PARTS: u64 = 10;

/// The arrangement of every day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Streams that begin on a day.
    pub(crate) streams: u64,
    /// Lines of a stream.
    pub(crate) lines: u64,
    /// Steps that a stream lives for.
    parts: u64,
    /// Streams that begin in one step; an even number, because two streams share a pod.
    group: u64,
    /// Steps of a day in which streams begin.
    groups: u64,
    step_nanos: i64,
}

/// The time of one line: anywhere in a slot, in which no other line of the stream is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot {
    /// Since the start of the day.
    pub(crate) start_nanos: i64,
    pub(crate) len_nanos: i64,
}

impl Plan {
    /// A plan with about `active` streams at any time.
    pub(crate) fn new(streams: u64, lines: u64, active: u64) -> Result<Plan> {
        if streams == 0 || lines == 0 || active == 0 {
            bail!("--streams-a-day, --lines and --active must be more than zero");
        }
        let parts = lines.min(MOST_PARTS);
        let group = (active / parts / 2 * 2).max(2);
        let groups = streams.div_ceil(group);
        let step_nanos = DAY_NANOS / i64::try_from(groups + parts - 1)?;
        if step_nanos < i64::try_from(lines.div_ceil(parts))?.saturating_mul(1000) {
            bail!("a day is too short for so many streams and lines");
        }
        Ok(Plan { streams, lines, parts, group, groups, step_nanos })
    }

    /// The number of pods of a day.
    pub(crate) fn pods(&self) -> u64 {
        self.streams.div_ceil(2)
    }

    /// The streams of a pod.
    pub(crate) fn streams_of_pod(&self, pod: u64) -> Range<u64> {
        pod * 2..(pod * 2 + 2).min(self.streams)
    }

    /// The number of pushes of a day; some of them are empty.
    pub(crate) fn pushes(&self) -> u64 {
        (self.groups + self.parts - 1) * NODES
    }

    /// What push number `push` of a day carries: streams, each with the numbers of its lines.
    pub(crate) fn content(&self, push: u64) -> Vec<(u64, Range<u64>)> {
        let (step, node) = (push / NODES, push % NODES);
        let first_group = (step + 1).saturating_sub(self.parts);
        let mut content = Vec::new();
        for group in first_group..(step + 1).min(self.groups) {
            let pods = group * self.group / 2..((group + 1) * self.group / 2).min(self.pods());
            let lines = self.part(step - group);
            let ahead = (node + NODES - pods.start % NODES) % NODES;
            for pod in (pods.start + ahead..pods.end).step_by(NODES as usize) {
                content.extend(self.streams_of_pod(pod).map(|stream| (stream, lines.clone())));
            }
        }
        content
    }

    /// The lines of a stream in the given step of its life.
    fn part(&self, part: u64) -> Range<u64> {
        part * self.lines / self.parts..(part + 1) * self.lines / self.parts
    }

    /// When a line of a stream is due. Slots of later lines are later.
    pub(crate) fn slot(&self, stream: u64, line: u64) -> Slot {
        // The part whose range has the line.
        let part = ((line + 1) * self.parts - 1) / self.lines;
        let range = self.part(part);
        let len_nanos = self.step_nanos / (range.end - range.start) as i64;
        let step_start = (stream / self.group + part) as i64 * self.step_nanos;
        Slot { start_nanos: step_start + (line - range.start) as i64 * len_nanos, len_nanos }
    }

    /// From before the first line of a stream to behind its last, since the start of the day.
    pub(crate) fn life(&self, stream: u64) -> Range<i64> {
        let last = self.slot(stream, self.lines - 1);
        self.slot(stream, 0).start_nanos..last.start_nanos + last.len_nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_line_is_in_one_push_and_in_order() {
        for (streams, lines, active) in
            [(2001, 5, 1000), (1, 1, 1), (7, 23, 40), (3000, 12, 100), (50, 200, 3)]
        {
            let plan = Plan::new(streams, lines, active).unwrap();
            let mut next: BTreeMap<u64, u64> = BTreeMap::new();
            for push in 0..plan.pushes() {
                let step = (push / NODES) as i64 * plan.step_nanos;
                for (stream, range) in plan.content(push) {
                    assert_eq!(stream / 2 % NODES, push % NODES, "one agent for each node");
                    let expected = next.entry(stream).or_default();
                    assert_eq!(*expected, range.start, "stream {stream}");
                    *expected = range.end;
                    for line in range {
                        let slot = plan.slot(stream, line);
                        assert!(slot.start_nanos >= step && slot.len_nanos > 0);
                        assert!(slot.start_nanos + slot.len_nanos <= step + plan.step_nanos);
                    }
                }
            }
            assert_eq!(next.len() as u64, streams);
            assert!(next.values().all(|count| *count == lines));
        }
    }

    #[test]
    fn slots_of_a_stream_follow_each_other_within_its_life_and_the_day() {
        let plan = Plan::new(501, 37, 100).unwrap();
        for stream in [0, 1, 250, 500] {
            let mut end = 0;
            for line in 0..plan.lines {
                let slot = plan.slot(stream, line);
                assert!(slot.start_nanos >= end);
                end = slot.start_nanos + slot.len_nanos;
            }
            assert_eq!(plan.life(stream).end, end);
            assert!(end <= DAY_NANOS);
        }
    }

    #[test]
    fn about_as_many_streams_are_active_as_were_asked_for() {
        let plan = Plan::new(1_000_000, 200, 1000).unwrap();
        let noon = plan.pushes() / 2 / NODES * NODES;
        let active: usize = (noon..noon + NODES).map(|push| plan.content(push).len()).sum();
        assert_eq!(active, 1000);
    }

    #[test]
    fn impossible_plans_are_refused() {
        for (streams, lines, active) in
            [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1_000_000_000_000, 10, 1), (1, 1 << 50, 1)]
        {
            assert!(Plan::new(streams, lines, active).is_err(), "{streams} {lines} {active}");
        }
    }
}
