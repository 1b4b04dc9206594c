//! Messages that were damaged, and noise: they are refused, or read as what they say.

use std::time::Duration;

use logsvc_fuzz_bodies::peers;
use logsvc_peers::frame::{Damaged, Kind, close};
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Asked, Reply, Sent};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::support::{found, lists, plans, push, push_reply, question, to, with_head};

type Read = Box<dyn Fn(&[u8]) -> Result<(), Damaged>>;

/// A message of each kind, and what reads it.
fn messages() -> Vec<(Vec<u8>, Read)> {
    let leaves = plans().pop().expect("a plan");
    let list = lists().pop().expect("a list");
    let mut all: Vec<(Vec<u8>, Read)> = vec![
        (push(), Box::new(|bytes| Push::decode(bytes.to_vec()).map(drop))),
        (push_reply(), Box::new(|bytes| PushReply::decode(bytes).map(drop))),
    ];
    for asked in [Asked::Leaves(leaves), list] {
        let sent = question(asked.clone()).encode(to(3), Duration::from_secs(1));
        all.push((sent, Box::new(|bytes| Sent::decode(bytes).map(drop))));
        let reply = Reply::Found(found(&asked)).encode(&asked);
        all.push((reply, Box::new(move |bytes| Reply::decode(bytes, &asked).map(drop))));
    }
    all
}

#[test]
fn every_cut_and_every_bit_is_noticed() {
    for (bytes, read) in messages() {
        assert_eq!(read(&bytes), Ok(()));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_err() && read(&bytes[1..]).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&changed).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn a_message_of_another_kind_is_refused() {
    let messages = messages();
    for (number, (_, read)) in messages.iter().enumerate().take(4) {
        for (other, (bytes, _)) in messages.iter().enumerate().take(4) {
            let expected = match number == other {
                true => Ok(()),
                false => Err(Damaged::Kind(other as u16 + 1)),
            };
            assert_eq!(read(bytes), expected);
        }
    }
}

#[test]
fn heads_that_were_damaged_are_refused_or_read() {
    let leaves = plans();
    let (mut read, mut refused) = ([0; 4], [0; 4]);
    for seed in seeds(200) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        let asked = match rng.one_in(2) {
            true => Asked::Leaves(rng.pick(&leaves).clone()),
            false => rng.pick(&lists()).clone(),
        };
        let of_question = question(asked.clone()).encode(to(3), Duration::from_secs(1));
        let of_reply = Reply::Found(found(&asked)).encode(&asked);
        let mut damaged = |kind, bytes: &[u8]| with_head(kind, bytes, |head| rng.damage(head));
        let were_read = [
            peers::push(&damaged(Kind::Push, &push())),
            peers::push_reply(&damaged(Kind::PushReply, &push_reply())),
            peers::question(&damaged(Kind::Question, &of_question)),
            peers::reply_to(&asked, &damaged(Kind::Reply, &of_reply)),
        ];
        for (kind, was_read) in were_read.into_iter().enumerate() {
            *if was_read { &mut read[kind] } else { &mut refused[kind] } += 1;
        }
    }
    let some = |counts: &[u32]| counts.iter().all(|count| *count >= 10);
    assert!(some(&read) && some(&refused), "{read:?} {refused:?}");
}

#[test]
fn noise_is_harmless() {
    for seed in seeds(3_000) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        let len = rng.index(120);
        let mut bytes = rng.bytes(len);
        // Mostly a head of all bytes, or of nearly all, whose first field is one of ours.
        if bytes.len() > 4 && !rng.one_in(5) {
            let head_len = bytes.len() - 2 - rng.index(3);
            bytes[..2].copy_from_slice(&(head_len as u16).to_le_bytes());
            bytes[2] = (1 + rng.below(8) as u8) << 3 | *rng.pick(&[0, 2]);
            bytes[3] %= 64;
        }
        let _ = (peers::push(&bytes), peers::push_reply(&bytes));
        let _ = (peers::question(&bytes), peers::reply(&bytes));
        let _ = (peers::reply_to(&lists()[0], &bytes), peers::tail_word(&bytes));
    }
}

#[test]
fn bytes_that_are_no_protobuf_are_refused_behind_a_good_trailer() {
    // A field that says it is longer than all, one of a kind that is none, and an end without one.
    for head in [&b"\x1a\xff\xff\xff\xff\x0f"[..], b"\x1f", b"\x0c", b"\x08\xff"] {
        let framed = |kind| close(kind, head.to_vec(), 0);
        let is_message = |error| matches!(error, Some(Damaged::Message(_)));
        assert!(is_message(Push::decode(framed(Kind::Push)).err()));
        assert!(is_message(PushReply::decode(&framed(Kind::PushReply)).err()));
        assert!(is_message(Sent::decode(&framed(Kind::Question)).err()));
        assert!(is_message(Reply::decode(&framed(Kind::Reply), &lists()[0]).err()));
    }
}
