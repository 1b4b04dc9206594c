//! Lookups in a label index give what the labels of all streams give.

use std::collections::BTreeSet;
use std::ops::Range;

use super::model::*;
use crate::*;
use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax::ast::{MatchOp, Matcher, Text};
use logsvc_testkit::{Rng, SeedGuard, seeds};

const TENANTS: [&str; 4] = ["a", "b.c", "fake", "z-1"];
const NAMES: [&str; 6] = ["app", "cluster", "level", "pod", "zone", "zz"];

fn random_value(rng: &mut Rng, name: &str) -> String {
    match name {
        "pod" if rng.one_in(3) => format!("{:x}", rng.next_u64()),
        "pod" => format!("ingester-{:x}", rng.below(1 << 24)),
        "zz" if rng.one_in(4) => "\u{e9}\u{e8}\u{1f600}".repeat(rng.between(1, 90) as usize),
        "zz" => format!("\u{e9}{}", char::from_u32(0x100 + rng.below(2000) as u32).unwrap()),
        _ => (*rng.pick(&["web", "api", "ingester-a", "\u{e9}t\u{e9}", "\0", "x"])).to_owned(),
    }
}

/// Streams with one entry each, in order and without equal ones.
pub(super) fn random_streams(rng: &mut Rng, count: u64) -> Vec<Stream> {
    let mut sets = BTreeSet::new();
    let spread = *rng.pick(&[2, 3, 20]);
    let tenants = rng.between(1, 4);
    for _ in 0..count {
        let tenant = TENANTS[rng.below(tenants) as usize];
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for name in NAMES {
            if !rng.one_in(spread) {
                pairs.push((name, random_value(rng, name)));
            }
        }
        sets.insert((tenant, pairs));
    }
    let streams = sets.iter().map(|(tenant, pairs)| {
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(name, value)| (*name, &**value)).collect();
        stream(tenant, &pairs, vec![entry(1, "x")])
    });
    let mut streams: Vec<Stream> = streams.collect();
    sort(&mut streams);
    streams
}

fn matcher(name: &str, op: MatchOp, value: &str) -> CompiledMatcher {
    CompiledMatcher::new(&Matcher { name: name.into(), op, value: Text::from(value) }).unwrap()
}

fn random_matcher(rng: &mut Rng, streams: &[Stream]) -> CompiledMatcher {
    let patterns = [
        "",
        ".*",
        ".+",
        "web|api",
        "web|",
        "x|web|missing",
        "ing.*",
        "ingester-a.*",
        "ingester-[0-4].*",
        "(ingester-a.*)?",
        ".*a.*",
        "\u{e9}.*",
        "\u{e9}[\u{100}-\u{200}]",
        "(?i)WEB",
        "[a-f].*[0-9]|web.*",
        "[^i].*",
        ".*-[0-9a-f]+",
        "1.*|b[0-8].*",
        "zzz.*",
        "\0.*",
    ];
    let op = *rng.pick(&[MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex]);
    let name = if rng.one_in(30) { "missing" } else { *rng.pick(&NAMES) };
    match op {
        MatchOp::Regex | MatchOp::NotRegex => matcher(name, op, patterns[rng.below(20) as usize]),
        _ if rng.one_in(8) => matcher(name, op, ["", "missing", "~", "\0"][rng.below(4) as usize]),
        _ => matcher(name, op, rng.pick(streams).labels.get(name).unwrap_or_default()),
    }
}

/// Checks what every step guarantees, and reads it.
fn pieces<'f>(file: &'f [u8], reads: &[Range<u64>]) -> Vec<&'f [u8]> {
    assert!(!reads.is_empty() && reads.windows(2).all(|pair| pair[0].end <= pair[1].start));
    let bytes: u64 = reads.iter().map(|read| read.end - read.start).sum();
    assert!(reads.len() == 1 || bytes <= STEP_MAX_BYTES as u64);
    reads.iter().map(|read| part(file, read.clone())).collect()
}

/// The selected rows, and how many pages that took.
pub(super) fn select(
    file: &[u8],
    index: &LabelIndex,
    tenant: &str,
    matchers: &[&CompiledMatcher],
) -> Result<(RowSet, usize), SegmentError> {
    let mut select = index.select(tenant, matchers);
    let mut decoder = Decoder::new();
    let mut pages = 0;
    while let Some(reads) = select.next_reads() {
        pages += reads.len();
        let pieces = pieces(file, reads);
        select.supply(&mut decoder, &pieces)?;
    }
    Ok((select.into_rows(), pages))
}

/// The rows that matchers accept, one by one.
fn accepted(streams: &[Stream], tenant: &str, matchers: &[&CompiledMatcher]) -> RowSet {
    let is_accepted = |stream: &Stream| {
        let value = |matcher: &CompiledMatcher| stream.labels.get(matcher.name());
        let mut matchers = matchers.iter();
        stream.tenant.as_str() == tenant
            && matchers.all(|matcher| matcher.matches(value(matcher).unwrap_or_default()))
    };
    let rows = streams.iter().zip(0..).filter(|(stream, _)| is_accepted(stream));
    rows.map(|(_, row)| row..row + 1).collect()
}

#[test]
fn lookups_give_what_all_labels_give() {
    for seed in seeds(120) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let count = *rng.pick(&[1, 2, 30, 300, 3000]);
        let streams = random_streams(&mut rng, count);
        let file = write(&streams, &mut rng);
        // Lists names and values, too.
        assert_eq!(read(&file).unwrap(), streams);
        let index = open_labels(&file).unwrap().unwrap();
        assert_eq!(index.row_count() as usize, streams.len());
        let directory = open(&file).unwrap();
        assert!(index.tenants().eq(directory.tenants()));
        for _ in 0..60 {
            let matchers: Vec<CompiledMatcher> =
                (0..rng.below(4)).map(|_| random_matcher(&mut rng, &streams)).collect();
            let matchers: Vec<&CompiledMatcher> = matchers.iter().collect();
            let tenant = *rng.pick(&TENANTS);
            let (rows, _) = select(&file, &index, tenant, &matchers).unwrap();
            assert_eq!(rows, accepted(&streams, tenant, &matchers), "{tenant} {matchers:?}");
        }
        assert_eq!(select(&file, &index, "nobody", &[]).unwrap(), (RowSet::new(), 0));
        assert_eq!(list(&file, index.names("nobody")), Ok(vec![]));
        assert_eq!(list(&file, index.values("a", "missing")), Ok(vec![]));
    }
}

/// Many streams of one application, each with a pod of its own.
fn pods(count: u64) -> Vec<Stream> {
    let mut rng = Rng::new(7);
    let pods = (0..count).map(|number| {
        let pod = format!("ingester-{:09x}", rng.below(1 << 36));
        let level = ["info", "error", "warn"][(number % 3) as usize];
        stream("a", &[("app", "web"), ("level", level), ("pod", &pod)], vec![entry(1, "x")])
    });
    let mut streams: Vec<Stream> = pods.collect();
    sort(&mut streams);
    streams
}

#[test]
fn a_lookup_reads_few_pages() {
    let streams = pods(6000);
    let file = write(&streams, &mut Rng::new(1));
    let index = open_labels(&file).unwrap().unwrap();
    let pod = streams[3000].labels.get("pod").unwrap();
    let is = |name, value| matcher(name, MatchOp::Equal, value);
    let like = |name, value| matcher(name, MatchOp::Regex, value);
    assert!(index.pages_len_bytes() > 40_000, "{}", index.pages_len_bytes());
    for (matchers, rows, pages) in [
        (vec![is("pod", pod)], 1, 1..2),
        (vec![is("app", "web"), is("level", "info"), is("pod", pod)], 1, 1..5),
        (vec![is("pod", "missing"), like("pod", ".*a.*")], 0, 1..2),
        (vec![is("app", "missing"), like("pod", "ingester.*")], 0, 1..2),
        (vec![is("absent", "")], 6000, 0..2),
        (vec![like("pod", &format!("{}.*", &pod[..12]))], 2, 1..5),
        (vec![like("pod", &format!("{}[0-9a-f]+", &pod[..12]))], 2, 1..5),
        (vec![like("pod", "other.*")], 0, 0..4),
        (vec![like("pod", ".*")], 6000, 0..1),
        (vec![like("pod", ".*e.*e.*")], 1000, 8..60),
    ] {
        let matchers: Vec<&CompiledMatcher> = matchers.iter().collect();
        let (found, read) = select(&file, &index, "a", &matchers).unwrap();
        let expected = accepted(&streams, "a", &matchers);
        assert_eq!(found, expected);
        assert!(found.len() >= rows && pages.contains(&read), "{read} {matchers:?}");
    }
    assert!(index.held_bytes() < 4000, "{}", index.held_bytes());
}

#[test]
fn late_streams_are_noted_if_they_are_known() {
    let streams = pods(40);
    let write = |is_known: bool, late: fn(usize) -> bool| {
        let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
        if is_known {
            writer.set_late_known();
        }
        for (number, stream) in streams.iter().enumerate() {
            writer.begin_stream(&stream.tenant, &stream.labels, stream.id).unwrap();
            // Before or behind the first entry, or twice.
            (0..number % 3).filter(|_| late(number)).for_each(|_| writer.note_late());
            // Streams without entries do not count.
            if number % 2 == 0 {
                writer.push(1, b"x", batch::MetadataPairs::NONE).unwrap();
            }
            if late(number) {
                writer.note_late();
            }
        }
        let finished = writer.finish().unwrap();
        LabelIndex::open(&finished.footer, finished.label_index_root.unwrap()).unwrap()
    };
    assert_eq!(write(false, |_| true).late_rows(), None);
    assert_eq!(write(true, |_| false).late_rows(), Some(&RowSet::new()));
    assert_eq!(write(true, |_| true).late_rows(), Some(&RowSet::from(0..20)));
    let some = write(true, |number| (4..8).contains(&number) || number == 39);
    assert_eq!(some.late_rows(), Some(&RowSet::from(2..4)));
}

#[test]
fn drafts_have_no_label_index() {
    let streams = pods(20);
    for from in [0, 10] {
        let mut writer = SegmentWriter::new(SegmentIdentity::default()).unwrap();
        writer.set_late_known();
        let mut file = Vec::new();
        for (number, stream) in streams.iter().enumerate() {
            if number == from {
                writer.make_draft();
            }
            writer.begin_stream(&stream.tenant, &stream.labels, stream.id).unwrap();
            writer.note_late();
            append_all(&mut writer, Columns::new(&stream.entries).entries(Form::Sets), &mut file);
        }
        file.extend_from_slice(&writer.take_output());
        let finished = writer.finish().unwrap();
        file.extend_from_slice(&finished.bytes);
        assert_eq!(read(&file).unwrap(), streams);
        assert_eq!((finished.footer.label_index, finished.label_index_root), (None, None));
        assert!(LabelIndex::open(&finished.footer, Vec::new()).is_err());
    }
}

#[test]
fn segments_of_older_versions_read_as_before() {
    let streams = pods(20);
    let file = write(&streams, &mut Rng::new(3));
    let end = file.len() - FOOTER_LEN;
    let footer = Footer::parse(&file[end..], file.len() as u64).unwrap();
    let index = footer.label_index_range().unwrap();
    let list_len = u64::from(footer.totals.runs) * 4;
    for version in [2, 3] {
        let index_len = if version == 2 { index.end - index.start } else { 0 };
        let index = index.start..index.start + index_len;
        let directory = &file[footer.directory_offset as usize..end - list_len as usize];
        let old = Footer {
            version,
            label_index: footer.label_index.filter(|_| version > 2),
            file_len: footer.file_len - index_len - list_len,
            directory_offset: footer.directory_offset - index_len,
            directory_crc: crc32c::crc32c(directory),
            ..footer
        };
        let header = footer.identity.encode_header_of(version);
        let before = HEADER_LEN..index.start as usize;
        let between = index.end as usize..footer.directory_offset as usize;
        let bodies = [before, between].map(|range| &file[range]);
        let old = [&header[..], bodies[0], bodies[1], directory, &old.encode()[..]].concat();
        assert_eq!(read(&old).unwrap(), streams);
        assert_eq!(open_labels(&old).unwrap().is_some(), version > 2);
    }
}
