//! Which form a message has, and messages of RFC 5424.

use super::message::{Fault, Message, without_mark};
use super::stamp::{self, Arrival};
use super::{legacy, structured};

/// Facility `user`, severity `notice`: what a message without a priority has.
const PRIORITY_WITHOUT: u8 = 13;

/// Parses a message.
pub fn parse<'a>(text: &'a str, arrival: Arrival<'_>) -> Message<'a> {
    let text = without_mark(text);
    let Some((priority, rest)) = priority(text) else {
        return Message::of_line(PRIORITY_WITHOUT, text, Some(Fault::NoPriority));
    };
    let Some(behind) = version(rest) else { return legacy::parse(priority, rest, arrival) };
    if let Some(message) = versioned(priority, behind, arrival) {
        return message;
    }
    // Devices that put a version before a header of the old kind, or seconds of the epoch.
    match legacy::parse_versioned(priority, behind, arrival) {
        Some(message) => message,
        None => legacy::parse(priority, rest, arrival),
    }
}

/// The priority at the beginning of a text, and what is behind it.
fn priority(text: &str) -> Option<(u8, &str)> {
    let (digits, rest) = text.strip_prefix('<')?.split_once('>')?;
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let priority = digits.parse::<u8>().ok().filter(|&priority| is_number && priority <= 191)?;
    Some((priority, rest))
}

/// What is behind the version and its blank.
fn version(text: &str) -> Option<&str> {
    let (digits, rest) = text.split_once(' ')?;
    let is_version = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    (is_version && !digits.starts_with('0')).then_some(rest)
}

/// A field of the header without its nil value, and what is behind it and its blank.
fn field(text: &str) -> Option<(&str, &str)> {
    let (field, rest) = text.split_once(' ')?;
    (!field.is_empty()).then_some((if field == "-" { "" } else { field }, rest))
}

/// A message of RFC 5424 behind its version.
fn versioned<'a>(priority: u8, text: &'a str, arrival: Arrival<'_>) -> Option<Message<'a>> {
    let (stamp, rest) = field(text)?;
    let stamp = match stamp {
        "" => None,
        stamp => Some(stamp::iso(stamp, arrival, b"Tt").filter(|&(_, len)| len == stamp.len())?.0),
    };
    let (host, rest) = field(rest)?;
    let (app, rest) = field(rest)?;
    // The header of the old kind: its tag ends with a colon.
    if app.ends_with(':') {
        return None;
    }
    let (pid, rest) = field(rest)?;
    // There may be nothing behind the last field of the header.
    let (message_id, rest) = match field(rest) {
        Some(found) => found,
        None if rest == "-" => ("", ""),
        None => (rest, ""),
    };
    let mut message = Message::of_line(priority, rest, None);
    (message.host, message.app, message.pid) = (host, app, pid);
    message.message_id = message_id;
    if rest == "-" {
        message.line = "";
    } else if let Some(line) = rest.strip_prefix("- ") {
        message.line = without_mark(line);
    } else if let Some((parameters, line)) = structured::elements(rest) {
        message.parameters = parameters;
        message.line = without_mark(line.strip_prefix(' ').unwrap_or(line));
    } else {
        message.fault = Some(Fault::BadStructuredData);
    }
    if let Some(stamp) = stamp {
        message.set_stamp(stamp);
    }
    Some(message)
}
