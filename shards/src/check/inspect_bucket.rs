//! Prints what a bucket holds, and single objects of it.
//!
//! Guarantees: nothing in the bucket changes. A server may work with it meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use logsvc_runtime::Runtime;
use logsvc_store::bucket::Span;
use logsvc_store::log::fenced_by;
use logsvc_store::object::{HEADER_LEN, Header, PAYLOAD_MAX_BYTES};
use logsvc_store::{ObjectName, Store};

use super::inspect::{open, print_parts, print_totals};
use super::listing::{Kind, Listing, kind_of};
use super::segment::name_of;
use super::source::{PATIENCE, Source};
use super::store::CheckError;
use crate::ledger::{FileRecord, LedgerError, LogEntry, peek};
use crate::manifest::{Day, LiveSegment};
use crate::sink::pieces::pieces;
use crate::types::StreamPartitions;

/// Prints what is in a bucket: whose it is, its writers, its newest log, its segments by days, and how
/// many objects of which kind there are.
///
/// # Errors
/// The bucket does not answer, has no store, or its log cannot be read.
pub async fn inspect_bucket<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    mut print: impl FnMut(String),
) -> Result<(), CheckError> {
    let peeked = peek(store, None, runtime.now().after(PATIENCE)).await?;
    let Some(peeked) = peeked else {
        return Err(CheckError::NoStore(store.address().to_owned()));
    };
    let listing = Listing::read(runtime, store).await?;
    let state = &peeked.state;
    print(format!("bucket {}", store.address()));
    print(format!("  cluster    {}", peeked.cluster.id));
    print(format!("  partitions {}", peeked.cluster.partitions));
    let writers: Vec<&str> = listing
        .objects()
        .filter(|(_, kind)| matches!(kind, Kind::Writer(_)))
        .filter_map(|(info, _)| info.name.as_str().strip_prefix("writers/"))
        .collect();
    let newest = writers.last().copied().unwrap_or("none");
    print(format!("  writers    {}, the newest is {newest}", writers.len()));
    match peeked.base {
        Some(base) => {
            let entries = listing.edits.get(&base).map_or(0, BTreeMap::len);
            print(format!("  log        log/{base:08x} with {entries} entries"));
        }
        None => print("  log        none: nobody has written to the bucket".to_owned()),
    }
    for (epoch, from) in &state.wal {
        let entries = listing.wals.get(epoch).map_or(0, |log| log.range(from..).count());
        print(format!("  needs      wal/{epoch:08x} from {from:016x} on, {entries} objects"));
    }
    if !state.files.is_empty() {
        print(format!("  files      {} of rule groups and delete requests", state.files.len()));
    }
    let sum = |of: fn(&LiveSegment) -> u64| state.live.values().map(of).sum::<u64>();
    print(format!(
        "  segments   {} with {} bytes, {} entries and {} bytes of lines",
        state.live.len(),
        sum(|live| live.file_len),
        sum(|live| live.entries),
        sum(|live| live.line_bytes)
    ));
    let mut days: BTreeMap<Day, (u64, u64, u64)> = BTreeMap::new();
    for live in state.live.values() {
        let (segments, bytes, entries) = days.entry(live.day).or_default();
        *segments += 1;
        *bytes += live.file_len;
        *entries += live.entries;
    }
    for (day, (segments, bytes, entries)) in days {
        print(format!("day {day}: {segments} segments with {bytes} bytes and {entries} entries"));
    }
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (info, kind) in listing.objects() {
        let (count, bytes) = kinds.entry(word(kind)).or_default();
        *count += 1;
        *bytes += info.len_bytes;
    }
    for (kind, (count, bytes)) in kinds {
        print(format!("objects {kind:<20} {count:>8}  {bytes} bytes"));
    }
    let unneeded = listing.unneeded(peeked.base, state);
    for (objects, what) in [
        (&unneeded.leaving, "are not in force any more"),
        (&unneeded.unnamed, "are named by nothing"),
    ] {
        if objects.count > 0 {
            let (count, bytes) = (objects.count, objects.bytes);
            print(format!("of these {count} with {bytes} bytes {what}"));
        }
    }
    Ok(())
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster => "cluster",
        Kind::Writer(_) => "writers",
        Kind::Edit(..) => "log",
        Kind::Wal(..) => "wal",
        Kind::Segment(_) => "seg",
        Kind::File(_) => "files",
        Kind::SelfTest => "self-test",
        Kind::Foreign => "none of this store",
    }
}

/// Prints an object of a bucket: a segment as [`super::inspect_segment`] does, an entry of a log, or
/// what its header tells.
///
/// # Errors
/// There is no such object, it is damaged or none of this program, or the bucket does not answer.
pub async fn inspect_object<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    name: &str,
    mut print: impl FnMut(String),
) -> Result<(), CheckError> {
    let name = ObjectName::new(name).map_err(LedgerError::Name)?;
    let kind = kind_of(&name);
    let inspected = match kind {
        Kind::Segment(_) => print_segment(runtime, store, &name, &mut print).await?,
        _ => {
            let span = Span::Whole { max_bytes: HEADER_LEN as u64 + PAYLOAD_MAX_BYTES };
            let object = store.read(&name, span, runtime.now().after(PATIENCE)).await?;
            print_object(kind, &name, &object, &mut print)
        }
    };
    inspected
        .map_err(|source| CheckError::Io { path: super::stored::path_of(store, &name), source })
}

async fn print_segment<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    name: &ObjectName,
    print: &mut impl FnMut(String),
) -> Result<io::Result<()>, CheckError> {
    let source = match Source::object(runtime, store, name).await {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    let mut segment = match open(source).await {
        Ok(segment) => segment,
        Err(error) => return Ok(Err(error)),
    };
    print_totals(&segment.directory, print);
    let own = name_of(&segment.directory.footer().identity);
    let mut left = StreamPartitions::default();
    if let Some(peeked) = peek(store, None, runtime.now().after(PATIENCE)).await? {
        let live = peeked.state.live.get(&own);
        let is_live = live.is_some_and(|live| own.object_name(live.day) == *name);
        print(format!("  live       {}", if is_live { "yes" } else { "no" }));
        if let Some(footer) = peeked.state.footers.get(&own) {
            let is_same = if segment.has_footer(footer) { "as in" } else { "differs from" };
            print(format!("  footer     {is_same} the log"));
        }
        left = peeked.state.left_of(own).map(|part| part.part).collect();
    }
    Ok(print_parts(&mut segment, &left, print).await)
}

fn print_object(
    kind: Kind,
    name: &ObjectName,
    object: &Bytes,
    print: &mut impl FnMut(String),
) -> io::Result<()> {
    let invalid = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
    };
    let (header, payload) = Header::decode(object).map_err(|error| invalid(&error))?;
    print(format!("object {name}"));
    print(format!("  kind       {}", header.kind));
    print(format!("  number     {}", hex(&header.nonce.0)));
    print(format!("  previous   {}", hex(&header.previous.0)));
    print(format!("  payload    {} bytes", payload.len()));
    if let Some(by) = fenced_by(&header, &payload) {
        print(format!("fence: the writer {by:08x} has taken the log over"));
        return Ok(());
    }
    match kind {
        Kind::Edit(..) => {
            let entry = LogEntry::decode(&payload).map_err(|error| invalid(&error))?;
            print_edit(&entry, print);
        }
        Kind::Wal(..) => {
            let mut names = BTreeSet::new();
            for piece in pieces(&payload) {
                let piece = piece.map_err(|error| invalid(&error))?;
                names.insert(piece.name);
                let (file, at, len) = (piece.name.file_name(), piece.offset, piece.bytes.len());
                print(format!("piece {file} at byte {at}: {len} bytes"));
            }
            print(format!("of {} log files", names.len()));
        }
        Kind::Writer(_) => {
            print(format!("writer {}", String::from_utf8_lossy(&payload).escape_debug()))
        }
        _ => {}
    }
    Ok(())
}

fn print_edit(entry: &LogEntry, print: &mut impl FnMut(String)) {
    print(if entry.is_sum { "sum of all that is live" } else { "edit" }.to_owned());
    for (epoch, from) in &entry.wal {
        print(format!("needs wal/{epoch:08x} from {from:016x} on"));
    }
    for record in &entry.files {
        print(match record {
            FileRecord::Kept(path, file) => {
                let (epoch, number) = (file.object.epoch, file.object.number);
                format!("keeps {path} in files/{epoch:08x}-{number:08x}")
            }
            FileRecord::Removed(path) => format!("removes {path}"),
            FileRecord::Gone(object) => {
                format!("replaced files/{:08x}-{:08x}", object.epoch, object.number)
            }
        });
    }
    for live in &entry.edit.added {
        print(format!(
            "adds {}: {} bytes, {} entries, {}..={} ns, level {}",
            live.name.object_name(live.day),
            live.file_len,
            live.entries,
            live.min_ns,
            live.max_ns,
            live.level
        ));
    }
    for name in &entry.edit.removed {
        print(format!("removes {}", name.file_name()));
    }
    for left in &entry.edit.left {
        print(format!("streams of {} have left {}", left.part, left.segment.file_name()));
    }
    print(format!("{} covers, {} footers", entry.edit.covers.len(), entry.edit.footers.len()));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
