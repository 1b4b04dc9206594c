//! The field of a setting: the texts that it takes, and its printed form.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use logsvc_proto::discover::LevelFields;
use logsvc_proto::time::{
    format_byte_size, format_model_duration, parse_byte_size, parse_go_duration_ns,
    parse_model_duration_ns, parse_rfc3339_ns, write_rfc3339_nano,
};
use logsvc_rules::config::Secret;
use logsvc_shards::wal::SyncPolicy;

use super::BlockedQueries;
use super::DeletionMode;
use super::LabelMap;
use super::OtlpConfig;
use super::StreamRetention;
use super::choice::Choice;
use super::ruler::{HIDDEN, Structured, Urls};

/// A field of [`super::Config`] with the notation of its values.
pub(crate) enum Field<'c> {
    /// `true` or `false`.
    Bool(&'c mut bool),
    /// A whole number.
    Count(&'c mut usize),
    /// A whole number of 16 bits.
    SmallCount(&'c mut u16),
    /// A size that cannot exceed the address space.
    MemoryBytes(&'c mut usize),
    /// A size.
    Bytes(&'c mut u64),
    /// A duration in ns.
    Nanos(&'c mut i64),
    /// A duration that may be below 0, in ns.
    SignedNanos(&'c mut i64),
    /// A duration.
    Duration(&'c mut Duration),
    /// The address part.
    Address(&'c mut SocketAddr),
    /// The port part.
    Port(&'c mut SocketAddr),
    /// A folder.
    Folder(&'c mut PathBuf),
    /// When the write-ahead log is synced.
    Sync(&'c mut SyncPolicy),
    /// One of a few words.
    Choice(&'c mut dyn Choice),
    /// Any text.
    Text(&'c mut String),
    /// A list of texts.
    Words(&'c mut Vec<String>),
    /// Which fields become which labels.
    Labels(&'c mut LabelMap),
    /// A list of field names.
    Fields(&'c mut LevelFields),
    /// A number of MB, maybe with a fraction.
    Megabytes(&'c mut f64),
    /// Rules for the attributes of OpenTelemetry logs.
    Otlp(&'c mut OtlpConfig),
    /// Rules for how long entries of streams stay.
    Retention(&'c mut StreamRetention),
    /// Rules for queries that are refused.
    Blocked(&'c mut BlockedQueries),
    /// A time in ns since the Unix epoch, or none.
    Time(&'c mut Option<i64>),
    /// A list or a section of the ruler.
    Structured(&'c mut dyn Structured),
    /// Addresses of HTTP servers, with commas between them.
    Urls(&'c mut Urls),
    /// A text that is never printed.
    Secret(&'c mut Secret),
    /// Whether deletion is allowed, which is the short form of its mode.
    Allowed(&'c mut DeletionMode),
}

impl Field<'_> {
    /// Whether the value may be a list or a section of the file. [`Field::set`] takes it
    /// as JSON then.
    pub(crate) fn is_structured(&self) -> bool {
        matches!(
            self,
            Field::Words(_)
                | Field::Labels(_)
                | Field::Fields(_)
                | Field::Otlp(_)
                | Field::Retention(_)
                | Field::Blocked(_)
                | Field::Structured(_)
        )
    }

    /// Reads `text` into the field, which keeps its value if the text is bad. The error names the
    /// fault of the text, without the name of the setting.
    pub(crate) fn set(self, text: &str) -> Result<(), String> {
        let whole = text;
        let text = text.trim();
        match self {
            Field::Bool(field) => *field = parse_bool(text)?,
            Field::Count(field) => *field = parse_count(text)?,
            Field::SmallCount(field) => *field = parse_count(text)?,
            Field::MemoryBytes(field) => {
                *field = usize::try_from(parse_bytes(text)?)
                    .map_err(|_| format!("{text:?} is more than the address space"))?;
            }
            Field::Bytes(field) => *field = parse_bytes(text)?,
            Field::Nanos(field) => *field = parse_duration_ns(text)?,
            Field::SignedNanos(field) => {
                *field = match text.strip_prefix('-') {
                    Some(amount) => -parse_duration_ns(amount)?,
                    None => parse_duration_ns(text)?,
                };
            }
            Field::Duration(field) => *field = parse_duration(text)?,
            Field::Address(field) => field.set_ip(parse_address(text)?),
            Field::Port(field) => field.set_port(parse_count(text)?),
            Field::Folder(_) if text.is_empty() => return Err("must not be empty".to_owned()),
            Field::Folder(field) => *field = PathBuf::from(text),
            Field::Sync(field) => *field = parse_sync(text)?,
            Field::Choice(field) => {
                if !field.choose(text) {
                    return Err(field.fault(text));
                }
            }
            Field::Text(field) => *field = whole.to_owned(),
            Field::Words(field) => *field = parse_words(text)?,
            Field::Labels(field) => {
                *field = LabelMap::new(parse_words(text)?.iter().map(String::as_str))?;
            }
            Field::Fields(field) => *field = LevelFields::new(parse_words(text)?),
            Field::Megabytes(field) => *field = parse_megabytes(text)?,
            Field::Otlp(field) => *field = OtlpConfig::parse(text)?,
            Field::Retention(field) => *field = StreamRetention::parse(text)?,
            Field::Blocked(field) => *field = BlockedQueries::parse(text)?,
            Field::Structured(field) => field.read(text)?,
            Field::Urls(field) => field.set(text)?,
            Field::Secret(field) => field.0 = whole.to_owned(),
            Field::Time(field) => *field = parse_time(text)?,
            Field::Allowed(field) => field.allow(parse_bool(text)?),
        }
        Ok(())
    }

    /// The value, as [`Field::set`] takes it.
    pub(crate) fn print(&self) -> String {
        match self {
            Field::Bool(field) => field.to_string(),
            Field::Count(field) => field.to_string(),
            Field::SmallCount(field) => field.to_string(),
            Field::MemoryBytes(field) => format_byte_size(**field as u64),
            Field::Bytes(field) => format_byte_size(**field),
            Field::Nanos(field) => format_model_duration(**field),
            Field::SignedNanos(field) if **field < 0 => {
                format!("-{}", format_model_duration(field.saturating_neg()))
            }
            Field::SignedNanos(field) => format_model_duration(**field),
            Field::Duration(field) => print_duration(**field),
            Field::Address(field) => field.ip().to_string(),
            Field::Port(field) => field.port().to_string(),
            Field::Folder(field) => field.display().to_string(),
            Field::Sync(field) => sync_text(**field),
            Field::Choice(field) => field.word().to_owned(),
            Field::Text(field) => (*field).clone(),
            Field::Words(field) => print_words(field.iter().map(String::as_str)),
            Field::Labels(field) => field.print(),
            Field::Fields(field) => print_words(field.names()),
            Field::Megabytes(field) => field.to_string(),
            Field::Otlp(field) => field.print().to_owned(),
            Field::Retention(field) => field.print().to_owned(),
            Field::Blocked(field) => field.print().to_owned(),
            Field::Structured(field) => field.print(),
            Field::Urls(field) => field.shown(),
            Field::Secret(field) if field.0.is_empty() => String::new(),
            Field::Secret(_) => HIDDEN.to_owned(),
            Field::Time(field) => print_time(**field),
            Field::Allowed(field) => field.is_allowed().to_string(),
        }
    }

    /// The form of the field's values, for the help and the documentation.
    pub(crate) fn notation(&self) -> &'static str {
        match self {
            Field::Bool(_) | Field::Allowed(_) => "true|false",
            Field::Count(_) | Field::SmallCount(_) => "count",
            Field::MemoryBytes(_) | Field::Bytes(_) => "size",
            Field::Nanos(_) | Field::SignedNanos(_) | Field::Duration(_) => "duration",
            Field::Address(_) => "address",
            Field::Port(_) => "port",
            Field::Folder(_) => "folder",
            Field::Sync(_) => "always|never|duration",
            Field::Choice(field) => field.words(),
            Field::Text(_) => "text",
            Field::Words(_) | Field::Fields(_) => "list",
            Field::Labels(_) => "label=field,...",
            Field::Megabytes(_) => "number",
            Field::Otlp(_) => "section",
            Field::Retention(_) | Field::Blocked(_) => "list of rules",
            Field::Structured(field) => field.notation(),
            Field::Urls(_) => "addresses",
            Field::Secret(_) => "text",
            Field::Time(_) => "time",
        }
    }
}

fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Reads a whole number that fits into `N`.
fn parse_count<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits_only {
        return Err(format!("{text:?} is not a whole number of 0 or more"));
    }
    let number = text.parse::<u64>().ok().and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| format!("{text} is out of range, at most {}", max_of::<N>()))
}

/// Largest value of an unsigned type of at most 64 bits.
fn max_of<N>() -> u64 {
    u64::MAX >> (64 - 8 * size_of::<N>().min(8))
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_byte_size(text).ok_or_else(|| {
        format!("{text:?} is not a size: a whole number, alone or with B, KB, MB, GB or TB")
    })
}

/// Reads a duration in either notation of the field. It cannot be negative.
fn parse_duration_ns(text: &str) -> Result<i64, String> {
    parse_model_duration_ns(text)
        .ok()
        .or_else(|| parse_go_duration_ns(text).ok())
        .filter(|&duration_ns| duration_ns >= 0)
        .ok_or_else(|| {
            format!(
                "{text:?} is not a duration: whole numbers with units such as 90s, 10m, 1h30m \
                 or 30d, or 0"
            )
        })
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_nanos(parse_duration_ns(text)?.unsigned_abs()))
}

/// Listening needs an address and not a name, except for the one that every machine
/// has. Empty means all addresses, as in the reference's files.
fn parse_address(text: &str) -> Result<IpAddr, String> {
    match text {
        "" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => {
            let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            bare.unwrap_or(text).parse().map_err(|_| {
                format!("{text:?} is not an IP address such as 0.0.0.0, 127.0.0.1 or ::")
            })
        }
    }
}

fn parse_sync(text: &str) -> Result<SyncPolicy, String> {
    match text {
        "always" => Ok(SyncPolicy::Always),
        "never" => Ok(SyncPolicy::Never),
        text => match parse_duration(text) {
            Ok(interval) if !interval.is_zero() => Ok(SyncPolicy::Interval(interval)),
            _ => Err(format!("{text:?} is neither always nor never nor an interval such as 1s")),
        },
    }
}

fn print_duration(duration: Duration) -> String {
    format_model_duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// The policy as it is written in the settings: `always`, `never`, or an interval.
pub(crate) fn sync_text(sync: SyncPolicy) -> String {
    match sync {
        SyncPolicy::Always => "always".to_owned(),
        SyncPolicy::Never => "never".to_owned(),
        SyncPolicy::Interval(interval) => print_duration(interval),
    }
}

/// Reads a JSON list of texts, or texts with commas between them.
fn parse_words(text: &str) -> Result<Vec<String>, String> {
    // A section is no list, and no word begins like one.
    if text.starts_with(['[', '{']) {
        return serde_json::from_str(text).map_err(|_| format!("{text} is not a list of texts"));
    }
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    Ok(words.map(str::to_owned).collect())
}

fn print_words<'w>(words: impl ExactSizeIterator<Item = &'w str>) -> String {
    if words.len() == 0 { "[]".to_owned() } else { words.collect::<Vec<_>>().join(",") }
}

fn parse_megabytes(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| format!("{text:?} is not a number of MB such as 4 or 0.5"))
}

fn parse_time(text: &str) -> Result<Option<i64>, String> {
    match text {
        "" | "0" => Ok(None),
        text => parse_rfc3339_ns(text)
            .map(Some)
            .ok_or_else(|| format!("{text:?} is not a time such as 2030-01-01T00:00:00Z")),
    }
}

fn print_time(unix_ns: Option<i64>) -> String {
    let mut text = Vec::new();
    match unix_ns {
        None => text.push(b'0'),
        some => write_rfc3339_nano(some, &mut text),
    }
    String::from_utf8_lossy(&text).into_owned()
}
