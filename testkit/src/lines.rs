//! Generated log lines: JSON, logfmt, access log and plain application logs of 150 to 250
//! bytes, with ids, addresses, paths and durations, which make real logs compress badly and
//! queries selective.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

use crate::random::Rng;
use crate::words::{AGENTS, GOOD_NEWS, HOSTS, METHODS, RESOURCES};

/// The fixed parts of a line.
pub struct Scene {
    /// The time that the line says, in nanoseconds since the Unix epoch.
    pub unix_nanos: i64,
    /// The level in lower case.
    pub level: &'static str,
    /// The part of the application that writes the line.
    pub component: &'static str,
    /// The message; a random one if it is `None`.
    pub news: Option<&'static str>,
}

/// How an application writes its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Style {
    /// An object in JSON.
    Json,
    /// Pairs as `name=value`.
    Logfmt,
    /// An access log as web servers write it.
    Access,
    /// Text, of which some entries have several lines.
    Plain,
}

impl Style {
    /// The style of application number `app`.
    pub fn of_app(app: usize) -> Style {
        [Style::Json, Style::Logfmt, Style::Access, Style::Plain][app % 4]
    }
}

const BAD_NEWS: [&str; 6] = [
    "upstream connection refused",
    "deadline exceeded while waiting for a reply",
    "retrying after a failed attempt",
    "lock held by another worker",
    "payload does not match its schema",
    "connection pool exhausted",
];
const CLASSES: [&str; 5] =
    ["OrderService", "PaymentClient", "InventoryCache", "SessionStore", "MailDispatcher"];

/// A line in the style of application number `app`.
pub fn line(rng: &mut Rng, app: usize, scene: &Scene) -> String {
    let mut out = String::with_capacity(256);
    match Style::of_app(app) {
        Style::Json => json(&mut out, rng, scene),
        Style::Logfmt => logfmt(&mut out, rng, scene),
        Style::Access => access(&mut out, rng, scene),
        Style::Plain => plain(&mut out, rng, scene),
    }
    .expect("writing to a String cannot fail");
    out
}

fn json(out: &mut String, rng: &mut Rng, scene: &Scene) -> std::fmt::Result {
    out.push_str("{\"ts\":\"");
    push_rfc3339(out, scene.unix_nanos);
    write!(
        out,
        "\",\"level\":\"{}\",\"caller\":\"{}/server.go:{}\",\"msg\":\"{}\",\"method\":\"{}\",\"path\":\"",
        scene.level,
        scene.component,
        rng.below(900) + 20,
        news(rng, scene),
        rng.pick(&METHODS),
    )?;
    path(out, rng)?;
    write!(
        out,
        "\",\"status\":{},\"duration_ms\":{}.{:03},\"request_id\":\"{:016x}\"}}",
        status(rng, scene),
        duration_ms(rng),
        rng.below(1000),
        rng.next_u64(),
    )
}

fn logfmt(out: &mut String, rng: &mut Rng, scene: &Scene) -> std::fmt::Result {
    out.push_str("ts=");
    push_rfc3339(out, scene.unix_nanos);
    write!(
        out,
        " level={} caller={}.go:{} component={} msg=\"{}\" tenant=team-{} duration={}.{:02}ms bytes={} retries={} peer=",
        scene.level,
        rng.pick(&RESOURCES),
        rng.below(700) + 10,
        scene.component,
        news(rng, scene),
        rng.below(60),
        duration_ms(rng),
        rng.below(100),
        rng.below(2_000_000),
        if rng.one_in(12) { rng.below(5) } else { 0 },
    )?;
    address(out, rng)?;
    write!(out, ":{} request_id={:016x}", 1024 + rng.below(60_000), rng.next_u64())
}

fn access(out: &mut String, rng: &mut Rng, scene: &Scene) -> std::fmt::Result {
    address(out, rng)?;
    if rng.one_in(3) {
        write!(out, " - user{} [", rng.below(40_000))?;
    } else {
        out.push_str(" - - [");
    }
    push_rfc3339(out, scene.unix_nanos);
    write!(out, "] \"{} ", rng.pick(&METHODS))?;
    path(out, rng)?;
    write!(
        out,
        " HTTP/1.1\" {} {} \"https://{}/{}\" \"{}\" {}.{:03} {:012x}",
        status(rng, scene),
        rng.below(90_000),
        rng.pick(&HOSTS),
        rng.pick(&RESOURCES),
        rng.pick(&AGENTS),
        duration_ms(rng) / 1000,
        rng.below(1000),
        rng.next_u64() >> 16,
    )
}

fn plain(out: &mut String, rng: &mut Rng, scene: &Scene) -> std::fmt::Result {
    push_rfc3339(out, scene.unix_nanos);
    let class = *rng.pick(&CLASSES);
    write!(
        out,
        " [{}-{}] {} com.example.{}.{class} - ",
        scene.component,
        rng.below(32),
        scene.level.to_uppercase(),
        rng.pick(&RESOURCES),
    )?;
    if scene.level == "error" && rng.one_in(2) {
        write!(
            out,
            "java.lang.IllegalStateException: {} (id {:08x})",
            news(rng, scene),
            rng.next_u64() >> 32,
        )?;
        for depth in 0..2 {
            write!(
                out,
                "\n\tat com.example.{class}.step{depth}({class}.java:{})",
                rng.below(600) + 1
            )?;
        }
        return Ok(());
    }
    write!(
        out,
        "{}: {} {:08x}-{:04x} of customer {} took {} ms (items={}, total={}.{:02} EUR, site=fra-{})",
        news(rng, scene),
        rng.pick(&RESOURCES).trim_end_matches('s'),
        rng.next_u64() >> 32,
        rng.below(65_536),
        rng.below(250_000),
        duration_ms(rng),
        rng.below(20) + 1,
        rng.below(900),
        rng.below(100),
        rng.below(4) + 1,
    )
}

fn news(rng: &mut Rng, scene: &Scene) -> &'static str {
    match (scene.news, scene.level) {
        (Some(news), _) => news,
        (None, "info" | "debug") => rng.pick::<&str>(&GOOD_NEWS),
        (None, _) => rng.pick::<&str>(&BAD_NEWS),
    }
}

fn status(rng: &mut Rng, scene: &Scene) -> u16 {
    match scene.level {
        "error" => *rng.pick(&[500, 502, 503, 504]),
        "warn" => *rng.pick(&[400, 401, 404, 409, 429]),
        _ => *rng.pick(&[200, 200, 200, 200, 201, 204, 304]),
    }
}

/// Mostly a few milliseconds, now and then a second or more.
fn duration_ms(rng: &mut Rng) -> u64 {
    match rng.below(100) {
        0 => 1000 + rng.below(9000),
        1..10 => 100 + rng.below(900),
        _ => rng.below(100),
    }
}

fn address(out: &mut String, rng: &mut Rng) -> std::fmt::Result {
    write!(out, "10.{}.{}.{}", rng.below(8), rng.below(256), rng.below(254) + 1)
}

fn path(out: &mut String, rng: &mut Rng) -> std::fmt::Result {
    write!(out, "/api/v{}/{}/{}", rng.below(2) + 1, rng.pick(&RESOURCES), rng.below(1_000_000))?;
    if rng.one_in(3) {
        write!(out, "/items/{}", rng.below(5000))?;
    }
    if rng.one_in(4) {
        write!(out, "?page={}&size=50", rng.below(40))?;
    }
    Ok(())
}

/// Appends a time as RFC 3339 in UTC with milliseconds.
fn push_rfc3339(out: &mut String, unix_nanos: i64) {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    let time = Timestamp::from_millisecond(unix_nanos.div_euclid(1_000_000))
        .expect("64 bits of nanoseconds are within the years of the calendar");
    PRINTER.print_timestamp(&time, out).expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_lie_in_utc() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
            (1_773_100_799_999_999_999, "2026-03-09T23:59:59.999Z"),
            (-1_000_000, "1969-12-31T23:59:59.999Z"),
        ] {
            let mut out = String::new();
            push_rfc3339(&mut out, nanos);
            assert_eq!(out, text);
        }
    }

    /// Figures of benchmarks are comparable only over the same lines.
    #[test]
    fn the_lines_of_a_seed_stay_the_same() {
        let levels = ["info", "warn", "error", "debug"];
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for app in 0..4 {
            let mut rng = Rng::new(crate::mix(7, app as u64));
            for number in 0..5000_i64 {
                let scene = Scene {
                    unix_nanos: -1_000_000_000_000_000_000 + number * 1_000_317_000_017,
                    level: levels[number as usize % levels.len()],
                    component: "worker",
                    news: None,
                };
                // FNV-1a.
                for byte in line(&mut rng, app, &scene).bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        assert_eq!(hash, 0x8c99_eed9_2ff8_59e5);
    }
}
