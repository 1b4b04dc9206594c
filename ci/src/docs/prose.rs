//! The sentences of documents and of comments, joined over the ends of lines.

/// One paragraph.
#[derive(Debug, PartialEq)]
pub(super) struct Paragraph {
    /// Its text on one line. Code between backticks is left out.
    pub(super) text: String,
    /// Where in `text` each line begins, with the number of the line from 1.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    /// The line in which a position of the text lies.
    pub(super) fn line_at(&self, position: usize) -> usize {
        let before = self.lines.iter().rev().find(|(start, _)| *start <= position);
        before.map_or(1, |(_, line)| *line)
    }
}

/// The paragraphs of a document. Code blocks are left out.
pub(super) fn of_document(text: &str) -> Vec<Paragraph> {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some(line)
    });
    join(lines)
}

/// The paragraphs of the comments that fill whole lines.
pub(super) fn of_source(text: &str) -> Vec<Paragraph> {
    join(text.lines().map(|line| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some(comment.strip_prefix(['/', '!']).unwrap_or(comment))
    }))
}

/// Joins lines until an empty one, or `None`, parts them.
fn join<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<Paragraph> {
    let mut paragraphs = vec![Paragraph { text: String::new(), lines: Vec::new() }];
    for (index, line) in lines.enumerate() {
        let line = line.unwrap_or("").trim();
        let Some(last) = paragraphs.last_mut() else { continue };
        if line.is_empty() {
            if !last.lines.is_empty() {
                paragraphs.push(Paragraph { text: String::new(), lines: Vec::new() });
            }
            continue;
        }
        last.lines.push((last.text.len(), index + 1));
        last.text.push_str(&without_code(line));
        last.text.push(' ');
    }
    paragraphs.retain(|paragraph| !paragraph.lines.is_empty());
    paragraphs
}

/// The line with empty backticks. Code that goes on in the next line is kept.
fn without_code(line: &str) -> String {
    let mut parts: Vec<&str> = line.split('`').collect();
    // An even number of parts has a backtick too many: the last one opens code that another line
    // closes.
    let whole = (parts.len() - 1) / 2 * 2;
    for part in parts[..whole].iter_mut().skip(1).step_by(2) {
        *part = "";
    }
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_found_again() {
        let text = "# A\n\nOne `code x`\ntwo.\n\n```\nfn\n```\nThree.\n";
        let found = of_document(text);
        let texts: Vec<&str> = found.iter().map(|paragraph| paragraph.text.as_str()).collect();
        assert_eq!(texts, ["# A ", "One `` two. ", "Three. "]);
        let two = found[1].text.find("two").unwrap();
        assert_eq!((found[1].line_at(0), found[1].line_at(two)), (3, 4));
        assert_eq!(found[2].line_at(0), 9);
    }

    #[test]
    fn comments_are_joined() {
        let text = "//! A\n//! b.\nfn f() {} // c\n    /// D\n    // e\n//\n// f `g\n";
        let found = of_source(text);
        let texts: Vec<&str> = found.iter().map(|paragraph| paragraph.text.as_str()).collect();
        assert_eq!(texts, ["A b. ", "D e ", "f `g "]);
    }
}
