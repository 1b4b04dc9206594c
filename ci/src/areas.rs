//! The areas of the black-box corpora: every file of cases is one.
//!
//! The main corpus lies in the corpus folder itself; each of its subfolders that has a
//! folder `cases` is another corpus, which needs a server of its own.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// A corpus and the areas to run of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Corpus {
    /// Folder within the corpus folder; empty for the main corpus.
    pub(crate) folder: String,
    /// In the order of their names.
    pub(crate) areas: Vec<String>,
}

/// The corpora of a folder, the main one first.
pub(crate) fn find(corpus: &Path) -> Result<Vec<Corpus>> {
    let mut folders = vec![String::new()];
    let mut others = names(corpus)?;
    others.retain(|name| corpus.join(name).join("cases").is_dir());
    folders.append(&mut others);
    let corpora = folders.into_iter().map(|folder| {
        let files = names(&corpus.join(&folder).join("cases"))?;
        let areas: Vec<String> = files
            .iter()
            .filter_map(|name| name.strip_suffix(".jsonl"))
            .map(str::to_owned)
            .collect();
        if areas.is_empty() {
            bail!("the corpus {folder:?} has no area");
        }
        Ok(Corpus { folder, areas })
    });
    corpora.collect()
}

/// Names of a folder's entries, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.sort_unstable();
    Ok(names)
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
    use crate::server::DataFolder;

    #[test]
    fn every_file_of_cases_is_an_area() {
        let data = DataFolder::create("areas").unwrap();
        for path in ["cases", "discover/cases", "golden", "empty"] {
            std::fs::create_dir_all(data.0.join(path)).unwrap();
        }
        for path in ["series.jsonl", "labels.jsonl", "rules.jsonl", "notes.md"] {
            std::fs::write(data.0.join("cases").join(path), "").unwrap();
        }
        assert!(find(&data.0).is_err(), "a corpus without areas");
        std::fs::write(data.0.join("discover/cases/levels.jsonl"), "").unwrap();
        let corpus = |folder: &str, areas: &[&str]| Corpus {
            folder: folder.to_owned(),
            areas: areas.iter().map(|&area| area.to_owned()).collect(),
        };
        let expected =
            [corpus("", &["labels", "rules", "series"]), corpus("discover", &["levels"])];
        assert_eq!(find(&data.0).unwrap(), expected);
    }

    #[test]
    fn counts_are_those_of_the_areas() {
        let output = "FAIL labels-01  x\n    3 passed, 4 failed\n\nlabels    12 passed,  1 failed\n\
                      series     7 passed,  0 failed\nTOTAL     19 passed,  1 failed, 2 spec cases skipped\n";
        assert_eq!(sum_counts(output), (19, 1));
        assert_eq!(sum_counts(""), (0, 0));
    }
}
