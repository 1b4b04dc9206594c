//! Words that tell how the code once was, and references to texts that the repository lacks.
//!
//! The phrases are few, and each hits only history in usual sentences. A reader learns nothing
//! from a past state, and git keeps it.

use super::prose::Paragraph;

/// A phrase that is a fault.
pub(super) struct Phrase {
    text: &'static str,
    /// Words behind or in front of which the phrase means something else.
    unless_after: &'static [&'static str],
    unless_before: &'static [&'static str],
}

const fn phrase(text: &'static str) -> Phrase {
    Phrase { text, unless_after: &[], unless_before: &[] }
}

/// Forms of *to be*: a passive of *use* follows them, and tells no history.
const PASSIVE: &[&str] = &["be", "is", "are", "was", "were", "been", "being", "not", "and"];
/// After these words *longer* compares lengths, and tells no history.
const COMPARED: &[&str] = &["than", "to", "after", "for"];

/// Phrases for comments of code.
pub(super) const COMMENTS: &[Phrase] = &[
    phrase("formerly"),
    phrase("previously"),
    phrase("originally"),
    phrase("Before, "),
    phrase(": before, "),
    phrase("since version"),
    phrase("now takes"),
    phrase("now take"),
    phrase("now costs"),
    phrase("now uses"),
    phrase("now needs"),
    phrase("now returns"),
    phrase("now supports"),
    phrase("earlier builds"),
    phrase("the build before"),
    phrase("in an earlier version"),
    phrase("in earlier versions"),
    phrase("in older versions"),
    Phrase { text: "used to", unless_after: PASSIVE, unless_before: &[] },
];

/// Further phrases for documents: comments say such things of the states of a run.
const DOCUMENTS_ONLY: &[Phrase] = &[
    Phrase { text: "no longer", unless_after: &[], unless_before: COMPARED },
    phrase("than before"),
    phrase("as before"),
];

/// The list for documents.
pub(super) const DOCUMENTS: &[&[Phrase]] = &[COMMENTS, DOCUMENTS_ONLY];

/// Faults of the text of one file.
pub(super) fn faults(name: &str, prose: &[Paragraph], phrases: &[&[Phrase]]) -> Vec<String> {
    let mut faults = Vec::new();
    for paragraph in prose {
        let mut fault = |at: usize, words: String| {
            faults.push(format!("{name}:{}: {words}", paragraph.line_at(at)));
        };
        for phrase in phrases.iter().copied().flatten() {
            for at in phrase.places(&paragraph.text) {
                let text = phrase.text.trim_matches([':', ',', ' ']);
                fault(at, format!("{text:?} tells history: say how it is"));
            }
        }
        for (at, reference) in references(&paragraph.text) {
            fault(at, format!("{reference:?} refers to a text that is not here"));
        }
    }
    faults
}

impl Phrase {
    /// Where the phrase stands in a text.
    fn places(&self, text: &str) -> Vec<usize> {
        // A phrase with a capital is meant to begin a sentence.
        let exact = self.text.starts_with(char::is_uppercase);
        let lower = if exact { text.to_owned() } else { text.to_ascii_lowercase() };
        let found = lower.match_indices(self.text).map(|(at, _)| at);
        let found = found.filter(|at| {
            let (before, after) = (&lower[..*at], &lower[at + self.text.len()..]);
            let whole = !self.text.starts_with(is_word) || !before.ends_with(is_word);
            let whole = whole && (!self.text.ends_with(is_word) || !after.starts_with(is_word));
            let last = before.split_whitespace().next_back().unwrap_or("");
            let next = after.split_whitespace().next().unwrap_or("");
            whole && !self.unless_after.contains(&last) && !self.unless_before.contains(&next)
        });
        found.collect()
    }
}

/// References to numbered questions, to `§`, and to sections of other texts than standards.
fn references(text: &str) -> Vec<(usize, &str)> {
    let mut found: Vec<(usize, &str)> = text.match_indices('§').collect();
    let words: Vec<(usize, &str)> = words(text);
    for (index, (at, word)) in words.iter().enumerate() {
        let number = word.strip_prefix('Q').unwrap_or("");
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            found.push((*at, word));
        }
        let follows = |offset: usize| words.get(index + offset).map(|(_, word)| *word);
        if word.eq_ignore_ascii_case("section")
            && follows(1).is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
            && follows(2) == Some("of")
            && follows(3) == Some("the")
        {
            found.push((*at, "section of the"));
        }
    }
    found
}

/// Words with their positions; dots within a number belong to it.
fn words(text: &str) -> Vec<(usize, &str)> {
    let is_part = |c: char| is_word(c) || c == '.';
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        words.push((text.len() - rest.len(), rest[..end].trim_end_matches('.')));
        rest = &rest[end..];
    }
    words
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::prose;

    fn of_comment(text: &str) -> Vec<String> {
        faults("a.rs", &prose::of_source(&format!("/// {text}\n")), &[COMMENTS])
    }

    fn of_document(text: &str) -> Vec<String> {
        faults("a.md", &prose::of_document(text), DOCUMENTS)
    }

    #[test]
    fn history_is_found() {
        for text in [
            "It used to copy.",
            "It has one lock. Before, it had two.",
            "One by one: before, a core stood still.",
            "Formerly a list.",
            "It now takes 3 ms.",
            "A previously long queue.",
        ] {
            assert_eq!(of_comment(text).len(), 1, "{text}");
            assert_eq!(of_document(text).len(), 1, "{text}");
        }
        for text in ["It is no longer copied.", "As fast as before.", "It took less than before."] {
            assert_eq!(of_document(text).len(), 1, "{text}");
        }
        assert_eq!(
            of_document("a\n\nIt used\nto copy."),
            ["a.md:3: \"used to\" tells history: say how it is"]
        );
    }

    #[test]
    fn plain_sentences_are_left_alone() {
        for text in [
            "What caused to be sent is used to judge.",
            "It is read before it is written, and the block before, too.",
            "A file no longer than a block.",
            "From now on each takes one.",
            "Nothing has changed then.",
            "Whether it was removed before, or was changed.",
            "`used to` is a phrase.",
            "The limits that hold now.",
        ] {
            assert_eq!(of_comment(text), [""; 0], "{text}");
            assert_eq!(of_document(text), [""; 0], "{text}");
        }
        assert_eq!(of_comment("Segments that are no longer live."), [""; 0]);
    }

    #[test]
    fn missing_texts_are_found() {
        for text in [
            "A defect (Q7).",
            "See § 3.",
            "Section 6.2 of the language.",
            "section 9 of the reference",
        ] {
            assert_eq!(of_comment(text).len(), 1, "{text}");
            assert_eq!(of_document(text).len(), 1, "{text}");
        }
        for text in [
            "RFC 9110, section 12.5.3.",
            "(RFC 6455, section 4.2)",
            "Q and Qx",
            "a section of the file",
        ] {
            assert_eq!(of_comment(text), [""; 0], "{text}");
        }
    }
}
