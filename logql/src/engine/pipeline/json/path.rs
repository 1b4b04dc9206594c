//! The expressions of `| json x="a.b[0]"`.

/// One step into a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A field of an object.
    Key(Box<[u8]>),
    /// An element of an array, from zero.
    Index(usize),
}

#[derive(PartialEq, Eq, Debug)]
enum Token {
    Dot,
    Open,
    Close,
    Field(Box<[u8]>),
    Text(Box<[u8]>),
    Index(usize),
    /// The end, or something that begins no token.
    End,
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::Dot => "DOT",
            Self::Open => "LSB",
            Self::Close => "RSB",
            Self::Field(_) => "FIELD",
            Self::Text(_) => "STRING",
            Self::Index(_) => "INDEX",
            Self::End => "$end",
        }
    }
}

struct Lexer<'t> {
    rest: &'t [u8],
}

impl Lexer<'_> {
    fn next(&mut self) -> Token {
        while let [b' ' | b'\t' | b'\n', tail @ ..] = self.rest {
            self.rest = tail;
        }
        let Some(&first) = self.rest.first() else { return Token::End };
        let (token, len) = match first {
            b'.' => (Token::Dot, 1),
            b'[' => (Token::Open, 1),
            b']' => (Token::Close, 1),
            b'"' => match self.rest[1..].iter().position(|b| matches!(b, b'"' | b']')) {
                Some(len) if self.rest[len + 1] == b'"' => {
                    (Token::Text(self.rest[1..=len].into()), len + 2)
                }
                _ => return Token::End,
            },
            b'0'..=b'9' => {
                let len = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
                let number = std::str::from_utf8(&self.rest[..len]).ok();
                match number.and_then(|number| number.parse().ok()) {
                    Some(index) if self.rest[len..].trim_ascii_start().first() == Some(&b']') => {
                        (Token::Index(index), len)
                    }
                    _ => return Token::End,
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let is_part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
                let len = self.rest.iter().take_while(is_part).count();
                (Token::Field(self.rest[..len].into()), len)
            }
            _ => return Token::End,
        };
        self.rest = &self.rest[len..];
        token
    }
}

/// Parses an expression.
///
/// # Errors
/// `cannot parse expression [x]: syntax error: ...`
pub(crate) fn parse(expression: &[u8]) -> Result<Vec<Step>, String> {
    steps(expression).map_err(|detail| {
        format!("cannot parse expression [{}]: {detail}", String::from_utf8_lossy(expression))
    })
}

fn steps(expression: &[u8]) -> Result<Vec<Step>, String> {
    let mut lexer = Lexer { rest: expression };
    let unexpected = |token: &Token, wanted: &str| {
        Err(format!("syntax error: unexpected {}, expecting {wanted}", token.name()))
    };
    let mut steps = Vec::new();
    loop {
        match lexer.next() {
            Token::Field(name) if steps.is_empty() => steps.push(Step::Key(name)),
            Token::Open => {
                steps.push(match lexer.next() {
                    Token::Text(key) => Step::Key(key),
                    Token::Index(index) => Step::Index(index),
                    other => return unexpected(&other, "STRING or INDEX"),
                });
                match lexer.next() {
                    Token::Close => {}
                    other => return unexpected(&other, "RSB"),
                }
            }
            other if steps.is_empty() => return unexpected(&other, "LSB or FIELD"),
            Token::Dot => match lexer.next() {
                Token::Field(name) => steps.push(Step::Key(name)),
                other => return unexpected(&other, "FIELD"),
            },
            Token::End if lexer.rest.is_empty() => return Ok(steps),
            other => return Err(format!("syntax error: unexpected {}", other.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_steps() {
        let key = |name: &str| Step::Key(name.as_bytes().into());
        for (text, steps) in [
            ("a", vec![key("a")]),
            (" a . b [ 0 ]\n", vec![key("a"), key("b"), Step::Index(0)]),
            (r#"["k.k"].x"#, vec![key("k.k"), key("x")]),
            (r#"a[1]["b c"][2]"#, vec![key("a"), Step::Index(1), key("b c"), Step::Index(2)]),
            ("[0]", vec![Step::Index(0)]),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(steps), "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_the_reference() {
        for (text, detail) in [
            ("", "unexpected $end, expecting LSB or FIELD"),
            ("$", "unexpected $end, expecting LSB or FIELD"),
            (".a", "unexpected DOT, expecting LSB or FIELD"),
            ("a.", "unexpected $end, expecting FIELD"),
            ("a[b]", "unexpected FIELD, expecting STRING or INDEX"),
            ("a[-1]", "unexpected $end, expecting STRING or INDEX"),
            ("a[1.5]", "unexpected $end, expecting STRING or INDEX"),
            ("a[*]", "unexpected $end, expecting STRING or INDEX"),
            ("a[0", "unexpected $end, expecting STRING or INDEX"),
            ("a[99999999999999999999]", "unexpected $end, expecting STRING or INDEX"),
            ("a b", "unexpected FIELD"),
            ("a$", "unexpected $end"),
        ] {
            let wanted = format!("cannot parse expression [{text}]: syntax error: {detail}");
            assert_eq!(parse(text.as_bytes()), Err(wanted));
        }
    }
}
