//! The messages for refused patterns.

/// Kinds of errors, with Go's words for them.
#[derive(Clone, Copy)]
pub(super) enum Code {
    InvalidCharRange,
    InvalidEscape,
    InvalidNamedCapture,
    InvalidPerlOperator,
    InvalidRepeatOperator,
    InvalidRepeatSize,
    InvalidUtf8,
    MissingBracket,
    MissingParenthesis,
    MissingRepeatArgument,
    TrailingBackslash,
    UnexpectedParenthesis,
    NestingDepth,
    TooLarge,
}

pub(super) fn failure(code: Code, expr: &str) -> String {
    let words = match code {
        Code::InvalidCharRange => "invalid character class range",
        Code::InvalidEscape => "invalid escape sequence",
        Code::InvalidNamedCapture => "invalid named capture",
        Code::InvalidPerlOperator => "invalid or unsupported Perl syntax",
        Code::InvalidRepeatOperator => "invalid nested repetition operator",
        Code::InvalidRepeatSize => "invalid repeat count",
        Code::InvalidUtf8 => "invalid UTF-8",
        Code::MissingBracket => "missing closing ]",
        Code::MissingParenthesis => "missing closing )",
        Code::MissingRepeatArgument => "missing argument to repetition operator",
        Code::TrailingBackslash => "trailing backslash at end of expression",
        Code::UnexpectedParenthesis => "unexpected )",
        Code::NestingDepth => "expression nests too deeply",
        Code::TooLarge => "expression too large",
    };
    format!("error parsing regexp: {words}: `{expr}`")
}
