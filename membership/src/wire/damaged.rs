//! Why bytes are no message.

/// Why bytes are no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damaged {
    /// The message ends too early.
    #[error("the message ends too early")]
    Short,
    /// There are bytes behind the message.
    #[error("there are bytes behind the message")]
    Long,
    /// Its bytes are not those that were sent.
    #[error("the checksum is wrong")]
    Sum,
    /// This server does not know the version.
    #[error("messages of version {0} are not known")]
    Version(u8),
    /// This server does not know the kind of message, or of a part of it.
    #[error("kind {0} is not known")]
    Kind(u8),
    /// A text is not UTF-8, or too long, or empty.
    #[error("a text is not UTF-8, or has not the right length")]
    Text,
    /// Nobody can reach the address, or it is not in its one form.
    #[error("an address is none that others can reach")]
    Address,
    /// A number is outside of its bounds.
    #[error("a number is outside of its bounds")]
    Number,
    /// There is no room for what is to be written.
    #[error("there is no room left")]
    Room,
}
