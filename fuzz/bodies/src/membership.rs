//! Messages of membership out of arbitrary bytes.

use std::time::Duration;

use logsvc_membership::engine::Engine;
use logsvc_membership::identity::Identity;
use logsvc_membership::settings::Settings;
use logsvc_membership::vitals::{State, Vitals};
use logsvc_membership::wire;
use logsvc_membership::wire::envelope::{DATAGRAM_MAX_BYTES, Kind, seal};
use logsvc_runtime::Monotonic;

/// Fuzz target: all decoders. What is read has one encoding: the bytes.
pub fn messages(data: &[u8]) {
    wire::fuzz(data);
}

/// A node that knows nobody.
fn engine() -> Engine {
    let vitals = Vitals { state: State::Active, ..Vitals::joining("node", 1..=1) };
    let me = Identity { address: ([10, 0, 0, 1], 7946).into(), generation: 5, chance: 6 };
    Engine::new(Settings::default(), me, vitals, 7, Monotonic(0)).expect("the vitals are good")
}

/// Fuzz target: a node that is sent arbitrary bodies in whole envelopes, and lives on for ten minutes.
/// It keeps what it sends within a datagram. The first byte says how many bodies there are.
pub fn engine_bodies(data: &[u8]) {
    let mut engine = engine();
    let (count, rest) = data.split_first().map_or((1, data), |(first, rest)| (*first, rest));
    let piece_bytes = (rest.len() / (usize::from(count % 8) + 1)).max(1);
    let mut now = Monotonic(0);
    for body in rest.chunks(piece_bytes) {
        // Refusals are what most bodies get.
        let _ = engine.datagram(now, &seal(Kind::Gossip, "", body));
        let _ = engine.state(now, &seal(Kind::Ask, "", body));
        let _ = engine.state(now, &seal(Kind::Answer, "", body));
        for _ in 0..200 {
            now = engine.wake().min(now.after(Duration::from_secs(5)));
            engine.tick(now);
            for (_, datagram) in engine.outbox().drain(..) {
                assert!(datagram.len() <= DATAGRAM_MAX_BYTES);
            }
        }
    }
    assert!(engine.members().list.len() <= logsvc_membership::settings::MEMBERS_MAX);
}
