//! Items that the engine carries beside its own news: which are new, and which replace which.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use foca::{BroadcastHandler, Invalidates};

use super::roster::Roster;
use crate::identity::Identity;
use crate::wire::{Damaged, Item};

/// What an item is about. A newer one about the same takes the place of an older one.
#[derive(PartialEq, Eq)]
pub(super) struct Topic {
    is_vitals: bool,
    address: SocketAddr,
}

impl Invalidates for Topic {
    fn invalidates(&self, other: &Topic) -> bool {
        self == other
    }
}

/// Puts items into the roster.
pub(super) struct News {
    pub(super) roster: Rc<RefCell<Roster>>,
}

impl BroadcastHandler<Identity> for News {
    type Key = Topic;
    type Error = Damaged;

    fn receive_item(
        &mut self,
        data: &[u8],
        sender: Option<&Identity>,
    ) -> Result<Option<Topic>, Damaged> {
        let mut roster = self.roster.borrow_mut();
        let (topic, is_new) = match Item::decode(data)? {
            Item::Vitals(of, report) => {
                let is_new = roster.hear(of, report);
                (Topic { is_vitals: true, address: of.address }, is_new)
            }
            Item::Forget(of) => {
                (Topic { is_vitals: false, address: of.address }, roster.forget(of))
            }
        };
        // The roster has nothing of this node itself.
        let is_own = sender.is_none() && topic.is_vitals && roster.is_own(topic.address);
        Ok((is_new || is_own).then_some(topic))
    }
}
