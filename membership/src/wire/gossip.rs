//! Packets of the engine, checked as a whole before the engine sees them: it takes what it can read
//! of a packet before it finds that the rest is damaged.

use foca::Message;

use super::bytes::Input;
use super::damaged::Damaged;
use super::items::Item;
use super::records::{Header, header, member};
use crate::identity::Identity;

/// A packet that the engine can read to its end.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) header: Header,
    /// The members that it brings news of, besides its sender.
    pub(crate) named: Vec<Identity>,
}

/// Checks a packet.
///
/// # Errors
/// The engine could not read it to its end.
pub(crate) fn check(body: &[u8]) -> Result<Checked, Damaged> {
    let mut input = Input::new(body);
    let header = header(&mut input)?;
    let mut named = Vec::new();
    let (has_members, has_items) = match header.message {
        Message::Announce | Message::TurnUndead => (false, false),
        Message::Broadcast => (false, true),
        _ => (true, true),
    };
    if has_members {
        for _ in 0..input.u16_big()? {
            named.push(*member(&mut input)?.id());
        }
    }
    while has_items && !input.rest().is_empty() {
        let len_bytes = input.u16_big()?;
        let (Item::Vitals(of, _) | Item::Forget(of)) = Item::decode(input.take(len_bytes.into())?)?;
        named.push(of);
    }
    input.end()?;
    Ok(Checked { header, named })
}
