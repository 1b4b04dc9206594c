use super::*;
use crate::engine::meter::Meter;

fn formatted(time: &Time, layout: &str) -> String {
    let mut out = Vec::new();
    let meter = Meter::default();
    time.write_format(layout.as_bytes(), &mut Out::new(&mut out, 1000, &meter)).expect("short");
    String::from_utf8(out).expect("UTF-8")
}

fn shown(time: Option<Time>) -> String {
    time.map_or_else(
        || "none".to_owned(),
        |time| {
            let mut out = Vec::new();
            time.write_string(&mut Out::new(&mut out, 1000, &Meter::default())).expect("short");
            String::from_utf8(out).expect("UTF-8")
        },
    )
}

fn read(layout: &str, text: &str, zone: &str) -> String {
    let zone = Zone::load(zone.as_bytes()).expect("a zone");
    shown(parse(layout.as_bytes(), text.as_bytes(), zone))
}

#[test]
fn layouts_are_formatted() {
    // 2026-03-05 07:08:09.012300456 UTC, a Thursday.
    let time = Time::from_unix_ns(1_772_694_489_012_300_456);
    for (layout, expected) in [
        ("2006-01-02T15:04:05Z07:00", "2026-03-05T07:08:09Z"),
        ("2006-01-02T15:04:05-07:00", "2026-03-05T07:08:09+00:00"),
        ("Mon Jan _2 15:04:05 2006", "Thu Mar  5 07:08:09 2026"),
        ("Monday, January 2", "Thursday, March 5"),
        ("02/Jan/06 03:04PM MST -0700", "05/Mar/26 07:08AM UTC +0000"),
        ("3:4:5 pm 1", "7:8:9 am 3"),
        (".000 .999 .000000000 ,000 .99", ".012 .012 .012300456 ,012 .01"),
        ("5.9 5.0 5.99999999999", "9 9.0 9.012300456"),
        ("002 __2 _2006", "064  64 _2026"),
        ("Z07 Z0700 -07 Z070000 -07:00:00", "Z Z +00 Z +00:00:00"),
        ("Month Janet Sunday", "Month Janet Sunday"),
        (".0001", ".0003"),
        ("plain", "plain"),
    ] {
        assert_eq!(formatted(&time, layout), expected, "{layout}");
    }
    assert_eq!(shown(Some(time)), "2026-03-05 07:08:09.012300456 +0000 UTC");
    assert_eq!(shown(Some(Time::zero())), "0001-01-01 00:00:00 +0000 UTC");
    assert_eq!(formatted(&Time::from_unix(1_700_000_000 + 43_200), "3PM"), "10AM");
    let far = Time::from_unix(i64::MAX);
    assert!(formatted(&far, "2006").starts_with("29227"));
}

#[test]
fn zones_come_from_the_database() {
    let time = Time::from_unix(1_720_108_800);
    let in_zone = |name: &str| {
        formatted(
            &time.in_zone(Zone::load(name.as_bytes()).expect("a zone")),
            "2006-01-02 15:04 MST -07:00",
        )
    };
    assert_eq!(in_zone("America/New_York"), "2024-07-04 12:00 EDT -04:00");
    assert_eq!(in_zone("Europe/Berlin"), "2024-07-04 18:00 CEST +02:00");
    assert_eq!(in_zone("Asia/Kolkata"), "2024-07-04 21:30 IST +05:30");
    assert_eq!(in_zone("UTC"), "2024-07-04 16:00 UTC +00:00");
    assert_eq!(Zone::load(b"No/Where"), None);
    assert_eq!(Zone::load(b"europe/berlin"), None);
    assert_eq!(Zone::load(b"\xff"), None);
}

#[test]
fn texts_are_read() {
    for (layout, text, zone, expected) in [
        ("2006-01-02", "2026-03-10", "UTC", "2026-03-10 00:00:00 +0000 UTC"),
        (
            "2006-01-02 15:04",
            "2024-07-04 12:00",
            "America/New_York",
            "2024-07-04 12:00:00 -0400 EDT",
        ),
        (
            "2006-01-02 15:04",
            "2024-01-04 12:00",
            "America/New_York",
            "2024-01-04 12:00:00 -0500 EST",
        ),
        // In the gap of a spring night Go goes on with the offset from before.
        ("2006-01-02 15:04", "2026-03-29 02:30", "Europe/Berlin", "2026-03-29 03:30:00 +0200 CEST"),
        (
            "2006-01-02T15:04:05Z07:00",
            "2026-03-10T10:11:12+02:00",
            "UTC",
            "2026-03-10 10:11:12 +0200 +0200",
        ),
        (
            "2006-01-02T15:04:05Z07:00",
            "2026-03-10T10:11:12+02:00",
            "Europe/Kyiv",
            "2026-03-10 10:11:12 +0200 EET",
        ),
        (
            "2006-01-02T15:04:05Z07:00",
            "2026-03-10T10:11:12Z",
            "UTC",
            "2026-03-10 10:11:12 +0000 UTC",
        ),
        (
            "2006-01-02T15:04:05Z07:00",
            "2026-03-10T10:11:12.5Z",
            "UTC",
            "2026-03-10 10:11:12.5 +0000 UTC",
        ),
        ("15:04:05.000", "10:11:12.345", "UTC", "0000-01-01 10:11:12.345 +0000 UTC"),
        ("15:04:05.999 MST", "10:11:12 UTC", "UTC", "0000-01-01 10:11:12 +0000 UTC"),
        ("Jan _2 2006 3:04PM", "mar  5 2026 1:04PM", "UTC", "2026-03-05 13:04:00 +0000 UTC"),
        ("January 2 06", "March 15 69", "UTC", "1969-03-15 00:00:00 +0000 UTC"),
        ("3PM", "12AM", "UTC", "0000-01-01 00:00:00 +0000 UTC"),
        ("2006 002", "2024 060", "UTC", "2024-02-29 00:00:00 +0000 UTC"),
        ("2006-002 Jan", "2026-060 Mar", "UTC", "2026-03-01 00:00:00 +0000 UTC"),
        ("2006-01-02 MST", "2026-07-01 CEST", "Europe/Berlin", "2026-07-01 00:00:00 +0200 CEST"),
        ("2006-01-02 MST", "2026-07-01 CET", "Europe/Berlin", "2026-07-01 01:00:00 +0200 CEST"),
        ("2006-01-02 MST", "2026-07-01 PDT", "UTC", "2026-07-01 00:00:00 +0000 PDT"),
        ("2006-01-02 MST", "2026-07-01 GMT+3", "UTC", "2026-07-01 03:00:00 +0300 GMT+3"),
        ("2006-01-02 -070000", "2026-07-01 +013005", "UTC", "2026-07-01 00:00:00 +0130 +0130"),
        ("2006", "2026", "UTC", "2026-01-01 00:00:00 +0000 UTC"),
    ] {
        assert_eq!(read(layout, text, zone), expected, "{text} as {layout}");
    }
    for (layout, text) in [
        ("2006-01-02", "garbage"),
        ("2006-01-02", "2026-02-29"),
        ("2006-01-02", "2026-13-01"),
        ("2006-01-02", "2026-00-01"),
        ("2006-01-02", "2026-1-01"),
        ("2006-01-02", "2026-01-01 "),
        ("15:04", "24:00"),
        ("3:04", "13:00"),
        ("15:04:05", "10:11:60"),
        ("15:04:05.000", "10:11:12.34"),
        ("-07:00", "+25:00"),
        ("-07:00", "+0100"),
        ("MST", "xyz"),
        ("PM", "pm"),
        ("Mon", "Xyz"),
        ("2006 002", "2023 366"),
        ("2006-002 Jan", "2026-060 Apr"),
        ("2006", "26"),
    ] {
        assert_eq!(read(layout, text, "UTC"), "none", "{text} as {layout}");
    }
}

#[test]
fn arithmetic_carries() {
    let time = Time::from_unix_ns(1_999_999_999);
    assert_eq!(time.plus(1).unix_in(1_000_000_000), 2_000_000_000);
    assert_eq!(time.plus(-2_000_000_000).unix_in(1_000), -1);
    assert_eq!(time.since(&Time::from_unix(1)), 999_999_999);
    assert_eq!(Time::zero().since(&time), i64::MIN);
    let end_of_january = Time::from_unix(1_769_817_600);
    assert_eq!(formatted(&end_of_january, "2006-01-02"), "2026-01-31");
    assert_eq!(formatted(&end_of_january.plus_date(0, 1, 0), "2006-01-02"), "2026-03-03");
    assert_eq!(formatted(&end_of_january.plus_date(-1, -1, -31), "2006-01-02"), "2024-11-30");
    let _ = end_of_january.plus_date(i64::MAX, i64::MAX, i64::MIN);
}
