//! The fields of heads are those that `docs/format.md` tells, and others are passed over.

use std::time::Duration;

use bytes::Bytes;
use logsvc_logql::engine::encode_matchers;
use logsvc_peers::frame::{Damaged, Kind, open, seal};
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Asked, Reply, Sent};
use prost::Message;

use crate::support::{
    all_asked, found, labels, lists, plans, push, push_reply, question, replies, stats, stored,
    streams, to, with_head,
};

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, repeated, tag = "1")]
    tenants: Vec<String>,
    #[prost(bool, tag = "2")]
    is_merged: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Leaves {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    plans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct Listed {
    #[prost(bytes = "bytes", tag = "1")]
    matchers: Bytes,
    #[prost(sfixed64, tag = "2")]
    start_ns: i64,
    #[prost(sfixed64, tag = "3")]
    end_ns: i64,
    #[prost(string, optional, tag = "4")]
    label: Option<String>,
}

/// A question without a choice: each of its fields may be there.
#[derive(Clone, PartialEq, Message)]
struct QuestionHead {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(uint64, tag = "2")]
    timeout_ms: u64,
    #[prost(message, optional, tag = "3")]
    scope: Option<Scope>,
    #[prost(message, optional, tag = "4")]
    leaves: Option<Leaves>,
    #[prost(message, optional, tag = "5")]
    label_names: Option<Listed>,
    #[prost(message, optional, tag = "6")]
    label_values: Option<Listed>,
    #[prost(message, optional, tag = "7")]
    series: Option<Listed>,
    #[prost(uint64, tag = "8")]
    deletions: u64,
    #[prost(uint32, tag = "9")]
    writer: u32,
    #[prost(uint32, tag = "10")]
    entries_each: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Found {
    #[prost(uint64, repeated, tag = "1")]
    part_lens: Vec<u64>,
    #[prost(uint32, repeated, tag = "2")]
    part_leaves: Vec<u32>,
    #[prost(uint64, repeated, tag = "3")]
    stats: Vec<u64>,
    #[prost(string, repeated, tag = "4")]
    texts: Vec<String>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    series: Vec<Vec<u8>>,
    #[prost(uint64, tag = "6")]
    unreadable_parts: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ReplyHead {
    #[prost(message, optional, tag = "1")]
    found: Option<Found>,
    #[prost(uint64, optional, tag = "2")]
    newer: Option<u64>,
    #[prost(message, optional, tag = "5")]
    failed: Option<FailureHead>,
}

#[derive(Clone, PartialEq, Message)]
struct FailureHead {
    #[prost(uint32, tag = "1")]
    status: u32,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(uint32, optional, tag = "3")]
    retry_after_s: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Late {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    labels: Vec<u8>,
    #[prost(sint64, repeated, tag = "3")]
    times_ns: Vec<i64>,
    #[prost(uint64, tag = "4")]
    refused: u64,
    #[prost(uint64, tag = "5")]
    total: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Stored {
    #[prost(uint64, tag = "1")]
    accepted: u64,
    #[prost(message, repeated, tag = "2")]
    too_far_behind: Vec<Late>,
}

#[derive(Clone, PartialEq, Message)]
struct PushReplyHead {
    #[prost(message, optional, tag = "1")]
    stored: Option<Stored>,
}

fn read<H: Message + Default>(kind: Kind, bytes: &[u8]) -> H {
    open(kind, bytes).expect("a frame").head
}

fn message(text: &str) -> Damaged {
    Damaged::Message(text.to_owned())
}

fn refused(head: &QuestionHead) -> Damaged {
    Sent::decode(&seal(Kind::Question, Vec::new(), head)).expect_err("it is no question")
}

#[test]
fn questions_have_these_fields() {
    for asked in all_asked() {
        let bytes = question(asked.clone()).encode(to(5), Duration::from_secs(2));
        let head: QuestionHead = read(Kind::Question, &bytes);
        assert_eq!((head.number, head.writer), (5, 70));
        assert_eq!((head.timeout_ms, head.deletions), (2_000, 7));
        assert_eq!(head.entries_each, 407);
        let scope = Scope { tenants: vec!["acme".to_owned()], is_merged: false };
        assert_eq!(head.scope, Some(scope));
        let (of, label) = match &asked {
            Asked::Leaves(leaves) => {
                assert_eq!(head.leaves.expect("leaves").plans.len(), leaves.len());
                continue;
            }
            Asked::LabelNames(of) => ((of, head.label_names), None),
            Asked::LabelValues(of, name) => ((of, head.label_values), Some(name.to_string())),
            Asked::Series(of) => ((of, head.series), None),
        };
        let mut matchers = Vec::new();
        encode_matchers(&of.0.matcher_groups, &mut matchers);
        let range = of.0.range;
        let (start_ns, end_ns, matchers) = (range.start_ns, range.end_ns, matchers.into());
        assert_eq!(of.1, Some(Listed { matchers, start_ns, end_ns, label }));
    }
}

#[test]
fn questions_that_say_too_little_or_too_much_are_refused() {
    let bytes =
        question(Asked::LabelValues(streams(&[]), "x".into())).encode(to(1), Duration::ZERO);
    let good: QuestionHead = read(Kind::Question, &bytes);
    assert!(Sent::decode(&seal(Kind::Question, Vec::new(), &good)).is_ok());
    let scope = |names: &[&str]| {
        let tenants = names.iter().map(|name| (*name).to_owned()).collect();
        let head = QuestionHead { scope: Some(Scope { tenants, is_merged: true }), ..good.clone() };
        refused(&head)
    };
    assert_eq!(scope(&[]), message("it is about no tenant"));
    assert_eq!(scope(&["b", "a", "b"]), message("it is about a tenant twice"));
    assert!(matches!(scope(&["a", "../b"]), Damaged::Message(_)));
    let nobody = QuestionHead { scope: None, ..good.clone() };
    assert_eq!(refused(&nobody), message("it is about no tenant"));
    let nothing = QuestionHead { label_values: None, ..good.clone() };
    assert_eq!(refused(&nothing), message("it asks nothing"));
    let mut nameless = good.clone();
    nameless.label_values.as_mut().expect("values").label = None;
    assert_eq!(refused(&nameless), message("it names no label"));
    let mut bad = good.clone();
    bad.label_values.as_mut().expect("values").matchers = Bytes::new();
    assert!(matches!(refused(&bad), Damaged::Message(_)));

    let leaves = plans().pop().expect("a plan");
    let bytes = question(Asked::Leaves(leaves)).encode(to(1), Duration::ZERO);
    let mut twice: QuestionHead = read(Kind::Question, &bytes);
    let plans = &mut twice.leaves.as_mut().expect("leaves").plans;
    plans.push(plans[0].clone());
    assert_eq!(refused(&twice), message("two of its leaves have one number"));
    let plans = &mut twice.leaves.as_mut().expect("leaves").plans;
    *plans = vec![plans[0].clone(); 8_193];
    assert_eq!(refused(&twice), message("it has too many leaves"));
}

#[test]
fn matchers_that_are_large_together_are_refused_before_they_are_compiled() {
    let bytes = question(Asked::Series(streams(&[]))).encode(to(1), Duration::ZERO);
    let mut head: QuestionHead = read(Kind::Question, &bytes);
    // The version, 100,000 groups, and the one matcher `a=~"x+"` of each.
    let groups = b"\x01\x01a\x02\x02x+".repeat(100_000);
    head.series.as_mut().expect("series").matchers =
        [&b"\x01\xa0\x8d\x06"[..], &groups].concat().into();
    assert_eq!(refused(&head), message("its matchers are too large"));
}

#[test]
fn found_has_these_fields() {
    for asked in all_asked() {
        let sent = found(&asked);
        let (parts, texts) = (sent.parts.len(), sent.texts.len());
        let (series, unreadable) = (sent.series.len(), sent.unreadable_parts);
        let bytes = Reply::Found(sent).encode(&asked);
        let head = read::<ReplyHead>(Kind::Reply, &bytes).found.expect("something");
        assert_eq!(head.stats, (1..=22).collect::<Vec<u64>>());
        assert_eq!((head.part_lens.len(), head.part_leaves.len()), (parts, parts));
        assert_eq!((head.texts.len(), head.series.len()), (texts, series));
        assert_eq!(head.unreadable_parts, unreadable);
        let blob_len = open::<ReplyHead>(Kind::Reply, &bytes).expect("a frame").blob_len;
        assert_eq!(head.part_lens.iter().sum::<u64>(), blob_len as u64);
    }
}

/// What a reply with this head has found.
fn found_of(head: Found) -> Result<logsvc_peers::question::Found, Damaged> {
    let head = ReplyHead { found: Some(head), ..ReplyHead::default() };
    let bytes = seal(Kind::Reply, Vec::new(), &head);
    match Reply::decode(&bytes, &Asked::Leaves(Vec::new()))? {
        Reply::Found(found) => Ok(found),
        other => panic!("{other:?}"),
    }
}

#[test]
fn counters_may_be_fewer_more_and_large() {
    let of = |stats: Vec<u64>| found_of(Found { stats, ..Found::default() }).expect("found").stats;
    assert_eq!(of((1..=30).collect()), stats());
    assert_eq!(of(Vec::new()), Default::default());
    assert_eq!((of(vec![4, 5]).head_blocks, of(vec![4, 5]).sealed_blocks), (5, 0));
    assert_eq!(of(vec![u64::MAX]).streams, (1 << 48) - 1);
    let head = Found { unreadable_parts: u64::MAX, ..Found::default() };
    assert_eq!(found_of(head).expect("found").unreadable_parts, (1 << 48) - 1);
}

#[test]
fn lists_of_parts_and_labels_are_checked() {
    let lens = Found { part_lens: vec![0], ..Found::default() };
    assert_eq!(found_of(lens).err(), Some(message("its parts are not of leaves")));
    let part = Found { part_lens: vec![u64::MAX], part_leaves: vec![0], ..Found::default() };
    assert_eq!(found_of(part).err(), Some(message("it has a part that was not asked for")));
    let good = labels("a").as_bytes().to_vec();
    let series = |bytes: &[u8]| {
        let found = found_of(Found { series: vec![bytes.to_vec()], ..Found::default() });
        found.map(|found| found.series)
    };
    assert_eq!(series(&good), Ok(vec![labels("a")]));
    assert!(series(&good[..good.len() - 1]).is_err());
}

#[test]
fn texts_that_are_cut_within_a_character_are_refused() {
    let asked = lists().remove(0);
    let bytes = Reply::Found(found(&asked)).encode(&asked);
    // The text "é\0", without the second byte of its letter.
    let cut = with_head(Kind::Reply, &bytes, |head| {
        let at = head.windows(3).position(|bytes| bytes == "é\0".as_bytes()).expect("the text");
        head[at + 1] = b'x';
    });
    assert!(matches!(Reply::decode(&cut, &asked), Err(Damaged::Message(_))));
}

#[test]
fn statuses_that_are_no_numbers_of_http_become_500() {
    let failed = FailureHead { status: 1 << 20, text: "x".into(), retry_after_s: Some(3) };
    let bytes =
        seal(Kind::Reply, Vec::new(), &ReplyHead { failed: Some(failed), ..Default::default() });
    match Reply::decode(&bytes, &Asked::Leaves(Vec::new())) {
        Ok(Reply::Failed(failure)) => {
            assert_eq!((failure.status, failure.retry_after_s), (500, Some(3)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn outcomes_of_pushes_are_checked() {
    let mut head: PushReplyHead = read(Kind::PushReply, &push_reply());
    let read = |head: &PushReplyHead| PushReply::decode(&seal(Kind::PushReply, vec![], head));
    let late =
        |head: &mut PushReplyHead| head.stored.as_mut().expect("stored").too_far_behind[0].clone();
    let good = late(&mut head);
    assert_eq!((good.times_ns.len(), good.stream.len()), (4, 16));
    let mut with = |late: Late| {
        let stored = head.stored.as_mut().expect("stored");
        (stored.accepted, stored.too_far_behind) = (u64::MAX, vec![late]);
        read(&head)
    };
    assert!(with(Late { times_ns: vec![5, 10, -7], ..good.clone() }).is_err());
    assert!(with(Late { stream: vec![0; 15], ..good.clone() }).is_err());
    assert!(with(Late { labels: vec![0xff], ..good.clone() }).is_err());
    match with(Late { total: u64::MAX, ..good }) {
        Ok(PushReply::Stored(read)) => {
            let most = u64::from(u32::MAX);
            assert_eq!((read.accepted, read.too_far_behind[0].total), (most, most));
            assert_eq!(read.too_far_behind[0].entries, stored().too_far_behind[0].entries);
        }
        other => panic!("{other:?}"),
    }
}

/// Fields that no message has: a number, eight bytes, four bytes, and a text.
const UNKNOWN: &[u8] = b"\xc8\x3e\x07\xd1\x3e12345678\xdd\x3e1234\xe2\x3e\x03new";

#[test]
fn fields_that_are_not_known_are_passed_over() {
    for behind in [false, true] {
        let add = |kind: Kind, bytes: &[u8]| {
            with_head(kind, bytes, |head| {
                let at = if behind { head.len() } else { 0 };
                head.splice(at..at, UNKNOWN.iter().copied());
            })
        };
        let sent = push();
        let (again, known) = (Push::decode(add(Kind::Push, &sent)), Push::decode(sent));
        assert_eq!(format!("{again:?}"), format!("{known:?}"));
        assert!(again.is_ok());
        let sent = push_reply();
        let again = PushReply::decode(&add(Kind::PushReply, &sent));
        assert_eq!(again, PushReply::decode(&sent));
        assert!(again.is_ok());
        for asked in all_asked() {
            let sent = question(asked.clone()).encode(to(3), Duration::from_secs(1));
            let again = Sent::decode(&add(Kind::Question, &sent)).expect("a question");
            assert_eq!(again.question.encode(again.to, again.timeout), sent);
            for reply in replies(&asked) {
                let sent = reply.encode(&asked);
                let again = Reply::decode(&add(Kind::Reply, &sent), &asked).expect("a reply");
                assert_eq!(again.encode(&asked), sent);
            }
        }
    }
}
