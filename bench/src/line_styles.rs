//! Texts of generated lines: JSON, logfmt, access log and plain application logs,
//! 150 to 250 bytes, with the ids, addresses, paths and durations that make real
//! logs compress badly and queries selective.

use crate::random::Random;
use crate::units::push_rfc3339;
use crate::words::{AGENTS, GOOD_NEWS, HOSTS, METHODS, RESOURCES};
use std::fmt::Write;

/// What a line is about.
pub(crate) struct Scene {
    pub(crate) unix_nanos: i64,
    pub(crate) level: &'static str,
    pub(crate) component: &'static str,
    /// The message, if it is not to be drawn.
    pub(crate) news: Option<&'static str>,
}

/// How an application writes its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Style {
    Json,
    Logfmt,
    Access,
    Plain,
}

impl Style {
    /// The style of application number `app`.
    pub(crate) fn of_app(app: usize) -> Style {
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
pub(crate) fn line(random: &mut Random, app: usize, scene: &Scene) -> String {
    let mut out = String::with_capacity(256);
    match Style::of_app(app) {
        Style::Json => json(&mut out, random, scene),
        Style::Logfmt => logfmt(&mut out, random, scene),
        Style::Access => access(&mut out, random, scene),
        Style::Plain => plain(&mut out, random, scene),
    }
    .expect("writing to a String cannot fail");
    out
}

fn json(out: &mut String, random: &mut Random, scene: &Scene) -> std::fmt::Result {
    out.push_str("{\"ts\":\"");
    push_rfc3339(out, scene.unix_nanos);
    write!(
        out,
        "\",\"level\":\"{}\",\"caller\":\"{}/server.go:{}\",\"msg\":\"{}\",\"method\":\"{}\",\"path\":\"",
        scene.level,
        scene.component,
        random.below(900) + 20,
        news(random, scene),
        random.pick(&METHODS),
    )?;
    path(out, random)?;
    write!(
        out,
        "\",\"status\":{},\"duration_ms\":{}.{:03},\"request_id\":\"{:016x}\"}}",
        status(random, scene),
        duration_ms(random),
        random.below(1000),
        random.next_u64(),
    )
}

fn logfmt(out: &mut String, random: &mut Random, scene: &Scene) -> std::fmt::Result {
    out.push_str("ts=");
    push_rfc3339(out, scene.unix_nanos);
    write!(
        out,
        " level={} caller={}.go:{} component={} msg=\"{}\" tenant=team-{} duration={}.{:02}ms bytes={} retries={} peer=",
        scene.level,
        random.pick(&RESOURCES),
        random.below(700) + 10,
        scene.component,
        news(random, scene),
        random.below(60),
        duration_ms(random),
        random.below(100),
        random.below(2_000_000),
        if random.one_in(12) { random.below(5) } else { 0 },
    )?;
    address(out, random)?;
    write!(out, ":{} request_id={:016x}", 1024 + random.below(60_000), random.next_u64())
}

fn access(out: &mut String, random: &mut Random, scene: &Scene) -> std::fmt::Result {
    address(out, random)?;
    if random.one_in(3) {
        write!(out, " - user{} [", random.below(40_000))?;
    } else {
        out.push_str(" - - [");
    }
    push_rfc3339(out, scene.unix_nanos);
    write!(out, "] \"{} ", random.pick(&METHODS))?;
    path(out, random)?;
    write!(
        out,
        " HTTP/1.1\" {} {} \"https://{}/{}\" \"{}\" {}.{:03} {:012x}",
        status(random, scene),
        random.below(90_000),
        random.pick(&HOSTS),
        random.pick(&RESOURCES),
        random.pick(&AGENTS),
        duration_ms(random) / 1000,
        random.below(1000),
        random.next_u64() >> 16,
    )
}

fn plain(out: &mut String, random: &mut Random, scene: &Scene) -> std::fmt::Result {
    push_rfc3339(out, scene.unix_nanos);
    let class = random.pick(&CLASSES);
    write!(
        out,
        " [{}-{}] {} com.example.{}.{class} - ",
        scene.component,
        random.below(32),
        scene.level.to_uppercase(),
        random.pick(&RESOURCES),
    )?;
    if scene.level == "error" && random.one_in(2) {
        write!(
            out,
            "java.lang.IllegalStateException: {} (id {:08x})",
            news(random, scene),
            random.next_u64() >> 32,
        )?;
        for depth in 0..2 {
            write!(
                out,
                "\n\tat com.example.{class}.step{depth}({class}.java:{})",
                random.below(600) + 1
            )?;
        }
        return Ok(());
    }
    write!(
        out,
        "{}: {} {:08x}-{:04x} of customer {} took {} ms (items={}, total={}.{:02} EUR, site=fra-{})",
        news(random, scene),
        random.pick(&RESOURCES).trim_end_matches('s'),
        random.next_u64() >> 32,
        random.below(65_536),
        random.below(250_000),
        duration_ms(random),
        random.below(20) + 1,
        random.below(900),
        random.below(100),
        random.below(4) + 1,
    )
}

fn news(random: &mut Random, scene: &Scene) -> &'static str {
    match (scene.news, scene.level) {
        (Some(news), _) => news,
        (None, "info" | "debug") => random.pick(&GOOD_NEWS),
        (None, _) => random.pick(&BAD_NEWS),
    }
}

fn status(random: &mut Random, scene: &Scene) -> u16 {
    match scene.level {
        "error" => random.pick(&[500, 502, 503, 504]),
        "warn" => random.pick(&[400, 401, 404, 409, 429]),
        _ => random.pick(&[200, 200, 200, 200, 201, 204, 304]),
    }
}

/// Mostly a few milliseconds, now and then a second or more.
fn duration_ms(random: &mut Random) -> usize {
    match random.below(100) {
        0 => 1000 + random.below(9000),
        1..10 => 100 + random.below(900),
        _ => random.below(100),
    }
}

fn address(out: &mut String, random: &mut Random) -> std::fmt::Result {
    write!(out, "10.{}.{}.{}", random.below(8), random.below(256), random.below(254) + 1)
}

fn path(out: &mut String, random: &mut Random) -> std::fmt::Result {
    write!(
        out,
        "/api/v{}/{}/{}",
        random.below(2) + 1,
        random.pick(&RESOURCES),
        random.below(1_000_000)
    )?;
    if random.one_in(3) {
        write!(out, "/items/{}", random.below(5000))?;
    }
    if random.one_in(4) {
        write!(out, "?page={}&size=50", random.below(40))?;
    }
    Ok(())
}
