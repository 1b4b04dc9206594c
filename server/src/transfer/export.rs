//! `logsvc export`: lines of JSON from a server into a file; see `parts` for Parquet.
//!
//! Guarantees: the place is kept after each page, once its entries are on stable storage. A
//! connection that ends too early is made again there; so is the export by the next run of the
//! command. The last line of a whole file has the number of its entries. Standard output has no
//! place: an export that is cut off there fails.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use logsvc_proto::records::Records;
use logsvc_proto::transfer::{LineBuffer, TransferLine, read_line, write_control};

use super::state::{Place, beside};
use super::wire::{Answer, Server, refused};
use super::{Destination, STANDARD_STREAM, Tries, named, tell};
use crate::ask::{escaped, invalid};

/// Progress is told after so many entries.
const TELL_ENTRIES: u64 = 500_000;

/// How entries begin; other lines tell where the export is.
const ENTRY_START: &[u8] = b"{\"timestamp\":";

/// The form of the files of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExportFormat {
    /// Lines of JSON.
    Lines,
    /// Parquet, in parts.
    Parquet,
}

/// What to export, and to where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExportOptions {
    /// The server.
    pub(crate) from: Destination,
    /// The log query.
    pub(crate) query: String,
    /// Its times, as the server takes them.
    pub(crate) start: String,
    /// The end, which is not in it.
    pub(crate) end: String,
    /// The form of the file.
    pub(crate) format: ExportFormat,
    /// The file, or `-`.
    pub(crate) output: PathBuf,
}

impl ExportOptions {
    /// What the place of this export belongs to.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = self.from.words();
        arguments.extend([&self.query, &self.start, &self.end].map(String::clone));
        arguments
    }
}

/// The address that is asked for.
pub(super) fn target(options: &ExportOptions) -> String {
    format!(
        "/loki/api/v1/export?query={}&start={}&end={}",
        escaped(&options.query),
        escaped(&options.start),
        escaped(&options.end)
    )
}

/// Where lines go.
enum Output {
    /// A file, and the name of the record of its place.
    File {
        file: BufWriter<File>,
        path: PathBuf,
        state: PathBuf,
    },
    Standard(BufWriter<io::Stdout>),
}

impl Output {
    /// The file of a place.
    fn open(path: &Path, state: PathBuf, place: &Place, is_new: bool) -> io::Result<Output> {
        let open = || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(is_new).open(path)?;
            if file.metadata()?.len() < place.bytes {
                let text = "the file is shorter than it was";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            file.set_len(place.bytes)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(|error| named(path, &error))?;
        Ok(Output::File { file: BufWriter::new(file), path: path.to_owned(), state })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::File { file, path, .. } => {
                file.write_all(bytes).map_err(|error| named(path, &error))
            }
            Output::Standard(out) => out.write_all(bytes),
        }
    }

    /// Has everything on stable storage, then keeps the place. What was written after the last call
    /// is dropped if the export goes on from there.
    fn keep(&mut self, place: &Place) -> io::Result<()> {
        match self {
            Output::File { file, path, state } => {
                let synced = file.flush().and_then(|()| file.get_ref().sync_data());
                synced.map_err(|error| named(path, &error))?;
                place.save(state)
            }
            Output::Standard(out) => out.flush(),
        }
    }

    /// Goes back to a place. False if that cannot be.
    fn rewind(&mut self, place: &Place) -> io::Result<bool> {
        match self {
            Output::File { file, path, .. } => {
                let mut back = || {
                    file.flush()?;
                    file.get_ref().set_len(place.bytes)?;
                    file.seek(SeekFrom::End(0)).map(drop)
                };
                back().map_err(|error| named(path, &error))?;
                Ok(true)
            }
            Output::Standard(_) => Ok(false),
        }
    }
}

/// Why an answer ends.
enum Ended {
    /// It is whole.
    Whole,
    /// It may go on from the last place.
    CutOff(io::Error),
}

/// See the module.
pub(super) fn run(options: &ExportOptions) -> io::Result<ExitCode> {
    let ExportOptions { from, output, format, .. } = options;
    let is_standard = output.as_os_str() == STANDARD_STREAM;
    if *format == ExportFormat::Parquet {
        if is_standard {
            return Err(invalid(
                "files of Parquet come in parts: --output needs a name".to_owned(),
            ));
        }
        return in_parts(options);
    }
    let server = from.server()?;
    let arguments = options.arguments();
    let (mut out, mut place) = if is_standard {
        (Output::Standard(BufWriter::new(io::stdout())), Place::new(arguments))
    } else {
        let state = beside(output, ".state");
        match Place::load(&state, &arguments)? {
            Some(place) => {
                let text = format!("going on behind {} entries", place.entries);
                let out = Output::open(output, state, &place, false)?;
                tell(&text);
                (out, place)
            }
            None => {
                let place = Place::new(arguments);
                let out = Output::open(output, state.clone(), &place, true)?;
                place.save(&state)?;
                (out, place)
            }
        }
    };
    let target = format!("{}&cursors=true", target(options));
    let mut tries = Tries::default();
    loop {
        let before = place.entries;
        let ended = match ask(&server, &target, &place)? {
            Ok(answer) => receive(answer, &mut out, &mut place)?,
            Err((least, why)) => {
                tries.pause(least, why)?;
                continue;
            }
        };
        match ended {
            Ended::Whole => break,
            Ended::CutOff(why) => {
                if place.entries > before {
                    tries.progress();
                }
                if !out.rewind(&place)? {
                    return Err(why);
                }
                tries.pause(None, why)?;
            }
        }
    }
    let mut last = Vec::new();
    write_control(&TransferLine::End { entries: place.entries }, &mut last);
    out.write(&last)?;
    place.bytes += last.len() as u64;
    out.keep(&place)?;
    if let Output::File { state, .. } = &out {
        Place::remove(state)?;
    }
    exported(&place);
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "parquet")]
fn in_parts(options: &ExportOptions) -> io::Result<ExitCode> {
    super::parts::run(options).map(|()| ExitCode::SUCCESS)
}

#[cfg(not(feature = "parquet"))]
fn in_parts(_: &ExportOptions) -> io::Result<ExitCode> {
    Err(invalid("support for Parquet is not in this build".to_owned()))
}

/// Tells the sums of an export that is whole.
pub(super) fn exported(place: &Place) {
    tell(&format!("exported {} entries with {} bytes", place.entries, place.bytes));
}

type Refused = (Option<std::time::Duration>, io::Error);

/// Asks for the export behind a place. The inner error may pass.
pub(super) fn ask(
    server: &Server,
    target: &str,
    place: &Place,
) -> io::Result<Result<Answer, Refused>> {
    let cursor = place.cursor.as_ref().map(|cursor| format!("&cursor={}", escaped(cursor)));
    let target = format!("{target}{}", cursor.unwrap_or_default());
    let mut answer = match server.ask("GET", &target, b"") {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
        Err(error) => return Ok(Err((None, error))),
    };
    if answer.status() == 200 {
        return Ok(Ok(answer));
    }
    let (status, text) = (answer.status(), answer.text()?);
    let why = refused(status, &text);
    if answer.may_pass() { Ok(Err((answer.retry_after(), why))) } else { Err(why) }
}

/// Writes the entries of an answer, and keeps the place after each page.
fn receive(mut answer: Answer, out: &mut Output, place: &mut Place) -> io::Result<Ended> {
    let mut lines = LineBuffer::default();
    let mut page = Place { ..place.clone() };
    let mut told = place.entries / TELL_ENTRIES;
    loop {
        let data = match answer.next() {
            Ok(Some(data)) => data,
            Ok(None) => {
                let text = "the answer ends before the end of the export";
                return Ok(Ended::CutOff(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
            }
            Err(error) => return Ok(Ended::CutOff(error)),
        };
        lines.input().extend_from_slice(&data);
        while let Some((_, line)) = lines.next_line() {
            let line = line.map_err(io::Error::other)?;
            if line.starts_with(ENTRY_START) {
                out.write(line)?;
                out.write(b"\n")?;
                page.entries += 1;
                page.bytes += line.len() as u64 + 1;
                continue;
            }
            match read_line(line, &mut Records::new()).map_err(io::Error::other)? {
                TransferLine::Entry => {
                    return Err(io::Error::other("the server writes entries of another form"));
                }
                TransferLine::Cursor(cursor) => {
                    page.cursor = Some(cursor);
                    out.keep(&page)?;
                    place.clone_from(&page);
                    if place.entries / TELL_ENTRIES > told {
                        told = place.entries / TELL_ENTRIES;
                        tell(&format!("{} entries so far", place.entries));
                    }
                }
                TransferLine::Warning(text) => tell(&format!("warning: {text}")),
                TransferLine::Failed(text) => return Ok(Ended::CutOff(io::Error::other(text))),
                TransferLine::End { .. } => {
                    place.clone_from(&page);
                    return Ok(Ended::Whole);
                }
            }
        }
    }
}
