//! Times as Go has them: an instant, and a zone in which it is shown.
//!
//! The local zone of the server is UTC. Zones by name come from the IANA database,
//! which is part of the program, so that a query never reads files.

mod calendar;
mod format;
mod layout;
mod parse;
mod zone;

pub(super) use calendar::{month_name, weekday_name};
pub(super) use parse::parse;
pub(super) use zone::Zone;

use logsvc_proto::go::calendar::days_from_epoch;

use super::out::Out;
use calendar::Civil;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Seconds since 1970 of 0001-01-01, Go's zero time.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// An instant in a zone.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Time {
    /// Seconds since 1970, rounded down.
    seconds: i64,
    /// Nanoseconds within the second.
    nanos: u32,
    zone: Zone,
}

impl Time {
    /// Go's zero time.
    pub(super) fn zero() -> Self {
        Self::from_unix(ZERO_SECONDS)
    }

    pub(super) fn from_unix(seconds: i64) -> Self {
        Self { seconds, nanos: 0, zone: Zone::Utc }
    }

    pub(super) fn from_unix_ns(unix_ns: i64) -> Self {
        Self::from_unix_parts(unix_ns, NANOS_PER_SECOND)
    }

    /// A count of units since 1970, of which `units_per_second` make a second.
    pub(super) fn from_unix_parts(count: i64, units_per_second: i64) -> Self {
        let nanos = count.rem_euclid(units_per_second) * (NANOS_PER_SECOND / units_per_second);
        Self {
            seconds: count.div_euclid(units_per_second),
            nanos: u32::try_from(nanos).expect("less than a second"),
            zone: Zone::Utc,
        }
    }

    /// The same instant in another zone.
    pub(super) fn in_zone(&self, zone: Zone) -> Self {
        Self { zone, ..self.clone() }
    }

    pub(super) fn unix(&self) -> i64 {
        self.seconds
    }

    /// Units since 1970; wraps around as in Go.
    pub(super) fn unix_in(&self, units_per_second: i64) -> i64 {
        let part = i64::from(self.nanos) / (NANOS_PER_SECOND / units_per_second);
        self.seconds.wrapping_mul(units_per_second).wrapping_add(part)
    }

    pub(super) fn nanos(&self) -> u32 {
        self.nanos
    }

    pub(super) fn is_zero(&self) -> bool {
        self.seconds == ZERO_SECONDS && self.nanos == 0
    }

    pub(super) fn cmp_instant(&self, other: &Self) -> std::cmp::Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }

    /// The instant `duration_ns` later.
    pub(super) fn plus(&self, duration_ns: i64) -> Self {
        let nanos = i64::from(self.nanos) + duration_ns.rem_euclid(NANOS_PER_SECOND);
        let seconds = self
            .seconds
            .wrapping_add(duration_ns.div_euclid(NANOS_PER_SECOND))
            .wrapping_add(nanos / NANOS_PER_SECOND);
        let nanos = u32::try_from(nanos % NANOS_PER_SECOND).expect("less than a second");
        Self { seconds, nanos, zone: self.zone.clone() }
    }

    /// Nanoseconds from `other` to this instant, saturating.
    pub(super) fn since(&self, other: &Self) -> i64 {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = seconds * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos)
            - i128::from(other.nanos);
        i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
    }

    /// The date moved by years, months and days. Days beyond a month count into the next month.
    pub(super) fn plus_date(&self, years: i64, months: i64, days: i64) -> Self {
        let civil = self.civil();
        let month = (i64::from(civil.month) - 1).wrapping_add(months);
        let year = civil.year.wrapping_add(years).wrapping_add(month.div_euclid(12));
        // Beyond this no date means anything, and days would not fit.
        let year = year.clamp(-200_000_000_000, 200_000_000_000);
        let first = days_from_epoch(year, month.rem_euclid(12) + 1, 1);
        let day = first.wrapping_add(i64::from(civil.day) - 1).wrapping_add(days);
        let local = day.wrapping_mul(86_400).wrapping_add(i64::from(civil.second_of_day));
        let seconds = self.zone.instant_of(local);
        Self { seconds, nanos: self.nanos, zone: self.zone.clone() }
    }

    /// Date and time of day in the time's zone.
    fn civil(&self) -> Civil {
        let offset_seconds = self.zone.offset_at(self.seconds);
        Civil::from_seconds(self.seconds.saturating_add(i64::from(offset_seconds)))
    }

    pub(super) fn year(&self) -> i64 {
        self.civil().year
    }

    pub(super) fn month(&self) -> u8 {
        self.civil().month
    }

    pub(super) fn day(&self) -> u8 {
        self.civil().day
    }

    pub(super) fn second_of_day(&self) -> u32 {
        self.civil().second_of_day
    }

    pub(super) fn weekday(&self) -> u8 {
        self.civil().weekday
    }

    pub(super) fn day_of_year(&self) -> u16 {
        self.civil().day_of_year()
    }

    /// Appends the time as Go prints it: `2023-11-14 22:13:20.123 +0000 UTC`.
    ///
    /// # Errors
    /// When the output becomes too long.
    pub(super) fn write_string(&self, out: &mut Out<'_>) -> Result<(), String> {
        self.write_format(b"2006-01-02 15:04:05.999999999 -0700 MST", out)
    }
}

#[cfg(test)]
mod tests;
