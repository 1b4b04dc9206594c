//! Words of tails: they come as they were sent, however their bytes come; what has no memory is counted.

use std::sync::Arc;

use logsvc_peers::frame::{Damaged, Failure, Kind, seal};
use logsvc_peers::tail::{TailEnd, TailWord, WORD_MAX_BYTES, WordWriter, Words};
use logsvc_proto::{Labels, StreamId};
use logsvc_runtime::Budget;
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::tail::TailBlock;

use crate::support::labels;

fn memory() -> Budget {
    Budget::new("tails", 1 << 20)
}

/// Adds lines of one stream; the time of each is its place, and each has metadata.
fn add(word: &mut WordWriter, labels: &Labels, lines: &[&str]) {
    let written = word.part(labels, |stream, batch: &mut BatchBuilder| {
        batch.begin(stream);
        for (time_ns, line) in lines.iter().enumerate() {
            let own = [("trace", "1")];
            batch.push_sharing(
                time_ns as i64,
                line.as_bytes(),
                &[(b"level", b"info")],
                own.iter().copied(),
            );
        }
        batch.end();
        Ok::<_, Damaged>(lines.len() as u64)
    });
    written.expect("nothing stops it");
}

fn word() -> Vec<u8> {
    let mut word = WordWriter::new(7);
    word.dropped([(&labels("a"), 5), (&labels("b"), -6)].into_iter(), 9);
    add(&mut word, &labels("b"), &["one", "two"]);
    add(&mut word, &labels("c"), &["three"]);
    word.finish()
}

/// Labels, times and lines of a part.
fn columns(part: &TailBlock) -> (Arc<Labels>, Vec<i64>, Vec<u8>) {
    part.with_columns(0, |block| {
        (Arc::clone(part.labels()), block.timestamps_ns.to_vec(), block.lines.to_vec())
    })
}

fn check(word: &TailWord) {
    assert_eq!((word.number, word.dropped_count, &word.end), (7, 9, &None));
    assert_eq!(word.dropped, [(labels("a"), 5), (labels("b"), -6)]);
    let parts: Vec<_> = word.parts.iter().map(columns).collect();
    let expected =
        [(labels("b"), vec![0, 1], b"onetwo".to_vec()), (labels("c"), vec![0], b"three".to_vec())];
    assert_eq!(parts, expected);
}

#[test]
fn words_come_as_they_were_sent_in_whatever_pieces() {
    let both = [word(), word()].concat();
    for piece in 1..both.len() {
        let memory = memory();
        let mut words = Words::new(memory.clone());
        let mut read = Vec::new();
        for piece in both.chunks(piece) {
            read.extend(words.push(piece).expect("words"));
        }
        assert_eq!(read.len(), 2);
        read.iter().for_each(check);
        drop((read, words));
        assert_eq!(memory.used_bytes(), 0);
    }
}

#[test]
fn the_last_word_says_why() {
    let failure = Failure { status: 503, text: "busy".to_owned(), retry_after_s: Some(1) };
    for end in [TailEnd::Stops, TailEnd::Failed(failure)] {
        let mut word = WordWriter::new(3);
        word.end(&end);
        let words = Words::new(memory()).push(&word.finish()).expect("a word");
        assert_eq!((words[0].number, words[0].end.as_ref()), (3, Some(&end)));
    }
}

#[test]
fn what_has_no_memory_is_counted() {
    let bytes = word();
    // None for the frame, and none for the entries beside it.
    for room in [10, bytes.len() as u64 - 8] {
        let memory = Budget::new("tails", room);
        let mut words = Words::new(memory.clone());
        let read = words.push(&[&bytes[..], &word()].concat()).expect("words");
        let counts: Vec<u64> = read.iter().map(|word| word.dropped_count).collect();
        let expected = if room == 10 { 3 } else { 12 };
        assert_eq!((counts, memory.used_bytes()), (vec![expected; 2], 0));
        assert!(read.iter().all(|word| word.parts.is_empty()));
    }
}

#[test]
fn lists_of_dropped_entries_are_bounded() {
    let mut word = WordWriter::new(1);
    for _ in 0..3 {
        word.dropped((0..700).map(|time_ns| (&*Box::leak(Box::new(labels("a"))), time_ns)), 700);
    }
    let words = Words::new(memory()).push(&word.finish()).expect("a word");
    assert_eq!((words[0].dropped.len(), words[0].dropped_count), (1000, 2100));
}

#[test]
fn contradictions_are_refused() {
    let text = |bytes: &[u8]| match Words::new(memory()).push(bytes) {
        Err(Damaged::Message(text)) => text,
        other => panic!("{other:?}"),
    };
    for (entries, error) in [(2_u32, "it has more entries"), (4, "it has fewer entries")] {
        let mut bytes = word();
        bytes[4..8].copy_from_slice(&entries.to_le_bytes());
        assert_eq!(text(&bytes), error);
    }
    let long = (WORD_MAX_BYTES as u32 + 1).to_le_bytes();
    assert_eq!(text(&[&long[..], &[0; 4]].concat()), "a word is too long");
    // A section of a stream whose labels are not there.
    let mut batch = BatchBuilder::default();
    batch.begin(StreamId(0));
    batch.push(1, b"line", std::iter::empty::<(&str, &str)>());
    batch.end();
    let frame = seal(Kind::TailWord, batch.finish(), &());
    let error = TailWord::decode(&frame, 1, &memory()).expect_err("no labels");
    assert_eq!(error, Damaged::Message("it has a stream without labels".to_owned()));
    // Times without labels.
    let list = [5 << 3 | 2, 8, 1, 0, 0, 0, 0, 0, 0, 0];
    let frame = logsvc_peers::frame::close(Kind::TailWord, list.to_vec(), 0);
    let error = TailWord::decode(&frame, 0, &memory()).expect_err("no list");
    assert_eq!(error, Damaged::Message("its list of dropped entries is none".to_owned()));
    assert!(matches!(Words::new(memory()).push(&[0; 8]), Err(Damaged::NoFrame)));
}

#[test]
fn every_bit_of_a_frame_counts() {
    let bytes = word();
    for bit in 64..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Words::new(memory()).push(&changed).is_err(), "bit {bit}");
    }
}
