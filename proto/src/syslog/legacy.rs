//! Messages of RFC 3164, as daemons and devices write them.
//!
//! Behind the priority come a number of the device (`237: `), a stamp, a host and a tag, most of
//! which may be missing. Without a stamp the whole text is the line. A word behind the stamp that
//! ends with a colon is the tag, and there is no host then.

use super::message::{Fault, Message};
use super::stamp::{self, Arrival, Stamp};

/// Longest name of a zone behind a stamp.
const ZONE_NAME_MAX_LEN: usize = 5;

/// Parses what is behind the priority.
pub(super) fn parse<'a>(priority: u8, text: &'a str, arrival: Arrival<'_>) -> Message<'a> {
    let text = text.trim_start_matches(' ');
    let stamped = stamped(text, arrival).map(|(stamp, rest)| ("", stamp, rest));
    let header = stamped.or_else(|| device_prefix(text, arrival));
    let Some((host, stamp, rest)) = header else {
        // Some devices send no stamp.
        let of_device = text.trim_start_matches([':', ' ']);
        if let Some(id) = mnemonic(of_device) {
            let mut message = Message::of_line(priority, of_device, None);
            message.message_id = id;
            return message;
        }
        return Message::of_line(priority, text, Some(Fault::NoHeader));
    };
    let mut message = body(priority, rest);
    if !host.is_empty() {
        message.host = host;
    }
    message.set_stamp(stamp);
    message
}

/// Parses what is behind a version, if it has a stamp and a host.
pub(super) fn parse_versioned<'a>(
    priority: u8,
    text: &'a str,
    arrival: Arrival<'_>,
) -> Option<Message<'a>> {
    let (stamp, len) = stamp::epoch(text).or_else(|| stamp::iso(text, arrival, b"Tt"))?;
    let mut message = body(priority, &text[len..]);
    message.set_stamp(stamp);
    Some(message)
}

/// A stamp at the beginning of a text, and what is behind it.
fn stamped<'a>(text: &'a str, arrival: Arrival<'_>) -> Option<(Stamp, &'a str)> {
    let found = stamp::legacy(text, arrival).or_else(|| stamp::iso(text, arrival, b"Tt "));
    found.map(|(stamp, len)| (stamp, &text[len..]))
}

/// What Cisco's devices put before a stamp: a number, a name, both or a colon alone.
fn device_prefix<'a>(text: &'a str, arrival: Arrival<'_>) -> Option<(&'a str, Stamp, &'a str)> {
    let mut rest = text;
    let mut host = "";
    for _ in 0..3 {
        let (word, behind) = rest.split_once(':')?;
        if word.contains(' ') || word.contains('%') {
            return None;
        }
        rest = behind.trim_start_matches(' ');
        if !word.bytes().all(|b| b.is_ascii_digit()) {
            host = word;
        }
        if let Some((stamp, rest)) = stamped(rest, arrival) {
            return Some((host, stamp, rest));
        }
    }
    None
}

/// The mnemonic at the beginning of a line: `%LINK-3-UPDOWN: ...`.
fn mnemonic(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix('%')?.split_once(':')?;
    let is_name = !name.is_empty() && name.contains('-') && !name.contains(' ');
    is_name.then_some(name)
}

/// What is behind the stamp: host, tag and line.
fn body(priority: u8, text: &str) -> Message<'_> {
    let (host, rest) = host(text);
    let mut message = Message::of_line(priority, rest, None);
    message.host = host;
    if let Some(id) = mnemonic(rest) {
        message.message_id = id;
    } else if let Some((app, pid, line)) = tag(rest) {
        message = Message { app, pid, ..Message::of_line(priority, line, None) };
        message.host = host;
    }
    message
}

/// The host behind a stamp, if there is one, and what is behind it.
fn host(text: &str) -> (&str, &str) {
    if let Some(rest) = text.strip_prefix(':') {
        return ("", rest.trim_start_matches(' '));
    }
    let text = text.trim_start_matches(' ');
    let Some((word, rest)) = text.split_once(' ') else { return ("", text) };
    // The name of a zone behind the stamp, which a colon ends.
    if let Some(zone) = word.strip_suffix(':')
        && (3..=ZONE_NAME_MAX_LEN).contains(&zone.len())
        && zone.bytes().all(|b| b.is_ascii_uppercase())
        && rest.trim_start_matches(' ').starts_with('%')
    {
        return ("", rest.trim_start_matches(' '));
    }
    if tag(text).is_some() {
        return ("", text);
    }
    let rest = rest.trim_start_matches(' ');
    // `fw1 : %ASA-6-302013: ...`
    let of_device = rest.strip_prefix(": ").filter(|rest| mnemonic(rest).is_some());
    (word, of_device.unwrap_or(rest))
}

/// A tag at the beginning of a text: the program, its process, and what is behind.
fn tag(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find([' ', '[', ':'])?;
    let (app, rest) = text.split_at(end);
    if app.is_empty() {
        return None;
    }
    let (pid, rest) = match rest.strip_prefix('[') {
        Some(inner) => {
            let (pid, rest) = inner.split_once(']')?;
            (!pid.contains(' ')).then_some((pid, rest))?
        }
        None => ("", rest),
    };
    let line = match rest.strip_prefix(':') {
        Some(line) => line,
        // A process is sign enough, a word alone is not.
        None if !pid.is_empty() && rest.starts_with(' ') => rest,
        None => return None,
    };
    // `app:text` may be anything, `app[1]:text` is a tag.
    let is_tag = line.is_empty() || line.starts_with(' ') || !pid.is_empty();
    is_tag.then(|| (app, pid, line.strip_prefix(' ').unwrap_or(line)))
}
