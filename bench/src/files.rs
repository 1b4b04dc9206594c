//! Lines of real log files, one stream per file (or a few), read round-robin in
//! short runs, as an agent that follows several files would send them.

use crate::labels::Labels;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Lines that one file gives before the next file has its turn.
const RUN_LINES: usize = 64;

struct LogFile {
    name: String,
    lines: Vec<String>,
    position: usize,
    repeats_left: u64,
}

/// All lines of the chosen files, held in memory.
pub(crate) struct FileLines {
    files: Vec<LogFile>,
    streams_per_file: usize,
    current: usize,
    run_left: usize,
}

impl FileLines {
    /// Reads the files; see [`expand`] for folders.
    /// Bytes that are not UTF-8 become U+FFFD, because the JSON form could not
    /// carry them.
    pub(crate) fn open(
        paths: &[PathBuf],
        streams_per_file: usize,
        repeat: u64,
    ) -> Result<FileLines> {
        if streams_per_file == 0 || repeat == 0 {
            bail!("--streams-per-file and --repeat must be more than zero");
        }
        let mut files: Vec<LogFile> = Vec::new();
        for path in paths {
            let bytes = std::fs::read(path).with_context(|| format!("reading {path:?}"))?;
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<String> = text.split_terminator('\n').map(str::to_owned).collect();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if files.iter().any(|file| file.name == name) {
                bail!("two files are called {name:?}, and the name is the stream's label");
            }
            if !lines.is_empty() {
                files.push(LogFile { name, lines, position: 0, repeats_left: repeat });
            }
        }
        if files.is_empty() {
            bail!("no lines in {paths:?}");
        }
        Ok(FileLines { files, streams_per_file, current: 0, run_left: RUN_LINES })
    }

    /// Labels of every stream, without the labels that all streams share.
    pub(crate) fn stream_labels(&self) -> Vec<Labels> {
        let mut streams = Vec::new();
        for file in &self.files {
            for part in 0..self.streams_per_file {
                let mut labels = Labels::from([("file".to_owned(), file.name.clone())]);
                if self.streams_per_file > 1 {
                    labels.insert("part".to_owned(), part.to_string());
                }
                streams.push(labels);
            }
        }
        streams
    }

    /// Lines of all files, each file read once.
    pub(crate) fn line_count(&self) -> u64 {
        self.files.iter().map(|file| file.lines.len() as u64).sum()
    }

    /// Mean length of a line, in whole bytes.
    pub(crate) fn mean_line_bytes(&self) -> u64 {
        let bytes: usize =
            self.files.iter().flat_map(|file| &file.lines).map(|line| line.len()).sum();
        bytes as u64 / self.line_count().max(1)
    }
}

impl Iterator for FileLines {
    type Item = (usize, String);

    fn next(&mut self) -> Option<(usize, String)> {
        // One more than the number of files, to come back to the current one.
        for _ in 0..=self.files.len() {
            let file = &mut self.files[self.current];
            if self.run_left > 0 && file.repeats_left > 0 {
                let position = file.position;
                self.run_left -= 1;
                file.position += 1;
                if file.position == file.lines.len() {
                    file.position = 0;
                    file.repeats_left -= 1;
                }
                let stream =
                    self.current * self.streams_per_file + position % self.streams_per_file;
                return Some((stream, file.lines[position].clone()));
            }
            self.current = (self.current + 1) % self.files.len();
            self.run_left = RUN_LINES;
        }
        None
    }
}

/// The absolute paths of the files that `paths` stand for; of a folder these are
/// its `*.log` files, sorted by name. Absolute, so that a ledger written in one
/// folder can be verified from another.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).with_context(|| format!("listing {path:?}"))? {
            let file = entry?.path();
            if file.is_file() && file.extension() == Some("log".as_ref()) {
                found.push(file);
            }
        }
        found.sort();
        files.append(&mut found);
    }
    files.iter().map(|file| absolute(file)).collect()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("resolving {path:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn every_line_of_every_file_comes_once_per_repeat_and_in_order() {
        let folder = TempDir::new();
        let numbers = |count: usize| (0..count).map(|i| format!("line {i}\n")).collect::<String>();
        folder.write("a.log", numbers(150).as_bytes());
        folder.write("b.log", b"only \xff\n\nlast without end");
        folder.write("empty.log", b"");
        folder.write("notes.txt", b"not taken\n");
        let files = FileLines::open(&expand(&[folder.path().to_owned()]).unwrap(), 2, 2).unwrap();
        assert_eq!(files.line_count(), 153);
        let names: Vec<_> = files.stream_labels().iter().map(|l| l["file"].clone()).collect();
        assert_eq!(names, ["a.log", "a.log", "b.log", "b.log"]);
        let all: Vec<(usize, String)> = files.collect();
        let of = |streams: [usize; 2]| -> Vec<&str> {
            all.iter().filter(|(s, _)| streams.contains(s)).map(|(_, line)| &**line).collect()
        };
        let expected: Vec<String> = (0..150).chain(0..150).map(|i| format!("line {i}")).collect();
        assert_eq!(of([0, 1]), expected);
        let b = ["only \u{fffd}", "", "last without end"];
        assert_eq!(of([2, 3]), [b, b].concat());
        assert!(
            all.iter()
                .filter(|(s, _)| *s == 1)
                .all(|(_, l)| { l.trim_start_matches("line ").parse::<usize>().unwrap() % 2 == 1 })
        );
    }

    #[test]
    fn refuses_missing_empty_and_ambiguous_sources() {
        let folder = TempDir::new();
        assert!(expand(&[folder.path().to_owned()]).unwrap().is_empty());
        assert!(FileLines::open(&[], 1, 1).is_err());
        assert!(FileLines::open(&[folder.path().join("missing.log")], 1, 1).is_err());
        folder.write("a.log", b"x\n");
        let file = folder.path().join("a.log");
        assert!(FileLines::open(&[file.clone(), file.clone()], 1, 1).is_err());
        assert!(FileLines::open(&[file], 0, 1).is_err());
    }
}
