//! Messages of every kind, damaged and invented ones: decoders and nodes take them without harm.

use std::net::SocketAddr;
use std::time::Duration;

use logsvc_fuzz_bodies::membership::{engine_bodies, messages};
use logsvc_membership::engine::{Engine, Refused};
use logsvc_membership::identity::Identity;
use logsvc_membership::settings::MEMBERS_MAX;
use logsvc_membership::settings::Settings;
use logsvc_membership::vitals::{Report, State, Vitals};
use logsvc_membership::wire::envelope::{Kind, open, seal};
use logsvc_membership::wire::state::encode;
use logsvc_runtime::Monotonic;
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn vitals(name: &str) -> Vitals {
    Vitals {
        state: State::Active,
        started_unix_ms: 7,
        map_number: 1,
        writer_epoch: Some(3),
        zone: "z".to_owned(),
        transport: Some(([10, 0, 0, 1], 9095).into()),
        ..Vitals::joining(name, 1..=1)
    }
}

fn engine(last: u8, now: Monotonic) -> Engine {
    let address = SocketAddr::from(([10, 0, 0, last], 7946));
    let me = Identity { address, generation: 5, chance: last.into() };
    let name = format!("node-{last}");
    Engine::new(Settings::default(), me, vitals(&name), last.into(), now).expect("good vitals")
}

/// Everything that three nodes send each other while they meet, one dies and comes back.
fn conversation() -> Vec<Vec<u8>> {
    let mut now = Monotonic(0);
    let mut engines: Vec<Engine> = (1..=3).map(|last| engine(last, now)).collect();
    let mut said = Vec::new();
    for other in 1..3 {
        let question = engines[other].ask();
        let answer = engines[0].state(now, &question).expect("a state").expect("it was asked");
        assert_eq!(engines[other].state(now, &answer), Ok(None));
        said.extend([question, answer]);
    }
    for step in 0..400 {
        now = now.after(Duration::from_millis(100));
        let hears = |at: usize| at != 2 || !(50..250).contains(&step);
        for at in 0..3 {
            engines[at].tick(now);
            for (to, datagram) in std::mem::take(engines[at].outbox()) {
                let to = usize::from(to.to_string().as_bytes()[7] - b'1');
                if hears(at) && hears(to) {
                    // For a life that was given up.
                    let taken = engines[to].datagram(now, &datagram);
                    assert!(matches!(taken, Ok(()) | Err(Refused::Misdirected)), "{taken:?}");
                }
                said.push(datagram);
            }
        }
    }
    assert!(engines.iter().all(|engine| engine.members().alive().count() == 3));
    engines[0].leave(now);
    said.extend(engines[0].outbox().drain(..).map(|(_, datagram)| datagram));
    said.push(engines[0].ask());
    said
}

#[test]
fn arbitrary_bytes_do_no_harm() {
    let said = conversation();
    for message in &said {
        messages(message);
        messages(open(message).expect("it is whole").body);
    }
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let len = rng.index(2_000);
        let random = rng.bytes(len);
        messages(&random);
        engine_bodies(&random);
        for _ in 0..10 {
            let mut message = rng.pick(&said).clone();
            rng.damage(&mut message);
            messages(&message);
            let whole = rng.pick::<Vec<u8>>(&said);
            let mut body = open(whole).expect("it is whole").body.to_vec();
            rng.damage(&mut body);
            messages(&body);
            engine_bodies(&[&[0], &body[..]].concat());
        }
    }
}

#[test]
fn invented_members_have_a_limit() {
    let mut now = Monotonic(0);
    let mut node = engine(1, now);
    let mut refused = 0;
    for round in 0..20_u8 {
        let state: Vec<_> = (0..500_u16)
            .map(|place| {
                let [high, low] = place.to_be_bytes();
                let address = SocketAddr::from(([10, round + 1, high, low], 7946));
                let identity = Identity { address, generation: 5, chance: 0 };
                let vitals = vitals("invented");
                (foca::Member::alive(identity), Report { number: 1, vitals })
            })
            .collect();
        let body = encode(state.iter().map(|(member, report)| (member, Some(report))));
        let taken = node.state(now, &seal(Kind::Answer, "", &body));
        refused += u64::from(taken == Err(Refused::Crowded));
        now = now.after(Duration::from_secs(1));
        node.tick(now);
        node.outbox().clear();
    }
    assert_eq!(refused, 18);
    assert_eq!(node.traffic().crowded, 18);
    // They never answer, so all are dead in the end, and forgotten.
    assert!((1_000..=MEMBERS_MAX).contains(&node.members().list.len()));
    let end = now.after(Duration::from_secs(2 * 60 * 60));
    while now < end {
        now = node.wake().max(now);
        node.tick(now);
        node.outbox().clear();
    }
    assert_eq!(node.members().list.len(), 1);
}
