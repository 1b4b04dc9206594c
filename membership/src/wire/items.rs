//! Items that gossip carries beside news of members.

use super::bytes::Input;
use super::damaged::Damaged;
use super::records::{identity, put_identity, report, write_report};
use crate::identity::Identity;
use crate::vitals::Report;

/// An item of gossip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    /// What a member tells of itself.
    Vitals(Identity, Report),
    /// A dead member is to be forgotten.
    Forget(Identity),
}

impl Item {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        match self {
            Item::Vitals(of, report) => {
                out.push(1);
                put_identity(&mut out, of);
                write_report(&mut out, report);
            }
            Item::Forget(of) => {
                out.push(2);
                put_identity(&mut out, of);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Item, Damaged> {
        let mut input = Input::new(bytes);
        let item = match input.u8()? {
            1 => Item::Vitals(identity(&mut input)?, report(&mut input)?),
            2 => Item::Forget(identity(&mut input)?),
            kind => return Err(Damaged::Kind(kind)),
        };
        input.end()?;
        Ok(item)
    }
}
