//! The state of a node: all members that it knows, itself first.

use foca::Member;

use super::bytes::Input;
use super::damaged::Damaged;
use super::records::{member, report, write_member, write_report};
use crate::identity::Identity;
use crate::settings::MEMBERS_MAX;
use crate::vitals::Report;

/// A member as a state has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What is believed of it.
    pub member: Member<Identity>,
    /// What it has told of itself, if that is known.
    pub report: Option<Report>,
}

/// Writes a state. Members beyond [`MEMBERS_MAX`] are left out.
#[must_use]
pub fn encode<'a>(
    entries: impl Iterator<Item = (&'a Member<Identity>, Option<&'a Report>)>,
) -> Vec<u8> {
    let mut out = vec![0, 0];
    let mut count = 0_u16;
    for (member, report) in entries.take(MEMBERS_MAX) {
        write_member(&mut out, member);
        out.push(report.is_some().into());
        if let Some(report) = report {
            write_report(&mut out, report);
        }
        count += 1;
    }
    out[..2].copy_from_slice(&count.to_le_bytes());
    out
}

/// Reads a state. There is at least one entry, that of the sender.
///
/// # Errors
/// It is damaged.
pub fn decode(body: &[u8]) -> Result<Vec<Entry>, Damaged> {
    let mut input = Input::new(body);
    let count = usize::from(input.u16()?);
    if !(1..=MEMBERS_MAX).contains(&count) {
        return Err(Damaged::Number);
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let member = member(&mut input)?;
        let report = match input.u8()? {
            0 => None,
            1 => Some(report(&mut input)?),
            _ => return Err(Damaged::Number),
        };
        entries.push(Entry { member, report });
    }
    input.end()?;
    Ok(entries)
}
