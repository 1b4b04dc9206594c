//! The ledger of acknowledged bodies: which lines a server has promised to keep.
//!
//! Text, one record a line. The first line names the format and holds the source options as JSON,
//! with the start time filled in, so that a ledger alone tells which lines must be found. Every
//! further line is written with one call, after the server's 2xx has been read in full:
//!
//! ```text
//! logsvc-bench-ledger 1 {"files":[],...}
//! ack <body number> <first line> <line count>
//! ```
//!
//! A last line without its newline is a torn write of a killed load generator and
//! is left out; anything else that does not read is an error.

use crate::source::{Body, SourceArgs};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

const MAGIC: &str = "logsvc-bench-ledger 1 ";

/// An open ledger; threads may append to it at the same time.
pub(crate) struct LedgerWriter {
    file: File,
}

impl LedgerWriter {
    /// Creates the ledger, or opens an existing one of the same source to add to.
    pub(crate) fn open(path: &Path, source: &SourceArgs) -> Result<LedgerWriter> {
        let header = format!("{MAGIC}{}\n", serde_json::to_string(source)?);
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("opening ledger {path:?}"))?;
        let existing = std::fs::read_to_string(path)?;
        if existing.is_empty() {
            file.write_all(header.as_bytes())?;
        } else if !existing.starts_with(&header) {
            bail!("ledger {path:?} belongs to other source options (or another --start)");
        } else if !existing.ends_with('\n') {
            bail!("ledger {path:?} ends in a torn record; use a new file");
        }
        Ok(LedgerWriter { file })
    }

    /// Records that the server acknowledged the body. One write to a file opened
    /// for appending, so records of several threads never mix.
    pub(crate) fn acknowledge(&self, ack: Ack) -> Result<()> {
        (&self.file).write_all(ack.record().as_bytes()).context("writing the ledger")
    }
}

/// One record: the lines of one acknowledged body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ack {
    pub(crate) body: u64,
    pub(crate) first_seq: u64,
    pub(crate) line_count: u64,
}

impl Ack {
    pub(crate) fn of(body: &Body) -> Ack {
        Ack { body: body.number, first_seq: body.first_seq, line_count: body.line_count }
    }

    fn record(self) -> String {
        format!("ack {} {} {}\n", self.body, self.first_seq, self.line_count)
    }

    fn parse(record: &str) -> Option<Ack> {
        let mut words = record.strip_prefix("ack ")?.split(' ').map(|word| word.parse().ok());
        let (body, first_seq, line_count) = (words.next()??, words.next()??, words.next()??);
        words.next().is_none().then_some(Ack { body, first_seq, line_count })
    }
}

/// The content of a ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) source: SourceArgs,
    acks: Vec<Ack>,
}

impl Ledger {
    pub(crate) fn read(path: &Path) -> Result<Ledger> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading ledger {path:?}"))?;
        Ledger::parse(&text).with_context(|| format!("in ledger {path:?}"))
    }

    fn parse(text: &str) -> Result<Ledger> {
        let Some((header, records)) = text.split_once('\n') else { bail!("no complete header") };
        let Some(source) = header.strip_prefix(MAGIC) else { bail!("not a ledger of version 1") };
        let source = serde_json::from_str(source).context("source options")?;
        let complete = records.rfind('\n').map_or("", |end| &records[..end]);
        let mut acks = Vec::new();
        for (index, record) in complete.lines().enumerate() {
            match Ack::parse(record) {
                Some(ack) => acks.push(ack),
                None => bail!("line {}: {record:?} is not a record", index + 2),
            }
        }
        Ok(Ledger { source, acks })
    }

    /// Lines of the acknowledged bodies.
    pub(crate) fn lines(&self) -> u64 {
        self.acks.iter().map(|ack| ack.line_count).sum()
    }

    /// Numbers of the acknowledged bodies.
    pub(crate) fn bodies(&self) -> BTreeSet<u64> {
        self.acks.iter().map(|ack| ack.body).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TempDir, source_args};

    #[test]
    fn what_is_written_is_read_back() {
        let folder = TempDir::new();
        let path = folder.path().join("ledger");
        let source = source_args(&["--start", "1700000000", "--label", "run=1", "--metadata"]);
        let ledger = LedgerWriter::open(&path, &source).unwrap();
        ledger.acknowledge(Ack { body: 4, first_seq: 400, line_count: 100 }).unwrap();
        drop(ledger);
        let again = LedgerWriter::open(&path, &source).unwrap();
        again.acknowledge(Ack { body: 0, first_seq: 0, line_count: 100 }).unwrap();
        let read = Ledger::read(&path).unwrap();
        assert_eq!(read.source, source);
        assert_eq!(read.acks[0], Ack { body: 4, first_seq: 400, line_count: 100 });
        assert_eq!((read.bodies(), read.lines()), (BTreeSet::from([0, 4]), 200));
        let other = source_args(&["--start", "1700000001"]);
        assert!(LedgerWriter::open(&path, &other).is_err());
    }

    #[test]
    fn a_torn_end_is_left_out_and_damage_is_refused() {
        let header = format!("{MAGIC}{}\n", serde_json::to_string(&source_args(&[])).unwrap());
        let bodies = |records: &str| {
            Ledger::parse(&format!("{header}{records}")).map(|l| l.bodies().len()).ok()
        };
        assert_eq!(bodies(""), Some(0));
        assert_eq!(bodies("ack 1 2 3\nack 2 5 3"), Some(1));
        assert_eq!(bodies("ack 1 2\nack 2 5 3\n"), None);
        assert_eq!(bodies("ack 1 2 3 4\n"), None);
        assert_eq!(bodies("nack 1 2 3\n"), None);
        assert!(Ledger::parse("").is_err());
        assert!(Ledger::parse("something else\n").is_err());
    }
}
