//! The lengths of documents.

use super::Document;

/// The most lines of documents, by the beginning of their names.
const LIMITS: [(&str, usize); 3] =
    [("ARCHITECTURE.md", 300), ("docs/performance.md", 350), ("docs/design/", 200)];

/// The fault of a document that is too long.
pub(super) fn faults(document: &Document) -> Option<String> {
    let (_, most) = LIMITS.iter().find(|(name, _)| document.name.starts_with(name))?;
    let count = document.text.lines().count();
    (count > *most)
        .then(|| format!("{}:{count}: more than {most} lines: shorten it", document.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_a_limit() {
        let fault = |name: &str, lines: usize| {
            faults(&Document { name: name.to_owned(), text: "x\n".repeat(lines) })
        };
        for (name, most) in
            [("ARCHITECTURE.md", 300), ("docs/performance.md", 350), ("docs/design/wal.md", 200)]
        {
            assert_eq!(fault(name, most), None);
            let expected = format!("{name}:{}: more than {most} lines: shorten it", most + 1);
            assert_eq!(fault(name, most + 1), Some(expected));
        }
        assert_eq!(fault("docs/api.md", 5000), None);
    }
}
