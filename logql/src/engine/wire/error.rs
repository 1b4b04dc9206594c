//! Why bytes are no question, or no result of a leaf.

use crate::engine::error::PlanError;
use crate::syntax::ParseError;

/// Why bytes are no leaf, no matchers, or no result of the leaf at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// They end too early, or count more than they can hold.
    #[error("the bytes end too early")]
    Short,
    /// There are bytes behind the end.
    #[error("there are bytes behind the end")]
    Long,
    /// This server does not know the version.
    #[error("bytes of version {0} are not known")]
    Version(u8),
    /// This server does not know the kind of leaf or of result, or of a part of it.
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
    /// The text of a pipeline is not as it is printed.
    #[error("the text of a pipeline is not in its one form")]
    Form,
    /// Items are not in their order, or are there twice.
    #[error("items are not in their order")]
    Order,
    /// An item refers to another one that is not there, or nothing refers to it.
    #[error("items do not belong together")]
    Reference,
    /// No query has such windows or times; or no window of the plan sees what the item tells of, or
    /// no entry is seen by just these.
    #[error("steps are not those of a plan")]
    Steps,
}

/// Why a leaf or matchers cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeafError {
    /// The bytes have another form.
    #[error(transparent)]
    Bytes(#[from] WireError),
    /// The pipeline is none, or a pattern is bad; the parser refuses the same in a query.
    #[error(transparent)]
    Text(#[from] ParseError),
    /// The leaf cannot be compiled; planning refuses the same in a query.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
