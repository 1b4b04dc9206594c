//! Repetition operators.

use super::failure::{Code, failure};
use super::translate::{Atom, Translator};

impl Translator<'_> {
    /// `{n}`, `{n,}` or `{n,m}` at the current position, which then moves behind
    /// it; anything else is a literal brace. A count that is too long to matter
    /// is returned as `u32::MAX`.
    pub(super) fn repeat_counts(&mut self) -> Option<(u32, Option<u32>)> {
        fn count(text: &str) -> Option<u32> {
            let plain = !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_digit())
                && (text.len() == 1 || !text.starts_with('0'));
            plain.then(|| text.parse().unwrap_or(u32::MAX))
        }
        let rest = self.rest();
        let end = rest.find('}')?;
        let counts = match rest[1..end].split_once(',') {
            None => count(&rest[1..end]).map(|n| (n, Some(n))),
            Some((min, "")) => count(min).map(|n| (n, None)),
            Some((min, max)) => Some((count(min)?, Some(count(max)?))),
        }?;
        self.pos += end + 1;
        Some(counts)
    }

    pub(super) fn check_counts(
        &self,
        start: usize,
        min: u32,
        max: Option<u32>,
    ) -> Result<(), String> {
        let max_count = max.unwrap_or(min);
        if min > 1000 || max_count > 1000 || min > max_count {
            return Err(failure(Code::InvalidRepeatSize, &self.src[start..self.pos]));
        }
        Ok(())
    }

    /// Applies the operator written from `start` up to the current position.
    pub(super) fn repeat(
        &mut self,
        start: usize,
        last_repeat: Option<usize>,
        counts: Option<(u32, Option<u32>)>,
    ) -> Result<(), String> {
        if self.rest().starts_with('?') {
            self.pos += 1;
        }
        if let Some(first) = last_repeat {
            let written = &self.src[first..self.pos];
            return Err(failure(Code::InvalidRepeatOperator, written));
        }
        let Some(atom) = self.group.last.clone() else {
            let written = &self.src[start..self.pos];
            return Err(failure(Code::MissingRepeatArgument, written));
        };
        let copies = counts.map_or(1, |(min, max)| max.unwrap_or(min).max(1));
        let factor = atom.factor.saturating_mul(copies);
        if copies >= 2 && factor > 1000 {
            let written = &self.src[start..self.pos];
            return Err(failure(Code::InvalidRepeatSize, written));
        }
        // Flags may have been switched between the atom and its operator.
        let tail = self.out.split_off(atom.out_end);
        if atom.repeated {
            self.out.insert_str(atom.out_start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(&self.src[start..self.pos]);
        let out_end = self.out.len();
        self.out.push_str(&tail);
        let cost = atom.cost.saturating_mul(u64::from(copies)).saturating_add(1);
        self.group.factor = self.group.factor.max(factor);
        let out_start = atom.out_start;
        self.group.last = Some(Atom { out_start, out_end, cost, factor, repeated: true });
        self.charge(cost - atom.cost.min(cost))
    }
}
