//! Members step by step, on a log of maps that answers at once.

use std::collections::BTreeSet;
use std::time::Duration;

use logsvc_cluster::map::codec::{Entry, Nonce};
use logsvc_cluster::map::{Ends, Epoch, MemberInfo, State};
use logsvc_cluster::member::{
    Accept, Answer, CreateOutcome, Effect, Input, Member, ReadOutcome, Stop,
};
use logsvc_cluster::settings::Settings;
use logsvc_runtime::Monotonic;

const A: Epoch = Epoch(1);
const B: Epoch = Epoch(2);

struct Rig {
    now: Monotonic,
    maps: Vec<Vec<u8>>,
    reads: usize,
    /// What was asked of the engine.
    asked: Vec<Effect>,
    /// Whose logs were ended.
    fenced: Vec<Epoch>,
}

impl Rig {
    fn new() -> Rig {
        let now = Monotonic(5_000_000_000);
        Rig { now, maps: Vec::new(), reads: 0, asked: Vec::new(), fenced: Vec::new() }
    }

    fn member(&self, me: Epoch) -> Member {
        self.member_that_is(me, State::Active)
    }

    fn member_that_is(&self, me: Epoch, state: State) -> Member {
        let (name, address, zone) = ("n".to_owned(), "n:1".to_owned(), String::new());
        let info = MemberInfo { name, address, zone, state, position: 0 };
        Member::new(Settings::default(), me, info, 4, None, 7)
    }

    /// Tells a member something, and answers all that it asks of the bucket.
    fn tell(&mut self, member: &mut Member, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in member.step(self.now, input) {
                match effect {
                    Effect::ReadMap { number } => {
                        self.reads += 1;
                        let there = self.maps.get(number as usize - 1).cloned();
                        let outcome = there.map_or(ReadOutcome::Absent, ReadOutcome::Entry);
                        inputs.push(Input::Read { number, outcome });
                    }
                    Effect::CreateMap { number, bytes } => {
                        let is_new = number as usize == self.maps.len() + 1;
                        if is_new {
                            self.maps.push(bytes);
                        }
                        let outcome =
                            if is_new { CreateOutcome::Created } else { CreateOutcome::Taken };
                        inputs.push(Input::Created { number, outcome });
                    }
                    Effect::Fence { epoch } => {
                        self.fenced.push(epoch);
                        let ends = Some(Ends { log: 0, wal: 0 });
                        inputs.push(Input::FenceDone { epoch, ends });
                    }
                    other => self.asked.push(other),
                }
            }
        }
    }

    /// Lets time pass; who asks to be woken is.
    fn pass(&mut self, member: &mut Member, time: Duration) {
        let until = self.now.after(time);
        while member.wake() <= until {
            self.now = self.now.max(member.wake());
            self.tell(member, Input::Tick);
        }
        self.now = until;
    }

    /// A cluster of A alone, whose lease is over.
    fn first() -> (Rig, Member) {
        let mut rig = Rig::new();
        let mut member = rig.member(A);
        rig.tell(&mut member, Input::Tick);
        rig.pass(&mut member, Duration::from_secs(2));
        (rig, member)
    }

    fn newest(&self) -> Entry {
        Entry::decode(self.maps.last().expect("a map")).expect("a map")
    }

    /// Adds a map by somebody else.
    fn forge(&mut self, change: impl FnOnce(&mut Entry)) {
        let before = self.newest();
        let mut entry = Entry {
            number: before.number + 1,
            nonce: Nonce([before.number as u8 + 100; 16]),
            previous: before.nonce,
            author: B,
            map: before.map,
        };
        change(&mut entry);
        self.maps.push(entry.encode().expect("a map"));
    }
}

#[test]
fn the_first_member_owns_everything_behind_its_lease() {
    let mut rig = Rig::new();
    let mut member = rig.member(A);
    assert_eq!(member.may_accept(0, rig.now), Accept::NotOwner);
    rig.tell(&mut member, Input::Tick);
    assert_eq!(member.map().live_owner(3), Some(A));
    assert_eq!(member.may_accept(3, rig.now), Accept::NotYet);
    assert_eq!(member.may_answer(&[3], 1, rig.now), Answer::Wait);
    let almost = rig.now.after(Duration::from_millis(1_249));
    assert_eq!(member.may_accept(3, almost), Accept::NotYet);
    let ready = rig.now.after(Duration::from_millis(1_250));
    assert_eq!(member.may_accept(3, ready), Accept::Yes);
    assert_eq!(member.may_answer(&[3], 1, ready), Answer::Unproven);
    assert_eq!(member.may_answer(&[3], 2, ready), Answer::ReadOn);
    assert_eq!(member.may_answer(&[3], 0, ready), Answer::Newer(1));
    assert_eq!(member.may_accept(4, ready), Accept::NotOwner);
}

#[test]
fn an_idle_member_reads_rarely() {
    let (mut rig, mut member) = Rig::first();
    rig.reads = 0;
    rig.pass(&mut member, Duration::from_secs(100));
    assert!((9..=11).contains(&rig.reads), "{} reads", rig.reads);
}

#[test]
fn questions_share_one_proof() {
    let (rig, mut member) = Rig::first();
    let now = rig.now.after(Duration::from_secs(2));
    let mut reads = 0;
    for _ in 0..100 {
        assert_eq!(member.may_answer(&[0], 1, now), Answer::Unproven);
        reads += member.step(now, Input::ProofWanted).len();
    }
    assert_eq!(reads, 1);
    // The answer comes late: what it has shown is as old as the request.
    let late = now.after(Duration::from_millis(900));
    member.step(late, Input::Read { number: 2, outcome: ReadOutcome::Absent });
    assert_eq!(member.may_answer(&[0], 1, late), Answer::Yes);
    assert_eq!(member.may_answer(&[0], 1, now.after(Duration::from_secs(1))), Answer::Yes);
    let over = now.after(Duration::from_millis(1_001));
    assert_eq!(member.may_answer(&[0], 1, over), Answer::Unproven);
    member.step(over, Input::WalCreated { sent: now.after(Duration::from_millis(500)) });
    assert_eq!(member.may_answer(&[0], 1, over), Answer::Yes);
}

#[test]
fn a_refused_create_is_a_hint() {
    let rig = Rig::new();
    let mut member = rig.member(A);
    member.step(rig.now, Input::Tick);
    let absent = Input::Read { number: 1, outcome: ReadOutcome::Absent };
    let effects = member.step(rig.now, absent.clone());
    let [Effect::CreateMap { number: 1, bytes }] = &effects[..] else { panic!("{effects:?}") };
    let taken = Input::Created { number: 1, outcome: CreateOutcome::Taken };
    let read = vec![Effect::ReadMap { number: 1 }];
    assert_eq!(member.step(rig.now, taken.clone()), read);
    // It is not there: the same bytes again, after a pause.
    assert_eq!(member.step(rig.now, absent), vec![]);
    let later = member.wake();
    assert!(later > rig.now);
    assert_eq!(member.step(later, Input::Tick), effects);
    // It is there, and it is ours.
    assert_eq!(member.step(later, taken), read);
    assert_eq!(member.number(), 0);
    let outcome = ReadOutcome::Entry(bytes.clone());
    member.step(later, Input::Read { number: 1, outcome });
    assert_eq!((member.number(), member.map().owner(0)), (1, Some(A)));
}

#[test]
fn a_hand_over_waits_for_its_own_seal() {
    let (mut rig, mut member) = Rig::first();
    let propose = |rig: &mut Rig, to: Option<Epoch>| {
        rig.forge(|entry| {
            entry.map.members.entry(B).or_insert_with(|| MemberInfo {
                name: "b".to_owned(),
                address: "b:1".to_owned(),
                zone: String::new(),
                state: State::Active,
                position: 0,
            });
            entry.map.slots[3].next = to;
        });
    };
    rig.tell(&mut member, Input::Alive(BTreeSet::from([A, B])));
    propose(&mut rig, Some(B));
    rig.tell(&mut member, Input::Heard(2));
    assert_eq!(rig.asked, vec![Effect::Seal { partition: 3, ticket: 1 }]);
    assert_eq!(member.may_accept(3, rig.now), Accept::Moving(Some(B)));
    // It is not wanted any more, then it is again.
    propose(&mut rig, None);
    rig.tell(&mut member, Input::Heard(3));
    assert_eq!(member.may_accept(3, rig.now), Accept::Yes);
    propose(&mut rig, Some(B));
    rig.tell(&mut member, Input::Heard(4));
    assert_eq!(rig.asked.last(), Some(&Effect::Seal { partition: 3, ticket: 2 }));
    // The first seal knows nothing of what was accepted in between.
    rig.tell(&mut member, Input::Sealed { partition: 3, ticket: 1, position: 4 });
    assert_eq!(member.map().owner(3), Some(A));
    rig.tell(&mut member, Input::Sealed { partition: 3, ticket: 2, position: 5 });
    assert_eq!(member.map().owner(3), Some(B));
    assert_eq!(member.map().positions().get(&A), Some(&5));
    assert_eq!(member.may_accept(3, rig.now), Accept::NotOwner);
}

/// The heir by hand does not wait. If it came within the lease, an earlier owner could answer still.
#[test]
fn nothing_is_handed_over_within_a_lease() {
    let mut rig = Rig::new();
    let mut member = rig.member(A);
    rig.tell(&mut member, Input::Tick);
    rig.tell(&mut member, Input::Alive(BTreeSet::from([A, B])));
    rig.forge(|entry| {
        let mut info = entry.map.members[&A].clone();
        info.name = "b".to_owned();
        entry.map.members.insert(B, info);
        entry.map.slots[3].next = Some(B);
    });
    rig.tell(&mut member, Input::Heard(2));
    rig.pass(&mut member, Duration::from_millis(1_249));
    assert_eq!(rig.asked, vec![]);
    rig.pass(&mut member, Duration::from_millis(1));
    let seals = |it: &Effect| matches!(it, Effect::Seal { partition: 3, .. });
    assert!(rig.asked.iter().any(seals), "{:?}", rig.asked);
}

#[test]
fn who_has_sent_a_hand_over_does_not_answer() {
    let (mut rig, mut member) = Rig::first();
    let mut peer = rig.member(B);
    rig.tell(&mut peer, Input::Tick);
    rig.tell(&mut member, Input::Alive(BTreeSet::from([A, B])));
    rig.tell(&mut member, Input::Heard(2));
    rig.pass(&mut member, Duration::from_secs(2));
    let Some(Effect::Seal { partition, ticket }) = rig.asked.first().cloned() else {
        panic!("{:?}", rig.asked)
    };
    rig.tell(&mut member, Input::WalCreated { sent: rig.now });
    let number = member.number();
    assert_eq!(member.may_answer(&[partition], number, rig.now), Answer::Yes);
    member.step(rig.now, Input::Sealed { partition, ticket, position: 1 });
    assert_eq!(member.may_answer(&[partition], number, rig.now), Answer::Wait);
    let unknown = Input::Created { number: number + 1, outcome: CreateOutcome::Unknown };
    member.step(rig.now, unknown);
    assert_eq!(member.may_answer(&[partition], number, rig.now), Answer::Wait);
}

#[test]
fn a_member_that_is_surely_gone_is_taken_over_at_once() {
    let (mut rig, mut member) = Rig::first();
    let mut peer = rig.member(B);
    rig.tell(&mut peer, Input::Tick);
    rig.tell(&mut member, Input::Alive(BTreeSet::from([A, B])));
    rig.tell(&mut member, Input::Heard(2));
    rig.pass(&mut member, Duration::from_millis(10));
    assert!(member.map().members.contains_key(&B));
    // The others still believe that it lives.
    rig.tell(&mut member, Input::Gone(B));
    rig.pass(&mut member, Duration::from_millis(200));
    assert!(!member.map().members.contains_key(&B) && member.map().ended.contains_key(&B));
}

#[test]
fn a_member_that_was_ended_stops() {
    let (mut rig, mut member) = Rig::first();
    let mut peer = rig.member(B);
    rig.tell(&mut peer, Input::Tick);
    // To B, A is dead.
    rig.pass(&mut peer, Duration::from_secs(15));
    assert_eq!(peer.map().live_owner(0), Some(B));
    assert_eq!(peer.map().slot(0).map(|slot| slot.heritage.clone()), Some(BTreeSet::from([A])));
    let recovers = |it: &Effect| matches!(it, Effect::Recover { from, .. } if from.contains(&A));
    assert_eq!(rig.asked.iter().filter(|it| recovers(it)).count(), 4);
    rig.tell(&mut member, Input::Tick);
    rig.tell(&mut member, Input::Heard(peer.number()));
    assert_eq!(member.stopped(), Some(&Stop::Ended));
    assert_eq!(member.may_accept(0, rig.now), Accept::NotOwner);
    assert_eq!(member.step(rig.now, Input::Tick), vec![]);
}

/// Both take each other for dead.
#[test]
fn a_member_that_was_ended_ends_nobody() {
    let (mut rig, mut member) = Rig::first();
    let mut peer = rig.member(B);
    rig.tell(&mut peer, Input::Tick);
    rig.tell(&mut member, Input::Alive(BTreeSet::from([A, B])));
    rig.tell(&mut member, Input::Heard(2));
    // It has not looked at the map for a while.
    rig.now = rig.now.after(Duration::from_secs(5));
    rig.tell(&mut peer, Input::Gone(A));
    assert!(peer.map().ended.contains_key(&A));
    rig.tell(&mut member, Input::Gone(B));
    assert_eq!(member.stopped(), Some(&Stop::Ended));
    assert_eq!(rig.fenced, [A]);
}

#[test]
fn forks_and_broken_rules_stop_a_member() {
    let stops = |change: fn(&mut Entry)| {
        let (mut rig, mut member) = Rig::first();
        rig.forge(change);
        rig.tell(&mut member, Input::Heard(2));
        member.stopped().cloned()
    };
    let forked = Some(Stop::Forked { number: 2 });
    assert_eq!(stops(|entry| entry.previous = Nonce([9; 16])), forked);
    // Another process has the same epoch.
    assert_eq!(stops(|entry| entry.author = A), forked);
    let is_broken = |stop| matches!(stop, Some(Stop::Broken { number: 2, .. }));
    assert!(is_broken(stops(|_| {})), "B is no member");
    let (mut rig, mut member) = Rig::first();
    rig.maps.push(b"no map".to_vec());
    rig.tell(&mut member, Input::Heard(2));
    assert!(is_broken(member.stopped().cloned()));
}

#[test]
fn a_guest_waits_for_somebody_who_takes_partitions() {
    let mut rig = Rig::new();
    let mut guest = rig.member_that_is(B, State::Guest);
    rig.tell(&mut guest, Input::Tick);
    assert!(guest.map().is_guest(B));
    assert_eq!(guest.map().owner(0), None);
    rig.reads = 0;
    rig.pass(&mut guest, Duration::from_secs(10));
    assert!((5..=15).contains(&rig.reads), "{} reads", rig.reads);
    let mut member = rig.member(A);
    rig.tell(&mut member, Input::Tick);
    assert_eq!(member.map().live_owner(3), Some(A));
    rig.pass(&mut guest, Duration::from_secs(2));
    assert_eq!(guest.map().live_owner(3), Some(A));
    assert_eq!(guest.may_accept(3, rig.now), Accept::NotOwner);
    assert_eq!(guest.may_answer(&[3], guest.number(), rig.now), Answer::NotOwner);
    // Nothing moves to the guest, and there is nothing to wait for.
    let alive = BTreeSet::from([A, B]);
    rig.tell(&mut guest, Input::Alive(alive.clone()));
    rig.tell(&mut member, Input::Alive(alive));
    let maps = rig.maps.len();
    rig.reads = 0;
    rig.pass(&mut guest, Duration::from_secs(100));
    rig.pass(&mut member, Duration::from_secs(100));
    assert_eq!(rig.maps.len(), maps);
    assert!(rig.reads <= 24, "{} reads", rig.reads);
    assert_eq!(rig.asked, vec![]);
}

#[test]
fn a_guest_inherits_from_nobody_and_others_end_it() {
    let (mut rig, mut member) = Rig::first();
    let mut guest = rig.member_that_is(B, State::Guest);
    rig.tell(&mut guest, Input::Tick);
    // To the guest, A is dead; and it is the only one that lives.
    rig.pass(&mut guest, Duration::from_secs(600));
    assert_eq!(guest.map().live_owner(0), Some(A));
    assert!(guest.map().ended.is_empty());
    rig.tell(&mut member, Input::Heard(2));
    assert_eq!(member.stopped(), None);
    // To A, the guest is dead.
    rig.pass(&mut member, Duration::from_secs(15));
    assert!(!member.map().members.contains_key(&B) && member.map().ended.contains_key(&B));
    rig.tell(&mut guest, Input::Heard(member.number()));
    assert_eq!(guest.stopped(), Some(&Stop::Ended));
}

#[test]
fn a_guest_leaves_by_itself_and_does_not_keep_the_last_owner() {
    let (mut rig, mut member) = Rig::first();
    let mut guest = rig.member_that_is(B, State::Guest);
    rig.tell(&mut guest, Input::Tick);
    let alive = BTreeSet::from([A, B]);
    rig.tell(&mut member, Input::Alive(alive.clone()));
    rig.tell(&mut guest, Input::Alive(alive));
    rig.tell(&mut member, Input::Heard(2));
    rig.tell(&mut member, Input::Leave);
    assert_eq!(member.stopped(), Some(&Stop::Left));
    rig.pass(&mut guest, Duration::from_secs(300));
    assert_eq!(guest.map().owner(0), Some(A));
    assert_eq!(guest.map().live_owner(0), None);
    // The next one inherits.
    let next = Epoch(3);
    let mut heir = rig.member(next);
    rig.tell(&mut heir, Input::Alive(BTreeSet::from([B, next])));
    rig.tell(&mut heir, Input::Tick);
    rig.pass(&mut heir, Duration::from_secs(2));
    assert_eq!(heir.map().live_owner(0), Some(next));
    assert_eq!(heir.map().slots[0].heritage, BTreeSet::from([A]));
    rig.tell(&mut guest, Input::Leave);
    assert_eq!(guest.stopped(), Some(&Stop::Left));
    assert!(guest.map().ended.contains_key(&B));
}
