//! Tokens of the language.

use crate::syntax::ast::{BinaryOp, Flag, Keyword, RangeFunction, VectorFunction};

/// A token and where it begins.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::syntax) struct Token<'a> {
    pub(in crate::syntax) kind: Kind,
    /// As written.
    pub(in crate::syntax) text: &'a str,
    /// Line from 1; 0 for tokens that Loki completes by hand.
    pub(in crate::syntax) line: u32,
    /// Column in code points, from 1.
    pub(in crate::syntax) col: u32,
}

/// The kind of a token.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::syntax) enum Kind {
    End,
    /// A name; or a character that starts no token, or a one-character literal in
    /// single quotes, which the grammar takes for names as well.
    Ident,
    /// A string, decoded.
    String(Vec<u8>),
    /// A number without sign, unconverted.
    Number,
    /// Nanoseconds.
    Duration(i64),
    /// Bytes.
    Bytes(u64),
    /// `[5m]` in nanoseconds.
    Range(i64),
    Flag(Flag),
    RangeFn(RangeFunction),
    VectorFn(VectorFunction),
    /// The word that begins a stage.
    Stage(Keyword),
    Fixed(Fixed),
}

macro_rules! fixed {
    ($($variant:ident $text:literal,)*) => {
        /// Punctuation, operators and keywords.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(in crate::syntax) enum Fixed { $($variant,)* }

        impl Fixed {
            /// Its name in error messages.
            pub(in crate::syntax) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

fixed! {
    OpenBrace "{", CloseBrace "}", OpenParen "(", CloseParen ")",
    CloseBracket "]", Comma ",", Dot ".", Pipe "|",
    Equal "=", NotEqual "!=", Match "=~", NotMatch "!~",
    DoubleEqual "==", Greater ">", GreaterOrEqual ">=", Less "<", LessOrEqual "<=",
    Add "+", Sub "-", Mul "*", Div "/", Mod "%", Pow "^",
    PipeExact "|=", PipeMatch "|~", PipePattern "|>", NotPattern "!>",
    By "by", Without "without", Bool "bool", Offset "offset", On "on", Ignoring "ignoring",
    GroupLeft "group_left", GroupRight "group_right", Or "or", And "and", Unless "unless",
    Unwrap "unwrap",
    Vector "VECTOR", LabelReplace "label_replace", Ip "ip", BytesConversion "BYTES_CONV",
    DurationConversion "DURATION_CONV", DurationSecondsConversion "DURATION_SECONDS_CONV",
}

impl Fixed {
    /// The binary operator that the token stands for.
    pub(in crate::syntax) fn binary_op(self) -> Option<BinaryOp> {
        Some(match self {
            Self::Or => BinaryOp::Or,
            Self::And => BinaryOp::And,
            Self::Unless => BinaryOp::Unless,
            Self::DoubleEqual => BinaryOp::Equal,
            Self::NotEqual => BinaryOp::NotEqual,
            Self::Greater => BinaryOp::Greater,
            Self::GreaterOrEqual => BinaryOp::GreaterOrEqual,
            Self::Less => BinaryOp::Less,
            Self::LessOrEqual => BinaryOp::LessOrEqual,
            Self::Add => BinaryOp::Add,
            Self::Sub => BinaryOp::Sub,
            Self::Mul => BinaryOp::Mul,
            Self::Div => BinaryOp::Div,
            Self::Mod => BinaryOp::Mod,
            Self::Pow => BinaryOp::Pow,
            _ => return None,
        })
    }
}

impl Kind {
    /// Its name in error messages.
    pub(in crate::syntax) fn name(&self) -> String {
        match self {
            Self::End => "$end".to_owned(),
            Self::Ident => "IDENTIFIER".to_owned(),
            Self::String(_) => "STRING".to_owned(),
            Self::Number => "NUMBER".to_owned(),
            Self::Duration(_) => "DURATION".to_owned(),
            Self::Bytes(_) => "BYTES".to_owned(),
            Self::Range(_) => "RANGE".to_owned(),
            Self::Flag(_) => "FUNCTION_FLAG".to_owned(),
            Self::RangeFn(function) => function.as_str().to_ascii_uppercase(),
            Self::VectorFn(function) => function.as_str().to_ascii_uppercase(),
            Self::Stage(keyword) => keyword.as_str().to_owned(),
            Self::Fixed(fixed) => fixed.as_str().to_owned(),
        }
    }
}

/// The keyword that a word is, when it is one in every position.
pub(super) fn reserved(lower: &str) -> Option<Kind> {
    let fixed = match lower {
        "by" => Fixed::By,
        "without" => Fixed::Without,
        "bool" => Fixed::Bool,
        "offset" => Fixed::Offset,
        "on" => Fixed::On,
        "ignoring" => Fixed::Ignoring,
        "group_left" => Fixed::GroupLeft,
        "group_right" => Fixed::GroupRight,
        "or" => Fixed::Or,
        "and" => Fixed::And,
        "unless" => Fixed::Unless,
        "unwrap" => Fixed::Unwrap,
        word => return Keyword::of_word(word).map(Kind::Stage),
    };
    Some(Kind::Fixed(fixed))
}

/// The keyword that a word is when an argument list follows.
pub(super) fn contextual(lower: &str) -> Option<Kind> {
    let fixed = match lower {
        "vector" => Fixed::Vector,
        "label_replace" => Fixed::LabelReplace,
        "ip" => Fixed::Ip,
        "bytes" => Fixed::BytesConversion,
        "duration" => Fixed::DurationConversion,
        "duration_seconds" => Fixed::DurationSecondsConversion,
        _ => {
            let range = RangeFunction::ALL.into_iter().find(|f| f.as_str() == lower);
            let vector = VectorFunction::ALL.into_iter().find(|f| f.as_str() == lower);
            return range.map(Kind::RangeFn).or(vector.map(Kind::VectorFn));
        }
    };
    Some(Kind::Fixed(fixed))
}
