//! Steps of one node, one by one.

use std::net::SocketAddr;
use std::time::Duration;

use foca::Member;
use logsvc_membership::engine::{Change, Engine, ForgetError, Refused};
use logsvc_membership::identity::Identity;
use logsvc_membership::members::Standing;
use logsvc_membership::settings::Settings;
use logsvc_membership::vitals::{Report, State, Vitals};
use logsvc_membership::wire::Damaged;
use logsvc_membership::wire::envelope::{Kind, open, seal};
use logsvc_membership::wire::state::{Entry, decode, encode};
use logsvc_runtime::Monotonic;

const START: Monotonic = Monotonic(1_000_000_000);

fn after_ms(ms: u64) -> Monotonic {
    START.after(Duration::from_millis(ms))
}

fn identity(last: u8, generation: u64) -> Identity {
    let address = SocketAddr::from(([10, 0, 0, last], 7946));
    Identity { address, generation, chance: last.into() }
}

fn vitals(last: u8) -> Vitals {
    let (state, writer_epoch) = (State::Active, Some(last.into()));
    Vitals { state, writer_epoch, ..Vitals::joining(format!("node-{last}"), 1..=1) }
}

fn report(last: u8) -> Report {
    Report { number: 1, vitals: vitals(last) }
}

/// Node 1, which knows nobody.
fn node() -> Engine {
    Engine::new(Settings::default(), identity(1, 5), vitals(1), 9, START).expect("good vitals")
}

/// A message with a state.
fn state(kind: Kind, entries: &[(Member<Identity>, Option<Report>)]) -> Vec<u8> {
    let body = encode(entries.iter().map(|(member, report)| (member, report.as_ref())));
    seal(kind, "", &body)
}

/// What a node tells of all that it knows.
fn told(node: &Engine) -> Vec<Entry> {
    let message = node.ask();
    decode(open(&message).expect("it is whole").body).expect("it is a state")
}

#[test]
fn a_member_that_has_told_nothing_is_asked_and_not_listed() {
    let mut node = node();
    let silent = [(Member::alive(identity(2, 5)), None)];
    assert_eq!(node.state(START, &state(Kind::Answer, &silent)), Ok(None));
    assert_eq!(node.members().list.len(), 1);
    assert!(node.knows(identity(2, 5).address));
    assert_eq!(node.exchange_partner(after_ms(900)), None, "its vitals may be on their way");
    assert_eq!(node.exchange_partner(after_ms(1_000)), Some(identity(2, 5).address));
    assert_eq!(node.exchange_partner(after_ms(5_900)), None, "it was asked");
    assert_eq!(node.exchange_partner(after_ms(6_000)), Some(identity(2, 5).address));
    let speaks = [(Member::alive(identity(2, 5)), Some(report(2)))];
    node.state(after_ms(6_100), &state(Kind::Answer, &speaks)).expect("a state");
    assert_eq!(node.members().list.len(), 2);
    assert_eq!(node.exchange_partner(after_ms(29_000)), None);
    assert_eq!(node.exchange_partner(after_ms(30_000)), Some(identity(2, 5).address));
}

#[test]
fn a_death_is_news_to_who_thought_otherwise() {
    let mut node = node();
    let alive = |last| (Member::alive(identity(last, 5)), Some(report(last)));
    let dead = |last| (Member::down(identity(last, 5)), Some(report(last)));
    node.state(START, &state(Kind::Answer, &[alive(2), dead(3)])).expect("a state");
    let addresses = |node: &Engine| -> Vec<_> {
        told(node).iter().map(|entry| entry.member.id().address).collect()
    };
    let two = [identity(1, 5).address, identity(2, 5).address];
    assert_eq!(addresses(&node), two, "nobody hears of old deaths");
    node.state(START, &state(Kind::Answer, &[alive(4), dead(2)])).expect("a state");
    let members = node.members();
    let standings = members.list.iter().map(|member| member.standing);
    let expected = [Standing::Alive, Standing::Dead, Standing::Alive];
    assert_eq!(standings.collect::<Vec<_>>(), expected);
    assert_eq!(members.writers().into_iter().collect::<Vec<_>>(), [1, 4]);
    assert!(!node.knows(identity(2, 5).address));
}

#[test]
fn the_death_of_a_later_life_ends_the_former_one() {
    let mut node = node();
    let former = [(Member::alive(identity(2, 5)), Some(report(2)))];
    node.state(START, &state(Kind::Answer, &former)).expect("a state");
    assert_eq!(node.members().alive().count(), 2);
    let later = [(Member::alive(identity(3, 5)), None), (Member::down(identity(2, 6)), None)];
    node.state(START, &state(Kind::Answer, &later)).expect("a state");
    assert_eq!(
        node.members().named("node-2").map(|m| m.standing).collect::<Vec<_>>(),
        [Standing::Dead]
    );
    assert_eq!(node.members().alive().count(), 1);
    // The former life does not come back.
    node.state(START, &state(Kind::Answer, &former)).expect("a state");
    assert_eq!(node.members().alive().count(), 1);
}

#[test]
fn vitals_are_repeated_and_count_up() {
    let mut node = node();
    let number = |node: &Engine| told(node)[0].report.as_ref().map(|report| report.number);
    assert_eq!(number(&node), Some(1));
    node.change(after_ms(10), Change::MapNumber(7));
    node.change(after_ms(20), Change::MapNumber(7));
    assert_eq!(number(&node), Some(2), "the same again is no news");
    node.tick(after_ms(15_000));
    assert_eq!(number(&node), Some(2));
    node.tick(after_ms(15_010));
    assert_eq!(number(&node), Some(3), "a heartbeat");
    let older = Report { number: 0, ..report(2) };
    let newer = [(Member::alive(identity(2, 5)), Some(report(2)))];
    node.state(after_ms(15_020), &state(Kind::Answer, &newer)).expect("a state");
    let version = node.version();
    let stale = [(Member::alive(identity(2, 5)), Some(older))];
    node.state(after_ms(15_030), &state(Kind::Answer, &stale)).expect("a state");
    assert_eq!(node.version(), version, "old vitals are no news");
}

#[test]
fn rivals_at_the_own_address_are_outlived_at_a_bounded_rate() {
    let mut node = node();
    for ms in 0..10_000_u64 {
        let rival = identity(1, 10 + ms);
        let entries = [(Member::alive(identity(2, 5)), None), (Member::alive(rival), None)];
        node.state(after_ms(ms), &state(Kind::Answer, &entries)).expect("a state");
    }
    assert_eq!(node.traffic().renewed, 10);
    assert!(node.identity().is_newer_than(&identity(1, 9_000)));
    // It tells its vitals under its new identity.
    assert_eq!(*told(&node)[0].member.id(), node.identity());
    assert_eq!(node.members().me, node.identity());
}

#[test]
fn a_death_of_its_own_is_outlived_at_once() {
    let mut node = node();
    let entries = [(Member::alive(identity(2, 5)), None), (Member::down(identity(1, 5)), None)];
    node.state(START, &state(Kind::Answer, &entries)).expect("a state");
    assert_eq!(node.identity(), identity(1, 6));
    assert_eq!(node.traffic().renewed, 1);
    assert!(!node.outbox().is_empty(), "it says so");
    let number = told(&node)[0].report.as_ref().map(|report| report.number);
    assert_eq!(number, Some(2), "it tells its vitals anew");
    // After it has left it stays dead.
    node.leave(after_ms(1));
    let entries = [(Member::alive(identity(2, 5)), None), (Member::down(identity(1, 6)), None)];
    let taken = node.state(after_ms(2), &state(Kind::Answer, &entries));
    assert_eq!((taken, node.identity()), (Err(Refused::Misdirected), identity(1, 6)));
    node.change(after_ms(3), Change::State(State::Active));
    assert_eq!(told(&node)[0].report.as_ref().map(|r| r.vitals.state), Some(State::Left));
    assert_eq!(told(&node)[0].member.state(), foca::State::Down);
    assert!(node.members().list.is_empty());
}

#[test]
fn messages_of_the_wrong_kind_are_refused_and_counted() {
    let mut node = node();
    let entries = [(Member::alive(identity(2, 5)), None)];
    let answer = state(Kind::Answer, &entries);
    assert_eq!(node.datagram(START, &answer), Err(Damaged::Number.into()));
    let body = open(&answer).expect("it is whole").body;
    assert_eq!(node.state(START, &seal(Kind::Gossip, "", body)), Err(Damaged::Number.into()));
    assert_eq!(node.state(START, &seal(Kind::Ask, "x", body)), Err(Refused::Label));
    assert_eq!(node.state(START, b"x"), Err(Damaged::Short.into()));
    let traffic = *node.traffic();
    assert_eq!((traffic.damaged, traffic.foreign, traffic.answered), (3, 1, 0));
    assert_eq!(node.members().list.len(), 1);
    let asks = node.state(START, &state(Kind::Ask, &entries)).expect("a state");
    assert!(asks.is_some_and(|answer| open(&answer).is_ok_and(|o| o.kind == Kind::Answer)));
    assert_eq!(node.traffic().answered, 1);
}

#[test]
fn only_the_dead_are_forgotten() {
    let mut node = node();
    let alive = [(Member::alive(identity(2, 5)), Some(report(2)))];
    node.state(START, &state(Kind::Answer, &alive)).expect("a state");
    assert_eq!(node.forget(START, "node-1"), Err(ForgetError::Alive));
    assert_eq!(node.forget(START, "node-2"), Err(ForgetError::Alive));
    assert_eq!(node.forget(START, "node-3"), Err(ForgetError::Unknown));
    let dead =
        [(Member::alive(identity(3, 5)), None), (Member::down(identity(2, 5)), Some(report(2)))];
    node.state(START, &state(Kind::Answer, &dead)).expect("a state");
    assert_eq!(node.forget(START, "node-2"), Ok(()));
    assert_eq!(node.forget(START, "node-2"), Err(ForgetError::Unknown));
    node.state(START, &state(Kind::Answer, &dead)).expect("a state");
    assert_eq!(node.members().named("node-2").count(), 0, "others do not bring it back");
}
