//! Go's time layouts: a reference time, `Mon Jan 2 15:04:05 MST 2006`, written the
//! way times are to be written.

/// An element of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    Offset(Offset),
    /// Fraction with its separator and number of digits; `trims` drops zeros.
    Fraction {
        separator: u8,
        digits: usize,
        trims: bool,
    },
}

/// How an offset from UTC is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offset {
    /// UTC itself is `Z`.
    pub(super) zulu: bool,
    pub(super) minutes: bool,
    pub(super) seconds: bool,
    pub(super) colons: bool,
}

impl Offset {
    const fn element(zulu: bool, minutes: bool, seconds: bool, colons: bool) -> Element {
        Element::Offset(Self { zulu, minutes, seconds, colons })
    }

    /// Length of an offset so written.
    pub(super) fn len(&self) -> usize {
        let parts = usize::from(self.minutes) + usize::from(self.seconds);
        3 + parts * if self.colons { 3 } else { 2 }
    }
}

/// Offsets by their text, longer ones first.
const OFFSETS: [(&[u8], Element); 10] = [
    (b"-070000", Offset::element(false, true, true, false)),
    (b"-07:00:00", Offset::element(false, true, true, true)),
    (b"-0700", Offset::element(false, true, false, false)),
    (b"-07:00", Offset::element(false, true, false, true)),
    (b"-07", Offset::element(false, false, false, false)),
    (b"Z070000", Offset::element(true, true, true, false)),
    (b"Z07:00:00", Offset::element(true, true, true, true)),
    (b"Z0700", Offset::element(true, true, false, false)),
    (b"Z07:00", Offset::element(true, true, false, true)),
    (b"Z07", Offset::element(true, false, false, false)),
];

/// The next element of a layout: its position, its length in bytes, and its kind.
pub(super) fn next_element(layout: &[u8]) -> Option<(usize, usize, Element)> {
    (0..layout.len()).find_map(|start| {
        let (skipped, len, element) = element_at(&layout[start..])?;
        Some((start + skipped, len, element))
    })
}

/// The element at the start of a text: bytes to skip, length, element.
fn element_at(text: &[u8]) -> Option<(usize, usize, Element)> {
    let (len, element) = match text {
        [b'J', ..] if text.starts_with(b"January") => (7, Element::LongMonth),
        [b'J', b'a', b'n', rest @ ..] if !starts_lower(rest) => (3, Element::Month),
        [b'M', ..] if text.starts_with(b"Monday") => (6, Element::LongWeekday),
        [b'M', b'o', b'n', rest @ ..] if !starts_lower(rest) => (3, Element::Weekday),
        [b'M', b'S', b'T', ..] => (3, Element::ZoneName),
        [b'0', b'1', ..] => (2, Element::ZeroMonth),
        [b'0', b'2', ..] => (2, Element::ZeroDay),
        [b'0', b'3', ..] => (2, Element::ZeroHour12),
        [b'0', b'4', ..] => (2, Element::ZeroMinute),
        [b'0', b'5', ..] => (2, Element::ZeroSecond),
        [b'0', b'6', ..] => (2, Element::Year),
        [b'0', b'0', b'2', ..] => (3, Element::ZeroYearDay),
        [b'1', b'5', ..] => (2, Element::Hour),
        [b'1', ..] => (1, Element::NumMonth),
        [b'2', b'0', b'0', b'6', ..] => (4, Element::LongYear),
        [b'2', ..] => (1, Element::Day),
        // The underscore is text when a year follows.
        [b'_', b'2', b'0', b'0', b'6', ..] => return Some((1, 4, Element::LongYear)),
        [b'_', b'2', ..] => (2, Element::UnderDay),
        [b'_', b'_', b'2', ..] => (3, Element::UnderYearDay),
        [b'3', ..] => (1, Element::Hour12),
        [b'4', ..] => (1, Element::Minute),
        [b'5', ..] => (1, Element::Second),
        [b'P', b'M', ..] => (2, Element::UpperPm),
        [b'p', b'm', ..] => (2, Element::LowerPm),
        [b'-' | b'Z', ..] => {
            let (written, element) = OFFSETS.iter().find(|(own, _)| text.starts_with(own))?;
            (written.len(), *element)
        }
        [separator @ (b'.' | b','), digit @ (b'0' | b'9'), ..] => {
            let digits = text[1..].iter().take_while(|b| *b == digit).count();
            if text.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let (separator, trims) = (*separator, *digit == b'9');
            (1 + digits, Element::Fraction { separator, digits, trims })
        }
        _ => return None,
    };
    Some((0, len, element))
}

fn starts_lower(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_lowercase)
}
