//! Pushes, labels, headers and parameters out of arbitrary bytes.
//!
//! Each body checks the properties of everything that a decoder accepts.

use logsvc_proto::body::{
    BodyBuffers, BodyError, Compression, Decoder, Flow, MessageFormat, choose_decoder,
    choose_otlp_decoder, snappy_block_decode, unpack,
};
use logsvc_proto::bulk::{self, Reply};
use logsvc_proto::discover::{
    DEFAULT_SERVICE_LABELS, LevelFields, SERVICE_NAME, WithLevel, line_level, normalize_level,
    severity_number_level, with_service_name,
};
use logsvc_proto::fields::{FIELDS_MAX, FieldsError, Flat, Mapping, Origin, read_time_ns};
use logsvc_proto::journal::{
    ENTRY_MAX_BYTES, End, Mapping as JournalMapping, MappingLimits, Parser,
};
use logsvc_proto::labels::{Labels, parse_labels};
use logsvc_proto::lines::{Lines, count_objects};
use logsvc_proto::otlp::{
    Action, Assembler, AttributeRules, LogsRequest, record_labels, resource_labels, transcode_json,
};
use logsvc_proto::push::json::Dialect;
use logsvc_proto::push::metadata::{MetadataNormalizer, NormalizedMetadata};
use logsvc_proto::push::{EntryList, Push, Totals};
use logsvc_proto::records::Records;
use logsvc_proto::syslog::{Arrival, Framer, STEP_ROOM_BYTES, parse as syslog_message};
use logsvc_proto::tenant::{TenantId, parse_single_tenant_header, parse_tenant_header};
use logsvc_proto::time::{
    format_go_duration, format_model_duration, parse_byte_size, parse_go_duration_ns, parse_limit,
    parse_model_duration_ns, parse_step_ns, parse_time_ns, write_rfc3339_nano,
};
use logsvc_proto::transfer::{
    EntryLabels, LineBuffer, TransferLine, read_line, write_control, write_entry,
};

/// The protobuf push.
pub fn push_protobuf(data: &[u8]) {
    let mut list = EntryList::default();
    match (Push::protobuf(data), Push::protobuf_listed(data, &mut list)) {
        (Ok(push), Ok(listed)) => {
            let visited = visit(&push);
            assert_eq!(visited, push.totals(), "both passes must see the same");
            assert_eq!(listed.totals(), push.totals());
            compare(&push, &listed);
        }
        (Err(error), Err(of_list)) => assert_eq!(error, of_list),
        (walked, listed) => panic!("one is refused: {walked:?}, {listed:?}"),
    }
}

/// Both must have the same streams and entries.
fn compare(walked: &Push<'_>, listed: &Push<'_>) {
    let mut others = listed.streams();
    for stream in walked.streams() {
        let other = others.next().expect("as many streams");
        assert_eq!(stream.labels.bytes, other.labels.bytes);
        let (mut entries, mut other_entries) = (stream.entries(), other.entries());
        while let Some(entry) = entries.next() {
            let other = other_entries.next().expect("as many entries");
            assert_eq!((entry.timestamp_ns, entry.line), (other.timestamp_ns, other.line));
            assert!(entry.metadata.iter().eq(other.metadata.iter()));
            assert_eq!(entry.metadata.len_bytes(), other.metadata.len_bytes());
        }
        assert!(other_entries.next().is_none());
    }
    assert!(others.next().is_none());
}

/// The Journal Export Format. Entries do not depend on the pieces in which a body comes.
pub fn journal(data: &[u8]) {
    let (cut, body) = match data.split_first() {
        Some((cut, body)) => (usize::from(*cut).max(1), body),
        None => return,
    };
    let whole = journal_records(body, body.len().max(1));
    for piece_len in [cut, 1] {
        assert_eq!(whole, journal_records(body, piece_len), "in pieces of {piece_len}");
    }
}

/// What becomes of a body that comes in pieces of this length.
fn journal_records(body: &[u8], piece_len: usize) -> Vec<String> {
    let limits = MappingLimits {
        line_max_bytes: 64,
        field_max_bytes: 32,
        metadata_max_bytes: 128,
        metadata_max_fields: 8,
    };
    let labels = [("host", "_HOSTNAME"), ("unit", "_SYSTEMD_UNIT"), ("", "A")];
    let labels = labels.map(|(label, field)| (label.to_owned(), field.to_owned()));
    let mapping = JournalMapping::new(labels, ["_BOOT_ID".to_owned()], true, limits);
    let (mut parser, mut records) = (Parser::new(), Records::new());
    let mut said = Vec::new();
    let mut note = |end: Option<End>, parser: &Parser| match end {
        Some(End::Entry) => said.push(format!("{:?}", mapping.write(parser.entry(), &mut records))),
        Some(End::Unreadable(fault)) => said.push(fault.to_string()),
        None => {}
    };
    for mut piece in body.chunks(piece_len) {
        while !piece.is_empty() {
            let end = parser.read(&mut piece, |name| mapping.wanted(name));
            note(end, &parser);
        }
        assert!(parser.capacity_bytes() <= 2 * ENTRY_MAX_BYTES);
        assert!(parser.entry().sent_bytes() <= body.len() as u64);
    }
    let end = parser.finish();
    note(end, &parser);
    for place in 0..records.len() {
        let labels: Labels = records.labels(place).parse().expect("labels of a record are a set");
        let mut pairs = Vec::new();
        let entry = records.entry(place, &mut pairs);
        assert!(entry.line.len() <= limits.line_max_bytes);
        assert!(entry.metadata.len_bytes() <= limits.metadata_max_bytes);
        said.push(format!("{} {:?} {:?}", labels.canonical(), entry.timestamp_ns, entry.line));
    }
    said
}

/// The JSON push, in both dialects.
pub fn push_json(data: &[u8]) {
    let mut list = EntryList::default();
    for dialect in [Dialect::V1, Dialect::Legacy] {
        let push = match dialect {
            Dialect::V1 => Push::json(data),
            Dialect::Legacy => Push::legacy_json(data),
        };
        match (push, Push::json_listed(data, dialect, &mut list)) {
            (Ok(push), Ok(listed)) => {
                let totals = push.totals();
                // Streams without labels and entries are only counted.
                let visited = Totals { streams: totals.streams, ..visit(&push) };
                assert_eq!(visited, totals, "both passes must see the same");
                assert_eq!(listed.totals(), totals);
                compare(&push, &listed);
            }
            (Err(error), Err(of_list)) => assert_eq!(error, of_list),
            (walked, listed) => panic!("one is refused: {walked:?}, {listed:?}"),
        }
    }
}

fn visit(push: &Push<'_>) -> Totals {
    let mut totals = Totals::default();
    let mut normalizer = MetadataNormalizer::new();
    let fields = LevelFields::default();
    for stream in push.streams() {
        totals.streams += 1;
        if let Ok(labels) = stream.labels.parse() {
            check_labels(&labels);
            check_service(labels);
        }
        let mut entries = stream.entries();
        while let Some(entry) = entries.next() {
            totals.entries += 1;
            totals.line_bytes += entry.line.len() as u64;
            totals.metadata_pairs += entry.metadata.iter().count() as u64;
            totals.metadata_bytes += entry.metadata.len_bytes() as u64;
            if let Ok(normalized) = normalizer.normalize(entry.metadata) {
                let names: Vec<_> = normalized.iter().map(|(name, _)| name).collect();
                assert!(names.is_sorted_by(|a, b| a < b), "names must ascend");
                assert!(
                    normalized.iter().all(|(_, value)| std::str::from_utf8(value).is_ok()),
                    "values must be UTF-8"
                );
                check_level(entry.line, normalized, &fields);
            }
        }
    }
    totals
}

fn check_labels(labels: &Labels) {
    assert_eq!(Labels::from_bytes(labels.as_bytes()).as_ref(), Ok(labels));
    assert_eq!(parse_labels(labels.canonical().as_bytes()).as_ref(), Ok(labels));
}

/// The detected properties of a stream.
fn check_service(labels: Labels) {
    let count = labels.iter().count();
    let with_service = with_service_name(labels, &DEFAULT_SERVICE_LABELS);
    assert!(with_service.get(SERVICE_NAME).is_some_and(|name| !name.is_empty()));
    assert!(with_service.iter().count() <= count + 1);
    check_labels(&with_service);
}

/// Discovers the level of an entry in all the ways that there are: settings decide which of them
/// counts.
fn check_level(line: &[u8], metadata: NormalizedMetadata<'_>, fields: &LevelFields) {
    for (_, value) in metadata.iter() {
        normalize_level(value);
        severity_number_level(value);
    }
    let level = line_level(line, fields, 2).as_str().as_bytes();
    let names: Vec<_> =
        WithLevel::new(metadata.iter(), Some(level)).map(|(name, _)| name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "names must ascend");
}

/// A push as it comes: the first byte stands for headers, the rest is the body.
pub fn push_body(data: &[u8]) {
    const TYPES: [&[u8]; 4] = [
        b"application/json",
        b"application/x-protobuf",
        b"Application/JSON; charset=utf-8",
        b"text/plain",
    ];
    const ENCODINGS: [&[u8]; 8] =
        [b"", b"snappy", b"gzip", b"deflate", b"zstd", b"lz4", b"br", b"identity"];
    const MAX_BYTES: usize = 1 << 16;
    let Some((&headers, body)) = data.split_first() else { return };
    let content_type = Some(TYPES[usize::from(headers & 3)]);
    let encoding = Some(ENCODINGS[usize::from(headers >> 2 & 7)]);
    let decoded = |decoder: Decoder, visit: &dyn Fn(&[u8])| {
        let mut buffers = BodyBuffers::default();
        if buffers.decode(decoder, body, MAX_BYTES).is_ok() {
            visit(buffers.decoded(decoder, body));
        }
        assert!(buffers.capacity_bytes() <= 8 * MAX_BYTES, "memory must stay near the limit");
    };
    if let Ok(decoder) = choose_decoder(content_type, encoding) {
        decoded(decoder, &|message| match decoder.format {
            MessageFormat::Json => push_json(message),
            MessageFormat::SnappyProtobuf | MessageFormat::Protobuf => push_protobuf(message),
        });
    }
    if let Ok(decoder) = choose_otlp_decoder(content_type, encoding) {
        decoded(decoder, &otlp);
    }
}

/// Values of headers: the lines of the data are media type, content coding and tenants.
pub fn headers(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let (content_type, encoding) = (lines.next(), lines.next());
    if let Ok(decoder) = choose_decoder(content_type, encoding) {
        assert!(decoder.format != MessageFormat::Protobuf, "a push is in a snappy block");
    }
    let _ = choose_otlp_decoder(content_type, encoding);
    for value in [lines.next(), Some(data)] {
        let single = parse_single_tenant_header(value);
        if let Ok(tenants) = parse_tenant_header(value) {
            assert!(!tenants.is_empty());
            assert!(tenants.iter().all(|tenant| TenantId::new(tenant.as_str()).is_ok()));
            assert_eq!(single.is_ok(), tenants.len() == 1);
        } else {
            assert!(single.is_err(), "one tenant is a list of one");
        }
    }
}

/// Label strings and encoded label sets.
pub fn labels(data: &[u8]) {
    if let Ok(labels) = parse_labels(data) {
        check_labels(&labels);
    }
    if let Ok(labels) = Labels::from_bytes(data) {
        assert_eq!(labels.as_bytes(), data, "a set has one encoding");
        check_labels(&labels);
    }
}

/// Decompressors. The limit is small, so that a memory blow-up shows.
pub fn decompress(data: &[u8]) {
    const MAX_BYTES: usize = 1 << 16;
    let wrapped =
        [Compression::Gzip, Compression::Deflate, Compression::Zstd, Compression::Lz4].map(Some);
    for compression in wrapped.into_iter().chain([None]) {
        let mut out = Vec::new();
        let decompressed = match compression {
            Some(compression) => unpack(compression, data, &mut out, MAX_BYTES),
            None => snappy_block_decode(data, &mut out, MAX_BYTES),
        };
        match decompressed {
            Ok(()) => assert!(out.len() <= MAX_BYTES, "the limit must hold"),
            Err(BodyError::TooLarge { size_bytes, .. }) => assert!(size_bytes > MAX_BYTES),
            Err(_) => {}
        }
        assert!(out.capacity() <= 4 * MAX_BYTES, "memory must stay near the limit");
    }
}

/// Times, durations, sizes and limits.
pub fn params(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(unix_ns) = parse_time_ns(text) {
        let mut printed = Vec::new();
        write_rfc3339_nano(Some(unix_ns), &mut printed);
        let printed = String::from_utf8_lossy(&printed).into_owned();
        assert_eq!(parse_time_ns(&printed), Ok(unix_ns), "{printed}");
    }
    if let Ok(duration_ns) = parse_model_duration_ns(text) {
        let printed = format_model_duration(duration_ns);
        assert_eq!(parse_model_duration_ns(&printed), Ok(duration_ns), "{printed}");
    }
    if let Ok(duration_ns) = parse_go_duration_ns(text) {
        // A fraction below a nanosecond is lost with the last digits only.
        let printed = format_go_duration(duration_ns);
        let read = parse_go_duration_ns(&printed).expect("what is printed is a duration");
        assert!(read.abs_diff(duration_ns) <= 1, "{printed}");
    }
    // These have nothing to compare with; they must not panic.
    let _ = (parse_step_ns(text), parse_byte_size(text), parse_limit(text));
}

/// Rules that treat an attribute by the first byte of its name.
struct ByFirstByte;

impl ByFirstByte {
    fn action(name: &[u8]) -> Action {
        match name.first().copied().unwrap_or(0) % 3 {
            0 => Action::IndexLabel,
            1 => Action::StructuredMetadata,
            _ => Action::Drop,
        }
    }
}

impl AttributeRules for ByFirstByte {
    fn resource(&self, name: &[u8]) -> Action {
        ByFirstByte::action(name)
    }

    fn scope(&self, name: &[u8]) -> Action {
        ByFirstByte::action(name)
    }

    fn record(&self, name: &[u8]) -> Action {
        ByFirstByte::action(name)
    }

    fn severity_text_is_label(&self) -> bool {
        true
    }
}

/// OTLP: the bytes as protobuf, and as JSON.
pub fn otlp(data: &[u8]) {
    visit_otlp(data);
    let mut message = Vec::new();
    if transcode_json(data, &mut message).is_ok() {
        assert!(message.len() <= 4 * data.len() + 16, "memory must stay near the input");
        visit_otlp(&message);
    }
}

fn visit_otlp(message: &[u8]) {
    let Ok(request) = LogsRequest::protobuf(message) else { return };
    let mut records = 0;
    let mut normalizer = MetadataNormalizer::new();
    let fields = LevelFields::default();
    for resource in request.resources() {
        let labels = resource_labels(&resource, &ByFirstByte);
        check_labels(&labels);
        check_service(labels.clone());
        let mut assembler = Assembler::new(&resource, &ByFirstByte);
        for scope in resource.scopes() {
            assembler.begin_scope(&scope, &ByFirstByte);
            for record in scope.records() {
                records += 1;
                if let Some(labels) = record_labels(&labels, &record, &ByFirstByte) {
                    check_labels(&labels);
                }
                let Ok(entry) = assembler.entry(&record, &ByFirstByte, 0) else { continue };
                assert_eq!(entry.metadata.iter().count(), entry.metadata.count());
                let lens = entry.metadata.iter().map(|(name, value)| name.len() + value.len());
                assert_eq!(lens.sum::<usize>(), entry.metadata.len_bytes());
                let normalized = normalizer.normalize(entry.metadata);
                let normalized = normalized.expect("names that cannot be stored were refused");
                check_level(entry.line, normalized, &fields);
            }
        }
    }
    assert_eq!(records, request.record_count(), "both passes must see the same");
}

/// The level of a line.
pub fn level(data: &[u8]) {
    let fields = LevelFields::default();
    let by_default = line_level(data, &fields, 2);
    assert_eq!(line_level(data, &fields, 2), by_default);
    // Without a limit and with other names nothing may break either.
    line_level(data, &LevelFields::new(["a", "b.c", "x"]), 0);
}

/// Bodies of lines, of objects and of bulk requests: what is read becomes records, and their
/// memory stays near the input.
pub fn fields(data: &[u8]) {
    let mut mapping = Mapping {
        labels: vec![("app".into(), "a.b".into())],
        messages: vec!["message".into()],
        times: vec!["@timestamp".into()],
        ignored: vec!["x*".into()],
        extra: Vec::new(),
    };
    let (mut flat, mut records) = (Flat::default(), Records::new());
    let origin = Origin { arrival_ns: 1, labels: &[("index", "i")] };
    for (_, line) in Lines::new(data).take(64) {
        let _ = read_time_ns(line);
        let count = count_objects(line);
        let read = flat.read(line);
        assert!(flat.iter().count() <= FIELDS_MAX);
        match read {
            Ok(object) => {
                assert_eq!(count, Ok(1), "both passes must see the same");
                let before = records.len();
                let is_put = mapping.put(&flat, object, origin, &mut records).is_ok();
                assert_eq!(records.len(), before + usize::from(is_put));
            }
            Err(FieldsError::Time { .. }) => panic!("a time is not read with its object"),
            Err(_) => {}
        }
        let text = String::from_utf8_lossy(line);
        let _ = mapping.refine(|_, _| Some(&*text));
    }
    for place in 0..records.len() {
        records.labels(place).parse().expect("labels of a record are a set");
    }
    let mut reply = Reply::new();
    let mut actions = 0;
    for item in bulk::items(data).map_while(Result::ok) {
        let index = item.index().unwrap_or_default();
        if item.action.is_stored() {
            reply.stored(&item, &index);
        } else {
            reply.refused(&item, &index, 400, "kind", "reason");
        }
        actions += 1;
    }
    if let Ok(checked) = bulk::check(data) {
        assert_eq!(checked, actions);
    }
    let answer = reply.finish(1);
    let patterns = String::from_utf8_lossy(&data[..data.len().min(200)]);
    let left = bulk::filter(&answer, &patterns).expect("an answer is JSON");
    assert!(left.len() <= answer.len() && count_objects(&left) == Ok(1));
    let _ = bulk::filter(data, "a.*,**.b");
}

/// Entries on their way between servers: lines do not depend on how the body is cut, and what is
/// read is read again as the same once it is written. The first byte names a compression.
pub fn transfer(data: &[u8]) {
    const LINE_MAX_BYTES: usize = 4096;
    let Some((&kind, body)) = data.split_first() else { return };
    let compression =
        [Compression::None, Compression::Gzip, Compression::Zstd][usize::from(kind % 3)];
    let split = |piece_len: usize| {
        let flow = Flow::new(compression).expect("there is memory");
        let mut flow = flow.expect("it can be undone in pieces");
        let (mut lines, mut found) = (LineBuffer::new(LINE_MAX_BYTES), Vec::new());
        let mut whole = true;
        'body: for mut piece in body.chunks(piece_len) {
            loop {
                let before = piece.len();
                let read = flow.read(&mut piece, lines.input());
                while let Some((number, line)) = lines.next_line() {
                    found.push((number, line.map(<[u8]>::to_vec)));
                }
                assert!(lines.capacity_bytes() <= 32 << 20);
                match read {
                    Ok(true) => assert!(piece.len() <= before),
                    Ok(false) => break,
                    Err(_) => {
                        whole = false;
                        break 'body;
                    }
                }
                if found.len() > 4096 {
                    whole = false;
                    break 'body;
                }
            }
        }
        whole = whole && flow.finish(lines.input()).is_ok();
        if whole {
            while let Some((number, line)) = lines.next_line() {
                found.push((number, line.map(<[u8]>::to_vec)));
            }
            found.extend(lines.last_line().map(|(n, line)| (n, line.map(<[u8]>::to_vec))));
        }
        (whole, found)
    };
    let (whole, found) = split(body.len().max(1));
    let (whole_too, found_too) = split(7);
    assert_eq!(whole, whole_too, "whatever the pieces");
    if whole && found.iter().all(|(_, line)| line.as_ref().is_ok_and(|l| l.len() < 1024)) {
        assert_eq!(found, found_too, "whatever the pieces");
    }
    for (_, line) in found {
        let Ok(line) = line else { continue };
        let mut records = Records::new();
        let mut out = Vec::new();
        match read_line(&line, &mut records) {
            Ok(TransferLine::Entry) => {
                let shown = shown_record(&records);
                let labels: Labels = records.labels(0).parse().expect("a set of labels");
                let (mut pairs, none) = (Vec::new(), std::iter::empty::<(&str, &str)>());
                let entry = records.entry(0, &mut pairs);
                let metadata: Option<Vec<(&str, &str)>> = entry
                    .metadata
                    .iter()
                    .map(|(n, v)| Some((str::from_utf8(n).ok()?, str::from_utf8(v).ok()?)))
                    .collect();
                let Some(metadata) = metadata else { continue };
                let time = entry.timestamp_ns.expect("an entry has a time");
                let metadata = metadata.into_iter();
                let of = EntryLabels { labels: labels.iter(), metadata, parsed: none };
                write_entry(time, of, entry.line, &mut out);
                let mut again = Records::new();
                let read = read_line(out.trim_ascii_end(), &mut again);
                assert_eq!(read, Ok(TransferLine::Entry));
                assert_eq!(shown_record(&again), shown);
            }
            Ok(control) => {
                write_control(&control, &mut out);
                assert_eq!(read_line(out.trim_ascii_end(), &mut records), Ok(control));
                assert!(records.is_empty());
            }
            Err(error) => {
                assert!(records.is_empty() && error.to_string().len() < 1024);
            }
        }
    }
}

/// All there is of the first record.
fn shown_record(records: &Records) -> String {
    let labels: Labels = records.labels(0).parse().expect("a set of labels");
    let mut pairs = Vec::new();
    let entry = records.entry(0, &mut pairs);
    let metadata: Vec<_> = entry.metadata.iter().collect();
    format!("{} {:?} {:?} {metadata:?}", labels.canonical(), entry.timestamp_ns, entry.line)
}

/// Syslog: messages do not depend on how the stream is cut into reads, and no byte of a line is
/// made up.
pub fn syslog(data: &[u8]) {
    let Some((&first, stream)) = data.split_first() else { return };
    let max_bytes = usize::from(first) + 1;
    let whole = syslog_frames(stream, max_bytes, max_bytes);
    assert_eq!(whole, syslog_frames(stream, max_bytes, 1), "reads of one byte");
    for (text, _) in &whole {
        assert!(!text.is_empty() && text.len() <= max_bytes);
        let text = String::from_utf8_lossy(text);
        let arrival = Arrival { unix_ns: 1_795_575_610_000_000_000, zone: &|local| local };
        let message = syslog_message(&text, arrival);
        assert!(text.ends_with(message.line), "the line is the end of the message");
        for (_, name, value) in message.parameters() {
            assert!(!name.is_empty() && value.len() <= text.len());
        }
        for field in ["host", "app", "pid", "msgid", "facility", "severity", "level"] {
            assert!(message.field(field).is_some());
        }
    }
}

/// The messages of a stream that comes in pieces, and whether they are cut.
fn syslog_frames(stream: &[u8], max_bytes: usize, piece: usize) -> Vec<(Vec<u8>, bool)> {
    let mut framer = Framer::new(max_bytes);
    let (mut found, mut held, mut rest) = (Vec::new(), Vec::new(), stream);
    loop {
        let room = (max_bytes + STEP_ROOM_BYTES - held.len()).min(piece).min(rest.len());
        held.extend_from_slice(&rest[..room]);
        rest = &rest[room..];
        loop {
            let (done, frame) = framer.step(&held, rest.is_empty());
            found.extend(frame.map(|frame| (frame.text.to_vec(), frame.is_cut)));
            held.drain(..done);
            if done == 0 {
                break;
            }
        }
        assert!(held.len() < max_bytes + STEP_ROOM_BYTES, "a full buffer gets on");
        if rest.is_empty() {
            assert!(held.is_empty(), "the end of a stream leaves nothing");
            return found;
        }
    }
}
