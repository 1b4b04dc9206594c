//! Why bytes are no result of a leaf.

/// Why bytes are no result of the leaf at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// The result ends too early, or counts more than its bytes can hold.
    #[error("the result ends too early")]
    Short,
    /// There are bytes behind the result.
    #[error("there are bytes behind the result")]
    Long,
    /// This server does not know the version.
    #[error("results of version {0} are not known")]
    Version(u8),
    /// This server does not know the kind of result, or of a part of it.
    #[error("kind {0} is not known")]
    Kind(u8),
    /// A leaf of this plan has no such result.
    #[error("the result belongs to another leaf")]
    OtherLeaf,
    /// A number is not in its one form, or outside of its bounds.
    #[error("a number is outside of its bounds")]
    Number,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// Items are not in their order, or are there twice.
    #[error("items are not in their order")]
    Order,
    /// An item refers to another one that is not there, or nothing refers to it.
    #[error("items do not belong together")]
    Reference,
    /// No window of the plan sees what the item tells of, or no entry is seen by just these.
    #[error("steps are not those of the plan")]
    Steps,
}
