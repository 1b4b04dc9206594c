//! Messages in a stream of bytes.
//!
//! A message with a count in front is as long as the count says: 1 to 7 digits, the first of them
//! not 0, a blank and `<`. Anything else runs to LF or NUL. CR, LF and NUL at the end of a message
//! are not content, and a message without content is none.
//!
//! Guarantees: no text is lost by a guess about the framing. Of a message that is too long the
//! beginning comes out, marked as cut, and the rest is skipped. A caller that keeps
//! [`STEP_ROOM_BYTES`] more than the longest message always gets on.

/// Bytes that a caller keeps for a message besides its longest text: a count, its blank and an end.
pub const STEP_ROOM_BYTES: usize = 16;

/// Most digits of a count.
const COUNT_DIGITS_MAX: usize = 7;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its text, without the framing.
    pub text: &'a [u8],
    /// Whether it was longer, and its rest is skipped.
    pub is_cut: bool,
}

/// What is skipped before the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    Nothing,
    Bytes(usize),
    Line,
}

/// How the next message is framed.
enum Framing {
    /// The count, and where the text begins.
    Counted(usize, usize),
    Line,
    /// More bytes will tell.
    Open,
}

/// Finds the messages of one stream.
#[derive(Debug)]
pub struct Framer {
    max_bytes: usize,
    skip: Skip,
    /// Bytes at the beginning of the input that are known to hold no end of a line.
    scanned: usize,
}

impl Framer {
    /// At the beginning of a stream, whose messages are cut to `max_bytes`.
    pub fn new(max_bytes: usize) -> Framer {
        Framer { max_bytes: max_bytes.max(1), skip: Skip::Nothing, scanned: 0 }
    }

    /// Takes a step at the beginning of `input`: how many bytes of it are done, and the message
    /// among them, if there is one. The next call begins behind these bytes. If none are done, more
    /// input is needed. `is_end` says that no more will come; a step is always possible then.
    pub fn step<'a>(&mut self, input: &'a [u8], is_end: bool) -> (usize, Option<Frame<'a>>) {
        match self.skip {
            Skip::Nothing => {}
            Skip::Bytes(left) => {
                let done = left.min(input.len());
                self.skip = if done == left { Skip::Nothing } else { Skip::Bytes(left - done) };
                return (done, None);
            }
            Skip::Line => {
                let end = end_of_line(input);
                if end.is_some() {
                    self.skip = Skip::Nothing;
                }
                return (end.map_or(input.len(), |end| end + 1), None);
            }
        }
        match framing(input, is_end) {
            Framing::Open => (0, None),
            Framing::Counted(count, start) => self.counted(input, count, start, is_end),
            Framing::Line => self.line(input, is_end),
        }
    }

    fn counted<'a>(
        &mut self,
        input: &'a [u8],
        count: usize,
        start: usize,
        is_end: bool,
    ) -> (usize, Option<Frame<'a>>) {
        let kept = count.min(self.max_bytes);
        let have = input.len() - start;
        if have < kept && !is_end {
            return (0, None);
        }
        let kept = kept.min(have);
        let is_cut = count > self.max_bytes && kept == self.max_bytes;
        if is_cut {
            self.skip = Skip::Bytes(count - kept);
        }
        (start + kept, frame(&input[start..start + kept], is_cut))
    }

    fn line<'a>(&mut self, input: &'a [u8], is_end: bool) -> (usize, Option<Frame<'a>>) {
        let scanned = self.scanned.min(input.len());
        let end = end_of_line(&input[scanned..]).map(|end| scanned + end);
        let len = end.unwrap_or(input.len());
        let is_cut = len > self.max_bytes;
        if end.is_none() && !is_cut && !is_end {
            self.scanned = input.len();
            return (0, None);
        }
        self.scanned = 0;
        if end.is_none() && is_cut {
            self.skip = Skip::Line;
        }
        let text = &input[..len.min(self.max_bytes)];
        (end.map_or(len, |end| end + 1), frame(text, is_cut))
    }
}

fn frame(text: &[u8], is_cut: bool) -> Option<Frame<'_>> {
    let text = trim_message(if is_cut { whole_characters(text) } else { text });
    (!text.is_empty()).then_some(Frame { text, is_cut })
}

/// The message of a datagram, cut to `max_bytes`. One without content is none.
pub fn datagram(bytes: &[u8], max_bytes: usize) -> Option<Frame<'_>> {
    let text = trim_message(bytes);
    frame(&text[..text.len().min(max_bytes)], text.len() > max_bytes)
}

/// A message without the ends of lines that follow it.
fn trim_message(text: &[u8]) -> &[u8] {
    let is_content = |byte: &u8| !matches!(byte, b'\n' | b'\r' | 0);
    let len = text.iter().rposition(is_content).map_or(0, |last| last + 1);
    &text[..len]
}

/// The text without the first part of a character at its end.
fn whole_characters(text: &[u8]) -> &[u8] {
    for back in 1..=text.len().min(3) {
        let at = text.len() - back;
        let len = match text[at] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => return text,
        };
        return if len > back { &text[..at] } else { text };
    }
    text
}

fn end_of_line(input: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', 0, input)
}

fn framing(input: &[u8], is_end: bool) -> Framing {
    let digits = input.iter().take(COUNT_DIGITS_MAX + 1).take_while(|b| b.is_ascii_digit()).count();
    if digits > COUNT_DIGITS_MAX || input.first() == Some(&b'0') {
        return Framing::Line;
    }
    if digits == 0 {
        return if input.is_empty() { Framing::Open } else { Framing::Line };
    }
    match (input.get(digits), input.get(digits + 1)) {
        (Some(b' '), Some(b'<')) => {
            let count = input[..digits].iter().fold(0, |n, b| n * 10 + usize::from(b - b'0'));
            Framing::Counted(count, digits + 1)
        }
        (None, _) | (Some(b' '), None) if !is_end => Framing::Open,
        _ => Framing::Line,
    }
}
