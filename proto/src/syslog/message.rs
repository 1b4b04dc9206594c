//! What a message says.

use super::stamp::Stamp;
use super::structured::Parameter;

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// The words of a severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeverityWords {
    /// The keyword of syslog: `err`.
    pub keyword: &'static str,
    /// The level that queries know: `error`.
    pub level: &'static str,
}

const SEVERITIES: [SeverityWords; 8] = [
    SeverityWords { keyword: "emerg", level: "fatal" },
    SeverityWords { keyword: "alert", level: "critical" },
    SeverityWords { keyword: "crit", level: "critical" },
    SeverityWords { keyword: "err", level: "error" },
    SeverityWords { keyword: "warning", level: "warn" },
    SeverityWords { keyword: "notice", level: "info" },
    SeverityWords { keyword: "info", level: "info" },
    SeverityWords { keyword: "debug", level: "debug" },
];

/// Why a message could not be parsed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has no priority.
    NoPriority,
    /// It has a priority and no header.
    NoHeader,
    /// Its stamp is no time.
    BadStamp,
    /// Its structured data are not of the grammar.
    BadStructuredData,
}

impl Fault {
    /// Words for people.
    pub fn text(self) -> &'static str {
        match self {
            Fault::NoPriority => "the message has no priority",
            Fault::NoHeader => "the message has no header",
            Fault::BadStamp => "the time of the message does not exist",
            Fault::BadStructuredData => "the structured data of the message are malformed",
        }
    }
}

/// A message. Fields that it does not have are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// 0 to 23.
    pub(super) facility: u8,
    /// 0 to 7.
    pub(super) severity: u8,
    /// In ns since the Unix epoch; `None`: the arrival counts.
    pub timestamp_ns: Option<i64>,
    /// The host that wrote it.
    pub host: &'a str,
    /// The program that wrote it.
    pub app: &'a str,
    /// The process that wrote it.
    pub pid: &'a str,
    /// The kind of message.
    pub message_id: &'a str,
    pub(super) parameters: Vec<Parameter<'a>>,
    /// The text.
    pub line: &'a str,
    /// What could not be parsed.
    pub fault: Option<Fault>,
}

impl<'a> Message<'a> {
    /// The keyword of the facility.
    pub fn facility(&self) -> &'static str {
        FACILITIES[usize::from(self.facility)]
    }

    /// The words of the severity.
    pub fn severity(&self) -> SeverityWords {
        SEVERITIES[usize::from(self.severity)]
    }

    /// A field by the name that settings give it; empty if the message does not have it, `None` if
    /// there is no such field.
    pub fn field(&self, name: &str) -> Option<&str> {
        Some(match name {
            "host" => self.host,
            "app" => self.app,
            "pid" => self.pid,
            "msgid" => self.message_id,
            "facility" => self.facility(),
            "severity" => self.severity().keyword,
            "level" => self.severity().level,
            _ => return None,
        })
    }

    /// Parameters of the structured data: id of the element, name, value.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.parameters.iter().map(|parameter| {
            let Parameter { element, name, value } = parameter;
            (*element, *name, &**value)
        })
    }

    pub(super) fn of_line(priority: u8, line: &'a str, fault: Option<Fault>) -> Message<'a> {
        Message {
            facility: priority >> 3,
            severity: priority & 7,
            timestamp_ns: None,
            host: "",
            app: "",
            pid: "",
            message_id: "",
            parameters: Vec::new(),
            line: without_mark(line),
            fault,
        }
    }

    pub(super) fn set_stamp(&mut self, stamp: Stamp) {
        match stamp {
            Stamp::At(time) => self.timestamp_ns = Some(time),
            Stamp::Impossible => self.fault = Some(Fault::BadStamp),
        }
    }
}

/// A text without a byte order mark in front.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
