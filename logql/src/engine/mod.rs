//! Evaluating queries.
//!
//! A query is planned on the core that received it ([`plan`]), its leaves run on
//! every shard over blocks of entries ([`leaf`], [`block`]), and the partial
//! results are merged into the answer ([`merge`]). The engine knows no I/O, no
//! clock, no thread and no randomness: it is driven by its caller block by block,
//! and the same entries give the same answer bit for bit, however they are cut
//! into blocks and spread over shards.
//!
//! Parts of the language that are not evaluated yet are refused by the planner
//! with [`PlanError::Unsupported`]; nothing is ever skipped silently.

mod abridge;
pub mod block;
mod convert;
mod error;
mod estimate;
mod exact_sum;
mod fields;
mod filter;
mod hash;
mod interner;
mod ip;
pub(crate) mod labels;
pub mod leaf;
mod listed_names;
mod literals;
mod matcher;
pub mod merge;
mod meter;
mod params;
mod parts;
mod patterns;
pub(crate) mod pipeline;
mod place;
pub mod plan;
mod question;
mod range;
mod regex;
mod required;
mod result;
mod reuse;
mod statistics;
pub(crate) mod template;
pub mod testing;
mod volume;
mod wire;

pub use abridge::{Abridger, AbridgerState, NumberKind, NumberRead};
pub use block::{BlockSummary, EntryBlock, MetadataColumn, MetadataSets, TextRef, rows_within};
pub use error::{EvalError, MatchingError, PlanError};
pub use estimate::Estimate;
pub use fields::{FieldParser, FieldReader, parse_field_bytes};
pub use leaf::{
    CountedBy, CutPart, EntryMatcher, LeafExecutor, LeafResult, LeafStats, Needs, StreamState,
    lacking,
};
pub use listed_names::ListedNames;
pub use literals::Literal;
pub use matcher::{CompiledMatcher, PatternOutcome, PatternWalk};
pub use merge::{Finished, MergeState};
pub use meter::{Allowance, Stop, Unlimited};
pub use params::{Direction, QueryLimits, QueryParams, QueryTime};
pub use parts::{KnownParts, WindowParts};
pub use place::{EntryPlace, Place};
pub use plan::{LeafPlan, Plan, StreamLabels};
pub use question::{UncheckedLeaf, decode_matchers, encode_matchers, read_matchers};
pub use required::{LineTest, LineTests, RequiredText};
pub use result::{
    EntryCategories, MatrixSeries, QueryResult, ResultEntry, ResultPoint, StreamResult,
    VectorSample,
};
pub use reuse::{KnownSteps, Steps, depends_on_clock};
pub use template::alert::{
    AlertData, AlertLines, AlertNeed, AlertOutput, AlertTemplate, MAX_LINES, MAX_QUERIES,
    QueryAnswer,
};
pub use volume::SizeOf;
pub use wire::{LeafError, WireError};
