//! The list of black-box areas that the server must pass, and the corpora they
//! belong to.
//!
//! One area a line; `#` begins a comment. `labels` is an area of the main corpus,
//! `discover/labels` one of the corpus in its folder `discover`, which needs a
//! server of its own.

use anyhow::{Result, bail};

/// A corpus and the areas to run of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Corpus {
    /// Folder within the corpus folder; empty for the main corpus.
    pub(crate) folder: String,
    pub(crate) areas: Vec<String>,
}

/// Reads the list; corpora in the order of their first area.
pub(crate) fn parse(text: &str) -> Result<Vec<Corpus>> {
    let mut corpora: Vec<Corpus> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let (folder, area) = name.split_once('/').unwrap_or(("", name));
        let valid = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if area.is_empty() || !valid(area) || !valid(folder) {
            bail!("line {}: {name:?} is not an area", index + 1);
        }
        match corpora.iter_mut().find(|corpus| corpus.folder == folder) {
            Some(corpus) if corpus.areas.iter().any(|known| known == area) => {
                bail!("line {}: {name} is listed twice", index + 1);
            }
            Some(corpus) => corpus.areas.push(area.to_owned()),
            None => {
                corpora.push(Corpus { folder: folder.to_owned(), areas: vec![area.to_owned()] })
            }
        }
    }
    Ok(corpora)
}

/// Sum of the `N passed, M failed` lines of single areas in the runner's output.
/// Its own total, and anything else it prints, is left out.
pub(crate) fn sum_counts(output: &str) -> (u64, u64) {
    let counts = output.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let area = words.next()?;
        let passed: u64 = words.next()?.parse().ok()?;
        (words.next()? == "passed,").then_some(())?;
        let failed: u64 = words.next()?.parse().ok()?;
        (words.next()? == "failed" && area != "TOTAL").then_some((passed, failed))
    });
    counts.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_grouped_by_corpus() {
        let corpora = parse("# list\nlabels\n\ndiscover/levels # new\nseries\n").unwrap();
        let corpus = |folder: &str, areas: &[&str]| Corpus {
            folder: folder.to_owned(),
            areas: areas.iter().map(|&area| area.to_owned()).collect(),
        };
        assert_eq!(corpora, [corpus("", &["labels", "series"]), corpus("discover", &["levels"])]);
        for text in ["a b", "labels\nlabels", "../x", "discover/", "a/b/c", "a,b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_those_of_the_areas() {
        let output = "FAIL labels-01  x\n    3 passed, 4 failed\n\nlabels    12 passed,  1 failed\n\
                      series     7 passed,  0 failed\nTOTAL     19 passed,  1 failed, 2 spec cases skipped\n";
        assert_eq!(sum_counts(output), (19, 1));
        assert_eq!(sum_counts(""), (0, 0));
    }
}
