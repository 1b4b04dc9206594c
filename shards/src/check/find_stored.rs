//! Finds out which objects of a bucket hold a text: the proof that a deleted line is in none.
//!
//! Segments are decoded as in files. All other objects are searched as bytes. Bytes of a log file may
//! be cut anywhere and go on in the next object of their log, so the end of each piece is kept.
//!
//! Guarantees: nothing in the bucket changes. A server may work with it meanwhile; an object that goes
//! during the search counts as gone. Memory: a few windows of an object, or one object of a log.

use std::collections::BTreeMap;
use std::io;

use logsvc_runtime::Runtime;
use logsvc_store::bucket::Span;
use logsvc_store::object::{HEADER_LEN, Header, PAYLOAD_MAX_BYTES};
use logsvc_store::{ObjectName, Store};
use memchr::memmem::Finder;

use super::FindReport;
use super::find::{Hits, count, finder_of, search_source};
use super::listing::{Kind, Listing};
use super::source::{PATIENCE, Source};
use super::stored::path_of;
use crate::kept::KeptPath;
use crate::ledger::peek;
use crate::sink::pieces::{PieceRef, pieces};
use crate::wal::format::WalName;

/// Searches all objects of a bucket for a text. `print` gets one line for each object that has it or
/// cannot be read, without line ends.
///
/// # Errors
/// The text is empty or too long, or the bucket does not answer.
pub async fn find_in_bucket<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    text: &[u8],
    mut print: impl FnMut(String),
) -> io::Result<FindReport> {
    let finder = finder_of(text)?;
    let listing = Listing::read(runtime, store).await.map_err(io::Error::other)?;
    let requests = match peek(store, None, runtime.now().after(PATIENCE)).await {
        Ok(peeked) => {
            peeked.and_then(|mut peeked| peeked.state.files.remove(&KeptPath::requests()))
        }
        Err(error) => {
            print(format!("it is not known which object has the delete requests: {error}"));
            None
        }
    };
    let requests = requests.map(|file| file.object);
    let mut report = FindReport::default();
    let mut ends = BTreeMap::new();
    for (info, kind) in listing.objects() {
        let mut hits = Hits::default();
        let searched = match kind {
            Kind::Wal(..) => {
                search_log(runtime, store, &info.name, &finder, &mut ends, &mut hits).await
            }
            _ => match Source::object(runtime, store, &info.name).await {
                Ok(source) => search_source(runtime, source, &finder, &mut hits).await,
                Err(error) => Err(error),
            },
        };
        let name = path_of(store, &info.name).display().to_string();
        let is_requests = matches!(kind, Kind::File(file) if Some(file) == requests);
        report.add(&name, searched, &hits, is_requests, &mut print);
        runtime.yield_now().await;
    }
    Ok(report)
}

/// The end of the bytes of a log file that were searched: where it is, and as many bytes as a text
/// needs that goes on behind them.
type Ends = BTreeMap<WalName, (u64, Vec<u8>)>;

async fn search_log<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    name: &ObjectName,
    finder: &Finder<'_>,
    ends: &mut Ends,
    hits: &mut Hits,
) -> io::Result<()> {
    let span = Span::Whole { max_bytes: HEADER_LEN as u64 + PAYLOAD_MAX_BYTES };
    let read = store.read(name, span, runtime.now().after(PATIENCE)).await;
    let object = read.map_err(|error| {
        let kind =
            if error.is_not_found() { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
        io::Error::new(kind, error)
    })?;
    hits.read_bytes += object.len() as u64;
    hits.bytes += count(finder, &object);
    if let Ok((_, payload)) = Header::decode(&object) {
        for piece in pieces(&payload).map_while(Result::ok) {
            hits.bytes += across(piece, finder, ends);
        }
    }
    Ok(())
}

/// How often the text begins before a piece and ends in it. What is within one piece was found in
/// the object.
fn across(piece: PieceRef<'_>, finder: &Finder<'_>, ends: &mut Ends) -> u64 {
    let most = finder.needle().len() - 1;
    let begin = match ends.remove(&piece.name) {
        Some((at, bytes)) if at == piece.offset => bytes,
        _ => Vec::new(),
    };
    let mut joined = begin.clone();
    joined.extend_from_slice(&piece.bytes[..piece.bytes.len().min(most)]);
    let alone = count(finder, &joined[begin.len()..]);
    let found = count(finder, &joined) - alone;
    let mut end = begin;
    end.extend_from_slice(&piece.bytes[piece.bytes.len().saturating_sub(most)..]);
    end.drain(..end.len().saturating_sub(most));
    ends.insert(piece.name, (piece.offset + piece.bytes.len() as u64, end));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_pieces() {
        let name = |index| WalName { epoch: 1, shards: 1, shard: 0, index };
        let finder = Finder::new(b"needle");
        let mut ends = Ends::new();
        let mut add = |index, offset, bytes: &'static [u8]| {
            across(PieceRef { name: name(index), offset, bytes }, &finder, &mut ends)
        };
        assert_eq!(add(1, 0, b"a needle, a nee"), 0, "the object has the first");
        assert_eq!(add(2, 0, b"dle"), 0, "another file");
        assert_eq!(add(1, 15, b"d"), 0);
        assert_eq!(add(1, 16, b"le nee"), 1, "over three pieces");
        assert_eq!(add(1, 30, b"dle"), 0, "not behind it");
    }
}
