//! The bytes of messages (docs/format.md, "Membership messages").
//!
//! Guarantees: what is written is read back as it was, and has one form. Decoders meet any bytes
//! without a panic, in time and memory that the length of the message bounds. The largest message of
//! gossip fits into a datagram beside the longest label.
//!
//! What must be absent: any opinion on whom to believe.

mod bytes;
mod damaged;
pub mod envelope;
pub(crate) mod gossip;
mod items;
mod records;
pub mod state;

#[cfg(test)]
mod tests;

pub use damaged::Damaged;
pub(crate) use items::Item;
pub use records::Header;
pub(crate) use records::WireCodec;

/// Feeds arbitrary bytes to all decoders. Whatever is read has one encoding: the bytes.
///
/// # Panics
/// If a property of a decoder does not hold.
pub fn fuzz(data: &[u8]) {
    if let Ok(opened) = envelope::open(data) {
        let sealed = envelope::seal(opened.kind, opened.label, opened.body);
        assert_eq!(sealed, data);
    }
    if let Ok(entries) = state::decode(data) {
        assert_eq!(
            state::encode(entries.iter().map(|entry| (&entry.member, entry.report.as_ref()))),
            data
        );
    }
    if let Ok(checked) = gossip::check(data) {
        assert!(checked.named.len() <= data.len());
    }
    if let Ok(item) = Item::decode(data) {
        assert_eq!(item.encode(), data);
    }
}
