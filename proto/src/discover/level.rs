//! The levels and the words that stand for them.

/// How severe an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Finer than debugging.
    Trace,
    /// For debugging.
    Debug,
    /// Business as usual.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
    /// Something important failed.
    Critical,
    /// The end of the program.
    Fatal,
    /// Nothing tells.
    Unknown,
}

impl Level {
    /// The value of `detected_level`.
    #[inline]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::Fatal => "fatal",
            Level::Unknown => "unknown",
        }
    }

    /// The level that a word stands for, letter case aside.
    pub fn from_word(word: &[u8]) -> Option<Level> {
        let mut lower = [0; 11];
        let lower = lower.get_mut(..word.len())?;
        for (to, from) in lower.iter_mut().zip(word) {
            *to = from.to_ascii_lowercase();
        }
        Some(match &*lower {
            b"trace" | b"trc" => Level::Trace,
            b"debug" | b"dbg" => Level::Debug,
            b"info" | b"inf" | b"information" => Level::Info,
            b"warn" | b"wrn" | b"warning" => Level::Warn,
            b"error" | b"err" => Level::Error,
            b"critical" => Level::Critical,
            b"fatal" => Level::Fatal,
            _ => return None,
        })
    }
}

/// The value of `detected_level` for a level that the sender states: a known
/// level, or the text as sent.
pub fn normalize_level(stated: &[u8]) -> &[u8] {
    Level::from_word(stated).map_or(stated, |level| level.as_str().as_bytes())
}

/// Whether a value of `detected_level` is the name of a [`Level`], and not another sent text.
pub fn is_known_level(value: &[u8]) -> bool {
    matches!(
        value,
        b"trace" | b"debug" | b"info" | b"warn" | b"error" | b"critical" | b"fatal" | b"unknown"
    )
}

/// The level of an OpenTelemetry severity number, printed in decimal. A text that is
/// no number counts as `info`.
pub fn severity_number_level(text: &[u8]) -> Level {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    match number {
        None => Level::Info,
        Some(0) => Level::Unknown,
        Some(..=4) => Level::Trace,
        Some(5..=8) => Level::Debug,
        Some(9..=12) => Level::Info,
        Some(13..=16) => Level::Warn,
        Some(17..=20) => Level::Error,
        Some(21..=24) => Level::Fatal,
        Some(25..) => Level::Unknown,
    }
}
