//! Time zones.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Transitions on either side of a time among which the name of an offset is searched.
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

    /// Seconds east of UTC at an instant; 0 beyond the times of the database.
    pub(super) fn offset_at(&self, seconds: i64) -> i32 {
        match self {
            Self::Utc => 0,
            Self::Fixed { offset_seconds, .. } => *offset_seconds,
            Self::Named(zone) => Timestamp::from_second(seconds)
                .map_or(0, |timestamp| zone.to_offset(timestamp).seconds()),
        }
    }

    /// The abbreviation at an instant.
    pub(super) fn name_at(&self, seconds: i64) -> Cow<'_, str> {
        match self {
            Self::Utc => Cow::Borrowed("UTC"),
            Self::Fixed { name, .. } => Cow::Borrowed(name),
            Self::Named(zone) => match Timestamp::from_second(seconds) {
                Ok(timestamp) => {
                    Cow::Owned(zone.to_offset_info(timestamp).abbreviation().to_owned())
                }
                Err(_) => Cow::Borrowed("UTC"),
            },
        }
    }

    /// The instant at which clocks show `local` seconds since 1970.
    pub(super) fn instant_of(&self, local: i64) -> i64 {
        let guess = self.offset_at(local);
        if guess == 0 {
            return local;
        }
        let offset = self.offset_at(local.saturating_sub(i64::from(guess)));
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
                if self.name_at(local) == name {
                    return Some(self.offset_at(local));
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
