//! The memory that compiling a line filter may take, estimated from its text. The memory is asked
//! for before the filter is compiled. A compiled filter knows its exact size.

use super::super::regex as patterns;
use crate::syntax::ast::{LineFilter, LineFilterOp, LineOperand};

/// Bytes of a stage beside its texts: lists, boxes, searchers.
pub(crate) const STAGE_BYTES: usize = 1 << 10;

/// How often texts of a stage are copied.
const TEXT_FACTOR: usize = 8;

/// Bytes that compiling a line filter may take, with the bytes of the compiled filter.
pub(crate) fn of_line_filter(filter: &LineFilter) -> usize {
    let is_regex = matches!(filter.op, LineFilterOp::Regex | LineFilterOp::NotRegex);
    let (mut held_bytes, mut compiling_bytes, mut literal_cost) = (STAGE_BYTES, 0, 0);
    for operand in &filter.operands {
        match operand {
            LineOperand::Text(text) if is_regex => {
                let cost = patterns::cost_of(text.as_bytes());
                // One that tests a line, and one that searches a block.
                held_bytes += 2 * patterns::held_bytes(cost);
                compiling_bytes = compiling_bytes.max(patterns::compiling_bytes(cost));
            }
            LineOperand::Text(text) => {
                held_bytes += of_text(text.as_bytes());
                literal_cost += text.as_bytes().len() as u64;
            }
            LineOperand::Ip(text) => held_bytes += of_text(text),
        }
    }
    // Several texts become one pattern of plain bytes.
    if literal_cost > 0 && filter.operands.len() > 1 {
        held_bytes += 2 * patterns::held_bytes(literal_cost);
    }
    held_bytes + compiling_bytes
}

/// Bytes that a text takes in a stage.
pub(crate) fn of_text(text: &[u8]) -> usize {
    STAGE_BYTES + TEXT_FACTOR * text.len()
}
