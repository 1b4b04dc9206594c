use std::collections::BTreeSet;

use super::*;
use crate::batch::write_pair;
use logsvc_logql::engine::ListedNames;
use logsvc_proto::varint;
use logsvc_testkit::{Rng, SeedGuard, seeds};

type Set = Vec<(String, String)>;

/// The sets of entries: one set for each entry or, at every other entry, only if the set differs
/// from the last one.
fn columns(entries: &[Set]) -> (Vec<u8>, Vec<u32>, Vec<u32>, usize) {
    let (mut texts, mut set_ends, mut entry_sets) = (Vec::new(), Vec::new(), Vec::new());
    let (mut last, mut pairs_len): (Option<&Set>, usize) = (None, 0);
    for (number, set) in entries.iter().enumerate() {
        if set.is_empty() {
            entry_sets.push(0);
            continue;
        }
        let start = texts.len();
        for (name, value) in set {
            write_pair(name.as_bytes(), value.as_bytes(), &mut texts);
        }
        pairs_len += texts.len() - start;
        if last == Some(set) && number % 2 == 0 {
            texts.truncate(start);
        } else {
            set_ends.push(texts.len() as u32);
        }
        last = Some(set);
        entry_sets.push(set_ends.len() as u32);
    }
    (texts, set_ends, entry_sets, pairs_len)
}

fn encoded(entries: &[Set]) -> (Vec<u8>, usize) {
    let (texts, set_ends, entry_sets, pairs_len) = columns(entries);
    let sets = EntrySets { texts: &texts, set_ends: &set_ends, entry_sets: &entry_sets };
    let mut bytes = Vec::new();
    let mut distinct = BTreeSet::new();
    encode(&sets, &mut bytes, |name, value| {
        let [name, value] = [name, value].map(|text| String::from_utf8(text.to_vec()).unwrap());
        assert!(distinct.insert((name, value)), "a pair came twice");
    });
    assert_eq!(distinct, entries.iter().flatten().cloned().collect());
    (bytes, pairs_len)
}

fn read(metadata: &BlockMetadata) -> Vec<Set> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    metadata.set_ids.iter().map(|&id| metadata.sets.get(id).map(owned).collect()).collect()
}

fn set(pairs: &[(&str, &str)]) -> Set {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The column of a draft.
fn plain(entries: &[Set]) -> Vec<u8> {
    let (texts, set_ends, entry_sets, _) = columns(entries);
    let mut bytes = Vec::new();
    let sets = EntrySets { texts: &texts, set_ends: &set_ends, entry_sets: &entry_sets };
    encode_plain(&sets, &mut bytes);
    bytes
}

fn round_trip(entries: &[Set]) -> usize {
    let (bytes, pairs_bytes) = encoded(entries);
    let of_draft = decode(&plain(entries), entries.len(), pairs_bytes).unwrap();
    assert_eq!(read(&of_draft), entries);
    let metadata = decode(&bytes, entries.len(), pairs_bytes).unwrap();
    assert_eq!(read(&metadata), entries);
    // Each distinct set is stored once.
    let distinct: BTreeSet<&Set> = entries.iter().filter(|set| !set.is_empty()).collect();
    let ids: BTreeSet<u32> = metadata.set_ids.iter().copied().collect();
    let has_empty = entries.iter().any(|set| set.is_empty());
    assert_eq!(ids.len(), distinct.len() + usize::from(has_empty));
    bytes.len()
}

#[test]
fn sets_of_the_same_values_are_told_apart() {
    let of = |pairs: &[(&str, &str)]| set(pairs);
    // Sets with a new pair, sets of known pairs, and repeated sets.
    round_trip(&[
        of(&[("a", "1"), ("b", "1")]),
        of(&[("a", "2"), ("b", "2")]),
        of(&[("a", "1"), ("b", "2")]),
        of(&[("a", "1"), ("b", "1")]),
        of(&[("a", "1"), ("b", "2")]),
        of(&[("a", "2")]),
        of(&[("b", "2")]),
        of(&[("a", "2"), ("b", "1")]),
        of(&[("a", "2")]),
        of(&[("a", "2"), ("b", "2")]),
        of(&[("a", "2"), ("b", "1")]),
    ]);
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (names, values) = (["a", "b", "c"], rng.between(1, 5));
        let entries = |rng: &mut Rng| -> Set {
            let has = names.iter().filter(|_| !rng.one_in(3)).copied().collect::<Vec<_>>();
            has.into_iter().map(|name| (name.to_owned(), rng.below(values).to_string())).collect()
        };
        let mut entries: Vec<Set> = (0..rng.between(1, 200)).map(|_| entries(&mut rng)).collect();
        entries.push(set(&[("a", "1")]));
        round_trip(&entries);
    }
}

#[test]
fn sets_of_several_shapes_read_back() {
    round_trip(&[
        set(&[("level", "info"), ("trace", "00ff")]),
        set(&[]),
        set(&[("level", "info"), ("trace", "00ff")]),
        set(&[("level", "warn")]),
        set(&[("level", ""), ("trace", "a\u{e9}")]),
        set(&[("trace", "info")]),
    ]);
    round_trip(&[set(&[]), set(&[("a", "")])]);
}

#[test]
fn unique_ids_take_half_their_digits_and_repeated_sets_next_to_nothing() {
    let mut rng = Rng::new(1);
    let unique: Vec<Set> = (0..1000)
        .map(|_| {
            let id = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
            set(&[("level", "info"), ("trace_id", &id)])
        })
        .collect();
    let len = round_trip(&unique);
    assert!(len < 1000 * 16 + 250, "{len}");
    let repeated: Vec<Set> = (0..1000)
        .map(|_| {
            set(&[
                ("level", rng.pick::<&str>(&["info", "warn"])),
                ("pod", rng.pick::<&str>(&["a-1", "b-2"])),
            ])
        })
        .collect();
    let len = round_trip(&repeated);
    assert!(len < 1000 * 3 / 8 + 120, "{len}");
}

fn random_entries(rng: &mut Rng) -> Vec<Set> {
    let names = ["a", "b_1", "trace", "zz"];
    let kinds = rng.below(3);
    let mut entries: Vec<Set> = (0..rng.between(1, 150))
        .map(|index| {
            let mut set = Set::new();
            for name in names {
                if rng.one_in(2) {
                    continue;
                }
                let value = match (kinds, rng.below(3)) {
                    (0, _) => format!("{:08x}", rng.next_u64() as u32),
                    (1, 0) => format!("v{}", rng.below(3)),
                    (1, 1) => format!("unique {index}"),
                    (_, 0) => "\u{e9}\u{1f600}".repeat(rng.below(4) as usize),
                    _ => String::new(),
                };
                set.push((name.to_owned(), value));
            }
            set
        })
        .collect();
    entries.push(vec![("z".to_owned(), "1".to_owned())]);
    entries
}

#[test]
fn random_sets_read_back_and_damaged_bytes_never_exceed_their_bounds() {
    for seed in seeds(2000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let entries = random_entries(&mut rng);
        round_trip(&entries);
        let (mut bytes, pairs_bytes) = encoded(&entries);
        if rng.one_in(2) {
            bytes = plain(&entries);
        }
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                1 => bytes.insert(at, rng.next_u64() as u8),
                _ => bytes[at] ^= 1 << rng.below(8),
            }
        }
        if let Ok(metadata) = decode(&bytes, entries.len(), pairs_bytes) {
            let mut distinct = 0;
            for id in 0..metadata.sets.len() as u32 {
                let names: Vec<&str> = metadata.sets.get(id).map(|(name, _)| name).collect();
                assert!(names.is_sorted_by(|a, b| a < b));
                distinct += metadata.sets.get(id).map(|(n, v)| n.len() + v.len()).sum::<usize>();
            }
            assert!(distinct <= pairs_bytes);
            assert!(read(&metadata).len() == entries.len());
        }
        let random: Vec<u8> = (0..rng.below(100)).map(|_| rng.below(20) as u8).collect();
        let _ = decode(&random, rng.below(100) as usize, rng.below(200) as usize);
    }
}

#[test]
fn listed_names_read_back_alone_unless_all_matter() {
    let mut compared = 0;
    for seed in seeds(2000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut entries = random_entries(&mut rng);
        let is_whole = rng.one_in(4);
        if is_whole {
            let at = rng.index(entries.len());
            entries[at].insert(0, ("__error__".to_owned(), "e".to_owned()));
        }
        let names: Vec<&str> =
            ["a", "absent", "b_1", "trace", "z"].into_iter().filter(|_| rng.one_in(3)).collect();
        let listed = ListedNames::new(names.iter().copied());
        let is_listed = |pair: &&(String, String)| is_whole || listed.has(&pair.0);
        let expected: Vec<Set> =
            entries.iter().map(|set| set.iter().filter(is_listed).cloned().collect()).collect();
        let (column, pairs_bytes) = encoded(&entries);
        for mut bytes in [column, plain(&entries)] {
            let found = decode_listed(&bytes, entries.len(), pairs_bytes, &listed).unwrap();
            assert_eq!(read(&found), expected);
            assert_eq!(found.listed.is_none(), is_whole);
            if !is_whole {
                let distinct: BTreeSet<&Set> = expected.iter().collect();
                assert!(found.sets.len() <= distinct.len() + 1, "equal sets are one");
                compared += distinct.len();
            }
            // Damage is told, or gives as many entries as there are.
            let at = rng.index(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
            if let Ok(found) = decode_listed(&bytes, entries.len(), pairs_bytes, &listed) {
                assert_eq!(read(&found).len(), entries.len());
            }
        }
    }
    println!("{compared} sets");
}

#[test]
fn plain_sets_that_are_not_well_formed_are_refused() {
    let column = |ends: &[u32], numbers: &[u32], texts: &[u8]| {
        let mut bytes = Vec::new();
        let sets = EntrySets { texts, set_ends: ends, entry_sets: numbers };
        encode_plain(&sets, &mut bytes);
        decode(&bytes, 2, 10).map(|metadata| read(&metadata))
    };
    let ab = [("a", "b")];
    assert_eq!(column(&[4], &[1, 0], b"\x01a\x01b"), Ok(vec![set(&ab), set(&[])]));
    let twice = b"\x01a\x01b\x01a\x01b";
    assert_eq!(column(&[4, 8], &[2, 1], twice), Ok(vec![set(&ab), set(&ab)]));
    let bad: &[(&[u32], &[u32], &[u8])] = &[
        (&[4], &[2, 0], b"\x01a\x01b"),
        (&[4], &[1], b"\x01a\x01b"),
        (&[4], &[1, 0, 0], b"\x01a\x01b"),
        (&[3], &[1, 0], b"\x01a\x01b"),
        (&[4, 4], &[1, 0], b"\x01a\x01b"),
        (&[0, 4], &[1, 0], b"\x01a\x01b"),
        (&[8], &[1, 0], twice),
        (&[8, 4], &[1, 0], twice),
        (&[3], &[1, 0], b"\x00\x01b"),
        (&[4, 12], &[1, 2], b"\x01b\x00\x01b\x00\x01a\x00"),
        (&[4], &[1, 0], b"\x01a\x02b"),
        (&[5], &[1, 0], b"\x01a\x01bc"),
        (&[4], &[1, 0], b"\x01\xff\x01b"),
        (&[4], &[1, 0], b"\x01a\x01\xff"),
        (&[12], &[1, 0], b"\x01a\x0901234567b"),
        (&[], &[0, 0], b"a"),
    ];
    for (ends, numbers, texts) in bad {
        assert!(column(ends, numbers, texts).is_err(), "{ends:?} {numbers:?} {texts:?}");
    }
}

#[test]
fn few_bytes_that_claim_many_pairs_are_refused() {
    // 65,536 sets of one shape with 200 names take few bytes as packed numbers.
    let entries = 1 << 16;
    let mut bytes = Vec::new();
    varint::write(&mut bytes, 200);
    for name in 0..200 {
        let name = format!("{name:03}");
        varint::write(&mut bytes, 3);
        bytes.extend_from_slice(name.as_bytes());
    }
    varint::write(&mut bytes, 1);
    varint::write(&mut bytes, 200);
    (0..200).for_each(|name| varint::write(&mut bytes, name));
    varint::write(&mut bytes, entries as u64);
    let section = |value: u64, count: usize, bytes: &mut Vec<u8>| {
        let mut packed = Vec::new();
        super::super::packed::encode(&vec![value; count], &mut packed);
        varint::write(bytes, packed.len() as u64);
        bytes.extend_from_slice(&packed);
    };
    section(1, entries, &mut bytes);
    section(0, entries, &mut bytes);
    for _ in 0..200 {
        varint::write(&mut bytes, 1);
        bytes.push(FORM_TEXT);
        section(0, 1, &mut bytes);
        section(0, entries, &mut bytes);
    }
    assert!(decode(&bytes, entries, 1 << 20).is_err());
    assert!(decode(&bytes[..bytes.len() - 1], entries, usize::MAX / 2).is_err());
}
