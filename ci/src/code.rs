//! Rust source with its comments and literals told apart from its code, line by
//! line. A small lexer: it knows comments, strings and characters and nothing else
//! of the language, and takes any text without failing.

/// One line of a source file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    /// The code; comments and the content of literals are left out.
    pub(crate) code: String,
    /// The comments, with their marks.
    pub(crate) comment: String,
}

/// Splits a source file.
pub(crate) fn split(source: &str) -> Vec<Line> {
    let mut lexer = Lexer { rest: source, lines: vec![Line::default()] };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.lines
}

struct Lexer<'a> {
    rest: &'a str,
    lines: Vec<Line>,
}

impl Lexer<'_> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            self.comment_until_line_end();
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = raw_string_hashes(self.rest, self.follows_word()) {
            self.raw_string(hashes);
        } else if self.rest.starts_with('"') {
            self.quoted('"');
        } else if self.rest.starts_with('\'') && is_char_literal(self.rest) {
            self.quoted('\'');
        } else {
            self.code_char();
        }
    }

    /// Takes one character of code.
    fn code_char(&mut self) {
        if let Some(c) = self.take() {
            self.push_code(c);
        }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.lines.push(Line::default());
        }
        Some(c)
    }

    fn push_code(&mut self, c: char) {
        if c != '\n'
            && let Some(line) = self.lines.last_mut()
        {
            line.code.push(c);
        }
    }

    /// Takes one character of a comment.
    fn comment_char(&mut self) {
        if let Some(c) = self.take()
            && c != '\n'
            && let Some(line) = self.lines.last_mut()
        {
            line.comment.push(c);
        }
    }

    fn comment_until_line_end(&mut self) {
        while !self.rest.is_empty() && !self.rest.starts_with('\n') {
            self.comment_char();
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0usize;
        while !self.rest.is_empty() {
            let mark = self.rest.get(..2);
            match mark {
                Some("/*") => depth += 1,
                Some("*/") => depth -= 1,
                _ => {
                    self.comment_char();
                    continue;
                }
            }
            self.comment_char();
            self.comment_char();
            if depth == 0 {
                return;
            }
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        let end = format!("\"{}", "#".repeat(hashes));
        // The opening: r, hashes and quote.
        while !self.rest.starts_with('"') {
            self.code_char();
        }
        self.code_char();
        while !self.rest.is_empty() && !self.rest.starts_with(&end) {
            self.take();
        }
        (0..end.len()).for_each(|_| self.code_char());
    }

    fn quoted(&mut self, quote: char) {
        self.code_char();
        while let Some(c) = self.take() {
            if c == '\\' {
                self.take();
            } else if c == quote {
                self.push_code(c);
                return;
            }
        }
    }

    /// Whether the last character of code can be part of a name, so that an `r`
    /// behind it does not begin a raw string.
    fn follows_word(&self) -> bool {
        let last = self.lines.last().and_then(|line| line.code.chars().next_back());
        last.is_some_and(is_word)
    }
}

/// Whether `c` can be part of a name.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Number of hashes if a raw string begins here (`r"`, `br#"`, `cr"`).
fn raw_string_hashes(rest: &str, follows_word: bool) -> Option<usize> {
    if follows_word {
        return None;
    }
    let rest = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let quote = rest.find(|c| c != '#')?;
    rest[quote..].starts_with('"').then_some(quote)
}

/// Whether a quote begins a character and not a lifetime: `'x'` or `'\n'`.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(source: &str) -> String {
        split(source).iter().map(|line| line.code.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn literals_lose_their_content() {
        for (source, code) in [
            (r#"f("a // b", 'x')"#, r#"f("", '')"#),
            (r#"f("a \" b") + 1"#, r#"f("") + 1"#),
            (r###"f(r#"a " b"#) + 1"###, r###"f(r#""#) + 1"###),
            (r#"f(b'"', '\'', '\\')"#, r#"f(b'', '', '')"#),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("let r = bar\"x\";", "let r = bar\"\";"),
            ("\"two\nlines\" + 1", "\"\n\" + 1"),
            ("\"open", "\""),
        ] {
            assert_eq!(code_of(source), code, "{source}");
        }
    }

    #[test]
    fn comments_are_kept_apart() {
        let lines = split("a // b \"c\n/* d /* e */ f */ g\n//! h");
        let parts: Vec<(&str, &str)> =
            lines.iter().map(|line| (line.code.as_str(), line.comment.as_str())).collect();
        assert_eq!(parts, [("a ", "// b \"c"), (" g", "/* d /* e */ f */"), ("", "//! h")],);
    }

    #[test]
    fn any_text_ends() {
        for text in ["", "'", "\"\\", "r#", "r###\"", "/*", "/* /*", "'\\", "é'é'é\"é", "b'", "br"]
        {
            assert_eq!(split(text).len(), 1, "{text}");
        }
    }
}
