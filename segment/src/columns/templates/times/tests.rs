use super::super::text::Text;
use super::*;
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn layouts() -> impl Iterator<Item = Layout> {
    (0..=255).filter_map(Layout::from_byte)
}

fn written(layout: Layout, units: i64) -> Option<Vec<u8>> {
    let mut out = [b'?'; MOST_BYTES];
    let len = Clock::new(layout).write(&mut out, units)?;
    Some(out[..len].to_vec())
}

/// The time that is recognised at the beginning of a line.
fn seen(line: &[u8]) -> Option<Seen> {
    let mut text = Text::default();
    // The bytes of another line follow.
    text.fill(&[line, b"12:34:56"].concat(), &[line.len() as u32, line.len() as u32 + 8]);
    let (at, end) = text.line(0);
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let seen = recognize(text.bytes(), at, digits, &text.dates);
    for layout in layouts() {
        let expected = seen.filter(|seen| seen.layout == layout).map(|seen| seen.units);
        let dates = DateCache::default();
        assert_eq!(read(text.bytes(), at, layout, &dates), expected, "{line:?} as {layout:?}");
        assert_eq!(read(text.bytes(), at, layout, &text.dates), expected, "with a date known");
    }
    assert!(seen.is_none_or(|seen| at + seen.layout.len() <= end));
    seen
}

/// A random time of a year that can be written.
fn any_units(rng: &mut Rng, layout: Layout) -> i64 {
    let days = (DAYS_END - FIRST_DAY) as u64;
    let second = (FIRST_DAY + rng.below(days) as i64) * SECONDS_PER_DAY;
    let second = second + rng.below(SECONDS_PER_DAY as u64) as i64;
    let per_second = layout.units_per_second();
    second * per_second + rng.below(per_second as u64) as i64
}

#[test]
fn times_are_read_as_they_are_written() {
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        for layout in layouts() {
            let units = any_units(&mut rng, layout);
            let time = written(layout, units).unwrap();
            assert_eq!(time.len(), layout.len());
            let behind = *rng.pick(&[&b""[..], b"Z", b"+01:00", b" ", b".", b", x", b"ff", b"-0"]);
            let line = [&time[..], behind].concat();
            assert_eq!(seen(&line), Some(Seen { layout, units }), "{line:?}");
        }
    }
}

#[test]
fn known_times_are_what_calendars_say() {
    for (time, second, fraction) in [
        ("1970-01-01T00:00:00", 0, 0),
        ("2000-02-29 23:59:59", 951_868_799, 0),
        ("2026-11-22T20:33:01.123Z", 1_795_379_581, 123),
        ("2026/11/22 20:33:01,000007", 1_795_379_581, 7),
        ("22/Nov/2026:20:33:01 +0000", 1_795_379_581, 0),
        ("1969-12-31T23:59:59.9", -1, 9),
        ("1700-01-01 00:00:00.000000001", -8_520_336_000, 1),
        ("2199-12-31T23:59:59.999999999", 7_258_118_399, 999_999_999),
    ] {
        let Some(Seen { layout, units }) = seen(time.as_bytes()) else { panic!("{time}") };
        assert_eq!(units, second * layout.units_per_second() + fraction, "{time}");
        assert_eq!(written(layout, units).as_deref(), time.as_bytes().get(..layout.len()));
    }
}

#[test]
fn what_is_nearly_a_time_stays_text() {
    for line in [
        "2026-02-29T20:33:01",
        "2024-02-30T20:33:01",
        "2026-04-31 20:33:01",
        "2026-00-10 20:33:01",
        "2026-13-10 20:33:01",
        "2026-01-00 20:33:01",
        "2026-01-32 20:33:01",
        "2026-01-10 24:00:00",
        "2026-01-10 23:60:00",
        "2026-01-10 23:59:60",
        "2026-01-10T23:59:5",
        "2026-01-10T23:59:5x",
        "2026-01-10T23:59:591",
        "2026-01-10t23:59:59",
        "2026-01-10_23:59:59",
        "2026-01/10 23:59:59",
        "2026/01-10 23:59:59",
        "2026/01/10T23:59:59",
        "2026-01-10T23.59:59",
        "2026-01-10T23:59;59",
        "2026-01-10T23?59:59",
        "2026-01-1:T23:59:59",
        "0000-01-01T00:00:00",
        "0001-01-01T00:00:00Z",
        "1699-12-31T23:59:59",
        "2200-01-01T00:00:00",
        "9999-12-31T23:59:59",
        "22/nov/2026:20:33:01",
        "22/Nov/2026 20:33:01",
        "31/Nov/2026:20:33:01",
        "22/Nob/2026:20:33:01",
        "2/Nov/2026:20:33:01",
        "22/11/2026:20:33:01",
        "22/Nov/202:20:33:011",
        "12026-11-22T20:33:01",
        "026-11-22T20:33:01",
        "2026-11-22",
        "2026-",
        "22/",
        "",
    ] {
        assert_eq!(seen(line.as_bytes()), None, "{line}");
    }
    // The time is followed by a fraction that is too long, or by a mark without digits.
    for behind in [".0123456789", ",", ". ", ".x", ",x1"] {
        let found = seen(format!("2026-11-22T20:33:01{behind}").as_bytes()).unwrap();
        assert_eq!((found.layout.fraction_digits, found.layout.len()), (0, 19), "{behind}");
    }
}

#[test]
fn whatever_is_read_is_written_byte_by_byte() {
    let mut found = 0;
    for seed in seeds(3000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let layout = *rng.pick(&layouts().collect::<Vec<_>>());
        let mut line = written(layout, any_units(&mut rng, layout)).unwrap();
        line.push(b'Z');
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(line.len() as u64) as usize;
            line[at] = match rng.below(4) {
                0 => line[at] ^ 1 << rng.below(8),
                1 => *rng.pick(b"/-:., TZJanFebM"),
                _ => b'0' + rng.below(10) as u8,
            };
        }
        if let Some(Seen { layout, units }) = seen(&line) {
            found += 1;
            assert_eq!(written(layout, units).as_deref(), Some(&line[..layout.len()]));
        }
    }
    assert!(found > 500 || std::env::var_os("LOGSVC_SEED").is_some(), "{found}");
}

#[test]
fn a_clock_goes_from_day_to_day_and_refuses_other_years() {
    for layout in layouts() {
        let per_day = SECONDS_PER_DAY * layout.units_per_second();
        let mut clock = Clock::new(layout);
        let mut out = [0; MOST_BYTES];
        for units in [0, -1, per_day, per_day - 1, FIRST_DAY * per_day, DAYS_END * per_day - 1, 5] {
            let len = clock.write(&mut out, units).unwrap();
            assert_eq!(Some(out[..len].to_vec()), written(layout, units));
        }
        for units in [FIRST_DAY * per_day - 1, DAYS_END * per_day, i64::MIN, i64::MIN + 1, i64::MAX]
        {
            assert_eq!(clock.write(&mut out, units), None, "{layout:?} {units}");
        }
        assert_eq!(layout.units_of(i64::MIN).signum(), -1);
    }
}

#[test]
fn parts_of_times_are_known_as_such() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        for layout in layouts() {
            let time = written(layout, any_units(&mut rng, layout)).unwrap();
            let start = rng.below(time.len() as u64) as usize;
            let len = rng.between(1, (time.len() - start) as u64) as usize;
            let mut part = time[start..start + len].to_vec();
            for ignore_case in [false, true] {
                assert!(layout.may_have_at(start, &part, ignore_case));
                assert!(layout.may_hold(&part, ignore_case));
                part.make_ascii_lowercase();
            }
            let at = rng.below(len as u64) as usize;
            part[at] = *rng.pick(b"hixz#");
            assert!(!layout.may_hold(&part, true), "{part:?}");
        }
    }
    let iso = seen(b"2026-11-22T20:33:01.123").unwrap().layout;
    let access = seen(b"22/Nov/2026:20:33:01").unwrap().layout;
    for (part, in_iso, in_access) in [
        ("T20:", true, false),
        ("t20:", false, false),
        ("T30:", false, false),
        (":61", false, false),
        ("-22T", true, false),
        ("-39", true, false),
        ("-41", false, false),
        ("/Nov/", false, true),
        ("Nov", false, true),
        ("err", false, false),
        ("Noc", false, false),
        ("026:2", false, true),
        ("1.123", true, false),
        ("1.1234", false, false),
        ("  ", false, false),
        ("", true, true),
    ] {
        let holds = |layout: Layout| layout.may_hold(part.as_bytes(), false);
        assert_eq!((holds(iso), holds(access)), (in_iso, in_access), "{part}");
    }
    assert!(iso.may_hold(b"t20:", true) && access.may_hold(b"nov", true));
    assert!(!iso.may_hold(&[b'0'; MOST_BYTES + 1], false));
}

#[test]
fn layouts_have_one_byte_each() {
    let all: Vec<Layout> = layouts().collect();
    // Four forms of dates; no fraction, or one of nine lengths after either mark.
    assert_eq!(all.len(), 4 * (1 + 9 * 2));
    for byte in 0..=255 {
        assert!(Layout::from_byte(byte).is_none_or(|layout| layout.to_byte() == byte));
    }
}
