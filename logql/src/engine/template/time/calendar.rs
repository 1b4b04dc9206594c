//! Dates with a time of day, and the names of months and days.

use logsvc_proto::go::calendar::{date_of_day, days_from_epoch};

const SECONDS_PER_DAY: i64 = 86_400;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The English name of a month, from 1.
pub(in super::super) fn month_name(month: u8) -> &'static str {
    usize::from(month).checked_sub(1).and_then(|i| MONTHS.get(i)).copied().unwrap_or("%!Month")
}

/// The English name of a day of the week; 0 is Sunday.
pub(in super::super) fn weekday_name(weekday: u8) -> &'static str {
    WEEKDAYS.get(usize::from(weekday)).copied().unwrap_or("%!Weekday")
}

/// A date with a time of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: u8,
    /// From 1.
    pub(super) day: u8,
    pub(super) second_of_day: u32,
    /// 0 is Sunday.
    pub(super) weekday: u8,
}

impl Civil {
    /// Of seconds since 1970-01-01 00:00:00 on the same clock.
    pub(super) fn from_seconds(seconds: i64) -> Self {
        let days_since_1970 = seconds.div_euclid(SECONDS_PER_DAY);
        let (year, month, day) = date_of_day(days_since_1970);
        Self {
            year,
            month: month as u8,
            day: day as u8,
            second_of_day: seconds.rem_euclid(SECONDS_PER_DAY) as u32,
            weekday: (days_since_1970 + 4).rem_euclid(7) as u8,
        }
    }

    /// Day of the year, from 1.
    pub(super) fn day_of_year(&self) -> u16 {
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        let days = days_from_epoch(self.year, month, day) - days_from_epoch(self.year, 1, 1);
        u16::try_from(days + 1).expect("a year has at most 366 days")
    }
}
