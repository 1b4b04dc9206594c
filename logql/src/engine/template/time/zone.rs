//! Time zones.

use std::rc::Rc;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Transitions looked at on either side of a time for the name of an offset.
const TRANSITIONS_NEARBY: usize = 3;

/// How an instant is shown.
#[derive(Clone, PartialEq, Debug)]
pub(in super::super) enum Zone {
    Utc,
    /// East of UTC by a number of seconds; the name may be empty.
    Fixed {
        offset_seconds: i32,
        name: Rc<str>,
    },
    /// Of the IANA database.
    Named(TimeZone),
}

impl Zone {
    /// The zone of a name, such as `Europe/Berlin`. `None` when there is none.
    pub(in super::super) fn load(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        if matches!(name, "" | "UTC" | "Local") {
            return Some(Self::Utc);
        }
        let zone = DATABASE.get(name).ok()?;
        // Names are looked up without regard to case, which Go does not do.
        (zone.iana_name() == Some(name)).then_some(Self::Named(zone))
    }

    /// Seconds east of UTC at an instant, and the abbreviation.
    pub(super) fn at(&self, seconds: i64) -> (i32, Rc<str>) {
        match self {
            Self::Utc => (0, "UTC".into()),
            Self::Fixed { offset_seconds, name } => (*offset_seconds, Rc::clone(name)),
            Self::Named(zone) => match Timestamp::from_second(seconds) {
                Ok(timestamp) => {
                    let info = zone.to_offset_info(timestamp);
                    (info.offset().seconds(), info.abbreviation().into())
                }
                Err(_) => (0, "UTC".into()),
            },
        }
    }

    /// The instant at which clocks show `local` seconds since 1970.
    pub(super) fn instant_of(&self, local: i64) -> i64 {
        let (guess, _) = self.at(local);
        if guess == 0 {
            return local;
        }
        let (offset, _) = self.at(local.saturating_sub(i64::from(guess)));
        local.saturating_sub(i64::from(offset))
    }

    /// The offset that an abbreviation stands for around a time.
    pub(super) fn offset_of_name(&self, name: &str, local: i64) -> Option<i32> {
        match self {
            Self::Utc => (name == "UTC").then_some(0),
            Self::Fixed { offset_seconds, name: own } => {
                (**own == *name).then_some(*offset_seconds)
            }
            Self::Named(zone) => {
                let (offset, own) = self.at(local);
                if *own == *name {
                    return Some(offset);
                }
                let timestamp = Timestamp::from_second(local).ok()?;
                let before = zone.preceding(timestamp).take(TRANSITIONS_NEARBY);
                let after = zone.following(timestamp).take(TRANSITIONS_NEARBY);
                before
                    .chain(after)
                    .find(|transition| transition.abbreviation() == name)
                    .map(|transition| transition.offset().seconds())
            }
        }
    }
}
