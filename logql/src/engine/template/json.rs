//! `fromJson`: JSON text to values, as Go's `encoding/json` decodes into an empty
//! interface. Invalid text gives nothing at all.
//!
//! Bounds: arrays and objects nest at most [`MAX_DEPTH`] deep.

use std::rc::Rc;

use crate::engine::meter::Meter;
use logsvc_proto::go::float::parse_float;

/// Deepest nesting that is accepted.
const MAX_DEPTH: usize = 200;

/// A decoded value. Cheap to clone.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(Rc<[u8]>),
    Array(Rc<[Json]>),
    /// Sorted by key, keys unique.
    Object(Rc<[(Rc<[u8]>, Json)]>),
}

impl Json {
    /// The value of a key of an object.
    pub(super) fn find<'j>(fields: &'j [(Rc<[u8]>, Json)], key: &[u8]) -> Option<&'j Json> {
        let index = fields.binary_search_by(|(own, _)| (**own).cmp(key)).ok()?;
        Some(&fields[index].1)
    }
}

/// Decodes a text; `None` when it is not JSON, or there is no memory for it. Also gives how many
/// bytes were admitted for it, which are the caller's to release.
pub(super) fn parse(text: &[u8], meter: &Meter) -> (Option<Json>, usize) {
    let mut parser = Parser { text, position: 0, meter, kept_bytes: 0 };
    let value = parser.value(0);
    parser.pass_spaces();
    let is_whole = parser.position == text.len();
    (value.filter(|_| is_whole), parser.kept_bytes)
}

/// The work of a value besides its bytes, see [`crate::engine::meter`].
const VALUE_WORK: usize = 64;

/// Memory of the counts that a shared value has.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

struct Parser<'j> {
    text: &'j [u8],
    position: usize,
    meter: &'j Meter,
    kept_bytes: usize,
}

impl Parser<'_> {
    /// Moves items to where they can be shared.
    fn shared<T>(&mut self, items: Vec<T>) -> Option<Rc<[T]>> {
        let shared_bytes = COUNTS_BYTES + size_of_val(items.as_slice());
        let is_admitted = self.meter.admit(shared_bytes);
        self.meter.release(items.capacity() * size_of::<T>());
        if !is_admitted {
            return None;
        }
        self.kept_bytes += shared_bytes;
        Some(items.into())
    }

    fn pass_spaces(&mut self) {
        while matches!(self.text.get(self.position), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.position += 1;
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    /// The next byte behind spaces.
    fn next_visible(&mut self) -> Option<u8> {
        self.pass_spaces();
        self.next()
    }

    fn word(&mut self, rest: &[u8], value: Json) -> Option<Json> {
        let matches = self.text[self.position..].starts_with(rest);
        self.position += rest.len();
        matches.then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH || !self.meter.work(VALUE_WORK) {
            return None;
        }
        match self.next_visible()? {
            b'n' => self.word(b"ull", Json::Null),
            b't' => self.word(b"rue", Json::Bool(true)),
            b'f' => self.word(b"alse", Json::Bool(false)),
            b'"' => {
                let text = self.string()?;
                Some(Json::Text(self.shared(text)?))
            }
            b'[' => self.array(depth),
            b'{' => self.object(depth),
            b'-' | b'0'..=b'9' => {
                self.position -= 1;
                self.number()
            }
            _ => None,
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json> {
        let mut items = Vec::new();
        self.pass_spaces();
        if self.text.get(self.position) == Some(&b']') {
            self.position += 1;
            return Some(Json::Array(self.shared(items)?));
        }
        loop {
            let item = self.value(depth + 1)?;
            if !self.meter.push(&mut items, item) {
                return None;
            }
            match self.next_visible()? {
                b',' => {}
                b']' => return Some(Json::Array(self.shared(items)?)),
                _ => return None,
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        let mut fields: Vec<(Rc<[u8]>, Json)> = Vec::new();
        self.pass_spaces();
        if self.text.get(self.position) == Some(&b'}') {
            self.position += 1;
            return Some(Json::Object(self.shared(fields)?));
        }
        loop {
            if self.next_visible()? != b'"' {
                return None;
            }
            let key = self.string()?;
            if self.next_visible()? != b':' {
                return None;
            }
            let key = self.shared(key)?;
            let value = self.value(depth + 1)?;
            if !self.meter.push(&mut fields, (key, value)) {
                return None;
            }
            match self.next_visible()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        // Of equal keys the last one counts; sorting is stable, in a list beside.
        let _beside = self.meter.hold(size_of_val(fields.as_slice()))?;
        self.meter.work(fields.len() * VALUE_WORK);
        fields.reverse();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields.dedup_by(|later, kept| later.0 == kept.0);
        Some(Json::Object(self.shared(fields)?))
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.position;
        while self.text.get(self.position).is_some_and(u8::is_ascii_digit) {
            self.position += 1;
        }
        (self.position > start).then_some(())
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.position;
        if self.text.get(self.position) == Some(&b'-') {
            self.position += 1;
        }
        if self.text.get(self.position) == Some(&b'0') {
            self.position += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.position) == Some(&b'.') {
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.text.get(self.position), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.text.get(self.position), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        let text = std::str::from_utf8(&self.text[start..self.position]).ok()?;
        // A number fails only beyond the range of float64. Go then
        // takes the largest number of its sign.
        let nearest = if text.starts_with('-') { f64::MIN } else { f64::MAX };
        Some(Json::Number(parse_float(text).unwrap_or(nearest)))
    }

    /// A string whose opening quote has been read. Bytes that are not UTF-8 and
    /// lone surrogates become U+FFFD.
    fn string(&mut self) -> Option<Vec<u8>> {
        let start = self.position;
        let len = self.text[start..].iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))?;
        self.position += len;
        let (mut out, meter) = (Vec::new(), self.meter);
        if !meter.work(len) || !meter.append(&mut out, &self.text[start..self.position]) {
            return None;
        }
        loop {
            // An escape stands for four bytes at most.
            if !meter.make_room(&mut out, 4) {
                return None;
            }
            match self.next()? {
                b'"' => break,
                0..=0x1f => return None,
                b'\\' => self.escape(&mut out)?,
                byte => out.push(byte),
            }
        }
        if std::str::from_utf8(&out).is_ok() {
            return Some(out);
        }
        // A byte that is no text becomes three, in a list that doubles.
        let _beside = meter.hold(9 * out.len())?;
        let replaced = String::from_utf8_lossy(&out);
        let mut text = Vec::new();
        let is_replaced = meter.append(&mut text, replaced.as_bytes());
        meter.release(out.capacity());
        is_replaced.then_some(text)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let byte = match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut code = self.hex()?;
                if (0xd800..0xdc00).contains(&code)
                    && self.text[self.position..].starts_with(b"\\u")
                {
                    let back = self.position;
                    self.position += 2;
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    } else {
                        self.position = back;
                    }
                }
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            _ => return None,
        };
        out.push(byte);
        Some(())
    }

    fn hex(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |code, _| Some(code * 16 + char::from(self.next()?).to_digit(16)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Json {
        Json::Text(text.as_bytes().into())
    }

    fn parse(text: &[u8]) -> Option<Json> {
        super::parse(text, &Meter::default()).0
    }

    #[test]
    fn values_are_decoded() {
        for (json, value) in [
            ("null", Json::Null),
            (" true ", Json::Bool(true)),
            ("-1.5e2", Json::Number(-150.0)),
            ("1e400", Json::Number(f64::MAX)),
            ("-1e999", Json::Number(f64::MIN)),
            ("1e-400", Json::Number(0.0)),
            ("[1e400,2]", Json::Array(Rc::new([Json::Number(f64::MAX), Json::Number(2.0)]))),
            (r#""a\u00e9\n\ud83d\ude80\ud800x""#, text("a\u{e9}\n\u{1f680}\u{fffd}x")),
            ("[]", Json::Array(Rc::new([]))),
            (
                "[1,[2]]",
                Json::Array(Rc::new([
                    Json::Number(1.0),
                    Json::Array(Rc::new([Json::Number(2.0)])),
                ])),
            ),
            (
                r#"{"b":1,"a":2,"b":3}"#,
                Json::Object(Rc::new([
                    (Rc::from(&b"a"[..]), Json::Number(2.0)),
                    (Rc::from(&b"b"[..]), Json::Number(3.0)),
                ])),
            ),
        ] {
            assert_eq!(parse(json.as_bytes()), Some(value), "{json}");
        }
        assert_eq!(parse(b"\"a\xffb\""), Some(text("a\u{fffd}b")));
    }

    #[test]
    fn other_texts_are_refused() {
        for json in [
            "",
            "nope",
            "nul",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "[1,]",
            "[1",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":1,}",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "\"a\nb\"",
            "1 2",
            "[1]]",
        ] {
            assert_eq!(parse(json.as_bytes()), None, "{json}");
        }
        let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(deep(MAX_DEPTH).as_bytes()).is_some());
        assert!(parse(deep(MAX_DEPTH + 1).as_bytes()).is_none());
        assert!(parse(deep(100_000).as_bytes()).is_none());
    }
}
