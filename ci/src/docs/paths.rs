//! Paths and links in documents.
//!
//! Text between backticks is a path of the repository if its first part is a folder or file of
//! the root and it has another part, or if it ends like a source file, a document or a
//! manifest. `*` stands for any name within a path. A name that does not begin at the root
//! may be the end of a path: `wal/files.rs`.
//!
//! The target of a link is relative to the folder of its document. A link with `#` leads to a
//! heading.

use super::Document;

/// Endings of files that documents name.
const ENDINGS: [&str; 3] = [".rs", ".md", ".toml"];

/// Paths and links of a document that lead nowhere.
pub(super) fn faults(document: &Document, documents: &[Document], files: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_code = false;
    for (index, line) in document.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let mut fault =
            |words: String| faults.push(format!("{}:{}: {words}", document.name, index + 1));
        for code in line.split('`').skip(1).step_by(2) {
            if is_path(code, files) && !exists(code, files) {
                fault(format!("`{code}` does not exist"));
            }
        }
        for target in links(line) {
            if !leads_somewhere(target, document, documents, files) {
                fault(format!("the link to {target} leads nowhere"));
            }
        }
    }
    faults
}

/// Whether code looks like a path of the repository.
fn is_path(code: &str, files: &[String]) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-./*".contains(c);
    if code.starts_with(['/', '.', '-']) || !code.chars().all(is_name) {
        return false;
    }
    let code = code.trim_end_matches('/');
    let in_root = code
        .split_once('/')
        .is_some_and(|(first, _)| files.iter().any(|file| file.split('/').next() == Some(first)));
    // A lone ending is not a name.
    let is_file = ENDINGS.iter().any(|ending| code.len() > ending.len() && code.ends_with(ending));
    in_root || is_file
}

/// Whether a path, or the end of one, is in the repository.
fn exists(path: &str, files: &[String]) -> bool {
    let wanted: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let is_file = ENDINGS.iter().any(|ending| path.ends_with(ending));
    files.iter().any(|file| {
        let parts: Vec<&str> = file.split('/').collect();
        let matches = |parts: &[&str]| {
            parts.len() == wanted.len()
                && parts.iter().zip(&wanted).all(|(part, wanted)| matches_glob(part, wanted))
        };
        if parts.len() < wanted.len() {
            return false;
        }
        matches(&parts[..wanted.len()]) || is_file && matches(&parts[parts.len() - wanted.len()..])
    })
}

/// Whether `name` is like `pattern`, in which each `*` stands for any text.
fn matches_glob(name: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return name == pattern };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| matches_glob(&rest[at..], after))
}

/// Targets of all links of a document.
pub(super) fn all_links(text: &str) -> Vec<&str> {
    text.lines().flat_map(links).collect()
}

/// Targets of the links of a line.
fn links(line: &str) -> Vec<&str> {
    let starts = line.match_indices("](").map(|(at, mark)| &line[at + mark.len()..]);
    starts.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

fn leads_somewhere(
    target: &str,
    document: &Document,
    documents: &[Document],
    files: &[String],
) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { document.name.clone() } else { resolve(&document.name, path) };
    let is_folder = || files.iter().any(|file| file.starts_with(&format!("{path}/")));
    if !files.contains(&path) && !is_folder() {
        return false;
    }
    let other = documents.iter().find(|other| other.name == path);
    heading.is_empty() || other.is_some_and(|other| has_heading(&other.text, heading))
}

/// The path of a link, from the root.
pub(super) fn resolve(document: &str, link: &str) -> String {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Whether a document has a heading whose anchor is `wanted`.
fn has_heading(text: &str, wanted: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim()).any(|line| anchor(line) == wanted)
}

/// The anchor that readers of Markdown make of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = ["README.md", "docs/a.md", "shards/src/wal/files.rs", "ci/Cargo.toml"];
        let files: Vec<String> = files.map(str::to_owned).to_vec();
        let other = Document { name: "README.md".to_owned(), text: "## How to: run\n".to_owned() };
        let document = Document { name: "docs/a.md".to_owned(), text: text.to_owned() };
        faults(&document, &[other], &files)
    }

    #[test]
    fn paths_that_exist_or_are_none_are_left_alone() {
        for code in [
            "shards/src/wal/files.rs",
            "shards/src/wal/",
            "shards/src",
            "wal/files.rs",
            "shards/*/wal/*.rs",
            "Cargo.toml",
            "/loki/api/v1/push",
            "./data/wal",
            "index/volume",
            "application/json",
            "server.http_listen_port",
            ".rs",
            "a b.rs",
            "/etc/logsvc.toml",
        ] {
            assert_eq!(found(&format!("see `{code}`")), [""; 0], "{code}");
        }
        assert_eq!(found("```\n`shards/none`\n```"), [""; 0]);
    }

    #[test]
    fn paths_that_do_not_exist_are_faults() {
        for code in
            ["shards/src/none", "shards/src/none.rs", "none.rs", "docs/b.md", "shards/*/x.rs"]
        {
            assert_eq!(
                found(&format!("a\nsee `{code}`")),
                [format!("docs/a.md:2: `{code}` does not exist")]
            );
        }
    }

    #[test]
    fn links_lead_somewhere() {
        for link in [
            "../README.md",
            "a.md",
            "../shards/src/",
            "https://example.com/x",
            "../README.md#how-to-run",
        ] {
            assert_eq!(found(&format!("[x]({link})")), [""; 0], "{link}");
        }
        for link in ["README.md", "b.md", "../none", "../README.md#how-to-walk", "#none"] {
            let expected = format!("docs/a.md:1: the link to {link} leads nowhere");
            assert_eq!(found(&format!("[x]({link})")), [expected]);
        }
    }
}
