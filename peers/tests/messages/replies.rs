//! Answers to questions come back as they were sent, and fit the question.

use std::sync::Arc;

use logsvc_logql::engine::LeafPlan;
use logsvc_peers::frame::{Damaged, Failure, Kind, close};
use logsvc_peers::question::{Asked, Found, Reply};

use crate::support::{all_asked, found, head_of, labels, plans, replies, results, stats};

fn refused(bytes: &[u8], asked: &Asked) -> String {
    match Reply::decode(bytes, asked) {
        Err(Damaged::Message(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_reply_comes_as_it_was_sent() {
    for asked in all_asked() {
        for (reply, same) in replies(&asked).into_iter().zip(replies(&asked)) {
            let text = format!("{reply:?}");
            let bytes = reply.encode(&asked);
            let decoded = Reply::decode(&bytes, &asked).expect("a reply");
            assert_eq!(format!("{decoded:?}"), text);
            if let (Reply::Found(decoded), Reply::Found(sent)) = (&decoded, &same) {
                assert_eq!((&decoded.texts, &decoded.series), (&sent.texts, &sent.series));
                assert_eq!(decoded.stats, sent.stats);
                assert_eq!(decoded.unreadable_parts, sent.unreadable_parts);
                assert!(decoded.held_bytes() >= decoded.parts.len());
            }
            assert_eq!(decoded.encode(&asked), bytes);
        }
    }
}

#[test]
fn all_counters_come_as_they_were_sent() {
    let asked = Asked::Leaves(Vec::new());
    let bytes = Reply::Found(Found { stats: stats(), ..Found::default() }).encode(&asked);
    match Reply::decode(&bytes, &asked) {
        Ok(Reply::Found(found)) => assert_eq!(found.stats, stats()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn statuses_that_are_no_failures_become_500() {
    let asked = Asked::Leaves(Vec::new());
    for (status, seen) in [
        (0, 500),
        (200, 500),
        (399, 500),
        (400, 400),
        (503, 503),
        (599, 599),
        (600, 500),
        (u16::MAX, 500),
    ] {
        let failure = Failure { status, text: "why".to_owned(), retry_after_s: None };
        let bytes = Reply::Failed(failure.clone()).encode(&asked);
        match Reply::decode(&bytes, &asked) {
            Ok(Reply::Failed(read)) => assert_eq!(read, Failure { status: seen, ..failure }),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn results_that_nobody_has_asked_for_are_not_sent() {
    let leaves = plans().pop().expect("a plan");
    let all = results(&leaves);
    let asked = Asked::Leaves(leaves[1..].to_vec());
    let wanted: Vec<_> = all.iter().filter(|part| part.leaf() != leaves[0].index()).collect();
    let reply = Reply::Found(Found { parts: all.clone(), ..Found::default() });
    match Reply::decode(&reply.encode(&asked), &asked) {
        Ok(Reply::Found(found)) => assert_eq!(found.parts.iter().collect::<Vec<_>>(), wanted),
        other => panic!("{other:?}"),
    }
    assert!(wanted.len() < all.len() && !wanted.is_empty());
}

#[test]
fn results_of_other_leaves_are_refused() {
    let leaves = plans().pop().expect("a plan");
    let bytes =
        Reply::Found(found(&Asked::Leaves(leaves.clone()))).encode(&Asked::Leaves(leaves.clone()));
    let text = refused(&bytes, &Asked::Leaves(leaves[..2].to_vec()));
    assert!(text.contains("not asked for"), "{text}");
    let text = refused(&bytes, &Asked::Series(crate::support::streams(&[])));
    assert!(text.contains("not asked for"), "{text}");
    let turned: Vec<Arc<LeafPlan>> = leaves.into_iter().rev().collect();
    assert!(Reply::decode(&bytes, &Asked::Leaves(turned)).is_err());
}

#[test]
fn bytes_beside_parts_are_refused() {
    let leaves = plans().pop().expect("a plan");
    let asked = Asked::Leaves(leaves);
    let bytes = Reply::Found(found(&asked)).encode(&asked);
    let head = head_of(&bytes);
    let reframed =
        |blob: &[u8]| close(Kind::Reply, [blob, &bytes[head.clone()]].concat(), blob.len());
    let blob = &bytes[..head.start];
    assert_eq!(reframed(blob), bytes);
    assert_eq!(refused(&reframed(&[blob, &[0]].concat()), &asked), "it has more bytes than parts");
    assert_eq!(refused(&reframed(&blob[..blob.len() - 1]), &asked), "a part is cut off");
    assert_eq!(refused(&reframed(&[]), &asked), "a part is cut off");
}

#[test]
fn memory_of_what_was_found_is_told() {
    let many = Found {
        texts: vec!["x".repeat(1_000).into(); 3],
        series: vec![labels(&"y".repeat(1_000)); 2],
        ..Found::default()
    };
    assert!((5_000..6_000).contains(&many.held_bytes()), "{}", many.held_bytes());
    let asked = Asked::Leaves(plans().remove(0));
    assert!(found(&asked).held_bytes() > 100);
}
