//! The bytes of what one node asks another: leaves of plans, and the matchers of look-ups.
//!
//! `docs/format.md` has the bytes, [`super::leaf`] those of the results. A leaf has one encoding,
//! and the decoder takes no other. The stages travel as text, so that they have one form that the
//! parser checks; the matchers of the selector do not, because a volume may ask for labels whose
//! names no query can write.
//!
//! Guarantees: every leaf of every plan comes back as it was. The decoder meets arbitrary bytes
//! without panic, without recursion that they could deepen, and with memory in proportion to them.
//! What it takes has passed all checks of a query: text and patterns are those that the parser
//! takes, times are those that some query has, and the leaf compiles. So
//! [`LeafExecutor`](super::LeafExecutor) runs whatever was decoded.
//!
//! What can go wrong: whoever sends bytes adds a checksum, as for results. A leaf may be as large
//! as the largest query, so who reads one reserves what [`LeafPlan::read_estimate`] tells, then what
//! [`UncheckedLeaf::checked`] takes of its allowance.

mod kinds;
mod matchers;
mod series;

use std::sync::Arc;

use super::estimate::Estimate;
use super::meter::{Allowance, Unlimited};
use super::plan::{LeafKind, LeafPlan, SeriesLimit};
use super::wire::bytes::{Input, put_bytes, put_count};
use super::wire::{LeafError, WireError};
use crate::engine::error::PlanError;
use crate::syntax::ast::{LogExpr, Matcher, Selector};
use crate::syntax::{parse_pipeline, print_pipeline};
pub use matchers::{decode_matchers, encode_matchers, read_matchers};

/// The version of all that is encoded here.
const VERSION: u8 = 1;

/// The most bytes in memory for each byte that is read: a name of no bytes is a list item.
const READ_BYTES: u64 = 32;

/// A leaf that was read, but not compiled yet.
#[derive(Clone, PartialEq, Debug)]
pub struct UncheckedLeaf(LeafPlan);

impl UncheckedLeaf {
    /// The time to compile the leaf, and the memory that [`UncheckedLeaf::checked`] takes for it.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.0.estimate()
    }

    /// The leaf, which was compiled once with no more memory and work than is allowed.
    ///
    /// # Errors
    /// It does not compile, as planning would have found, or it is stopped.
    pub fn checked(self, allowance: &dyn Allowance) -> Result<LeafPlan, PlanError> {
        self.0.check(allowance)?;
        Ok(self.0)
    }
}

/// The parts of a leaf whose text is not read yet.
struct Frame<'a> {
    index: usize,
    times_ns: [i64; 3],
    only_stream: Option<u64>,
    series_limit: Option<SeriesLimit>,
    matchers: Vec<Matcher>,
    text: &'a str,
    rest: Input<'a>,
}

impl LeafPlan {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Self { index, log, start_ns, end_ns, now_ns, kind, series_limit, only_stream } = self;
        out.push(VERSION);
        put_count(out, *index);
        for time_ns in [start_ns, end_ns, now_ns] {
            out.extend(time_ns.to_le_bytes());
        }
        out.push(u8::from(only_stream.is_some()));
        if let Some(hash) = only_stream {
            out.extend(hash.to_le_bytes());
        }
        series::put_limit(out, series_limit.as_ref());
        matchers::put(out, &log.selector.matchers);
        let unwrap = match kind {
            LeafKind::Samples { unwrap, .. } => Some(unwrap),
            LeafKind::Log { .. } | LeafKind::Range { .. } | LeafKind::Patterns { .. } => None,
        };
        put_bytes(out, print_pipeline(&log.stages, unwrap).as_bytes());
        kinds::put(out, kind);
    }

    /// The estimate of [`LeafPlan::read`]. The memory is held as long as the leaf.
    ///
    /// # Errors
    /// The bytes are not those of a leaf.
    pub fn read_estimate(bytes: &[u8]) -> Result<Estimate, WireError> {
        let Frame { matchers, text, .. } = Frame::read(bytes)?;
        let items = Estimate::new(0, READ_BYTES.saturating_mul(bytes.len() as u64));
        Ok(Estimate::of_text(text) + Estimate::of_matchers(&matchers) + items)
    }

    /// Reads a leaf that is still to be compiled.
    ///
    /// # Errors
    /// The bytes are not those of a leaf that some plan has, or the parser refuses what they say.
    pub fn read(bytes: &[u8]) -> Result<UncheckedLeaf, LeafError> {
        let mut frame = Frame::read(bytes)?;
        let (stages, unwrap) = parse_pipeline(&frame.matchers, frame.text)?;
        if print_pipeline(&stages, unwrap.as_ref()) != frame.text {
            return Err(WireError::Form.into());
        }
        let is_plain = stages.is_empty();
        let kind = kinds::read(&mut frame.rest, unwrap, is_plain)?;
        frame.rest.end()?;
        let [start_ns, end_ns, now_ns] = frame.times_ns;
        if !kinds::allows_times(&kind, (start_ns, end_ns)) {
            return Err(WireError::Steps.into());
        }
        let Frame { index, series_limit, only_stream, matchers, .. } = frame;
        let log = Arc::new(LogExpr { selector: Selector { matchers }, stages });
        let leaf =
            LeafPlan { index, log, start_ns, end_ns, now_ns, kind, series_limit, only_stream };
        Ok(UncheckedLeaf(leaf))
    }

    /// Reads a leaf and compiles it once, without a limit of memory beside that of its bytes.
    ///
    /// # Errors
    /// Those of [`LeafPlan::read`] and of [`UncheckedLeaf::checked`].
    pub fn decode(bytes: &[u8]) -> Result<LeafPlan, LeafError> {
        Ok(Self::read(bytes)?.checked(&Unlimited)?)
    }
}

impl<'a> Frame<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut input = Input::new(bytes);
        let version = input.u8()?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        Ok(Self {
            index: input.reference(u32::MAX as usize)? as usize,
            times_ns: [input.i64()?, input.i64()?, input.i64()?],
            only_stream: if input.flag()? { Some(input.u64()?) } else { None },
            series_limit: series::read_limit(&mut input)?,
            matchers: matchers::read(&mut input)?,
            text: input.text()?,
            rest: input,
        })
    }
}
