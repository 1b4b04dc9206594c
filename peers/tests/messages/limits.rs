//! Memory of what is read is in proportion to its bytes.

use logsvc_peers::frame::{Kind, close};
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Asked, Reply, Sent};
use logsvc_peers::tail::TailWord;
use logsvc_runtime::Budget;

use crate::counting::measured;

/// The most bytes for each byte of a message while it is read: a field of two bytes becomes an item
/// of a list that has doubled and is being moved.
const MOST_PER_BYTE: i64 = 130;

/// Fields that become long lists of nothing, within the field of a choice or not.
fn heads() -> Vec<Vec<u8>> {
    let mut heads = Vec::new();
    for number in 1..=8_u8 {
        for outer in [None, Some(1_u8), Some(3), Some(4), Some(5)] {
            let items = [number << 3 | 2, 0].repeat(8_000);
            heads.push(match outer {
                // 16,000 bytes.
                Some(outer) => [&[outer << 3 | 2, 0x80, 0x7d][..], &items].concat(),
                None => items,
            });
        }
    }
    heads
}

#[test]
fn long_lists_of_nothing_take_memory_in_proportion() {
    for head in heads() {
        let framed = |kind| close(kind, head.clone(), 0);
        let most = head.len() as i64 * MOST_PER_BYTE;
        let frames = [
            framed(Kind::Push),
            framed(Kind::PushReply),
            framed(Kind::Question),
            framed(Kind::Reply),
            framed(Kind::TailWord),
        ];
        let asked = Asked::Leaves(Vec::new());
        let [push, push_reply, sent, reply, word] = frames;
        let (_, _, of_push) = measured(|| Push::decode(push).map(drop));
        let (_, _, of_push_reply) = measured(|| PushReply::decode(&push_reply).map(drop));
        let (_, _, of_question) = measured(|| Sent::decode(&sent).map(drop));
        let (_, _, of_reply) = measured(|| Reply::decode(&reply, &asked).map(drop));
        let memory = Budget::new("tails", 1 << 20);
        let (_, _, of_word) = measured(|| TailWord::decode(&word, 0, &memory).map(drop));
        let all = [of_push, of_push_reply, of_question, of_reply, of_word];
        for (what, bytes) in all.iter().enumerate() {
            assert!(*bytes < most, "{what}: {bytes} bytes for {:?}", &head[..8]);
        }
    }
}
