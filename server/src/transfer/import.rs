//! `logsvc import`: lines of JSON, and rows of Parquet files, into a server.
//!
//! Guarantees: lines go in batches, and the place of a file is kept after each batch that the server
//! has stored. What the server cannot take now is sent again, after a pause; entries that it has
//! already are dropped as duplicates. A file that has changed since its place was kept is refused.
//! Lines that the server refuses are counted, and the first are told.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use logsvc_proto::body::{Compression, Flow};
use logsvc_proto::transfer::LineBuffer;
use serde::Deserialize;

#[cfg(feature = "parquet")]
use super::rows;
use super::state::{Place, beside};
use super::wire::{Server, refused};
use super::{Destination, STANDARD_STREAM, Tries, named, opened, tell};

/// A batch is sent when it has so many bytes or lines.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_LINES: usize = 16 << 10;
/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// Progress is told after so many lines.
const TELL_LINES: u64 = 500_000;
/// Refusals of a file that are told.
const REFUSALS_TOLD: usize = 10;

/// What to import, and to where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ImportOptions {
    /// The server.
    pub(crate) to: Destination,
    /// Files, or `-`.
    pub(crate) files: Vec<PathBuf>,
}

/// The answer of a server.
#[derive(Deserialize)]
struct Taken {
    lines: u64,
    taken: u64,
    refused: u64,
    first_refusals: Vec<Refusal>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    line: u64,
    reason: String,
}

/// Lines that are sent together.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    /// The number in the file of each line, and where it ends in the text.
    lines: Vec<(u64, usize)>,
}

impl Batch {
    fn add(&mut self, number: u64, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        self.lines.push((number, self.text.len()));
    }

    fn is_full(&self) -> bool {
        self.text.len() >= BATCH_BYTES || self.lines.len() >= BATCH_LINES
    }

    /// Forgets the first lines. Gives the number of the last of them.
    fn forget(&mut self, count: usize) -> Option<u64> {
        let count = count.min(self.lines.len());
        let &(number, end) = self.lines[..count].last()?;
        self.text.drain(..end);
        self.lines.drain(..count);
        self.lines.iter_mut().for_each(|(_, line_end)| *line_end -= end);
        Some(number)
    }
}

/// The import of one file.
struct Import<'i> {
    server: &'i Server,
    name: String,
    place: Place,
    /// Where the place is kept.
    state: Option<PathBuf>,
    told: usize,
}

/// See the module.
pub(super) fn run(options: &ImportOptions) -> io::Result<ExitCode> {
    let server = options.to.server()?;
    let mut refused_lines = 0;
    for path in &options.files {
        let mut arguments = options.to.words();
        let import = if path.as_os_str() == STANDARD_STREAM {
            let mut import = Import {
                server: &server,
                name: "standard input".to_owned(),
                place: Place::new(arguments),
                state: None,
                told: 0,
            };
            import.send_all(&mut io::stdin().lock(), Compression::None)?;
            import
        } else {
            let file = opened(path)?;
            let len = file.metadata().map_err(|error| named(path, &error))?.len();
            arguments.push(format!("{len} bytes"));
            let state = beside(path, ".import-state");
            let place = Place::load(&state, &arguments)?;
            let place = place.unwrap_or_else(|| Place::new(arguments));
            let name = path.display().to_string();
            let mut import = Import { server: &server, name, place, state: Some(state), told: 0 };
            if import.place.lines > 0 {
                tell(&format!("{}: going on behind line {}", import.name, import.place.lines));
            }
            import.send_file(file, path)?;
            import
        };
        let Import { name, place, .. } = import;
        tell(&format!("{name}: {} entries taken, {} lines refused", place.entries, place.refused));
        refused_lines += place.refused;
    }
    Ok(if refused_lines == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compression_of(path: &Path) -> Compression {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Compression::Gzip,
        Some("zst") => Compression::Zstd,
        _ => Compression::None,
    }
}

impl Import<'_> {
    fn send_file(&mut self, file: File, path: &Path) -> io::Result<()> {
        let sent = self.send_rows(file).and_then(|file| {
            let Some(file) = file else { return Ok(()) };
            let mut file = BufReader::with_capacity(READ_BYTES, file);
            self.send_all(&mut file, compression_of(path))
        });
        sent.map_err(|error| named(path, &error))?;
        match &self.state {
            Some(state) if self.place.lines > 0 => Place::remove(state),
            _ => Ok(()),
        }
    }

    /// Sends the rows of a file of Parquet that were not sent yet. Gives any other file back.
    #[cfg(feature = "parquet")]
    fn send_rows(&mut self, file: File) -> io::Result<Option<File>> {
        if !rows::is_parquet(&file) {
            return Ok(Some(file));
        }
        let mut batch = Batch::default();
        rows::read(file, self.place.lines + 1, |number, line| {
            batch.add(number, line);
            if batch.is_full() { self.send(&mut batch) } else { Ok(()) }
        })?;
        self.send(&mut batch)?;
        Ok(None)
    }

    #[cfg(not(feature = "parquet"))]
    fn send_rows(&mut self, file: File) -> io::Result<Option<File>> {
        Ok(Some(file))
    }

    /// Sends all lines that were not sent yet.
    fn send_all(&mut self, file: &mut dyn Read, compression: Compression) -> io::Result<()> {
        let flow = Flow::new(compression).map_err(io::Error::other)?;
        let mut flow = flow.unwrap_or_else(Flow::plain);
        let (mut lines, mut batch) = (LineBuffer::default(), Batch::default());
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            let mut input = &buffer[..count];
            loop {
                let goes_on = flow.read(&mut input, lines.input()).map_err(io::Error::other)?;
                self.take_lines(&mut lines, &mut batch)?;
                if !goes_on {
                    break;
                }
            }
        }
        flow.finish(lines.input()).map_err(io::Error::other)?;
        self.take_lines(&mut lines, &mut batch)?;
        if let Some((number, line)) = lines.last_line() {
            let line = line.map_err(io::Error::other)?;
            if number > self.place.lines {
                batch.add(number, line);
            }
        }
        self.send(&mut batch)
    }

    fn take_lines(&mut self, lines: &mut LineBuffer, batch: &mut Batch) -> io::Result<()> {
        while let Some((number, line)) = lines.next_line() {
            if number <= self.place.lines {
                continue;
            }
            batch.add(number, line.map_err(io::Error::other)?);
            if batch.is_full() {
                self.send(batch)?;
            }
        }
        Ok(())
    }

    /// Sends a batch, until the server has taken or refused each line of it.
    fn send(&mut self, batch: &mut Batch) -> io::Result<()> {
        let mut tries = Tries::default();
        while !batch.lines.is_empty() {
            let (least, why) = match self.server.ask("POST", "/loki/api/v1/import", &batch.text) {
                Ok(mut answer) => {
                    let (status, text) = (answer.status(), answer.text()?);
                    let least = answer.retry_after();
                    let taken = serde_json::from_str::<Taken>(&text).ok();
                    let why = taken.as_ref().and_then(|taken| taken.error.clone()).unwrap_or(text);
                    if let Some(taken) = taken {
                        if taken.lines > 0 {
                            tries.progress();
                        }
                        self.note(&taken, batch)?;
                    }
                    if status == 200 && batch.lines.is_empty() {
                        return Ok(());
                    }
                    let why = refused(status, &why);
                    if status == 200 || !answer.may_pass() {
                        return Err(why);
                    }
                    (least, why)
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
                Err(error) => (None::<Duration>, error),
            };
            tries.pause(least, why)?;
        }
        Ok(())
    }

    /// Notes what became of the first lines of a batch, and keeps the place.
    fn note(&mut self, taken: &Taken, batch: &mut Batch) -> io::Result<()> {
        for Refusal { line, reason } in &taken.first_refusals {
            if self.told == REFUSALS_TOLD {
                break;
            }
            self.told += 1;
            let place = usize::try_from(*line).ok().and_then(|line| line.checked_sub(1));
            let number = place.and_then(|place| batch.lines.get(place)).map_or(0, |line| line.0);
            tell(&format!("{}: line {number}: {reason}", self.name));
        }
        let count = usize::try_from(taken.lines).unwrap_or(usize::MAX);
        let Some(number) = batch.forget(count) else { return Ok(()) };
        let before = self.place.lines / TELL_LINES;
        self.place.lines = number;
        self.place.entries += taken.taken;
        self.place.refused += taken.refused;
        if self.place.lines / TELL_LINES > before {
            tell(&format!("{}: {} lines so far", self.name, self.place.lines));
        }
        match &self.state {
            Some(state) => self.place.save(state),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_forgets_what_was_taken() {
        let mut batch = Batch::default();
        for (number, line) in [(3, "one"), (5, "two"), (6, "three")] {
            batch.add(number, line.as_bytes());
        }
        assert_eq!(batch.forget(0), None);
        assert_eq!(batch.forget(2), Some(5));
        assert_eq!(
            (batch.text.as_slice(), batch.lines.as_slice()),
            (&b"three\n"[..], &[(6, 6)][..])
        );
        assert_eq!(batch.forget(9), Some(6));
        assert!(batch.text.is_empty() && batch.lines.is_empty());
    }
}
