//! `logsvc export --format parquet`: the entries of a server in files of bounded size.
//!
//! The parts of `x.parquet` are `x.0001.parquet`, `x.0002.parquet` and so on, each a whole file.
//!
//! Guarantees: a part has its name once all of it is on stable storage. The place is kept after each
//! part, so the same command goes on behind the last one. A part that was cut off is asked for
//! again. A file that is there already is not written over.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use logsvc_proto::transfer::PARQUET_CURSOR_KEY;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use super::export::{ExportOptions, ask, exported, target};
use super::state::{Place, beside, sync_folder};
use super::wire::Answer;
use super::{Tries, named, tell};

/// About so many entries are in a part.
const PART_ENTRIES: u64 = 2_000_000;

/// The name of a part.
fn part_name(output: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(output.file_stem().unwrap_or_default());
    name.push(format!(".{number:04}.parquet"));
    output.with_file_name(name)
}

/// What the end of a part says.
struct Part {
    entries: u64,
    /// Where the next one begins.
    rest: Option<String>,
}

/// See the module.
pub(super) fn run(options: &ExportOptions) -> io::Result<()> {
    let server = options.from.server()?;
    let arguments = options.arguments();
    let state = beside(&options.output, ".state");
    let mut place = match Place::load(&state, &arguments)? {
        Some(place) => {
            tell(&format!("going on behind {} parts", place.parts));
            place
        }
        None => Place::new(arguments),
    };
    let target = format!("{}&format=parquet&part_entries={PART_ENTRIES}", target(options));
    let mut tries = Tries::default();
    loop {
        let number = place.parts + 1;
        let name = part_name(&options.output, number);
        if name.try_exists().map_err(|error| named(&name, &error))? {
            return Err(named(&name, &io::ErrorKind::AlreadyExists.into()));
        }
        let answer = match ask(&server, &target, &place)? {
            Ok(answer) => answer,
            Err((least, why)) => {
                tries.pause(least, why)?;
                continue;
            }
        };
        let unfinished = beside(&name, ".unfinished");
        if let Err(why) = receive(answer, &unfinished)? {
            tries.pause(None, why)?;
            continue;
        }
        let part = read_end(&unfinished)?;
        tries.progress();
        if part.entries == 0 && number > 1 {
            remove(&unfinished)?;
        } else {
            rename(&unfinished, &name)?;
            place.parts = number;
            place.bytes += name.metadata().map_err(|error| named(&name, &error))?.len();
            place.entries += part.entries;
            tell(&format!("{}: {} entries", name.display(), part.entries));
        }
        place.cursor = part.rest;
        if place.cursor.is_none() {
            break;
        }
        place.save(&state)?;
    }
    if state.try_exists().map_err(|error| named(&state, &error))? {
        Place::remove(&state)?;
    }
    exported(&place);
    Ok(())
}

/// Writes an answer to a file. The inner error may pass.
#[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
fn receive(mut answer: Answer, path: &Path) -> io::Result<Result<(), io::Error>> {
    let file = File::create(path).map_err(|error| named(path, &error))?;
    let mut file = BufWriter::new(file);
    loop {
        match answer.next() {
            Ok(Some(data)) => file.write_all(&data).map_err(|error| named(path, &error))?,
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    let synced = file.flush().and_then(|()| file.get_ref().sync_all());
    synced.map(Ok).map_err(|error| named(path, &error))
}

#[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
fn read_end(path: &Path) -> io::Result<Part> {
    let file = File::open(path).map_err(|error| named(path, &error))?;
    let reader = SerializedFileReader::new(file)
        .map_err(|error| named(path, &io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let metadata = reader.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    let rest = pairs.iter().find(|pair| pair.key == PARQUET_CURSOR_KEY);
    Ok(Part {
        entries: u64::try_from(metadata.num_rows()).map_err(io::Error::other)?,
        rest: rest.and_then(|pair| pair.value.clone()),
    })
}

#[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to).and_then(|()| sync_folder(to)).map_err(|error| named(to, &error))
}

#[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path).map_err(|error| named(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_beside_each_other() {
        for (output, first) in [
            ("all.parquet", "all.0001.parquet"),
            ("/a/b.c/x", "/a/b.c/x.0001.parquet"),
            ("a.b.parquet", "a.b.0001.parquet"),
        ] {
            assert_eq!(part_name(Path::new(output), 1), Path::new(first));
        }
        assert_eq!(part_name(Path::new("x"), 12_345), Path::new("x.12345.parquet"));
    }
}
