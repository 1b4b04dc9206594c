//! The lines that one stream must hold.

use crate::support::Entry;

/// An entry that was sent.
#[derive(Clone, Debug)]
struct Sent {
    timestamp_ns: i64,
    line: String,
    /// Whether the server has promised to keep it.
    acknowledged: bool,
}

/// The entries of one stream in the order of the answers to queries.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    sent: Vec<Sent>,
}

impl Ledger {
    /// Notes entries that are about to be sent; known entries are sent again. New entries must not
    /// be older than any known one.
    pub(super) fn sending(&mut self, entries: &[Entry]) {
        let known_from = self.sent.len();
        for entry in entries {
            if !self.knows(entry) {
                self.sent.push(Sent {
                    timestamp_ns: entry.timestamp_ns,
                    line: entry.line.clone(),
                    acknowledged: false,
                });
            }
        }
        // Equal timestamps keep the order of arrival.
        self.sent[known_from..].sort_by_key(|sent| sent.timestamp_ns);
        assert!(self.sent.is_sorted_by_key(|sent| sent.timestamp_ns), "the writer's duty");
    }

    fn knows(&self, entry: &Entry) -> bool {
        let from = self.sent.partition_point(|sent| sent.timestamp_ns < entry.timestamp_ns);
        self.sent[from..]
            .iter()
            .take_while(|sent| sent.timestamp_ns == entry.timestamp_ns)
            .any(|sent| sent.line == entry.line)
    }

    /// Notes that the server has answered 204.
    pub(super) fn acknowledged(&mut self, entries: &[Entry]) {
        let Some(oldest_ns) = entries.iter().map(|entry| entry.timestamp_ns).min() else { return };
        let from = self.sent.partition_point(|sent| sent.timestamp_ns < oldest_ns);
        for sent in &mut self.sent[from..] {
            sent.acknowledged = true;
        }
    }

    /// Compares the ledger with the server's lines; returns the fault, if any. From then on, found
    /// entries count as acknowledged, and missing ones are forgotten.
    pub(super) fn check(&mut self, found: &[(i64, String)]) -> Result<(), String> {
        let mut found = found.iter().enumerate().peekable();
        let mut fault = None;
        self.sent.retain_mut(|sent| {
            let is_it = |(_, (time_ns, line)): &(usize, &(i64, String))| {
                *time_ns == sent.timestamp_ns && *line == sent.line
            };
            let is_there = found.next_if(is_it).is_some();
            if !is_there && sent.acknowledged && fault.is_none() {
                fault = Some(format!("expected {sent:?}, found {:?}", found.peek()));
            }
            sent.acknowledged |= is_there;
            is_there
        });
        match (fault, found.next()) {
            (Some(fault), _) => Err(fault),
            (None, Some(more)) => Err(format!("nothing expected, found {more:?}")),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::entry;

    fn found(list: &[(i64, &str)]) -> Vec<(i64, String)> {
        list.iter().map(|&(time_ns, line)| (time_ns, line.to_owned())).collect()
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let kept = [entry(2, "b"), entry(1, "a"), entry(2, "c")];
        ledger.sending(&kept);
        ledger.acknowledged(&kept);
        ledger.sending(&[entry(3, "d"), entry(4, "e")]);
        ledger
    }

    #[test]
    fn faults_are_seen() {
        for good in [
            found(&[(1, "a"), (2, "b"), (2, "c")]),
            found(&[(1, "a"), (2, "b"), (2, "c"), (4, "e")]),
            found(&[(1, "a"), (2, "b"), (2, "c"), (3, "d"), (4, "e")]),
        ] {
            assert_eq!(ledger().check(&good), Ok(()), "{good:?}");
        }
        for bad in [
            found(&[]),
            found(&[(1, "a"), (2, "c")]),
            found(&[(1, "a"), (2, "c"), (2, "b")]),
            found(&[(1, "a"), (1, "a"), (2, "b"), (2, "c")]),
            found(&[(1, "a"), (2, "b"), (2, "c"), (4, "e"), (3, "d")]),
            found(&[(1, "a"), (2, "b"), (2, "c"), (5, "f")]),
        ] {
            assert!(ledger().check(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn doubts_end_with_a_check() {
        let mut ledger = ledger();
        ledger.check(&found(&[(1, "a"), (2, "b"), (2, "c"), (4, "e")])).unwrap();
        // `e` must stay, `d` must not come back.
        assert!(ledger.check(&found(&[(1, "a"), (2, "b"), (2, "c")])).is_err());
        let mut ledger = self::ledger();
        ledger.check(&found(&[(1, "a"), (2, "b"), (2, "c")])).unwrap();
        assert!(ledger.check(&found(&[(1, "a"), (2, "b"), (2, "c"), (3, "d")])).is_err());
    }
}
