use super::model::*;
use crate::filter::BlockFilter;
use crate::*;
use logsvc_testkit::Rng;

fn entries(from: i64, count: i64, text: &str) -> Vec<Entry> {
    (from..from + count)
        .map(|at| {
            let mut entry = entry(at, format!("{text} {at} {}", "pad ".repeat(20)));
            if at % 5 == 0 {
                entry.metadata = vec![("at".to_owned(), at.to_string())];
            }
            entry
        })
        .collect()
}

struct Source {
    file: Vec<u8>,
    directory: Directory,
    streams: Vec<Stream>,
}

impl Source {
    fn new(streams: Vec<Stream>) -> Source {
        let file = write(&streams, &mut Rng::new(1));
        Source { directory: open(&file).unwrap(), file, streams }
    }

    fn copy(&self, writer: &mut SegmentWriter, block: u32) -> Result<(), WriteError> {
        self.copy_with(writer, block, None)?;
        Ok(())
    }

    /// The filters of all blocks as they are stored.
    fn filters(&self) -> Vec<BlockFilter> {
        let region = part(&self.file, self.directory.footer().filters_range()).to_vec();
        let mut loader = self.directory.filters().load(region).unwrap();
        while loader.advance().unwrap() {}
        let filters = loader.finish();
        (0..self.directory.block_count()).filter_map(|block| filters.get(block as usize)).collect()
    }

    fn copy_with(
        &self,
        writer: &mut SegmentWriter,
        block: u32,
        filter: Option<BlockFilter>,
    ) -> Result<(), WriteError> {
        let info = self.directory.block(block);
        let encoded = EncodedBlock {
            directory: &self.directory,
            block,
            columns: ColumnKind::ALL.map(|kind| part(&self.file, info.column(kind).range())),
        };
        let keys: Vec<StreamKey<'_>> = self.streams[info.first_stream as usize..]
            .iter()
            .take(info.runs.len())
            .map(|stream| StreamKey {
                tenant: &stream.tenant,
                labels: &stream.labels,
                id: stream.id,
                is_late: false,
            })
            .collect();
        writer.append_encoded_block(&mut Decoder::new(), &encoded, filter, &keys)
    }
}

fn finish(mut writer: SegmentWriter) -> Vec<u8> {
    let mut file = writer.take_output().to_vec();
    file.extend_from_slice(&writer.finish().unwrap().bytes);
    file
}

#[test]
fn all_blocks_of_a_segment_make_the_same_segment() {
    let source = Source::new(vec![
        stream("a", &[("app", "x")], entries(0, 8000, "first")),
        stream("a", &[("app", "y")], entries(5, 10, "second")),
        stream("b", &[("app", "x")], entries(0, 6000, "third")),
    ]);
    assert!(source.directory.block_count() > 3);
    let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
    for block in 0..source.directory.block_count() {
        source.copy(&mut writer, block).unwrap();
    }
    assert!(finish(writer) == source.file, "with equal filters too");
    let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
    for (block, filter) in (0..).zip(source.filters()) {
        source.copy_with(&mut writer, block, Some(filter)).unwrap();
    }
    assert!(finish(writer) == source.file, "with the filters that were stored");
}

#[test]
fn copied_blocks_and_new_entries_follow_each_other() {
    let source = Source::new(vec![
        stream("a", &[("app", "x")], entries(100, 5000, "old")),
        stream("a", &[("app", "y")], entries(0, 7, "other")),
    ]);
    let blocks = source.directory.block_count();
    let [x, y] = &source.streams[..] else { unreachable!("two streams") };
    let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
    let mut file = Vec::new();
    let (before, behind) = (entries(0, 100, "before"), entries(50, 30, "behind"));
    writer.begin_stream(&x.tenant, &x.labels, x.id).unwrap();
    append_all(&mut writer, Columns::new(&before).entries(Form::Own), &mut file);
    for block in 0..blocks {
        source.copy(&mut writer, block).unwrap();
    }
    append_all(&mut writer, Columns::new(&behind).entries(Form::Sets), &mut file);
    file.extend(finish(writer));
    let expected = [
        stream("a", &[("app", "x")], [before, x.entries.clone()].concat()),
        stream("a", &[("app", "y")], [y.entries.clone(), behind].concat()),
    ];
    assert!(read(&file).unwrap() == expected);
    assert_eq!(open(&file).unwrap().block_count(), blocks + 2);
}

#[test]
fn blocks_out_of_order_or_damaged_are_refused_without_a_trace() {
    let mut source = Source::new(vec![
        stream("a", &[("app", "x")], entries(0, 5000, "x")),
        stream("b", &[("app", "x")], entries(0, 5, "y")),
    ]);
    let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
    source.copy(&mut writer, 1).unwrap();
    assert_eq!(source.copy(&mut writer, 0), Err(WriteError::StreamOrder));
    let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
    let x = source.streams[0].clone();
    writer.begin_stream(&x.tenant, &x.labels, x.id).unwrap();
    let one = Columns::new(&[entry(1, "later than the first of the block")]);
    append_all(&mut writer, one.entries(Form::Own), &mut Vec::new());
    assert_eq!(source.copy(&mut writer, 0), Err(WriteError::TimeOrder));
    for kind in ColumnKind::ALL {
        let at = source.directory.block(1).column(kind).offset as usize;
        source.file[at] ^= 1;
        assert!(matches!(source.copy(&mut writer, 1), Err(WriteError::Damaged(_))), "{kind:?}");
        let filter = source.filters().pop();
        let copied = source.copy_with(&mut writer, 1, filter);
        assert!(matches!(copied, Err(WriteError::Damaged(_))), "{kind:?}");
        source.file[at] ^= 1;
    }
    source.copy(&mut writer, 1).unwrap();
    let file = finish(writer);
    let read = read(&file).unwrap();
    assert_eq!(read[0].entries[0].line, b"later than the first of the block");
    let copied = source.directory.runs_of_block(1).map(|run| run.entries.len()).sum::<usize>();
    assert_eq!(read.iter().map(|stream| stream.entries.len()).sum::<usize>(), copied + 1);
}
