//! The bytes of the log of alerts.
//!
//! A file is a header and frames without gaps. A frame is a run of records and takes effect whole
//! or not at all. All numbers are little-endian. docs/format.md says what each field means.

use logsvc_proto::{Labels, TenantId, varint};

use crate::alert::Alert;
use crate::messages::AlertState;

/// Length of the file's header.
pub const HEADER_BYTES: usize = 64;
/// Length of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 8;
/// Longest run of records in a frame.
pub const FRAME_MAX_BYTES: usize = 8 << 20;
/// Length at which a writer begins another frame.
pub const FRAME_AIM_BYTES: usize = 256 << 10;
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"LSVC-RST";
const CRC_AT: usize = 12;

/// What the header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Random; the checksums of frames depend on it, so that a frame of another file is none here.
    pub nonce: u64,
    /// When the file was begun, in ns since the Unix epoch.
    pub created_ns: i64,
}

/// Why a header is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// It is too short, or its checksum is wrong.
    #[error("the header is damaged")]
    Damaged,
    /// Another program has written it.
    #[error("the version {0} is unknown")]
    Version(u32),
}

impl Header {
    /// The bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created_ns.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// See [`HeaderError`].
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(HeaderError::Damaged);
        };
        let mut plain = *bytes;
        plain[CRC_AT..CRC_AT + 4].fill(0);
        let crc = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        if &bytes[..8] != MAGIC || crc32c::crc32c(&plain) != crc {
            return Err(HeaderError::Damaged);
        }
        let mut rest = &bytes[8..];
        let version = take_u32(&mut rest).ok_or(HeaderError::Damaged)?;
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        rest = &rest[4..];
        let nonce = take_u64(&mut rest).ok_or(HeaderError::Damaged)?;
        let created_ns = take_u64(&mut rest).ok_or(HeaderError::Damaged)? as i64;
        Ok(Header { nonce, created_ns })
    }
}

/// Appends a frame.
pub fn write_frame(nonce: u64, payload: &[u8], out: &mut Vec<u8>) {
    debug_assert!(!payload.is_empty() && payload.len() <= FRAME_MAX_BYTES);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&frame_crc(nonce, payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// What stands at the beginning of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// A frame with this run of records.
    Good(&'a [u8]),
    /// The beginning of a frame of so many bytes; the rest is missing.
    Short(usize),
    /// No frame.
    Bad,
}

/// Reads the frame at the beginning of `bytes`.
pub fn read_frame(nonce: u64, bytes: &[u8]) -> Frame<'_> {
    let mut rest = bytes;
    let Some(len_bytes) = take_u32(&mut rest) else { return Frame::Short(FRAME_HEADER_BYTES) };
    let len_bytes = len_bytes as usize;
    if len_bytes == 0 || len_bytes > FRAME_MAX_BYTES {
        return Frame::Bad;
    }
    let Some(crc) = take_u32(&mut rest) else { return Frame::Short(FRAME_HEADER_BYTES) };
    match rest.get(..len_bytes) {
        None => Frame::Short(FRAME_HEADER_BYTES + len_bytes),
        Some(payload) if frame_crc(nonce, payload) == crc => Frame::Good(payload),
        Some(_) => Frame::Bad,
    }
}

fn frame_crc(nonce: u64, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&nonce.to_le_bytes()), payload)
}

/// A record. Groups and rules have numbers of their own in each process.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A group gets a number.
    Group {
        /// The number.
        number: u32,
        /// Whose.
        tenant: TenantId,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A rule of a group gets a number.
    Rule {
        /// The number.
        number: u32,
        /// That of the group.
        group: u32,
        /// The rule's name.
        name: String,
        /// Its query as it was written.
        expr: String,
        /// Its labels and those of its group.
        labels: Vec<(String, String)>,
    },
    /// An alert is there, or has become another one.
    Alert {
        /// The rule's number.
        rule: u32,
        /// The alert.
        alert: Alert,
    },
    /// An alert has gone.
    Gone {
        /// The rule's number.
        rule: u32,
        /// Labels of the alert.
        labels: Labels,
    },
    /// All alerts of a rule have gone, and so has its number.
    ForgetRule {
        /// The rule's number.
        rule: u32,
    },
    /// A group has gone with its rules.
    ForgetGroup {
        /// The group's number.
        group: u32,
    },
    /// A group was evaluated.
    Evaluated {
        /// The group's number.
        group: u32,
        /// When, in ns since the Unix epoch.
        time_ns: i64,
    },
}

impl Record {
    /// Appends the record to a run.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Record::Group { number, tenant, namespace, name } => {
                put_kind(out, 1, *number);
                put_text(out, tenant.as_str());
                put_text(out, namespace);
                put_text(out, name);
            }
            Record::Rule { number, group, name, expr, labels } => {
                write_rule(*number, *group, (name, expr), labels, out);
            }
            Record::Alert { rule, alert } => write_alert(*rule, alert, out),
            Record::Gone { rule, labels } => {
                put_kind(out, 4, *rule);
                put_bytes(out, labels.as_bytes());
            }
            Record::ForgetRule { rule } => put_kind(out, 5, *rule),
            Record::ForgetGroup { group } => put_kind(out, 6, *group),
            Record::Evaluated { group, time_ns } => {
                put_kind(out, 7, *group);
                out.extend_from_slice(&time_ns.to_le_bytes());
            }
        }
    }

    /// Takes the record at the beginning of a run; `None` if there is none.
    pub fn take(rest: &mut &[u8]) -> Option<Record> {
        let kind = *rest.first()?;
        *rest = &rest[1..];
        let number = take_u32(rest)?;
        Some(match kind {
            1 => Record::Group {
                number,
                tenant: TenantId::new(&take_text(rest)?).ok()?,
                namespace: take_text(rest)?,
                name: take_text(rest)?,
            },
            2 => {
                let group = take_u32(rest)?;
                let (name, expr) = (take_text(rest)?, take_text(rest)?);
                let count = take_u32(rest)?;
                let mut labels = Vec::new();
                for _ in 0..count {
                    labels.push((take_text(rest)?, take_text(rest)?));
                }
                Record::Rule { number, group, name, expr, labels }
            }
            3 => Record::Alert { rule: number, alert: take_alert(rest)? },
            4 => Record::Gone { rule: number, labels: take_labels(rest)? },
            5 => Record::ForgetRule { rule: number },
            6 => Record::ForgetGroup { group: number },
            7 => Record::Evaluated { group: number, time_ns: take_u64(rest)? as i64 },
            _ => return None,
        })
    }
}

/// Appends [`Record::Rule`] with its name and query.
pub fn write_rule(
    number: u32,
    group: u32,
    (name, expr): (&str, &str),
    labels: &[(String, String)],
    out: &mut Vec<u8>,
) {
    put_kind(out, 2, number);
    out.extend_from_slice(&group.to_le_bytes());
    put_text(out, name);
    put_text(out, expr);
    out.extend_from_slice(&(labels.len() as u32).to_le_bytes());
    for (name, value) in labels {
        put_text(out, name);
        put_text(out, value);
    }
}

/// Appends [`Record::Alert`]. Annotations beyond half a frame are left out.
pub fn write_alert(rule: u32, alert: &Alert, out: &mut Vec<u8>) {
    put_kind(out, 3, rule);
    out.push(match alert.state {
        AlertState::Inactive => 0,
        AlertState::Pending => 1,
        AlertState::Firing => 2,
    });
    for time_ns in
        [alert.active_at_ns, alert.fired_at_ns, alert.resolved_at_ns, alert.keep_firing_since_ns]
    {
        out.extend_from_slice(&time_ns.to_le_bytes());
    }
    out.extend_from_slice(&alert.value.to_bits().to_le_bytes());
    put_bytes(out, alert.labels.as_bytes());
    if alert.annotations.as_bytes().len() <= FRAME_MAX_BYTES / 2 {
        put_bytes(out, alert.annotations.as_bytes());
    } else {
        put_bytes(out, Labels::empty().as_bytes());
    }
}

fn take_alert(rest: &mut &[u8]) -> Option<Alert> {
    let state = match *rest.first()? {
        0 => AlertState::Inactive,
        1 => AlertState::Pending,
        2 => AlertState::Firing,
        _ => return None,
    };
    *rest = &rest[1..];
    let mut time_ns = || take_u64(rest).map(|time_ns| time_ns as i64);
    let (active_at_ns, fired_at_ns) = (time_ns()?, time_ns()?);
    let (resolved_at_ns, keep_firing_since_ns) = (time_ns()?, time_ns()?);
    Some(Alert {
        state,
        active_at_ns,
        fired_at_ns,
        resolved_at_ns,
        keep_firing_since_ns,
        last_sent_ns: crate::alert::NEVER_NS,
        value: f64::from_bits(take_u64(rest)?),
        labels: take_labels(rest)?,
        annotations: take_labels(rest)?,
    })
}

fn put_kind(out: &mut Vec<u8>, kind: u8, number: u32) {
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    Some(u32::from_le_bytes(*bytes))
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_le_bytes(*bytes))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len_bytes = take_u32(rest)? as usize;
    let (bytes, behind) = rest.split_at_checked(len_bytes)?;
    *rest = behind;
    Some(bytes)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    std::str::from_utf8(take_bytes(rest)?).ok().map(str::to_owned)
}

/// A set of a query result, which may have names that streams may not have.
fn take_labels(rest: &mut &[u8]) -> Option<Labels> {
    let bytes = take_bytes(rest)?;
    let mut position = 0;
    let count = varint::read_minimal(bytes, &mut position).ok()?;
    let mut text = || {
        let len_bytes = varint::read_minimal(bytes, &mut position).ok()?;
        let len_bytes = usize::try_from(len_bytes).ok()?;
        let text = bytes.get(position..)?.get(..len_bytes)?;
        position += len_bytes;
        std::str::from_utf8(text).ok()
    };
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for _ in 0..count {
        let (name, value) = (text()?, text()?);
        // Ascending names bound the number of pairs that short bytes can claim.
        if pairs.last().is_some_and(|(before, _)| *before >= name) {
            return None;
        }
        pairs.push((name, value));
    }
    let labels = Labels::from_result_pairs(pairs).ok()?;
    // Sorted, unique, and nothing behind.
    (labels.as_bytes() == bytes).then_some(labels)
}
