//! The log files in the objects of a write-ahead log, and the entries in their frames.
//!
//! A sink brings pieces into objects one after the other, so at most one file has a piece that goes on
//! in the next object, and it goes on there at once.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_proto::StreamId;
use logsvc_segment::batch::sections;

use super::{BATCH_BYTES, HeritageBatch, HeritageError, HeritageTotals};
use crate::sink::pieces::{PieceRef, pieces};
use crate::types::{StreamDefinition, StreamPartitions};
use crate::wal::covers::{Cover, FileCovers};
use crate::wal::format::{Record, WalName, records};
use crate::wal::pieced::PiecedFile;

/// Reads objects one after the other.
pub(super) struct Reader<'a> {
    place: Place,
    files: Files<'a>,
    entries: Entries<'a>,
}

/// Which object is read.
struct Place {
    log: String,
    number: u64,
}

impl Place {
    fn damaged(&self, what: String) -> HeritageError {
        HeritageError::Damaged { log: self.log.clone(), number: self.number, what }
    }

    fn undefined(&self, stream: StreamId) -> HeritageError {
        HeritageError::Undefined { log: self.log.clone(), number: self.number, stream }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        log: String,
        epoch: u32,
        covers: &'a [Cover],
        wanted: &'a StreamPartitions,
    ) -> Reader<'a> {
        Reader {
            place: Place { log, number: 0 },
            files: Files { epoch, covers, wanted, current: BTreeMap::new(), cut: None },
            entries: Entries {
                wanted,
                definitions: BTreeMap::new(),
                next: HeritageBatch::default(),
                streams: BTreeSet::new(),
                totals: HeritageTotals::default(),
            },
        }
    }

    /// Gives the entries of an object, but for those that wait for more of their frame or batch.
    pub(super) async fn read_object<E: From<HeritageError>>(
        &mut self,
        number: u64,
        payload: &[u8],
        take: &mut impl AsyncFnMut(HeritageBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.place.number = number;
        let Reader { place, files, entries } = self;
        entries.totals.objects += 1;
        if let (Some(cut), true) = (files.cut, payload.is_empty()) {
            return Err(place.damaged(cut_short(cut)).into());
        }
        for piece in pieces(payload) {
            let piece = piece.map_err(|error| place.damaged(error.to_string()))?;
            let name = piece.name;
            let added = files.add(piece).map_err(|what| place.damaged(what))?;
            let Some((file, covers)) = added else { continue };
            loop {
                let at = file.position();
                let frame = file.next_frame(name).map_err(|what| at_byte(name, at, &what));
                let frame = frame.map_err(|what| place.damaged(what))?;
                let Some(frame) = frame else { break };
                entries.add(frame, covers, place, take).await?;
            }
            let is_cut = file.is_cut();
            files.cut = is_cut.then_some(name);
        }
        Ok(())
    }

    /// Gives what has waited. The fence has come.
    pub(super) async fn finish<E>(
        mut self,
        take: &mut impl AsyncFnMut(HeritageBatch) -> Result<(), E>,
    ) -> Result<HeritageTotals, E> {
        self.entries.give(take).await?;
        Ok(self.entries.totals)
    }
}

/// The log files of the writer.
struct Files<'a> {
    epoch: u32,
    covers: &'a [Cover],
    wanted: &'a StreamPartitions,
    /// The file of each shard whose pieces came last.
    current: BTreeMap<(u32, u32), LogFile>,
    /// The file whose last piece has to go on.
    cut: Option<WalName>,
}

/// A log file.
struct LogFile {
    name: WalName,
    covers: FileCovers,
    /// `None` if nothing in it is wanted.
    file: Option<PiecedFile>,
}

impl Files<'_> {
    /// Takes a piece. Gives its file, whose frames have to be taken, if something in it is wanted.
    fn add(
        &mut self,
        piece: PieceRef<'_>,
    ) -> Result<Option<(&mut PiecedFile, &FileCovers)>, String> {
        let PieceRef { name, offset, bytes } = piece;
        if name.epoch != self.epoch {
            return Err(format!("a piece of the file {} of another writer", name.file_name()));
        }
        if let Some(cut) = self.cut.filter(|cut| *cut != name) {
            return Err(cut_short(cut));
        }
        let open = || {
            let covers = FileCovers::of(self.covers, name);
            let is_wanted = !covers.covers_all_of(self.wanted, name);
            LogFile { name, covers, file: is_wanted.then(PiecedFile::default) }
        };
        let file = self.current.entry(name.writer()).or_insert_with(open);
        if file.name != name {
            if name.index < file.name.index {
                return Err(format!("a piece of the file {} comes late", name.file_name()));
            }
            *file = open();
        }
        let LogFile { covers, file: Some(file), .. } = file else { return Ok(None) };
        let at = file.position();
        file.add(offset, bytes).map_err(|what| at_byte(name, at, &what))?;
        Ok(Some((file, covers)))
    }
}

fn cut_short(name: WalName) -> String {
    format!("the file {} does not go on", name.file_name())
}

fn at_byte(name: WalName, at: u64, what: &str) -> String {
    format!("byte {at} of the file {}: {what}", name.file_name())
}

/// The entries on their way to who takes them.
struct Entries<'a> {
    wanted: &'a StreamPartitions,
    /// Of all wanted streams that were defined, since no later frame may define them.
    definitions: BTreeMap<StreamId, StreamDefinition>,
    /// The next batch, without definitions.
    next: HeritageBatch,
    /// Its streams.
    streams: BTreeSet<StreamId>,
    totals: HeritageTotals,
}

impl Entries<'_> {
    /// Takes the wanted entries of a frame, and gives batches that are full.
    async fn add<E: From<HeritageError>>(
        &mut self,
        frame: &[u8],
        covers: &FileCovers,
        place: &Place,
        take: &mut impl AsyncFnMut(HeritageBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.totals.frames += 1;
        // A cover holds for all of a stream in the file, so that nothing uses the definition of a
        // stream that is covered.
        for record in records(frame) {
            let record = record.map_err(|error| place.damaged(error.to_string()))?;
            if let Record::Definition { id, tenant, labels } = record
                && self.wanted.contains(id)
                && !covers.covers_stream(id)
            {
                let labels = labels.into();
                let definition = StreamDefinition { id, tenant, labels };
                self.definitions.entry(id).or_insert(definition);
            }
        }
        for record in records(frame) {
            let Ok(Record::Batch(batch)) = record else { continue };
            let mut rest = sections(batch);
            loop {
                let begin = rest.offset();
                let Some(section) = rest.next() else { break };
                let section = section.map_err(|error| place.damaged(error.to_string()))?;
                let (stream, count) = (section.stream, section.entry_count() as u64);
                if !self.wanted.contains(stream) {
                    continue;
                }
                if covers.covers_stream(stream) {
                    self.totals.covered_entries += count;
                    continue;
                }
                if !self.definitions.contains_key(&stream) {
                    return Err(place.undefined(stream).into());
                }
                let bytes = &batch[begin..rest.offset()];
                if self.next.batch.len() + bytes.len() > BATCH_BYTES {
                    self.give(take).await?;
                }
                self.next.batch.extend_from_slice(bytes);
                self.next.entries += count;
                self.streams.insert(stream);
            }
        }
        Ok(())
    }

    async fn give<E>(
        &mut self,
        take: &mut impl AsyncFnMut(HeritageBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.next.batch.is_empty() {
            return Ok(());
        }
        let mut next = std::mem::take(&mut self.next);
        let streams = std::mem::take(&mut self.streams);
        let definitions = streams.iter().filter_map(|stream| self.definitions.get(stream));
        next.definitions = definitions.cloned().collect();
        self.totals.entries += next.entries;
        take(next).await
    }
}
