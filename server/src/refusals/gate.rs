//! Which lines are written, and how many are left out.
//!
//! For each subject, reason and tenant, the first lines of a period are written and the others are
//! counted; when the period is over, one line tells how many they were. A flood thus costs about
//! one line a period for each reason and tenant. Tenants are named by clients, so only so many are
//! told apart; the others count as one.

use std::collections::BTreeMap;
use std::time::Duration;

use logsvc_runtime::Monotonic;

use super::lines::{Level, Line, Subject};
use super::text::{TEXT_MAX_BYTES, shown};
use crate::metrics::{Amount, OTHER_TENANTS};

/// The length of a period.
const PERIOD: Duration = Duration::from_secs(60);

/// Reasons of tenants that are told apart.
const KEYS_MAX: usize = 1024;

/// What is to be done with a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Write,
    LeaveOut,
}

/// The period of one subject, reason and tenant.
#[derive(Debug)]
struct Open {
    since: Monotonic,
    /// Lines that were written in it.
    written: u32,
    left_out: u64,
    amount: Amount,
    /// The worst of the lines that were left out.
    level: Level,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gate {
    open: BTreeMap<(Subject, &'static str), BTreeMap<Box<str>, Open>>,
    keys: usize,
}

/// Lines that were left out in a period.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Rest {
    pub(super) subject: Subject,
    pub(super) reason: &'static str,
    pub(super) tenant: Box<str>,
    pub(super) level: Level,
    pub(super) left_out: u64,
    pub(super) amount: Amount,
    period: Duration,
}

impl Gate {
    /// Counts a line, and says whether it is to be written.
    pub(super) fn admit(&mut self, line: &Line<'_>, now: Monotonic) -> Verdict {
        let by_tenant = self.open.entry((line.subject, line.reason)).or_default();
        let is_known = by_tenant.contains_key(line.tenant);
        let tenant = if is_known || self.keys < KEYS_MAX { line.tenant } else { OTHER_TENANTS };
        if !by_tenant.contains_key(tenant) {
            let level = Level::Info;
            let open =
                Open { since: now, written: 0, left_out: 0, amount: Amount::default(), level };
            by_tenant.insert(tenant.into(), open);
            self.keys += 1;
        }
        let Some(open) = by_tenant.get_mut(tenant) else { return Verdict::Write };
        if open.written < line.subject.lines_per_period() {
            open.written += 1;
            return Verdict::Write;
        }
        open.left_out += 1;
        open.amount.add(line.amount.entries, line.amount.bytes);
        open.level = open.level.max(line.level);
        Verdict::LeaveOut
    }

    /// Ends periods that are over, or all. A period that left something out is followed by another
    /// one, whose first line is the one about the rest.
    pub(super) fn take_rests(&mut self, now: Monotonic, is_end: bool) -> Vec<Rest> {
        let mut rests = Vec::new();
        let mut keys = 0;
        for (&(subject, reason), by_tenant) in &mut self.open {
            by_tenant.retain(|tenant, open| {
                let period = now.since(open.since);
                if period < PERIOD && !is_end {
                    return true;
                }
                if open.left_out == 0 {
                    return false;
                }
                let left_out = std::mem::take(&mut open.left_out);
                let amount = std::mem::take(&mut open.amount);
                let (tenant, level) = (tenant.clone(), open.level);
                rests.push(Rest { subject, reason, tenant, level, left_out, amount, period });
                (open.since, open.level, open.written) = (now, Level::Info, u32::MAX);
                true
            });
            keys += by_tenant.len();
        }
        self.open.retain(|_, by_tenant| !by_tenant.is_empty());
        self.keys = keys;
        rests
    }
}

impl Rest {
    pub(super) fn write(&self) {
        let tenant = (!self.tenant.is_empty()).then(|| shown(&self.tenant, TEXT_MAX_BYTES));
        let has_entries = self.amount.entries > 0;
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    reason = self.reason,
                    tenant = tenant.as_deref(),
                    left_out = self.left_out,
                    entries = has_entries.then_some(self.amount.entries),
                    bytes = has_entries.then_some(self.amount.bytes),
                    period_s = self.period.as_secs(),
                    "{}",
                    self.subject.rest_text()
                )
            };
        }
        match self.level {
            Level::Info => event!(info),
            Level::Warn => event!(warn),
            Level::Error => event!(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tenant: &str) -> Line<'_> {
        let amount = Amount { entries: 10, bytes: 100 };
        Line { amount, ..Line::new(Subject::Entries, Level::Warn, "line_too_long", tenant) }
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic(0).after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_flood_costs_one_line_a_period_and_loses_no_number() {
        let mut gate = Gate::default();
        let (mut lines, mut told) = (0, 0);
        for second in 0..600 {
            for _ in 0..100 {
                if gate.admit(&line("t"), at(second)) == Verdict::Write {
                    lines += 1;
                    told += 1;
                }
            }
            for rest in gate.take_rests(at(second), false) {
                assert_eq!(rest.amount.entries, rest.left_out * 10);
                assert_eq!((&*rest.tenant, rest.level), ("t", Level::Warn));
                lines += 1;
                told += rest.left_out;
            }
        }
        assert_eq!(lines, 10);
        let rest = gate.take_rests(at(600), true);
        assert_eq!(told + rest.iter().map(|rest| rest.left_out).sum::<u64>(), 60_000);
        // After a quiet period the next one is written at once.
        assert_eq!(gate.take_rests(at(700), false), []);
        assert_eq!(gate.keys, 0);
        assert_eq!(gate.admit(&line("t"), at(701)), Verdict::Write);
        assert_eq!(gate.take_rests(at(800), false), []);
    }

    #[test]
    fn tenants_beyond_the_bound_count_as_one() {
        let mut gate = Gate::default();
        let mut written = 0;
        for tenant in 0..5000 {
            let tenant = format!("t{tenant}");
            written += u32::from(gate.admit(&line(&tenant), at(1)) == Verdict::Write);
        }
        assert_eq!(written as usize, KEYS_MAX + 1);
        let rests = gate.take_rests(at(100), false);
        assert_eq!(rests.len(), 1);
        assert_eq!((&*rests[0].tenant, rests[0].left_out), (OTHER_TENANTS, 5000 - 1025));
    }

    #[test]
    fn reasons_and_subjects_do_not_hide_each_other() {
        let mut gate = Gate::default();
        assert_eq!(gate.admit(&line("t"), at(1)), Verdict::Write);
        let other = Line::new(Subject::Entries, Level::Warn, "rate_limited", "t");
        assert_eq!(gate.admit(&other, at(1)), Verdict::Write);
        let query = Line::new(Subject::Query, Level::Info, "line_too_long", "t");
        let written = (0..20).filter(|_| gate.admit(&query, at(1)) == Verdict::Write).count();
        assert_eq!(written, 5);
    }
}
