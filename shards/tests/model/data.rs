//! Random streams and entries, made so that queries find something in them.

use logsvc_logql::engine::testing::TestEntry;
use logsvc_proto::time::write_rfc3339;
use logsvc_proto::{Labels, TenantId};
use logsvc_testkit::Rng;

use crate::naive::Model;

pub(crate) const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3_600 * SECOND_NS;
/// 22:00 of the first of some days, so that few hours reach the next one.
const START_NS: i64 = 1_767_225_600 * SECOND_NS + 22 * HOUR_NS;

/// The generator of the entries of one seed.
#[derive(Debug)]
pub(crate) struct Source {
    rng: Rng,
    now_ns: i64,
    next_number: u64,
    /// By how much time goes on from entry to entry, at most.
    pace_ns: i64,
    /// One line in so many is long, so that segments get several blocks.
    long_one_in: u64,
    /// Whether a stream sometimes gets so much at once that a block of its lines is
    /// stored as templates.
    has_bursts: bool,
}

impl Source {
    pub(crate) fn new(mut rng: Rng) -> Source {
        let pace_ns = *rng.pick(&[1_000, 5 * SECOND_NS, 60 * SECOND_NS, 600 * SECOND_NS]);
        let long_one_in = *rng.pick(&[8, 400, 400, 400]);
        let has_bursts = rng.one_in(8);
        Source { rng, now_ns: START_NS, next_number: 0, pace_ns, long_one_in, has_bursts }
    }

    /// Lets streams get so much at once that blocks are stored as templates.
    pub(crate) fn burst(&mut self) {
        self.has_bursts = true;
    }

    /// Streams of one to three tenants: a few, or many small ones.
    pub(crate) fn model(&mut self) -> Model {
        let mut model = Model::default();
        let tenants = self.rng.between(1, 3);
        let streams =
            if self.rng.one_in(5) { self.rng.between(30, 60) } else { self.rng.between(1, 9) };
        for tenant in ["one", "two", "three"].iter().take(tenants as usize) {
            let tenant = TenantId::new(tenant).expect("a tenant id");
            for number in 0..streams {
                let env = *self.rng.pick(&["prod", "dev"]);
                let number = number.to_string();
                let labels = Labels::from_pairs([("app", "m"), ("env", env), ("s", &number)]);
                model.add(&tenant, labels.expect("valid labels"));
            }
        }
        model
    }

    /// Entries of a push, each with the index of its stream in the model.
    pub(crate) fn push(&mut self, model: &Model) -> Vec<(usize, TestEntry)> {
        let mut entries = Vec::new();
        if self.has_bursts && self.rng.one_in(12) {
            let stream = self.rng.below(model.streams.len() as u64) as usize;
            entries.extend((0..350).map(|_| (stream, self.entry())));
            return entries;
        }
        let most = if self.rng.one_in(4) { 40 } else { 6 };
        // One stream gets more than all others.
        let favourite = 0;
        for _ in 0..self.rng.between(1, most) {
            let stream = match self.rng.below(3) {
                0 => favourite,
                _ => self.rng.below(model.streams.len() as u64) as usize,
            };
            let entry = match self.known(model, stream) {
                Some(known) => known,
                None => self.entry(),
            };
            entries.push((stream, entry));
        }
        if self.rng.one_in(2) {
            entries.sort_by_key(|(stream, _)| *stream);
        }
        entries
    }

    /// Sometimes an entry that is there already, or one much like it.
    fn known(&mut self, model: &Model, stream: usize) -> Option<TestEntry> {
        if !self.rng.one_in(6) {
            return None;
        }
        let entries = model.streams[stream].entries();
        let count = entries.len() as u64;
        if count == 0 {
            return None;
        }
        // Of the newest ones, which a head holds, or of all.
        let newest = if self.rng.one_in(2) { count } else { count.min(5) };
        let back = self.rng.below(newest);
        let mut entry = model.streams[stream].entries().nth((count - 1 - back) as usize)?.clone();
        match self.rng.below(4) {
            0 => entry.metadata = self.metadata(),
            1 => entry.line.push(b'.'),
            _ => {}
        }
        Some(entry)
    }

    fn entry(&mut self) -> TestEntry {
        let timestamp_ns = self.time_ns();
        let metadata = self.metadata();
        TestEntry { timestamp_ns, line: self.line(timestamp_ns).into_bytes(), metadata }
    }

    fn time_ns(&mut self) -> i64 {
        let rng = &mut self.rng;
        match rng.below(16) {
            // Late: by little, by up to two days.
            0 => self.now_ns - rng.below(20 * self.pace_ns as u64) as i64,
            1 => self.now_ns - rng.below(48 * HOUR_NS as u64) as i64,
            // At a time that others have too.
            2..5 => self.now_ns / (16 * self.pace_ns) * 16 * self.pace_ns,
            5..8 => self.now_ns,
            _ => {
                if rng.one_in(200) {
                    self.now_ns += 20 * HOUR_NS;
                }
                self.now_ns += rng.below(self.pace_ns as u64) as i64;
                self.now_ns
            }
        }
    }

    fn metadata(&mut self) -> Vec<(String, String)> {
        let rng = &mut self.rng;
        let mut pairs = Vec::new();
        if rng.one_in(6) {
            pairs.push(("level".to_owned(), (*rng.pick(&["info", "warn", "error"])).to_owned()));
        }
        if rng.one_in(3) {
            pairs.push(("trace_id".to_owned(), trace(rng.below(40))));
        }
        pairs
    }

    fn line(&mut self, timestamp_ns: i64) -> String {
        let number = self.next_number;
        self.next_number += 1;
        let rng = &mut self.rng;
        let level = *rng.pick(&["info", "info", "warn", "error"]);
        let status = *rng.pick(&["200", "404", "500", "none"]);
        let took = rng.below(90);
        let id = needle(number);
        let mut line = match rng.below(5) {
            0 | 1 => format!(
                r#"{{"level":"{level}","status":{status},"took":{took},"id":"{id}","msg":"Order {number} Shipped"}}"#
            ),
            2 | 3 => {
                let at = time(timestamp_ns);
                let peer = address(number);
                format!(
                    r#"level={level} status={status} took={took}ms id={id} at={at} peer={peer} msg="order {number}""#
                )
            }
            _ => rng.pick(&["", "GET /cart 200", "Connection timeout", "panic: index"]).to_string(),
        };
        if rng.one_in(self.long_one_in) {
            let word = needle(number ^ 0x5555);
            let times = rng.between(100, 3_000) as usize;
            line += &format!(" {word}").repeat(times);
        }
        line
    }

    /// How many numbers [`needle`] was called with.
    pub(crate) fn numbers(&self) -> u64 {
        self.next_number
    }
}

/// A word of the line with this number.
pub(crate) fn needle(number: u64) -> String {
    format!("{:016x}", (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The address in a line.
pub(crate) fn address(number: u64) -> String {
    format!("10.{}.{}.{}", number % 2, number % 7, number % 251)
}

/// A timestamp as lines have it, cut to milliseconds.
pub(crate) fn time(timestamp_ns: i64) -> String {
    let mut second = Vec::new();
    write_rfc3339(Some(timestamp_ns), &mut second);
    let second = String::from_utf8(second).expect("digits");
    let ms = timestamp_ns.rem_euclid(SECOND_NS) / 1_000_000;
    second.replace('Z', &format!(".{ms:03}Z"))
}

pub(crate) fn trace(number: u64) -> String {
    format!("4bf92f{:026x}", number.wrapping_mul(0x1234_5678_9ABC_DEF1))
}
