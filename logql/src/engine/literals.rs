//! Literals that every match of a regular expression contains.
//!
//! The syntax tree is read from left to right. As long as the text of a match is
//! known up to a few alternatives, the alternatives grow; where it is not (`.*`, large
//! classes, repetitions), the alternatives become a requirement and a new one
//! begins. So `(GET|PUT) /a.*took \d+ms` requires `GET /a` or `PUT /a`, and
//! `took `, and `ms`.
//!
//! In a case-insensitive pattern a letter is a class of characters. Where these
//! are the two cases of an ASCII letter the literal ignores case; `k` and `s` also
//! have a case outside of ASCII (U+212A and U+017F), which becomes an alternative.

use std::cmp::Reverse;

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// A text to be looked for in lines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Literal {
    /// The text, not empty; any bytes. Without upper-case ASCII letters when
    /// `ignore_case` is set.
    pub bytes: Vec<u8>,
    /// Whether an ASCII letter stands for itself in either case. All other bytes
    /// are compared as they are.
    pub ignore_case: bool,
}

impl Literal {
    /// Whether the text occurs. For tests and small texts: it takes the product of
    /// both lengths in the worst case.
    #[must_use]
    pub fn occurs_in(&self, text: &[u8]) -> bool {
        text.windows(self.bytes.len()).any(|window| {
            if self.ignore_case {
                window.eq_ignore_ascii_case(&self.bytes)
            } else {
                window == self.bytes
            }
        })
    }
}

/// Most alternatives of a requirement.
pub(crate) const MAX_ALTERNATIVES: usize = 128;
/// Most needles of a search; more make it slower than the pattern.
const MAX_NEEDLES: usize = 64;
/// Most alternatives that grow together.
const MAX_GROWING: usize = 16;
/// Most characters of a class that become alternatives.
const MAX_CLASS_CHARS: u32 = 4;
/// Longest literal that grows.
const MAX_LEN_BYTES: usize = 256;
/// Most nodes that are visited, some of them more than once.
const MAX_VISITS: usize = 20_000;

/// The requirements on a text in which the pattern finds a match: the text contains one literal
/// of each item.
pub(crate) fn required_by(hir: &Hir) -> Vec<Vec<Literal>> {
    let mut visits = MAX_VISITS;
    Gatherer::gather(hir, &mut visits)
}

/// Texts of which at least one occurs in every text that the pattern matches, such
/// that looking for them first is faster than the pattern; `None` when nothing
/// useful is known.
pub(crate) fn needles_of(hir: &Hir) -> Option<Vec<Literal>> {
    let any_of = best(required_by(hir))?;
    let shortest = any_of.iter().map(|literal| literal.bytes.len()).min()?;
    let is_rare = shortest > 1 || (any_of.len() == 1 && !any_of[0].ignore_case);
    (is_rare && any_of.len() <= MAX_NEEDLES).then_some(any_of)
}

/// How much an item says: long texts are rare.
pub(crate) fn score(any_of: &[Literal]) -> (usize, Reverse<usize>) {
    let shortest = any_of.iter().map(|literal| literal.bytes.len()).min().unwrap_or(0);
    (shortest.min(8), Reverse(any_of.len()))
}

/// The item that says most.
pub(crate) fn best(items: Vec<Vec<Literal>>) -> Option<Vec<Literal>> {
    items.into_iter().max_by_key(|item| score(item))
}

struct Gatherer<'v> {
    items: Vec<Vec<Literal>>,
    /// The alternatives for the text of a match since the last cut. At the beginning: the
    /// empty text, which a [`Literal`] otherwise never is.
    growing: Vec<Literal>,
    visits: &'v mut usize,
}

fn nothing() -> Vec<Literal> {
    vec![Literal { bytes: Vec::new(), ignore_case: false }]
}

impl Gatherer<'_> {
    fn gather(hir: &Hir, visits: &mut usize) -> Vec<Vec<Literal>> {
        let mut gatherer = Gatherer { items: Vec::new(), growing: nothing(), visits };
        gatherer.visit(hir);
        gatherer.cut();
        gatherer.items
    }

    fn visit(&mut self, hir: &Hir) {
        if let HirKind::Concat(parts) = hir.kind() {
            return parts.iter().for_each(|part| self.visit(part));
        }
        if let Some(texts) = texts_of(hir, self.visits) {
            return self.append(texts);
        }
        match hir.kind() {
            HirKind::Capture(capture) => self.visit(&capture.sub),
            HirKind::Repetition(repetition) => self.visit_repetition(repetition),
            HirKind::Alternation(parts) => {
                self.cut();
                if let Some(item) = self.any_branch(parts) {
                    self.items.push(item);
                }
            }
            HirKind::Empty
            | HirKind::Literal(_)
            | HirKind::Class(_)
            | HirKind::Look(_)
            | HirKind::Concat(_) => self.cut(),
        }
    }

    fn visit_repetition(&mut self, repetition: &Repetition) {
        if repetition.min == 0 {
            return self.cut();
        }
        // The first round stands behind the text before the repetition, the last round before
        // the text after it.
        match texts_of(&repetition.sub, self.visits) {
            Some(texts) => {
                self.append(texts.clone());
                self.cut();
                self.append(texts);
            }
            None => {
                self.visit(&repetition.sub);
                self.cut();
            }
        }
    }

    /// The best item of every branch together.
    fn any_branch(&mut self, parts: &[Hir]) -> Option<Vec<Literal>> {
        let mut any_of = Vec::new();
        for part in parts {
            any_of.append(&mut best(Self::gather(part, self.visits))?);
        }
        any_of.sort_unstable();
        any_of.dedup();
        (any_of.len() <= MAX_ALTERNATIVES).then_some(any_of)
    }

    /// Takes note that the match goes on with one of these texts.
    fn append(&mut self, texts: Vec<Literal>) {
        let len_max = |texts: &[Literal]| texts.iter().map(|text| text.bytes.len()).max();
        let len = len_max(&self.growing).unwrap_or(0) + len_max(&texts).unwrap_or(0);
        if self.growing.len() * texts.len() > MAX_GROWING || len > MAX_LEN_BYTES {
            self.cut();
        }
        if self.growing == nothing() {
            self.growing = texts;
            if self.growing.len() > MAX_GROWING {
                self.cut();
            }
            return;
        }
        self.growing = product(&self.growing, &texts);
    }

    /// Ends the growing literals.
    fn cut(&mut self) {
        let mut any_of = std::mem::replace(&mut self.growing, nothing());
        if any_of.iter().all(|literal| !literal.bytes.is_empty()) {
            any_of.sort_unstable();
            any_of.dedup();
            self.items.push(any_of);
        }
    }
}

/// All texts the pattern can match, when these are few; looking around counts as
/// the empty text. `None` also when the visits are used up.
fn texts_of(hir: &Hir, visits: &mut usize) -> Option<Vec<Literal>> {
    *visits = visits.checked_sub(1)?;
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(nothing()),
        HirKind::Literal(literal) => {
            Some(vec![Literal { bytes: literal.0.to_vec(), ignore_case: false }])
        }
        HirKind::Class(class) => texts_of_class(class),
        HirKind::Capture(capture) => texts_of(&capture.sub, visits),
        HirKind::Concat(parts) => {
            let mut texts = nothing();
            for part in parts {
                let more = texts_of(part, visits)?;
                if texts.len() * more.len() > MAX_GROWING || texts[0].bytes.len() > MAX_LEN_BYTES {
                    return None;
                }
                texts = product(&texts, &more);
            }
            Some(texts)
        }
        HirKind::Alternation(parts) => {
            let mut texts = Vec::new();
            for part in parts {
                texts.append(&mut texts_of(part, visits)?);
                if texts.len() > MAX_ALTERNATIVES {
                    return None;
                }
            }
            Some(texts)
        }
        HirKind::Repetition(repetition) => match (repetition.min, repetition.max) {
            (0, Some(1)) => {
                let mut texts = texts_of(&repetition.sub, visits)?;
                texts.append(&mut nothing());
                Some(texts)
            }
            (1, Some(1)) => texts_of(&repetition.sub, visits),
            _ => None,
        },
    }
}

fn texts_of_class(class: &Class) -> Option<Vec<Literal>> {
    let mut chars: Vec<Vec<u8>> = Vec::new();
    let mut count = 0u32;
    match class {
        Class::Unicode(class) => {
            for range in class.ranges() {
                count = count.saturating_add(u32::from(range.end()) - u32::from(range.start()) + 1);
                if count > MAX_CLASS_CHARS {
                    return None;
                }
                let utf8 = |c: char| c.encode_utf8(&mut [0; 4]).as_bytes().to_vec();
                chars.extend((range.start()..=range.end()).map(utf8));
            }
        }
        Class::Bytes(class) => {
            for range in class.ranges() {
                count += u32::from(range.end() - range.start()) + 1;
                if count > MAX_CLASS_CHARS {
                    return None;
                }
                chars.extend((range.start()..=range.end()).map(|byte| vec![byte]));
            }
        }
    }
    let mut texts: Vec<Literal> = Vec::with_capacity(chars.len());
    for char in &chars {
        let other_case = match char.as_slice() {
            [byte] if byte.is_ascii_uppercase() => Some(byte.to_ascii_lowercase()),
            [byte] if byte.is_ascii_lowercase() => Some(byte.to_ascii_uppercase()),
            _ => None,
        };
        let ignore_case = other_case.is_some_and(|other| chars.contains(&vec![other]));
        let bytes = if ignore_case { char.to_ascii_lowercase() } else { char.clone() };
        let text = Literal { bytes, ignore_case };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    // The empty class matches nothing: there is nothing to be known of a match.
    (!texts.is_empty()).then_some(texts)
}

/// Every text of `left` with every text of `right` behind it.
fn product(left: &[Literal], right: &[Literal]) -> Vec<Literal> {
    let mut all = Vec::with_capacity(left.len() * right.len());
    for head in left {
        for tail in right {
            let ignore_case = head.ignore_case || tail.ignore_case;
            let mut bytes = [head.bytes.as_slice(), &tail.bytes].concat();
            if ignore_case {
                bytes.make_ascii_lowercase();
            }
            all.push(Literal { bytes, ignore_case });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::regex::{Anchoring, compile};
    use super::*;

    /// Items as `a|b`, with `~` before literals that ignore case.
    fn items(pattern: &str) -> Vec<String> {
        let hir = compile(pattern.as_bytes(), Anchoring::Search).expect("compiles").hir;
        let text = |literal: &Literal| {
            let mark = if literal.ignore_case { "~" } else { "" };
            format!("{mark}{}", literal.bytes.escape_ascii())
        };
        let item = |item: &Vec<Literal>| item.iter().map(text).collect::<Vec<_>>().join("|");
        required_by(&hir).iter().map(item).collect()
    }

    #[test]
    fn matches_are_read_from_left_to_right() {
        for (pattern, wanted) in [
            ("timeout", &["timeout"][..]),
            ("(GET|PUT) /a.*took [0-9]+ms", &["GET /a|PUT /a", "took ", "ms"]),
            ("(?i)timeout|refused", &["~refused|~refu\\xc5\\xbfed|~timeout"]),
            ("(?i)Error: x-1", &["~error: x-1"]),
            ("(?i:warn) disk", &["~warn disk"]),
            ("x(abc)+y", &["xabc", "abcy"]),
            ("x(a.c)+y", &["xa", "c", "y"]),
            ("colou?r", &["color|colour"]),
            ("^foo$", &["foo"]),
            (r"\bfoo\b.", &["foo"]),
            ("a(b|c|d.e)f", &["a", "b|c|e", "f"]),
            ("a(b|[^x])f", &["a", "f"]),
            ("a*b", &["b"]),
            ("foo|.*", &[]),
            ("[a-z]+", &[]),
            ("5[0-9][0-9]", &["5"]),
            ("5(00|0[23])", &["500|502|503"]),
            ("", &[]),
            ("(a|)", &[]),
            ("é[äöü]", &["\\xc3\\xa9\\xc3\\xa4|\\xc3\\xa9\\xc3\\xb6|\\xc3\\xa9\\xc3\\xbc"]),
        ] {
            assert_eq!(items(pattern), wanted, "{pattern}");
        }
    }

    #[test]
    fn every_match_holds_a_needle() {
        let hir = |pattern: &str| compile(pattern.as_bytes(), Anchoring::Search).expect("compiles");
        for (pattern, text) in [
            (r#"level=(error|warn).*code=\d+"#, "level=warn xx code=12"),
            ("(?i)TimeOut", "tImeoUt"),
            ("(?i)Disk", "di\u{17f}\u{212a}"),
            ("(abc)+x?", "abcabc"),
            ("ab|cd[0-9]ef", "cd7ef"),
            (r"^GET /\w+ 200", "GET /x 200"),
        ] {
            let pattern = hir(pattern);
            let needles = needles_of(&pattern.hir).expect("something is known");
            assert!(needles.iter().any(|needle| needle.occurs_in(text.as_bytes())), "{text}");
            assert!(pattern.regex.is_match(text.as_bytes()), "{text}");
        }
        assert_eq!(needles_of(&hir("a?b*").hir), None);
        assert_eq!(needles_of(&hir("[a-z]+").hir), None);
        assert_eq!(needles_of(&hir("(?i)x[0-9]+").hir), None);
    }

    #[test]
    fn hostile_patterns_take_bounded_work() {
        let nested = format!("{}a{}", "(".repeat(90), "+b)".repeat(90));
        for pattern in [
            nested,
            "(?i)success ".repeat(50),
            "((ab|cd)(ef|gh)){40}".to_owned(),
            (0..5000).map(|n| format!("w{n}|")).collect::<String>() + "x",
            "(a|b.)".repeat(500),
        ] {
            for item in items(&pattern) {
                assert!(item.len() < 64 * 1024, "{pattern}");
            }
        }
    }
}
