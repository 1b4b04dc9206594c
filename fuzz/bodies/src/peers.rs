//! Messages between nodes out of arbitrary bytes. Bytes that are no frame are what a whole frame
//! has: the first two tell the length of its head, at the end. What was read is true.

use logsvc_logql::engine::{LeafPlan, Unlimited};
use logsvc_peers::frame::{Kind, close};
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Asked, Reply, Sent};
use logsvc_peers::tail::{TailWord, WordWriter, Words};
use logsvc_runtime::Budget;
use logsvc_segment::batch::sections;
use logsvc_shards::deletion::HiddenEntries;
use std::sync::Arc;

use crate::logql::leaf_plans;

/// Where a frame has its magic, from its end.
const MAGIC_FROM_END: usize = 12;

fn framed(kind: Kind, data: &[u8]) -> Vec<u8> {
    let magic = data.len().checked_sub(MAGIC_FROM_END).map(|at| &data[at..at + 4]);
    let Some(([low, high], rest)) = data.split_first_chunk().filter(|_| magic != Some(b"LSPM"))
    else {
        return data.to_vec();
    };
    let head_len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
    close(kind, rest.to_vec(), rest.len() - head_len)
}

/// Reads a push and the sections of its batch. What is read comes back as it is.
///
/// # Panics
/// When it does not.
#[must_use]
pub fn push(data: &[u8]) -> bool {
    let Ok(push) = Push::decode(framed(Kind::Push, data)) else { return false };
    // Sections end at the first fault.
    let _ = sections(&push.append.batch).take_while(Result::is_ok).count();
    let (to, window) = (push.to, push.append.out_of_order_window_ns);
    let (batch, definitions) = (push.append.batch.clone(), push.append.definitions.clone());
    let again = Push::decode(push.encode()).expect("what was read can be written");
    assert_eq!((again.to, again.append.out_of_order_window_ns), (to, window));
    assert_eq!(again.append.batch, batch);
    assert_eq!(format!("{:?}", again.append.definitions), format!("{definitions:?}"));
    true
}

/// Reads the answer to a push. What is read comes back as it is.
///
/// # Panics
/// When it does not.
#[must_use]
pub fn push_reply(data: &[u8]) -> bool {
    let Ok(reply) = PushReply::decode(&framed(Kind::PushReply, data)) else { return false };
    assert_eq!(PushReply::decode(&reply.encode()), Ok(reply));
    true
}

/// Reads a question. What is read and compiled comes back as it is.
///
/// # Panics
/// When it does not.
#[must_use]
pub fn question(data: &[u8]) -> bool {
    let Ok(sent) = Sent::decode(&framed(Kind::Question, data)) else { return false };
    let bytes = sent.question.encode(sent.to, sent.timeout);
    let again = Sent::decode(&bytes).expect("what was read can be written");
    assert_eq!((again.to, again.timeout), (sent.to, sent.timeout));
    assert_eq!(again.question.encode(again.to, again.timeout), bytes);
    true
}

/// Reads the answer to a question: the first byte numbers a plan whose leaves were asked for, or
/// says that it was a list.
///
/// # Panics
/// When what was read does not come back as it is.
#[must_use]
pub fn reply(data: &[u8]) -> bool {
    let Some((number, bytes)) = data.split_first() else { return false };
    let plans = leaf_plans();
    let leaves: Vec<Arc<LeafPlan>> = match plans.get(usize::from(*number)) {
        Some(plan) => plan.leaves().iter().cloned().map(Arc::new).collect(),
        None => Vec::new(),
    };
    reply_to(&Asked::Leaves(leaves), bytes)
}

/// The same for a given question.
///
/// # Panics
/// As for [`reply`].
#[must_use]
pub fn reply_to(asked: &Asked, bytes: &[u8]) -> bool {
    let Ok(reply) = Reply::decode(&framed(Kind::Reply, bytes), asked) else { return false };
    let bytes = reply.encode(asked);
    let again = Reply::decode(&bytes, asked).expect("what was read can be written");
    assert_eq!(again.encode(asked), bytes);
    true
}

/// Reads the frame of a word of a tail, and a row of words. The first byte is the number of entries.
///
/// # Panics
/// When what was read does not come back as it is, or more memory is reserved than there is.
#[must_use]
pub fn tail_word(data: &[u8]) -> bool {
    let Some((entries, bytes)) = data.split_first() else { return false };
    let memory = Budget::new("tails", 1 << 20);
    let mut words = Words::new(memory.clone());
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let row = words.push(first).and_then(|_| words.push(rest));
    drop((row, words));
    assert_eq!(memory.used_bytes(), 0);
    let frame = framed(Kind::TailWord, bytes);
    let Ok(word) = TailWord::decode(&frame, u32::from(*entries), &memory) else { return false };
    let bytes = rewritten(&word);
    let again = words_of(&bytes, &Budget::new("tails", 64 << 20));
    assert_eq!(rewritten(&again), bytes);
    true
}

/// The one word that bytes have.
fn words_of(bytes: &[u8], memory: &Budget) -> TailWord {
    let words = Words::new(memory.clone()).push(bytes).expect("what was read can be written");
    words.into_iter().next().expect("a word")
}

/// A word as its sender writes it.
fn rewritten(word: &TailWord) -> Vec<u8> {
    let mut writer = WordWriter::new(word.number);
    let dropped = word.dropped.iter().map(|(labels, time_ns)| (labels, *time_ns));
    writer.dropped(dropped, word.dropped_count);
    let mut hidden = HiddenEntries::new(Box::new(Unlimited));
    for part in &word.parts {
        let write = |stream, batch: &mut _| part.write_shown(stream, &mut hidden, batch);
        writer.part(part.labels(), write).expect("nothing stops it");
    }
    word.end.iter().for_each(|end| writer.end(end));
    writer.finish()
}
