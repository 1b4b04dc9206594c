//! Each record as bytes, and the bounds of the largest ones.

use foca::{Codec, Member, Message};

use super::envelope::{DATAGRAM_MAX_BYTES, Kind, VERSION, gossip_max_bytes, open, seal};
use super::records::WireCodec;
use super::state::{self, Entry};
use super::{Damaged, Header, Item, gossip};
use crate::identity::Identity;
use crate::settings::LABEL_MAX_BYTES;
use crate::vitals::{INSTANCE_MAX_BYTES, Report, Roles, State, Vitals, ZONE_MAX_BYTES};

fn identity(last: u8) -> Identity {
    Identity { address: ([10, 0, 0, last], 7946).into(), generation: 0x0102, chance: 3 }
}

fn report() -> Report {
    let vitals = Vitals {
        instance: "n1".to_owned(),
        state: State::Active,
        roles: Roles::from_bits(3),
        is_cut_off: true,
        protocol_min: 1,
        protocol_max: 2,
        started_unix_ms: 9,
        map_number: 7,
        writer_epoch: Some(5),
        zone: "z".to_owned(),
        transport: None,
        http: Some(([10, 0, 0, 1], 3100).into()),
    };
    Report { number: 4, vitals }
}

/// With all fields as long as they may be.
fn longest() -> (Identity, Report) {
    let long = "[fd00:1111:2222:3333:4444:5555:6666:7777]:65535".parse().expect("an address");
    let mut report = report();
    report.vitals.instance = "i".repeat(INSTANCE_MAX_BYTES);
    report.vitals.zone = "z".repeat(ZONE_MAX_BYTES);
    (report.vitals.transport, report.vitals.http) = (Some(long), Some(long));
    (Identity { address: long, ..identity(1) }, report)
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let mut bytes = vec![2];
    bytes.extend([4, 10, 0, 0, 1, 0x0a, 0x1f]);
    bytes.extend([2, 1, 0, 0, 0, 0]);
    bytes.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Item::Forget(identity(1)).encode(), bytes);
    bytes[0] = 1;
    bytes.extend([4, 0, 0, 0, 0, 0, 0, 0, 2, 3, 0, 0, 0x80, 1, 0, 2, 0]);
    bytes.extend([9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    bytes.extend(*b"\x02n1\x01z\x00\x04\x0a\x00\x00\x01\x1c\x0c");
    let item = Item::Vitals(identity(1), report());
    assert_eq!(item.encode(), bytes);
    assert_eq!(Item::decode(&bytes), Ok(item));

    let message = seal(Kind::Ask, "lab", b"body");
    assert_eq!(message[..10], *b"\x01\x02\x03labbody");
    assert_eq!(message[10..], crc32c::crc32c(&message[..10]).to_le_bytes());
    let opened = open(&message).expect("it is whole");
    assert_eq!((opened.kind, opened.label, opened.body), (Kind::Ask, "lab", &b"body"[..]));
}

#[test]
fn an_unknown_version_is_told_from_damage() {
    let mut message = seal(Kind::Gossip, "", b"body");
    message[5] ^= 1;
    assert_eq!(open(&message), Err(Damaged::Sum));
    message[0] = VERSION + 1;
    assert_eq!(open(&message), Err(Damaged::Version(VERSION + 1)));
    assert_eq!(open(&[]), Err(Damaged::Short));
}

#[test]
fn a_state_comes_back_as_it_was() {
    let entries = [
        Entry { member: Member::new(identity(1), 3, foca::State::Alive), report: Some(report()) },
        Entry { member: Member::new(identity(2), 0, foca::State::Suspect), report: None },
        Entry { member: Member::new(identity(3), 1, foca::State::Down), report: None },
    ];
    let pairs = entries.iter().map(|entry| (&entry.member, entry.report.as_ref()));
    let body = state::encode(pairs.clone());
    assert_eq!(state::decode(&body).as_deref(), Ok(&entries[..]));
    for len_bytes in 0..body.len() {
        assert!(state::decode(&body[..len_bytes]).is_err(), "{len_bytes} bytes");
    }
    assert_eq!(state::decode(&state::encode(pairs.take(0))), Err(Damaged::Number));
    assert_eq!(state::decode(&[body, vec![0]].concat()), Err(Damaged::Long));
}

#[test]
fn bad_fields_are_refused() {
    let item = |change: fn(&mut Report)| {
        let mut report = report();
        change(&mut report);
        Item::decode(&Item::Vitals(identity(1), report).encode())
    };
    assert_eq!(item(|r| r.vitals.instance.clear()), Err(Damaged::Text));
    assert_eq!(item(|r| r.vitals.zone = "z".repeat(ZONE_MAX_BYTES + 1)), Err(Damaged::Text));
    assert_eq!(item(|r| r.vitals.protocol_min = 3), Err(Damaged::Number));
    let nowhere = |r: &mut Report| r.vitals.http = Some(([0, 0, 0, 0], 1).into());
    assert_eq!(item(nowhere), Err(Damaged::Address));
    assert_eq!(Item::decode(&[9]), Err(Damaged::Kind(9)));
}

#[test]
fn the_longest_vitals_fit_into_a_datagram_beside_all_else() {
    let (longest, report) = longest();
    let item = Item::Vitals(longest, report).encode();
    let header = Header {
        src: longest,
        src_incarnation: 1,
        dst: longest,
        message: Message::PingReq { target: longest, probe_number: 1 },
    };
    let mut body = Vec::new();
    let mut codec = WireCodec::default();
    codec.encode_header(&header, &mut body).expect("there is room");
    body.extend([0, 1]);
    codec.encode_member(&Member::alive(longest), &mut body).expect("there is room");
    body.extend((item.len() as u16).to_be_bytes());
    body.extend(&item);
    let label = "l".repeat(LABEL_MAX_BYTES);
    assert!(body.len() <= gossip_max_bytes(&label), "{} bytes", body.len());
    assert!(seal(Kind::Gossip, &label, &body).len() <= DATAGRAM_MAX_BYTES);
    let checked = gossip::check(&body).expect("it is whole");
    assert_eq!((checked.header, checked.named), (header, vec![longest; 2]));
    for len_bytes in 0..body.len() {
        let is_whole = gossip::check(&body[..len_bytes]).is_ok();
        // Without its items it is a packet, too.
        assert_eq!(is_whole, len_bytes == body.len() - item.len() - 2, "{len_bytes} bytes");
    }
    let mut small = bytes::BufMut::limit(Vec::new(), 10);
    assert_eq!(codec.encode_member(&Member::alive(longest), &mut small), Err(Damaged::Room));
    assert!(small.into_inner().is_empty(), "nothing is left behind");
}
