//! A naive model of streams and entries, to compare segments with.

use std::collections::BTreeMap;

use logsvc_logql::engine::MetadataSets;
use logsvc_proto::{Labels, StreamId, TenantId, varint};

use crate::batch::MetadataPairs;
use crate::columns::metadata::{EntrySets, decode_as_stored, encode_plain};
use crate::head::HeadBlock;
use crate::*;
use logsvc_testkit::Rng;

pub(super) type Pairs = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) timestamp_ns: i64,
    pub(super) line: Vec<u8>,
    pub(super) metadata: Pairs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) tenant: TenantId,
    pub(super) labels: Labels,
    pub(super) id: StreamId,
    pub(super) entries: Vec<Entry>,
}

pub(super) fn entry(timestamp_ns: i64, line: impl Into<Vec<u8>>) -> Entry {
    Entry { timestamp_ns, line: line.into(), metadata: Pairs::new() }
}

pub(super) fn stream(tenant: &str, labels: &[(&str, &str)], entries: Vec<Entry>) -> Stream {
    let tenant = TenantId::new(tenant).unwrap();
    let labels = Labels::from_pairs(labels.iter().copied()).unwrap();
    let id = StreamId::new(&tenant, &labels);
    Stream { tenant, labels, id, entries }
}

pub(super) fn sort(streams: &mut [Stream]) {
    streams
        .sort_by(|a, b| stream_order((&a.tenant, &a.labels, a.id), (&b.tenant, &b.labels, b.id)));
}

pub(super) fn encode_pairs(pairs: &Pairs, out: &mut Vec<u8>) {
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        varint::write(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
}

/// The form of metadata that a writer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// That of a decoded segment.
    Sets,
    /// That of a head whose entries share no set.
    Own,
    /// That of a head whose entries share about half of their pairs.
    Shared,
    /// That of a decoded draft.
    Plain,
}

pub(super) const FORMS: [Form; 4] = [Form::Sets, Form::Own, Form::Shared, Form::Plain];

/// Owned columns of entries, after some unused bytes.
pub(super) struct Columns {
    /// After one unused entry.
    head: HeadBlock,
    timestamps_ns: Vec<i64>,
    line_ends: Vec<u32>,
    lines: Vec<u8>,
    pairs: Vec<u8>,
    pair_ends: Vec<u32>,
    sets: MetadataSets,
    set_ids: Vec<u32>,
    /// `None` if no entry has metadata.
    plain: Option<PlainMetadata>,
}

const BEFORE: usize = 3;

impl Columns {
    pub(super) fn new(entries: &[Entry]) -> Columns {
        let mut columns = Columns {
            timestamps_ns: Vec::new(),
            line_ends: Vec::new(),
            lines: vec![0xee; BEFORE],
            pairs: vec![0xee; BEFORE],
            pair_ends: Vec::new(),
            sets: MetadataSets::new(),
            set_ids: Vec::new(),
            plain: None,
            head: HeadBlock::default(),
        };
        columns.head.push(i64::MIN, b"before", MetadataPairs::from_checked(b"\x01b\x01v", &[]));
        for entry in entries {
            let (mut shared, mut own) = (Vec::new(), Vec::new());
            for pair in &entry.metadata {
                let is_shared = (pair.0.len() + entry.line.len()) % 2 == 0;
                let to = if is_shared { &mut shared } else { &mut own };
                encode_pairs(&vec![pair.clone()], to);
            }
            let metadata = MetadataPairs::from_checked(&shared, &own);
            columns.head.push(entry.timestamp_ns, &entry.line, metadata);
            columns.timestamps_ns.push(entry.timestamp_ns);
            columns.lines.extend_from_slice(&entry.line);
            columns.line_ends.push(columns.lines.len() as u32);
            encode_pairs(&entry.metadata, &mut columns.pairs);
            columns.pair_ends.push(columns.pairs.len() as u32);
            let pairs = entry.metadata.iter().map(|(name, value)| (&**name, &**value));
            columns.set_ids.push(columns.sets.intern(pairs).unwrap());
        }
        columns.plain = columns.plain_metadata();
        columns
    }

    /// The metadata that a draft decodes to, with a set for each entry with metadata.
    fn plain_metadata(&self) -> Option<PlainMetadata> {
        let texts = &self.pairs[BEFORE..];
        let mut set_ends: Vec<u32> = self.pair_ends.iter().map(|end| end - BEFORE as u32).collect();
        set_ends.dedup();
        set_ends.retain(|&end| end > 0);
        let mut number = 0;
        let mut start = BEFORE as u32;
        let numbers = self.pair_ends.iter().map(|&end| {
            let has_some = end > std::mem::replace(&mut start, end);
            number += u32::from(has_some);
            if has_some { number } else { 0 }
        });
        let entry_sets: Vec<u32> = numbers.collect();
        let sets = EntrySets { texts, set_ends: &set_ends, entry_sets: &entry_sets };
        let mut column = Vec::new();
        encode_plain(&sets, &mut column);
        match decode_as_stored(&column, entry_sets.len(), texts.len()).unwrap() {
            StoredMetadata::Plain(metadata) => Some(metadata).filter(|_| !texts.is_empty()),
            StoredMetadata::Sets(_) => panic!("it is taken for the other form"),
        }
    }

    pub(super) fn entries(&self, form: Form) -> Entries<'_> {
        if form == Form::Shared {
            return Entries::of_head(&self.head).behind(1);
        }
        let start = BEFORE as u32;
        Entries {
            timestamps_ns: &self.timestamps_ns,
            lines_start: start,
            line_ends: &self.line_ends,
            lines: &self.lines,
            metadata: if form == Form::Sets {
                EntriesMetadata::Sets { set_ids: &self.set_ids, sets: &self.sets }
            } else if self.pairs.len() == BEFORE {
                EntriesMetadata::None
            } else if let Some(PlainMetadata { sets, entry_sets }) = &self.plain
                && form == Form::Plain
            {
                EntriesMetadata::Plain { entry_sets, sets }
            } else {
                EntriesMetadata::Pairs(PairsColumn::of_own(&self.pairs, start, &self.pair_ends))
            },
        }
    }
}

/// Appends everything, taking output whenever a block is finished.
pub(super) fn append_all(writer: &mut SegmentWriter, mut entries: Entries<'_>, out: &mut Vec<u8>) {
    let mut before = writer.written_bytes();
    while !entries.is_empty() {
        let appended = writer.append(&entries).unwrap();
        assert_eq!(
            appended.finished_block,
            writer.written_bytes() > before || appended.entries == 0
        );
        before = writer.written_bytes();
        entries = entries.behind(appended.entries);
        if appended.finished_block {
            out.extend_from_slice(&writer.take_output());
        } else {
            assert!(entries.is_empty());
        }
    }
}

/// Writes streams, which are in order, in pieces and forms that the numbers choose.
pub(super) fn write(streams: &[Stream], rng: &mut Rng) -> Vec<u8> {
    let writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
    write_with(writer, streams, rng)
}

/// Like [`write`], with this writer.
pub(super) fn write_with(writer: SegmentWriter, streams: &[Stream], rng: &mut Rng) -> Vec<u8> {
    write_and_leave(writer, streams, rng).0
}

/// Like [`write_with`]; returns also the buffers of the writer.
pub(super) fn write_and_leave(
    mut writer: SegmentWriter,
    streams: &[Stream],
    rng: &mut Rng,
) -> (Vec<u8>, Option<Box<WriterBuffers>>) {
    let mut file = Vec::new();
    for stream in streams {
        writer.begin_stream(&stream.tenant, &stream.labels, stream.id).unwrap();
        let mut rest = &stream.entries[..];
        while !rest.is_empty() {
            let len = rng.between(1, rest.len() as u64) as usize;
            let (now, later) = rest.split_at(len);
            rest = later;
            if len < 10 && rng.one_in(2) {
                for entry in now {
                    let mut pairs = Vec::new();
                    encode_pairs(&entry.metadata, &mut pairs);
                    let pairs = MetadataPairs::from_checked(&[], &pairs);
                    writer.push(entry.timestamp_ns, &entry.line, pairs).unwrap();
                }
            } else {
                let columns = Columns::new(now);
                append_all(&mut writer, columns.entries(*rng.pick(&FORMS)), &mut file);
            }
        }
    }
    file.extend_from_slice(&writer.take_output());
    let written = writer.entry_count();
    let mut end = writer.end().unwrap();
    if rng.one_in(2) {
        let len = rng.between(1, 5000) as usize;
        while let Some(bytes) = end.next_bytes(len) {
            assert!(bytes.len() >= len);
            file.extend_from_slice(&bytes);
        }
    }
    let finished = end.finish().unwrap();
    file.extend_from_slice(&finished.bytes);
    assert_eq!(written, finished.footer.totals.entries);
    assert_eq!(finished.footer.file_len, file.len() as u64);
    assert!(Directory::open(finished.footer, finished.directory).is_ok());
    let root = finished.footer.label_index_root_range();
    assert_eq!(root.map(|range| part(&file, range)), finished.label_index_root.as_deref());
    (file, finished.buffers)
}

pub(super) fn part(file: &[u8], range: std::ops::Range<u64>) -> &[u8] {
    &file[range.start as usize..range.end as usize]
}

pub(super) fn open(file: &[u8]) -> Result<Directory, SegmentError> {
    let footer = Footer::parse(&file[file.len().saturating_sub(FOOTER_LEN)..], file.len() as u64)?;
    footer.check_header(file)?;
    Directory::open(footer, part(file, footer.directory_range()).to_vec())
}

/// The label index of a segment; `None` if it has none.
pub(super) fn open_labels(file: &[u8]) -> Result<Option<LabelIndex>, SegmentError> {
    let footer = Footer::parse(&file[file.len().saturating_sub(FOOTER_LEN)..], file.len() as u64)?;
    let root = footer.label_index_root_range().map(|range| part(file, range).to_vec());
    root.map(|root| LabelIndex::open(&footer, root)).transpose()
}

/// All texts of a list with their rows.
pub(super) fn list(
    file: &[u8],
    mut listing: Listing<'_>,
) -> Result<Vec<(String, RowSet)>, SegmentError> {
    let mut decoder = Decoder::new();
    let mut texts = Vec::new();
    while let Some(reads) = listing.next_reads() {
        let pieces: Vec<&[u8]> = reads.iter().map(|range| part(file, range.clone())).collect();
        let each = |text: &str, rows: StoredRows<'_>| texts.push((text.to_owned(), rows.to_set()));
        listing.supply(&mut decoder, &pieces, each)?;
    }
    Ok(texts)
}

/// Compares the label index with the streams.
fn check_labels(file: &[u8], streams: &[Stream]) -> Result<(), SegmentError> {
    let Some(index) = open_labels(file)? else { return Ok(()) };
    let mut names: BTreeMap<(&str, &str), RowSet> = BTreeMap::new();
    let mut values: BTreeMap<(&str, &str, &str), RowSet> = BTreeMap::new();
    for (stream, row) in streams.iter().zip(0..) {
        let tenant = stream.tenant.as_str();
        assert!(index.tenant_rows(tenant).is_some_and(|rows| rows.contains(&row)));
        for (name, value) in stream.labels.iter() {
            names.entry((tenant, name)).or_default().push(row..row + 1);
            values.entry((tenant, name, value)).or_default().push(row..row + 1);
        }
    }
    let (mut names, mut values) = (names.into_iter(), values.into_iter());
    for (tenant, _) in index.tenants() {
        for (name, rows) in list(file, index.names(tenant))? {
            assert_eq!(names.next(), Some(((tenant, &*name), rows)));
            for (value, rows) in list(file, index.values(tenant, &name))? {
                assert_eq!(values.next(), Some(((tenant, &*name, &*value), rows)));
            }
        }
    }
    assert!(names.next().is_none() && values.next().is_none());
    Ok(())
}

/// Reads all parts, also those that no query reads.
pub(super) fn read(file: &[u8]) -> Result<Vec<Stream>, SegmentError> {
    let directory = open(file)?;
    let filters = part(file, directory.footer().filters_range());
    directory.footer().check_filters(filters)?;
    assert_eq!(directory.filters().check(filters), Ok(()));
    let mut decoder = Decoder::new();
    let mut streams = Vec::new();
    for chunk in 0..directory.label_chunk_count() {
        let stored = part(file, directory.label_chunk(chunk).place.range());
        decoder.labels(&directory, chunk, stored, |_, tenant, id, labels| {
            streams.push(Stream { tenant: tenant.clone(), labels, id, entries: Vec::new() });
        })?;
        // Some rows alone have the same.
        let rows: Vec<u32> = directory.label_chunk(chunk).streams.skip(1).step_by(3).collect();
        let mut wanted = rows.iter();
        decoder.labels_of(&directory, chunk, stored, &rows, |row, tenant, id, labels| {
            assert_eq!(wanted.next(), Some(&row));
            let stream = &streams[row as usize];
            assert_eq!((&stream.tenant, stream.id, &stream.labels), (tenant, id, &labels));
        })?;
        assert_eq!(wanted.next(), None);
    }
    for number in 0..directory.block_count() {
        let block = directory.block(number);
        let stored = |kind| part(file, block.column(kind).range());
        let times = decoder.timestamps(&directory, number, stored(ColumnKind::Timestamps))?;
        let ends = decoder.line_ends(&directory, number, stored(ColumnKind::Lengths))?;
        let lines = decoder.lines(&directory, number, stored(ColumnKind::Lines), &times)?;
        let metadata = decoder.metadata(&directory, number, stored(ColumnKind::Metadata))?;
        for run in directory.runs_of_block(number) {
            let (ends, lines) = (run.of_entries(&ends), run.of_lines(&lines));
            let sets = metadata.as_ref().map(|all| (run.of_entries(&all.set_ids), &all.sets));
            let mut start = 0;
            for (index, &timestamp_ns) in run.of_entries(&times).iter().enumerate() {
                let end = ends[index] as usize;
                let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                let metadata = sets
                    .map_or(Pairs::new(), |(ids, sets)| sets.get(ids[index]).map(owned).collect());
                let line = lines[start..end].to_vec();
                streams[run.stream as usize].entries.push(Entry { timestamp_ns, line, metadata });
                start = end;
            }
        }
    }
    check_labels(file, &streams)?;
    Ok(streams)
}
