//! Times to text, as a layout says.

use std::io::Write;

use super::super::out::Out;
use super::Time;
use super::calendar::{Civil, month_name, weekday_name};
use super::layout::{Element, Offset, next_element};

impl Time {
    /// Appends the time in a layout. The output is at most ten times as long.
    ///
    /// # Errors
    /// When the output becomes too long.
    pub(in super::super) fn write_format(
        &self,
        layout: &[u8],
        out: &mut Out<'_>,
    ) -> Result<(), String> {
        let civil = self.civil();
        let offset_seconds = self.zone.offset_at(self.seconds);
        let mut piece = Vec::new();
        let mut rest = layout;
        while let Some((start, len, element)) = next_element(rest) {
            out.push(&rest[..start])?;
            rest = &rest[start + len..];
            piece.clear();
            self.write_element(element, &civil, offset_seconds, &mut piece);
            out.push(&piece)?;
        }
        out.push(rest)
    }

    /// Appends an element of a layout: some ten bytes.
    fn write_element(
        &self,
        element: Element,
        civil: &Civil,
        offset_seconds: i32,
        out: &mut Vec<u8>,
    ) {
        let hour = civil.second_of_day / 3600;
        let hour12 = if hour.is_multiple_of(12) { 12 } else { hour % 12 };
        let (minute, second) = (civil.second_of_day / 60 % 60, civil.second_of_day % 60);
        match element {
            Element::LongMonth => out.extend_from_slice(month_name(civil.month).as_bytes()),
            Element::Month => out.extend_from_slice(&month_name(civil.month).as_bytes()[..3]),
            Element::NumMonth => write_to(out, format_args!("{}", civil.month)),
            Element::ZeroMonth => write_to(out, format_args!("{:02}", civil.month)),
            Element::LongWeekday => {
                out.extend_from_slice(weekday_name(civil.weekday).as_bytes());
            }
            Element::Weekday => {
                out.extend_from_slice(&weekday_name(civil.weekday).as_bytes()[..3]);
            }
            Element::Day => write_to(out, format_args!("{}", civil.day)),
            Element::UnderDay => write_to(out, format_args!("{:2}", civil.day)),
            Element::ZeroDay => write_to(out, format_args!("{:02}", civil.day)),
            Element::UnderYearDay => write_to(out, format_args!("{:3}", civil.day_of_year())),
            Element::ZeroYearDay => write_to(out, format_args!("{:03}", civil.day_of_year())),
            Element::Hour => write_to(out, format_args!("{hour:02}")),
            Element::Hour12 => write_to(out, format_args!("{hour12}")),
            Element::ZeroHour12 => write_to(out, format_args!("{hour12:02}")),
            Element::Minute => write_to(out, format_args!("{minute}")),
            Element::ZeroMinute => write_to(out, format_args!("{minute:02}")),
            Element::Second => write_to(out, format_args!("{second}")),
            Element::ZeroSecond => write_to(out, format_args!("{second:02}")),
            Element::LongYear if civil.year < 0 => {
                write_to(out, format_args!("-{:04}", -civil.year));
            }
            Element::LongYear => write_to(out, format_args!("{:04}", civil.year)),
            Element::Year => write_to(out, format_args!("{:02}", civil.year.max(0) % 100)),
            Element::UpperPm => out.extend_from_slice(if hour >= 12 { b"PM" } else { b"AM" }),
            Element::LowerPm => out.extend_from_slice(if hour >= 12 { b"pm" } else { b"am" }),
            Element::ZoneName => self.write_zone_name(offset_seconds, out),
            Element::Offset(offset) => write_offset(out, offset_seconds, offset),
            Element::Fraction { separator, digits, trims } => {
                write_fraction(out, self.nanos, separator, digits, trims);
            }
        }
    }

    /// Appends the abbreviation of the zone; the offset where there is none.
    fn write_zone_name(&self, offset_seconds: i32, out: &mut Vec<u8>) {
        let name = self.zone.name_at(self.seconds);
        if name.is_empty() {
            let offset = Offset { zulu: false, minutes: true, seconds: false, colons: false };
            write_offset(out, offset_seconds, offset);
        }
        out.extend_from_slice(name.as_bytes());
    }
}

fn write_to(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all");
}

fn write_offset(out: &mut Vec<u8>, offset_seconds: i32, offset: Offset) {
    if offset.zulu && offset_seconds == 0 {
        out.push(b'Z');
        return;
    }
    // The sign is that of the minutes.
    out.push(if offset_seconds / 60 < 0 { b'-' } else { b'+' });
    let seconds = offset_seconds.unsigned_abs();
    let colon = if offset.colons { ":" } else { "" };
    write_to(out, format_args!("{:02}", seconds / 3600));
    if offset.minutes {
        write_to(out, format_args!("{colon}{:02}", seconds / 60 % 60));
    }
    if offset.seconds {
        write_to(out, format_args!("{colon}{:02}", seconds % 60));
    }
}

fn write_fraction(out: &mut Vec<u8>, nanos: u32, separator: u8, digits: usize, trims: bool) {
    if trims && nanos == 0 {
        return;
    }
    let text = format!("{nanos:09}");
    let mut text = &text[..digits.min(9)];
    if trims {
        text = text.trim_end_matches('0');
    }
    if !text.is_empty() {
        out.push(separator);
        out.extend_from_slice(text.as_bytes());
    }
}
