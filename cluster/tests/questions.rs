//! Pushes and queries on their way, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use logsvc_cluster::asker::{AskReply, AskStep, Part, Question, Snapshot};
use logsvc_cluster::map::{Epoch, Map, MemberInfo, State};
use logsvc_cluster::router::{Push, PushReply, PushStep};
use logsvc_cluster::settings::Settings;
use logsvc_runtime::Monotonic;

const A: Epoch = Epoch(1);
const B: Epoch = Epoch(2);
const START: Monotonic = Monotonic(1_000_000_000);

fn map(owners: &[Epoch]) -> Map {
    let mut map = Map::empty(owners.len() as u16);
    for epoch in [A, B] {
        let (name, address, zone) = (String::new(), String::new(), String::new());
        let info = MemberInfo { name, address, zone, state: State::Active, position: 3 };
        map.members.insert(epoch, info);
    }
    for (slot, owner) in map.slots.iter_mut().zip(owners) {
        slot.owner = Some(*owner);
    }
    map
}

fn deadline() -> Monotonic {
    START.after(Duration::from_secs(5))
}

#[test]
fn a_push_follows_the_owner() {
    let settings = Settings::default();
    let mut push = Push::new(0, deadline(), 1);
    let old = map(&[A]);
    let mut step = |now, known, reply| push.step(&settings, now, known, reply);
    assert_eq!(step(START, (4, &old), None), PushStep::Send { to: A, number: 4 });
    let refused = Some(PushReply::Refused { newest: 5 });
    let waits = step(START, (4, &old), refused);
    assert!(matches!(waits, PushStep::Wait { look: 5, until } if until > START), "{waits:?}");
    // A newer map ends the wait.
    let new = map(&[B]);
    assert_eq!(step(START, (5, &new), None), PushStep::Send { to: B, number: 5 });
    let PushStep::Wait { until, look: 6 } = step(START, (5, &new), Some(PushReply::NoAnswer))
    else {
        panic!("it looks for a newer map");
    };
    assert_eq!(step(until, (5, &new), None), PushStep::Send { to: B, number: 5 });
    assert_eq!(step(deadline(), (5, &new), Some(PushReply::NoAnswer)), PushStep::GiveUp);
    assert_eq!(step(deadline(), (5, &new), Some(PushReply::Stored)), PushStep::Stored);
}

type Steps = Vec<AskStep<&'static str>>;

fn asks(steps: &Steps) -> Vec<(Epoch, u64)> {
    let asks = steps.iter().filter_map(|step| match step {
        AskStep::Ask { to, number, .. } => Some((*to, *number)),
        _ => None,
    });
    asks.collect()
}

#[test]
fn a_question_begins_anew_by_a_newer_map() {
    let settings = Settings::default();
    let mut question = Question::new(vec![0, 1], deadline(), 1);
    let (old, new) = (map(&[A, B]), map(&[B, B]));
    let mut step = |now, known, reply| question.step(&settings, now, known, reply);
    assert_eq!(asks(&step(START, (4, &old), None)), vec![(A, 4), (B, 4)]);
    let answer = |position, content| AskReply::Answer { position, content };
    assert_eq!(asks(&step(START, (4, &old), Some((A, 4, answer(7, "a"))))), vec![]);
    let steps = step(START, (4, &old), Some((B, 4, AskReply::Newer(5))));
    assert!(matches!(steps[..], [AskStep::Wait { look: 5, .. }]), "{steps:?}");
    assert_eq!(asks(&step(START, (5, &new), None)), vec![(B, 5)]);
    // An answer by the old map comes too late.
    assert_eq!(asks(&step(START, (5, &new), Some((B, 4, answer(8, "old"))))), vec![]);
    let done = step(START, (5, &new), Some((B, 5, answer(9, "b"))));
    let positions = BTreeMap::from([(A, 3), (B, 9)]);
    let contents = BTreeMap::from([(B, "b")]);
    assert_eq!(done, vec![AskStep::Done(Snapshot { number: 5, positions, contents })]);
}

#[test]
fn nobody_waits_for_an_owner_that_was_taken_over() {
    let settings = Settings::default();
    let mut question = Question::new(vec![0, 1], deadline(), 1);
    let (old, moved, mut new) = (map(&[A, B]), map(&[A, A]), map(&[A, A]));
    new.members.remove(&B);
    let mut step = |now, known, reply| question.step(&settings, now, known, reply);
    let answer = |content| AskReply::Answer { position: 7, content };
    assert_eq!(asks(&step(START, (4, &old), None)), vec![(A, 4), (B, 4)]);
    assert_eq!(asks(&step(START, (4, &old), Some((A, 4, answer("a"))))), vec![]);
    // One that lives says itself that it knows a newer map.
    assert_eq!(asks(&step(START, (5, &moved), None)), vec![]);
    assert_eq!(asks(&step(START, (6, &new), None)), vec![(A, 6)]);
    let done = step(START, (6, &new), Some((A, 6, answer("all"))));
    assert!(matches!(&done[..], [AskStep::Done(done)] if done.contents[&A] == "all"), "{done:?}");
}

#[test]
fn a_question_is_answered_whole_or_not_at_all() {
    let settings = Settings::default();
    let known = map(&[A, B]);
    let mut question = Question::new(vec![0, 1], deadline(), 1);
    let mut step = |now, reply| question.step(&settings, now, (4, &known), reply);
    assert_eq!(asks(&step(START, None)), vec![(A, 4), (B, 4)]);
    step(START, Some((A, 4, AskReply::Answer { position: 7, content: "a" })));
    // Who cannot answer now is asked again, who has answered is not.
    let steps = step(START, Some((B, 4, AskReply::Wait)));
    let [AskStep::Wait { until, .. }] = steps[..] else { panic!("{steps:?}") };
    assert_eq!(asks(&step(until, None)), vec![(B, 4)]);
    assert_eq!(step(deadline(), Some((B, 4, AskReply::NoAnswer))), vec![AskStep::GiveUp]);
}

#[test]
fn a_part_says_what_it_lacks() {
    let settings = Settings::default();
    // The owner of the last partition has ended.
    let known = map(&[A, B, B, Epoch(9)]);
    let mut question = Question::new(vec![0, 1, 2, 3], deadline(), 1);
    let begin = |question: &mut Question<&'static str>| {
        asks(&question.step(&settings, START, (4, &known), None))
    };
    assert_eq!(begin(&mut question), vec![(A, 4), (B, 4)]);
    assert_eq!(question.silent().collect::<Vec<_>>(), vec![A, B]);
    assert_eq!(question.take_part(), None, "nobody has said anything");
    // It may go on all the same, from the beginning.
    assert_eq!(begin(&mut question), vec![(A, 4), (B, 4)]);
    let answer = AskReply::Answer { position: 7, content: "a" };
    question.step(&settings, START, (4, &known), Some((A, 4, answer)));
    assert_eq!(question.silent().collect::<Vec<_>>(), vec![B]);
    question.step(&settings, START, (4, &known), Some((B, 4, AskReply::NoAnswer)));
    assert_eq!(question.silent().count(), 0);
    let (positions, contents) = (BTreeMap::from([(A, 7), (B, 3)]), BTreeMap::from([(A, "a")]));
    let snapshot = Snapshot { number: 4, positions, contents };
    let missing = BTreeMap::from([(None, 1), (Some(B), 2)]);
    assert_eq!(question.take_part(), Some(Part { snapshot, missing }));
}
