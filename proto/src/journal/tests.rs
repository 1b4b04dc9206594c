use super::*;
use crate::records::Records;

const LIMITS: MappingLimits = MappingLimits {
    line_max_bytes: 100,
    field_max_bytes: 50,
    metadata_max_bytes: 200,
    metadata_max_fields: 6,
};

fn mapping() -> Mapping {
    let labels = [("host", "_HOSTNAME"), ("unit", "_SYSTEMD_UNIT")];
    let labels = labels.map(|(label, field)| (label.to_owned(), field.to_owned()));
    Mapping::new(labels, ["_BOOT_ID".to_owned()], false, LIMITS)
}

fn binary(name: &str, value: &[u8]) -> Vec<u8> {
    let mut field = format!("{name}\n").into_bytes();
    field.extend((value.len() as u64).to_le_bytes());
    field.extend(value);
    field.push(b'\n');
    field
}

/// What comes out of a body whose pieces are so long.
fn read(body: &[u8], piece_len: usize, mapping: &Mapping) -> Vec<String> {
    let mut parser = Parser::new();
    let mut said = Vec::new();
    let mut note = |end: Option<End>, parser: &Parser| {
        let entry = parser.entry();
        match end {
            Some(End::Entry) => {
                let mut records = Records::new();
                said.push(match mapping.write(entry, &mut records) {
                    Ok(written) => format!("{} {}", text(&records), written.left_out),
                    Err(error) => error.to_string(),
                });
            }
            Some(End::Unreadable(fault)) => said.push(format!("{fault}: {}", entry.sent_bytes())),
            None => {}
        }
        end.is_some()
    };
    for mut piece in body.chunks(piece_len) {
        while !piece.is_empty() {
            let end = parser.read(&mut piece, |name| mapping.wanted(name));
            note(end, &parser);
        }
    }
    let end = parser.finish();
    note(end, &parser);
    said
}

fn text(records: &Records) -> String {
    assert_eq!(records.len(), 1);
    let mut pairs = Vec::new();
    let entry = records.entry(0, &mut pairs);
    let labels: crate::Labels = records.labels(0).parse().unwrap();
    let mut text = format!("{:?} {}", entry.timestamp_ns.unwrap(), labels.canonical());
    for (name, value) in entry.metadata.iter() {
        text.push_str(&format!(" {}={}", name.escape_ascii(), value.escape_ascii()));
    }
    format!("{text} {}", entry.line.escape_ascii())
}

fn check(body: &[u8], expected: &[&str]) {
    for piece_len in [usize::MAX, 1, 2, 3, 7] {
        assert_eq!(
            read(body, piece_len.min(body.len().max(1)), &mapping()),
            expected,
            "{piece_len}"
        );
    }
}

#[test]
fn entries_of_a_journal_become_records() {
    let mut body = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1700000000000001\n_BOOT_ID=b\n\
        _HOSTNAME=web\n_SYSTEMD_UNIT=ssh.service\nPRIORITY=3\n_PID=7\n"
        .to_vec();
    body.extend(binary("MESSAGE", b"two\nlines\n\n"));
    body.extend(b"\n\n__REALTIME_TIMESTAMP=1700000000000002\nMESSAGE=x=y\n");
    check(
        &body,
        &[
            "1700000000000001000 {host=\"web\", unit=\"ssh.service\"} level=error pid=7 priority=3 \
             two\\nlines\\n\\n 0",
            "1700000000000002000 {job=\"systemd-journal\"} x=y 0",
        ],
    );
}

#[test]
fn each_entry_has_its_own_fate() {
    let mut body = b"__REALTIME_TIMESTAMP=1\nPRIORITY=6\n\n\
        MESSAGE=no time\n\n\
        __REALTIME_TIMESTAMP=-1\nMESSAGE=bad time\n\n\
        __REALTIME_TIMESTAMP=99999999999999999999\nMESSAGE=bad time\n\n\
        __REALTIME_TIMESTAMP=9223372036854775807\nMESSAGE=bad time\n\n\
        __REALTIME_TIMESTAMP=1\nMESSAGE=m\nPRIORITY=9\n\n"
        .to_vec();
    // A length that no value has, one that is wrong, and text where a length should be.
    body.extend(b"__REALTIME_TIMESTAMP=2\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xffabc\n\n");
    body.extend(b"MESSAGE\n\x02\0\0\0\0\0\0\0abcd\nX=y\n\n");
    body.extend(b"just some text\nand more\n\n");
    body.extend(b"__REALTIME_TIMESTAMP=3\nMESSAGE=\n\n");
    body.extend(b"__REALTIME_TIMESTAMP=4\nMESSAGE=cut o");
    let no_time = "the entry has no usable field __REALTIME_TIMESTAMP";
    let length = "a field of the entry claims to be longer than a field can be";
    check(
        &body,
        &[
            "the entry has no field MESSAGE",
            no_time,
            no_time,
            no_time,
            no_time,
            "1000 {job=\"systemd-journal\"} priority=9 m 0",
            &format!("{length}: 44"),
            "a field of the entry does not end where its length says: 26",
            &format!("{length}: 25"),
            "3000 {job=\"systemd-journal\"}  0",
            "the body ends in the middle of the entry: 36",
        ],
    );
    check(b"", &[]);
    check(b"\n\n\n", &[]);
}

#[test]
fn long_fields_are_left_out_and_messages_are_cut() {
    let mut body = b"__REALTIME_TIMESTAMP=1\n=nameless\n".to_vec();
    body.extend(format!("{}=long name\n", "N".repeat(300)).bytes());
    body.extend(binary("COREDUMP", &[b'c'; 5000]));
    body.extend(format!("ENVIRONMENT={}\n", "e".repeat(51)).bytes());
    body.extend(format!("MESSAGE={}\n", "m".repeat(1000)).bytes());
    for number in 0..8 {
        body.extend(format!("_F{number}=x\n").bytes());
    }
    let expected = format!(
        "1000 {{job=\"systemd-journal\"}} f0=x f1=x f2=x f3=x f4=x f5=x {} 6",
        "m".repeat(100)
    );
    check(&body, &[&expected]);
}

#[test]
fn a_field_of_journald_wins_over_one_of_a_client() {
    let body =
        b"__REALTIME_TIMESTAMP=1\nPID=9\nMESSAGE=m\n_PID=7\nPID=8\n_BOOT_ID=b\n__SEQNUM=4\n\n";
    check(body, &["1000 {job=\"systemd-journal\"} pid=7 m 2"]);
}

#[test]
fn units_of_one_run_share_a_label() {
    for (unit, kind, is_named) in [
        ("session-12.scope", "session.scope", true),
        ("run-r8a5f.service", "run.service", true),
        ("user@1000.service", "user@1000.service", false),
        ("init.scope", "init.scope", false),
        ("-.slice", "-.slice", false),
        ("my-app.service", "my-app.service", false),
    ] {
        let body = format!("__REALTIME_TIMESTAMP=1\nMESSAGE=m\n_SYSTEMD_UNIT={unit}\n\n");
        let named = if is_named { format!(" systemd_unit={unit}") } else { String::new() };
        check(body.as_bytes(), &[&format!("1000 {{unit=\"{kind}\"}}{named} m 0")]);
    }
}

#[test]
fn settings_choose_time_and_labels() {
    let labels = [("level".to_owned(), "PRIORITY_KEYWORD".to_owned())];
    let mapping = Mapping::new(labels, [], true, LIMITS);
    let body = b"__REALTIME_TIMESTAMP=2\n_SOURCE_REALTIME_TIMESTAMP=1\nMESSAGE=m\nPRIORITY=4\n\n\
        __REALTIME_TIMESTAMP=2\n_SOURCE_REALTIME_TIMESTAMP=x\nMESSAGE=m\nPRIORITY=\n\n";
    assert_eq!(
        read(body, 5, &mapping),
        [
            "1000 {level=\"warning\"} level=warn source_realtime_timestamp=1 priority=4 m 0",
            "2000 {job=\"systemd-journal\"} source_realtime_timestamp=x m 0",
        ]
    );
}

/// Whatever a body claims, memory is for what comes and is wanted.
#[test]
fn memory_is_bounded() {
    let mapping = Mapping::new(
        [],
        [],
        false,
        MappingLimits {
            line_max_bytes: usize::MAX,
            field_max_bytes: usize::MAX,
            metadata_max_bytes: usize::MAX,
            metadata_max_fields: usize::MAX,
        },
    );
    let mut parser = Parser::new();
    let mut claimed = b"MESSAGE\n".to_vec();
    claimed.extend(VALUE_MAX_BYTES.to_le_bytes());
    parser.read(&mut &claimed[..], |name| mapping.wanted(name));
    assert!(parser.capacity_bytes() < 1000);
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..40 {
        assert_eq!(parser.read(&mut &piece[..], |name| mapping.wanted(name)), None);
        assert!(parser.capacity_bytes() <= 2 * ENTRY_MAX_BYTES + (1 << 20));
    }
    // Many fields, and then the next entry.
    let mut parser = Parser::new();
    let fields = "A=1\n".repeat(200_000);
    parser.read(&mut fields.as_bytes(), |name| mapping.wanted(name));
    assert!(parser.capacity_bytes() < 1 << 20);
    assert_eq!(parser.entry().fields().count(), FIELDS_MAX);
    let end = parser.read(&mut &b"\n"[..], |name| mapping.wanted(name));
    assert_eq!((end, parser.entry().left_out()), (Some(End::Entry), 200_000 - FIELDS_MAX as u64));
}
