//! Text to times, as a layout says: Go's `time.ParseInLocation`.

use logsvc_proto::go::calendar::{days_from_epoch, days_in, is_leap};

use super::calendar::{MONTHS, WEEKDAYS};
use super::layout::{Element, Offset, next_element};
use super::{Time, Zone};

/// The fields that were read so far.
#[derive(Default)]
struct Fields {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    is_pm: Option<bool>,
    is_utc: bool,
    offset_seconds: Option<i32>,
    zone_name: Option<String>,
}

/// Reads a time; without a zone in the text it is one of `zone`. `None` when the
/// text does not follow the layout or is no date.
pub(in super::super) fn parse(layout: &[u8], text: &[u8], zone: Zone) -> Option<Time> {
    let mut fields = Fields::default();
    let (mut layout, mut text) = (layout, text);
    while let Some((start, len, element)) = next_element(layout) {
        text = skip(text, &layout[..start])?;
        layout = &layout[start + len..];
        text = fields.read(element, text, layout)?;
    }
    if !skip(text, layout)?.is_empty() {
        return None;
    }
    fields.time(zone)
}

/// Passes literal text; spaces match any number of spaces.
fn skip<'t>(mut text: &'t [u8], mut literal: &[u8]) -> Option<&'t [u8]> {
    while let Some((&first, rest)) = literal.split_first() {
        if first == b' ' {
            if text.first().is_some_and(|b| *b != b' ') {
                return None;
            }
            (literal, text) = (pass_spaces(literal), pass_spaces(text));
            continue;
        }
        text = text.strip_prefix(&[first])?;
        literal = rest;
    }
    Some(text)
}

fn pass_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|b| **b == b' ').count()..]
}

fn leading_digits(text: &[u8], max: usize) -> usize {
    text.iter().take(max).take_while(|b| b.is_ascii_digit()).count()
}

/// A number of so many digits, and the rest.
fn number(text: &[u8], min: usize, max: usize) -> Option<(i64, &[u8])> {
    let digits = leading_digits(text, max);
    if digits < min {
        return None;
    }
    let value = text[..digits].iter().fold(0, |value, b| value * 10 + i64::from(b - b'0'));
    Some((value, &text[digits..]))
}

fn number_below(text: &[u8], fixed: bool, end: i64) -> Option<(i64, &[u8])> {
    number(text, if fixed { 2 } else { 1 }, 2).filter(|(value, _)| *value < end)
}

/// The index of the name that the text starts with, in any case.
fn name<'t>(text: &'t [u8], names: &[&str], len: Option<usize>) -> Option<(i64, &'t [u8])> {
    names.iter().enumerate().find_map(|(index, name)| {
        let name = &name.as_bytes()[..len.unwrap_or(name.len())];
        let start = text.get(..name.len())?;
        start
            .eq_ignore_ascii_case(name)
            .then(|| (i64::try_from(index).unwrap_or(0), &text[name.len()..]))
    })
}

/// Digits behind a separator as nanoseconds; digits beyond nine are dropped.
fn fraction(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
    let (b'.' | b',', rest) = text.split_first()? else { return None };
    if leading_digits(rest, digits) < digits {
        return None;
    }
    let kept = digits.min(9);
    let value = rest[..kept].iter().fold(0, |value, b| value * 10 + u32::from(b - b'0'));
    Some((value * 10u32.pow(9 - u32::try_from(kept).ok()?), &rest[digits..]))
}

impl Fields {
    fn read<'t>(&mut self, element: Element, text: &'t [u8], layout: &[u8]) -> Option<&'t [u8]> {
        let rest;
        match element {
            Element::Year => {
                let (year, after) = number(text, 2, 2)?;
                self.year = year + if year >= 69 { 1900 } else { 2000 };
                rest = after;
            }
            Element::LongYear => (self.year, rest) = number(text, 4, 4)?,
            Element::Month | Element::LongMonth => {
                let len = (element == Element::Month).then_some(3);
                let (month, after) = name(text, &MONTHS, len)?;
                self.month = Some(month + 1);
                rest = after;
            }
            Element::NumMonth | Element::ZeroMonth => {
                let (month, after) = number_below(text, element == Element::ZeroMonth, 13)?;
                self.month = Some(month).filter(|month| *month > 0);
                self.month?;
                rest = after;
            }
            Element::Weekday => (_, rest) = name(text, &WEEKDAYS, Some(3))?,
            Element::LongWeekday => (_, rest) = name(text, &WEEKDAYS, None)?,
            Element::Day | Element::UnderDay | Element::ZeroDay => {
                let padded = element == Element::UnderDay;
                let text = if padded { text.strip_prefix(b" ").unwrap_or(text) } else { text };
                let (day, after) = number_below(text, element == Element::ZeroDay, 100)?;
                self.day = Some(day);
                rest = after;
            }
            Element::UnderYearDay | Element::ZeroYearDay => {
                let fixed = element == Element::ZeroYearDay;
                let spaces =
                    if fixed { 0 } else { text.iter().take(2).take_while(|b| **b == b' ').count() };
                let (day, after) = number(&text[spaces..], if fixed { 3 } else { 1 }, 3)?;
                self.day_of_year = Some(day);
                rest = after;
            }
            Element::Hour => (self.hour, rest) = number_below(text, false, 24)?,
            Element::Hour12 | Element::ZeroHour12 => {
                (self.hour, rest) = number_below(text, element == Element::ZeroHour12, 13)?;
            }
            Element::Minute | Element::ZeroMinute => {
                (self.minute, rest) = number_below(text, element == Element::ZeroMinute, 60)?;
            }
            Element::Second | Element::ZeroSecond => {
                let (second, after) = number_below(text, element == Element::ZeroSecond, 60)?;
                self.second = second;
                rest = self.unannounced_fraction(after, layout);
            }
            Element::UpperPm | Element::LowerPm => {
                let upper = element == Element::UpperPm;
                self.is_pm = Some(match (text.get(..2)?, upper) {
                    (b"PM", true) | (b"pm", false) => true,
                    (b"AM", true) | (b"am", false) => false,
                    _ => return None,
                });
                rest = &text[2..];
            }
            Element::ZoneName => rest = self.zone_name(text)?,
            Element::Offset(offset) => rest = self.offset(text, offset)?,
            Element::Fraction { digits, trims: false, .. } => {
                (self.nanos, rest) = fraction(text, digits)?;
            }
            Element::Fraction { .. } => rest = self.optional_fraction(text),
        }
        Some(rest)
    }

    /// A fraction behind seconds that the layout does not mention.
    fn unannounced_fraction<'t>(&mut self, text: &'t [u8], layout: &[u8]) -> &'t [u8] {
        match next_element(layout) {
            Some((_, _, Element::Fraction { .. })) => text,
            _ => self.optional_fraction(text),
        }
    }

    fn optional_fraction<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let digits = leading_digits(text.get(1..).unwrap_or_default(), usize::MAX);
        match fraction(text, digits) {
            Some((nanos, rest)) if digits > 0 => {
                self.nanos = nanos;
                rest
            }
            _ => text,
        }
    }

    fn zone_name<'t>(&mut self, text: &'t [u8]) -> Option<&'t [u8]> {
        if let Some(rest) = text.strip_prefix(b"UTC") {
            self.is_utc = true;
            return Some(rest);
        }
        let len = zone_name_len(text)?;
        self.zone_name = Some(String::from_utf8_lossy(&text[..len]).into_owned());
        Some(&text[len..])
    }

    fn offset<'t>(&mut self, text: &'t [u8], offset: Offset) -> Option<&'t [u8]> {
        if offset.zulu
            && let Some(rest) = text.strip_prefix(b"Z")
        {
            self.is_utc = true;
            return Some(rest);
        }
        let (written, rest) = text.split_at_checked(offset.len())?;
        let sign = match written[0] {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let mut parts = [0i64; 3];
        let mut position = 1;
        for (i, part) in parts.iter_mut().enumerate() {
            if (i == 1 && !offset.minutes) || (i == 2 && !offset.seconds) {
                break;
            }
            if i > 0 && offset.colons {
                if written[position] != b':' {
                    return None;
                }
                position += 1;
            }
            (*part, _) = number(&written[position..position + 2], 2, 2)?;
            position += 2;
        }
        let [hours, minutes, seconds] = parts;
        if hours > 24 || minutes > 60 || seconds > 60 {
            return None;
        }
        self.offset_seconds = i32::try_from(sign * ((hours * 60 + minutes) * 60 + seconds)).ok();
        Some(rest)
    }

    fn time(self, zone: Zone) -> Option<Time> {
        let (month, day) = self.month_and_day()?;
        if day < 1 || day > days_in(self.year, month) {
            return None;
        }
        let hour = match self.is_pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let local = days_from_epoch(self.year, month, day) * 86_400
            + hour * 3600
            + self.minute * 60
            + self.second;
        let at = |seconds, zone| Some(Time { seconds, nanos: self.nanos, zone });
        if self.is_utc {
            return at(local, Zone::Utc);
        }
        if let Some(offset_seconds) = self.offset_seconds {
            let seconds = local - i64::from(offset_seconds);
            let (own, own_name) = (zone.offset_at(seconds), zone.name_at(seconds));
            if own == offset_seconds
                && self.zone_name.as_ref().is_none_or(|name| **name == *own_name)
            {
                return at(seconds, zone);
            }
            let name = self.zone_name.unwrap_or_default().into();
            return at(seconds, Zone::Fixed { offset_seconds, name });
        }
        if let Some(name) = self.zone_name {
            if let Some(offset_seconds) = zone.offset_of_name(&name, local) {
                return at(local - i64::from(offset_seconds), zone);
            }
            // An unknown name changes how the time is shown, not the instant.
            let hours = name.strip_prefix("GMT").and_then(|hours| hours.parse::<i32>().ok());
            let offset_seconds = hours.unwrap_or(0) * 3600;
            return at(local, Zone::Fixed { offset_seconds, name: name.into() });
        }
        at(zone.instant_of(local), zone)
    }

    /// Month and day, which a day of the year must agree with.
    fn month_and_day(&self) -> Option<(i64, i64)> {
        let Some(day_of_year) = self.day_of_year else {
            return Some((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        if day_of_year < 1 || day_of_year > 365 + i64::from(is_leap(self.year)) {
            return None;
        }
        let (mut month, mut day) = (1, day_of_year);
        while day > days_in(self.year, month) {
            day -= days_in(self.year, month);
            month += 1;
        }
        let agrees =
            self.month.is_none_or(|own| own == month) && self.day.is_none_or(|own| own == day);
        agrees.then_some((month, day))
    }
}

/// Length of the abbreviation of a zone at the start of a text.
fn zone_name_len(text: &[u8]) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_len(rest));
    }
    if matches!(text[0], b'+' | b'-') {
        return Some(signed_offset_len(text)).filter(|len| *len > 0);
    }
    let upper = text.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count();
    match upper {
        5 => (text[4] == b'T').then_some(5),
        4 => (text[3] == b'T' || text.starts_with(b"WITA")).then_some(4),
        3 => Some(3),
        _ => None,
    }
}

fn signed_offset_len(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'+' | b'-')) {
        return 0;
    }
    let digits = leading_digits(&text[1..], usize::MAX);
    match number(&text[1..], 1, 18) {
        Some((hours, _)) if digits <= 18 && hours <= 23 => 1 + digits,
        _ => 0,
    }
}
