//! Questions come back as they were sent.

use std::num::NonZeroUsize;
use std::time::Duration;

use logsvc_logql::engine::{Allowance, Stop, Unlimited};
use logsvc_peers::question::{Asked, NotChecked, Question, Sent, Streams};
use logsvc_shards::deletion::DeletionVersion;

use crate::support::{all_asked, lists, plans, question, scopes, streams, to};

/// What can be compared of the streams of a list.
fn told(streams: &Streams) -> String {
    let sources = |group: &Vec<_>| {
        let sources: Vec<_> =
            group.iter().map(logsvc_logql::engine::CompiledMatcher::source).cloned().collect();
        format!("{sources:?}")
    };
    let groups: Vec<String> = streams.matcher_groups.iter().map(sources).collect();
    format!("{groups:?} {:?}", streams.range)
}

fn check(question: &Question, number: u64, timeout: Duration) {
    let bytes = question.encode(to(number), timeout);
    let sent = Sent::decode(&bytes).expect("a question");
    assert_eq!((sent.to, sent.timeout), (to(number), timeout));
    let again = sent.question;
    assert_eq!(again.tenants, question.tenants);
    assert_eq!(again.tenants.is_merged(), question.tenants.is_merged());
    assert_eq!(again.deletions, question.deletions);
    match (&again.asked, &question.asked) {
        (Asked::Leaves(again), Asked::Leaves(leaves)) => assert_eq!(again, leaves),
        (Asked::LabelNames(again), Asked::LabelNames(streams))
        | (Asked::Series(again), Asked::Series(streams)) => {
            assert_eq!(told(again), told(streams));
        }
        (Asked::LabelValues(again, label), Asked::LabelValues(streams, name)) => {
            assert_eq!((told(again), label), (told(streams), name));
        }
        other => panic!("another question: {other:?}"),
    }
    assert_eq!(again.entries_each, question.entries_each);
    assert_eq!(again.encode(to(number), timeout), bytes);
}

#[test]
fn every_question_comes_as_it_was_sent() {
    assert!(plans().iter().any(|leaves| leaves.len() == 3));
    for asked in all_asked() {
        for deletions in [DeletionVersion::NONE, DeletionVersion::of_number(u64::MAX)] {
            let tenants = scopes()[0].clone();
            let question =
                Question { tenants, asked: asked.clone(), deletions, entries_each: None };
            check(&question, 12, Duration::from_millis(30_001));
        }
    }
    for entries_each in [1, u32::MAX as usize].map(NonZeroUsize::new) {
        check(
            &Question { entries_each, ..question(Asked::Leaves(Vec::new())) },
            12,
            Duration::ZERO,
        );
    }
    for tenants in scopes() {
        let asked = Asked::LabelNames(streams(&[]));
        let question =
            Question { tenants, asked, deletions: DeletionVersion::NONE, entries_each: None };
        for (number, timeout_ms) in [(0, 0), (u64::MAX, u64::MAX)] {
            check(&question, number, Duration::from_millis(timeout_ms));
        }
    }
}

#[test]
fn times_shorter_than_a_millisecond_are_cut() {
    let bytes = question(Asked::Leaves(Vec::new())).encode(to(1), Duration::from_micros(2_999));
    assert_eq!(Sent::decode(&bytes).expect("a question").timeout, Duration::from_millis(2));
}

/// Allows so many checks.
#[derive(Debug)]
struct Checks(std::sync::Arc<std::sync::atomic::AtomicI64>);

impl Allowance for Checks {
    fn take(&mut self, _bytes: u64) -> Result<(), Stop> {
        self.check()
    }

    fn give_back(&mut self, _bytes: u64) {}

    fn check(&mut self) -> Result<(), Stop> {
        let left = self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        if left > 0 { Ok(()) } else { Err(Stop::Busy) }
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Box::new(Checks(self.0.clone()))
    }
}

#[test]
fn an_allowance_ends_what_compiles() {
    for asked in plans().into_iter().map(Asked::Leaves).chain(lists()) {
        let bytes = question(asked).encode(to(1), Duration::from_secs(1));
        let read = || Sent::read(&bytes).expect("a question");
        assert!(read().checked(&Unlimited).is_ok());
        let none = Checks(std::sync::Arc::new(0.into()));
        let found = read().checked(&none).map(|_| ());
        assert_eq!(found, Err(NotChecked::Stopped(Stop::Busy)));
    }
}

#[test]
fn an_estimate_grows_with_what_is_asked() {
    let estimate = |asked: Asked| {
        let bytes = question(asked).encode(to(1), Duration::from_secs(1));
        Sent::read(&bytes).expect("a question").estimate()
    };
    let [few, many] = [1, 50].map(|count| {
        let patterns = vec![r#"{a=~"x.*y|z[0-9]+"}"#; count];
        estimate(Asked::Series(streams(&patterns)))
    });
    assert!(few.bytes > 1_000 && few.is_short() && many.bytes >= 50 * few.bytes, "{few:?}");
    let leaves = plans().pop().expect("a plan");
    let one = estimate(Asked::Leaves(leaves[..1].to_vec()));
    let three = estimate(Asked::Leaves(leaves));
    assert!(one.bytes > 100 && three.bytes > 2 * one.bytes, "{one:?} {three:?}");
}
