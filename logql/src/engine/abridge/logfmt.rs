//! Abridges lines for `| logfmt`: pairs whose labels are wanted stay as they are.
//!
//! The rules are those of the decoder of [`super::super::pipeline::logfmt`]. A line is refused
//! where that decoder finds a fault, and where a number stands in a key.

use logsvc_proto::words::{bare_word_end, quote_or_backslash};

use super::{Names, NumberKind, push_key};
use crate::engine::labels::text::is_unclean;

/// What was read last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum LogfmtState {
    /// A pair, or nothing.
    Between,
    /// A part of a key.
    Key(Vec<u8>),
    /// An equals sign.
    ValueStart { is_kept: bool },
    /// A part of a value without quotes.
    Bare { is_kept: bool },
    /// A part of a value in quotes, and maybe a backslash before the next byte.
    Quoted { is_kept: bool, is_escaped: bool },
}

impl LogfmtState {
    pub(super) const START: LogfmtState = LogfmtState::Between;

    /// Reads what stays within a value or a key at once: the number of bytes. `None` refuses the
    /// line.
    pub(super) fn same(&mut self, text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let (is_kept, len) = match self {
            LogfmtState::Key(key) => {
                let len = bare_word_end(text, 0);
                push_key(key, &text[..len])?;
                (false, len)
            }
            LogfmtState::Bare { is_kept } => (*is_kept, bare_word_end(text, 0)),
            LogfmtState::Quoted { is_kept, is_escaped: false } => {
                (*is_kept, quote_or_backslash(text, 0).unwrap_or(text.len()))
            }
            _ => return Some(0),
        };
        if is_kept {
            out.extend_from_slice(&text[..len]);
        }
        Some(len)
    }

    /// Reads a byte. `None` refuses the line.
    pub(super) fn byte(&mut self, byte: u8, names: &Names, out: &mut Vec<u8>) -> Option<()> {
        let is_space = byte <= b' ';
        let next = match self {
            LogfmtState::Between => match byte {
                b'=' | b'"' => return None,
                _ if is_space => return Some(()),
                _ => LogfmtState::Key(vec![byte]),
            },
            LogfmtState::Key(key) => match byte {
                b'"' => return None,
                b'=' => {
                    let is_kept = is_kept(key, names)?;
                    if is_kept {
                        out.extend_from_slice(key);
                        out.push(b'=');
                    }
                    LogfmtState::ValueStart { is_kept }
                }
                _ if is_space => {
                    bare_key(key, names, out)?;
                    LogfmtState::Between
                }
                _ => return push_key(key, &[byte]),
            },
            LogfmtState::ValueStart { is_kept } if byte == b'"' => {
                let is_kept = *is_kept;
                keep(is_kept, byte, out);
                LogfmtState::Quoted { is_kept, is_escaped: false }
            }
            LogfmtState::ValueStart { is_kept } | LogfmtState::Bare { is_kept } => {
                let is_kept = *is_kept;
                match byte {
                    b'=' | b'"' => return None,
                    _ if is_space => {
                        keep(is_kept, b' ', out);
                        LogfmtState::Between
                    }
                    _ => {
                        keep(is_kept, byte, out);
                        LogfmtState::Bare { is_kept }
                    }
                }
            }
            LogfmtState::Quoted { is_kept, is_escaped } => {
                keep(*is_kept, byte, out);
                match byte {
                    _ if *is_escaped => *is_escaped = false,
                    b'\\' => *is_escaped = true,
                    b'"' => {
                        keep(*is_kept, b' ', out);
                        *self = LogfmtState::Between;
                    }
                    _ => {}
                }
                return Some(());
            }
        };
        *self = next;
        Some(())
    }

    /// Reads a number: whether it is kept. `None` refuses the line.
    pub(super) fn number(&mut self, kind: NumberKind) -> Option<bool> {
        match self {
            // A space ends a value.
            LogfmtState::ValueStart { is_kept } | LogfmtState::Bare { is_kept }
                if kind != NumberKind::SpacedTime =>
            {
                let is_kept = *is_kept;
                *self = LogfmtState::Bare { is_kept };
                Some(is_kept)
            }
            LogfmtState::Quoted { is_kept, is_escaped } => {
                *is_escaped = false;
                Some(*is_kept)
            }
            _ => None,
        }
    }

    /// Ends the line.
    pub(super) fn end(&self, names: &Names, out: &mut Vec<u8>) -> Option<()> {
        match self {
            LogfmtState::Key(key) => bare_key(key, names, out),
            LogfmtState::Quoted { .. } => None,
            _ => Some(()),
        }
    }
}

/// Whether the pair of a key is kept; `None` if there is no such key.
fn is_kept(key: &[u8], names: &Names) -> Option<bool> {
    (!is_unclean(key)).then(|| names.may_want(key))
}

/// A key without a value.
fn bare_key(key: &[u8], names: &Names, out: &mut Vec<u8>) -> Option<()> {
    if is_kept(key, names)? {
        out.extend_from_slice(key);
        out.push(b' ');
    }
    Some(())
}

fn keep(is_kept: bool, byte: u8, out: &mut Vec<u8>) {
    if is_kept {
        out.push(byte);
    }
}
