//! From bytes to entries.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// Most bytes of names and values that are kept of an entry.
pub const ENTRY_MAX_BYTES: usize = 8 << 20;
/// Most fields that are kept of an entry, as in journald.
pub const FIELDS_MAX: usize = 1024;
/// Longest value that is taken for one, as in journald. Whatever claims more is no field.
pub const VALUE_MAX_BYTES: u64 = 768 << 20;
/// Longest name of a field; journald has 64.
const NAME_MAX_BYTES: usize = 256;
/// Memory of an entry that is kept for the next one.
const KEPT_BYTES: usize = 1 << 20;

/// Why something that was sent as an entry is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A length is larger than [`VALUE_MAX_BYTES`].
    #[error("a field of the entry claims to be longer than a field can be")]
    Length,
    /// No line feed follows a value with a length.
    #[error("a field of the entry does not end where its length says")]
    End,
    /// The body ended in the middle of a field.
    #[error("the body ends in the middle of the entry")]
    CutOff,
}

/// What is kept of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Nothing.
    Nothing,
    /// The whole value, if it has no more bytes than this.
    Whole(usize),
    /// As many bytes as this.
    Start(usize),
}

/// What the parser has come to the end of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// An entry, which [`Parser::entry`] gives.
    Entry,
    /// Bytes that are no entry; [`Entry::sent_bytes`] tells how many.
    Unreadable(Fault),
}

#[derive(Debug)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

/// The fields of one entry.
#[derive(Debug, Default)]
pub struct Entry {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Fields as sent.
    sent_fields: u64,
    sent_bytes: u64,
    left_out: u64,
}

impl Entry {
    /// Names and values, in the order sent. Names may repeat.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let text = |place: &Range<usize>| &self.text[place.clone()];
        self.fields.iter().map(move |field| (text(&field.name), text(&field.value)))
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// Bytes of the entry as sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Fields that were wanted and are too long, or one too many, or have no name.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn clear(&mut self) {
        if self.text.capacity() > KEPT_BYTES {
            self.text = Vec::new();
        }
        self.text.clear();
        self.fields.clear();
        (self.sent_fields, self.sent_bytes, self.left_out) = (0, 0, 0);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// At the start of a line, or in the name of a field.
    Name,
    Text,
    /// So many bytes of the length have come.
    Length(usize),
    /// So many bytes of the value are still to come.
    Binary(u64),
    BinaryEnd,
    /// Looking for the empty line behind a fault.
    Lost {
        fault: Fault,
        is_line_start: bool,
    },
    /// The entry is complete; the next byte begins another.
    Complete,
}

/// The field that is being read.
#[derive(Debug)]
struct OpenField {
    name: Range<usize>,
    wanted: Wanted,
    /// It was wanted, and there was no room for it.
    is_left_out: bool,
}

/// Finds entries. See the module.
#[derive(Debug)]
pub struct Parser {
    state: State,
    name: Vec<u8>,
    is_name_too_long: bool,
    length: [u8; 8],
    open: OpenField,
    entry: Entry,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::new()
    }
}

impl Parser {
    /// At the start of a body.
    pub fn new() -> Parser {
        let open = OpenField { name: 0..0, wanted: Wanted::Nothing, is_left_out: false };
        Parser {
            state: State::Name,
            name: Vec::new(),
            is_name_too_long: false,
            length: [0; 8],
            open,
            entry: Entry::default(),
        }
    }

    /// The entry that was found last.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Bytes of memory that the parser holds.
    pub fn capacity_bytes(&self) -> usize {
        let fields = self.entry.fields.capacity() * size_of::<Field>();
        self.entry.text.capacity() + fields + self.name.capacity()
    }

    /// Takes bytes from the front of `input` until an entry ends; `None` if all are taken and none
    /// has. `wanted` says what is kept of the value of a name.
    pub fn read(&mut self, input: &mut &[u8], wanted: impl Fn(&[u8]) -> Wanted) -> Option<End> {
        while !input.is_empty() {
            if self.state == State::Complete {
                self.entry.clear();
                self.state = State::Name;
            }
            let before_bytes = input.len();
            let end = self.step(input, &wanted);
            self.entry.sent_bytes += (before_bytes - input.len()) as u64;
            if end.is_some() {
                self.state = State::Complete;
                return end;
            }
        }
        None
    }

    /// What the end of the body is the end of. An entry needs no empty line there.
    pub fn finish(&mut self) -> Option<End> {
        let end = match self.state {
            State::Complete => return None,
            State::Name if self.is_at_line_start() => {
                if self.is_empty() {
                    return None;
                }
                End::Entry
            }
            State::Lost { fault, .. } => End::Unreadable(fault),
            _ => End::Unreadable(Fault::CutOff),
        };
        self.name.clear();
        self.state = State::Complete;
        Some(end)
    }

    /// Takes at least one byte, unless a fault begins.
    fn step(&mut self, input: &mut &[u8], wanted: &impl Fn(&[u8]) -> Wanted) -> Option<End> {
        match self.state {
            State::Name => return self.step_name(input, wanted),
            State::Text => match memchr(b'\n', input) {
                Some(at) => {
                    self.keep(&input[..at]);
                    *input = &input[at + 1..];
                    self.end_field();
                }
                None => self.keep(std::mem::take(input)),
            },
            State::Length(got) => {
                let count = input.len().min(8 - got);
                self.length[got..got + count].copy_from_slice(&input[..count]);
                *input = &input[count..];
                self.state = State::Length(got + count);
                if got + count == 8 {
                    self.state = match u64::from_le_bytes(self.length) {
                        0 => State::BinaryEnd,
                        len_bytes if len_bytes > VALUE_MAX_BYTES => lost(Fault::Length),
                        len_bytes => State::Binary(len_bytes),
                    };
                }
            }
            State::Binary(left_bytes) => {
                let most = usize::try_from(left_bytes).unwrap_or(usize::MAX).min(input.len());
                let (value, rest) = input.split_at(most);
                self.keep(value);
                *input = rest;
                self.state = match left_bytes - value.len() as u64 {
                    0 => State::BinaryEnd,
                    left_bytes => State::Binary(left_bytes),
                };
            }
            State::BinaryEnd if input[0] == b'\n' => {
                *input = &input[1..];
                self.end_field();
            }
            State::BinaryEnd => self.state = lost(Fault::End),
            State::Lost { fault, is_line_start } => {
                if is_line_start && input[0] == b'\n' {
                    *input = &input[1..];
                    return Some(End::Unreadable(fault));
                }
                let line_end = memchr(b'\n', input);
                *input = &input[line_end.map_or(input.len(), |at| at + 1)..];
                self.state = State::Lost { fault, is_line_start: line_end.is_some() };
            }
            State::Complete => unreachable!("`read` begins the next entry"),
        }
        None
    }

    fn step_name(&mut self, input: &mut &[u8], wanted: &impl Fn(&[u8]) -> Wanted) -> Option<End> {
        let end = memchr2(b'=', b'\n', input);
        let part = &input[..end.unwrap_or(input.len())];
        let room = NAME_MAX_BYTES - self.name.len();
        self.is_name_too_long |= part.len() > room;
        self.name.extend_from_slice(&part[..part.len().min(room)]);
        let Some(at) = end else {
            *input = &[];
            return None;
        };
        let is_text = input[at] == b'=';
        *input = &input[at + 1..];
        if !is_text && self.is_at_line_start() {
            // More empty lines than one part entries, too.
            return (!self.is_empty()).then_some(End::Entry);
        }
        self.begin_field(wanted);
        self.state = if is_text { State::Text } else { State::Length(0) };
        None
    }

    fn is_at_line_start(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether no field has come.
    fn is_empty(&self) -> bool {
        self.entry.sent_fields == 0
    }

    fn begin_field(&mut self, wanted: &impl Fn(&[u8]) -> Wanted) {
        let Entry { text, fields, sent_fields, .. } = &mut self.entry;
        *sent_fields += 1;
        let start = text.len();
        let is_named = !self.name.is_empty() && !self.is_name_too_long;
        let wanted = if is_named { wanted(&self.name) } else { Wanted::Nothing };
        let has_room = fields.len() < FIELDS_MAX && start + self.name.len() <= ENTRY_MAX_BYTES;
        let is_kept = wanted != Wanted::Nothing && has_room;
        if is_kept {
            text.extend_from_slice(&self.name);
        }
        self.open = OpenField {
            name: start..text.len(),
            wanted: if is_kept { wanted } else { Wanted::Nothing },
            is_left_out: !is_named || (wanted != Wanted::Nothing && !has_room),
        };
        self.name.clear();
        self.is_name_too_long = false;
    }

    /// Keeps a part of the open field's value, as far as it is wanted and there is room.
    fn keep(&mut self, part: &[u8]) {
        let text = &mut self.entry.text;
        let kept_bytes = text.len() - self.open.name.end.min(text.len());
        let (most_bytes, may_cut) = match self.open.wanted {
            Wanted::Nothing => return,
            Wanted::Whole(most_bytes) => (most_bytes, false),
            Wanted::Start(most_bytes) => (most_bytes, true),
        };
        let room = most_bytes.saturating_sub(kept_bytes);
        let room = room.min(ENTRY_MAX_BYTES.saturating_sub(text.len()));
        if part.len() <= room {
            text.extend_from_slice(part);
        } else if may_cut {
            text.extend_from_slice(&part[..room]);
        } else {
            text.truncate(self.open.name.start);
            self.open.wanted = Wanted::Nothing;
            self.open.is_left_out = true;
        }
    }

    fn end_field(&mut self) {
        let Entry { text, fields, left_out, .. } = &mut self.entry;
        let OpenField { name, wanted, is_left_out } = &self.open;
        if *wanted != Wanted::Nothing {
            fields.push(Field { name: name.clone(), value: name.end..text.len() });
        }
        *left_out += u64::from(*is_left_out);
        self.state = State::Name;
    }
}

fn lost(fault: Fault) -> State {
    State::Lost { fault, is_line_start: false }
}
