//! The proleptic Gregorian calendar.

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
    /// Of seconds since 1970-01-01 00:00:00 on the same clock. (Howard Hinnant's
    /// `civil_from_days`: years begin in March, so that the leap day is the last of
    /// its year.)
    pub(super) fn from_seconds(seconds: i64) -> Self {
        let days_since_1970 = seconds.div_euclid(SECONDS_PER_DAY);
        let days = days_since_1970 + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
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

/// Days from 1970-01-01 to a date; the month is 1 to 12, the day any.
pub(super) fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month, 1 to 12.
pub(super) fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
