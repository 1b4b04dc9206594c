//! From messages to records.
//!
//! Guarantees: messages that have the same time keep their order and stay apart: a message whose
//! time is that of the one before it is 1 ns later. A message without a host has the address of its
//! sender as host.

use std::net::IpAddr;

use logsvc_proto::records::Records;
use logsvc_proto::syslog::Message;

use crate::config::LabelMap;

/// Fields that are structured metadata unless they are labels.
const FIELDS: [&str; 7] = ["level", "severity", "facility", "host", "app", "pid", "msgid"];

/// Gives messages of one sender their times.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The time of the last message as it came, and the time that it was given.
    last: Option<(i64, i64)>,
}

impl Times {
    pub(super) fn give(&mut self, time_ns: i64) -> i64 {
        let given = match self.last {
            Some((came, given)) if came == time_ns => given.saturating_add(1),
            _ => time_ns,
        };
        self.last = Some((time_ns, given));
        given
    }
}

/// Adds a message as a record.
pub(super) fn add(
    records: &mut Records,
    message: &Message<'_>,
    time_ns: i64,
    sender: IpAddr,
    labels: &LabelMap,
) {
    let sender = sender.to_canonical().to_string();
    let value = |name: &str| match name {
        "sender" => sender.as_str(),
        "host" if message.host.is_empty() => sender.as_str(),
        name => message.field(name).unwrap_or_else(|| parameter(message, name)),
    };
    records.begin(Some(time_ns));
    for (label, field) in labels.iter() {
        records.label(label, value(field));
    }
    for name in FIELDS {
        if labels.label_of(name).is_none() && !value(name).is_empty() {
            records.metadata(name.as_bytes(), value(name).as_bytes());
        }
    }
    for (place, (element, name, text)) in message.parameters().enumerate() {
        if labels.label_of(name).is_some() || text.is_empty() {
            continue;
        }
        // Of equal names the first keeps it; the others have that of their element in front.
        let is_taken = FIELDS.contains(&name)
            || message.parameters().take(place).any(|(_, other, _)| other == name);
        if is_taken {
            records.metadata(format!("{element}_{name}").as_bytes(), text.as_bytes());
        } else {
            records.metadata(name.as_bytes(), text.as_bytes());
        }
    }
    records.line(message.line.as_bytes());
    records.end();
}

fn parameter<'m>(message: &'m Message<'_>, name: &str) -> &'m str {
    message.parameters().find(|&(_, other, _)| other == name).map_or("", |(_, _, value)| value)
}

#[cfg(test)]
mod tests {
    use logsvc_proto::syslog::{Arrival, parse};

    use super::*;

    #[test]
    fn labels_are_mapped_and_the_rest_is_metadata() {
        let text = "<11>1 - - app 7 - [x@1 zone=\"a\" zone=\"b\" pid=\"9\" q=\"1\"] one";
        let message = parse(text, Arrival { unix_ns: 0, zone: &|local| local });
        let labels = LabelMap::default_of(&["host", "prog=app", "q"]);
        let mut records = Records::new();
        add(&mut records, &message, 5, "::ffff:10.0.0.7".parse().expect("an address"), &labels);
        let found = records.labels(0).parse().expect("labels").canonical();
        assert_eq!(found, r#"{host="10.0.0.7", prog="app", q="1"}"#);
        let mut pairs = Vec::new();
        let entry = records.entry(0, &mut pairs);
        let metadata: Vec<_> =
            entry.metadata.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        let expected = [
            ("level", "error"),
            ("severity", "err"),
            ("facility", "user"),
            ("pid", "7"),
            ("zone", "a"),
            ("x@1_zone", "b"),
            ("x@1_pid", "9"),
        ];
        let expected = expected.map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec()));
        assert_eq!(metadata, expected);
        assert_eq!((entry.timestamp_ns, entry.line), (Some(5), &b"one"[..]));
    }

    #[test]
    fn equal_times_stay_apart() {
        let mut times = Times::default();
        assert_eq!([5, 5, 5, 6, 5].map(|time| times.give(time)), [5, 6, 7, 6, 5]);
    }
}
