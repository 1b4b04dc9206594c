//! Finds the end of a request head in bytes that arrive in pieces.
//!
//! Each byte is looked at once, however small the pieces, and lines are judged in order of arrival,
//! so that the result does not depend on where the pieces were cut. A line that ends in anything
//! but CR LF, or has a CR inside, is refused here, because parsers disagree about such lines, which
//! allows request smuggling.

use std::ops::Range;

use crate::refusal::Refusal;

/// Method and version and the spaces around the target.
const REQUEST_LINE_OVERHEAD_BYTES: usize = 64;
/// Empty lines that are forgiven before a request line (RFC 9112, section 2.2).
const MAX_LEADING_EMPTY_LINES: usize = 4;

/// Limits of a request head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Longest request target; over it the answer is 414.
    pub max_target_bytes: usize,
    /// Longest header block, with its line ends; over it the answer is 431.
    pub max_headers_bytes: usize,
}

impl Default for HeadLimits {
    fn default() -> HeadLimits {
        HeadLimits { max_target_bytes: 256 * 1024, max_headers_bytes: 64 * 1024 }
    }
}

/// Progress within one head.
#[derive(Default)]
pub(crate) struct HeadScanner {
    /// Start of the request line, after empty lines.
    head_start: usize,
    leading_lines: usize,
    /// End of the request line, zero while it is not complete.
    request_line_end: usize,
    /// Start of the line under examination.
    line_start: usize,
    /// No line feed is in `line_start..searched`.
    searched: usize,
}

impl HeadScanner {
    /// Looks at `input`, which starts with the bytes of earlier calls. Gives the
    /// head's range, with its final empty line, once it is complete.
    pub(crate) fn scan(
        &mut self,
        input: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<Range<usize>>, Refusal> {
        loop {
            let found = memchr::memchr(b'\n', &input[self.searched..]);
            let line_end = found.map_or(input.len(), |at| self.searched + at + 1);
            self.check_start(&input[self.line_start..line_end])?;
            self.check_length(line_end, limits)?;
            if found.is_none() {
                self.searched = line_end;
                return Ok(None);
            }

            let line = &input[self.line_start..line_end];
            if line.len() < 2 || memchr::memchr(b'\r', line) != Some(line.len() - 2) {
                return Err(Refusal::BadRequest("a line of the head does not end in CR LF"));
            }
            self.line_start = line_end;
            self.searched = line_end;
            let empty = line.len() == 2;
            if self.request_line_end > 0 {
                if empty {
                    return Ok(Some(self.head_start..line_end));
                }
            } else if empty {
                self.head_start = line_end;
                self.leading_lines += 1;
                if self.leading_lines > MAX_LEADING_EMPTY_LINES {
                    return Err(Refusal::BadRequest("too many empty lines before the request"));
                }
            } else {
                self.request_line_end = line_end;
            }
        }
    }

    /// Whether a byte of a request was seen.
    pub(crate) fn has_begun(&self) -> bool {
        self.searched > self.head_start
    }

    fn check_length(&self, line_end: usize, limits: &HeadLimits) -> Result<(), Refusal> {
        if self.request_line_end == 0 {
            let max_bytes = limits.max_target_bytes + REQUEST_LINE_OVERHEAD_BYTES;
            if line_end - self.head_start > max_bytes {
                return Err(Refusal::TargetTooLong { max_bytes: limits.max_target_bytes });
            }
        } else if line_end - self.request_line_end > limits.max_headers_bytes {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(())
    }

    /// Anything that cannot start a method is refused at its first byte: a TLS
    /// client would wait for an answer before it sends a line feed.
    fn check_start(&self, line: &[u8]) -> Result<(), Refusal> {
        match line.first() {
            Some(first) if self.request_line_end == 0 => {
                if first.is_ascii_alphabetic() || *first == b'\r' || is_token_sign(*first) {
                    Ok(())
                } else {
                    Err(Refusal::BadRequest("this is not an HTTP request"))
                }
            }
            _ => Ok(()),
        }
    }
}

fn is_token_sign(byte: u8) -> bool {
    byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
