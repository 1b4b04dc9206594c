//! The fields of lines of an unknown format, for the endpoints of detected fields.
//!
//! A line is read as JSON and, if it is no JSON, as logfmt. These are the parsers of LogQL,
//! so a query can extract every field that is found.

use std::sync::Arc;

use logsvc_proto::Labels;

use super::labels::{BaseLabels, Category, ERROR, ERROR_DETAILS, EntryLabels};
use super::pipeline::json::{Json, for_each_path};
use super::pipeline::logfmt::Logfmt;
use super::pipeline::{CompiledStage, Entry};
use crate::syntax::ast::LogfmtParser;

/// The parser that could read a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldParser {
    /// `| json`
    Json,
    /// `| logfmt`, which can read every line.
    Logfmt,
}

impl FieldParser {
    /// The name of the stage.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Logfmt => "logfmt",
        }
    }
}

/// Reads the fields of the lines of one stream.
#[derive(Debug)]
pub struct FieldReader {
    labels: EntryLabels,
    base: Arc<BaseLabels>,
    json: Json,
    logfmt: Logfmt,
    /// Not used: no stage rewrites the line.
    buffer: Vec<u8>,
}

impl FieldReader {
    /// A reader for a stream with these labels. A field that has the name of one of
    /// them gets the suffix `_extracted`.
    #[must_use]
    pub fn new(stream: &Labels) -> Self {
        let mut labels = EntryLabels::new();
        let base = labels.base(stream);
        let parser = LogfmtParser { strict: false, keep_empty: false, extractions: Vec::new() };
        let (json, logfmt) = (Json::default(), Logfmt::compile(&parser));
        Self { labels, base, json, logfmt, buffer: Vec::new() }
    }

    /// Calls `visit` with the name and the value of every field of a line.
    pub fn read(&mut self, line: &[u8], mut visit: impl FnMut(&[u8], &[u8])) -> FieldParser {
        self.labels.start(&self.base);
        self.json.process(&mut Entry::new(line, &mut self.buffer, &mut self.labels));
        let mut parser = FieldParser::Json;
        if self.labels.error().is_some() {
            parser = FieldParser::Logfmt;
            self.labels.start(&self.base);
            self.logfmt.process(&mut Entry::new(line, &mut self.buffer, &mut self.labels));
        }
        self.labels.for_each_final(|name, category, value| {
            if category == Category::Parsed && name != ERROR && name != ERROR_DETAILS {
                visit(self.labels.name(name), value);
            }
        });
        parser
    }

    /// Calls `visit` for every field of a JSON line with its name, without any
    /// suffix, and the keys that lead to it.
    pub fn json_paths(line: &[u8], mut visit: impl FnMut(&[u8], &[Vec<u8>])) {
        for_each_path(line, &mut visit);
    }
}

/// Reads a size such as `1.5 KiB` or `38kb` like the label filters do, in bytes.
#[must_use]
pub fn parse_field_bytes(value: &str) -> Option<u64> {
    super::convert::bytes(value.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> (&'static str, Vec<(String, String)>) {
        let stream = Labels::from_pairs([("app", "m"), ("level", "info")]).expect("valid names");
        let mut reader = FieldReader::new(&stream);
        // Fields of an earlier line must not show.
        reader.read(b"{\"old\": 1}", |_, _| {});
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let parser = reader.read(line.as_bytes(), |name, value| {
            found.push((text(name), text(value)));
        });
        (parser.as_str(), found)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn lines_are_json_or_logfmt() {
        let json = r#"{"a":1,"o":{"b c":"x","n":null},"l":[1],"level":"warn"}"#;
        let found = pairs(&[("a", "1"), ("o_b_c", "x"), ("level_extracted", "warn")]);
        assert_eq!(fields(json), ("json", found));
        let logfmt = r#"a=1 app="y z" empty= =bad word"#;
        let found = pairs(&[("a", "1"), ("app_extracted", "y z")]);
        assert_eq!(fields(logfmt), ("logfmt", found));
        assert_eq!(fields("{\"a\":1,"), ("logfmt", pairs(&[])));
        assert_eq!(fields(""), ("logfmt", pairs(&[])));
    }

    #[test]
    fn fields_of_json_have_paths() {
        let line = r#"{"a.b":1,"o":{"b\u0063":"x","n":null,"o":{"":2,"d":3}},"l":[1],"":4,"z":5 5"#;
        let mut found = Vec::new();
        FieldReader::json_paths(line.as_bytes(), |name, path| {
            let keys: Vec<_> = path.iter().map(|key| String::from_utf8_lossy(key)).collect();
            found.push((String::from_utf8_lossy(name).into_owned(), keys.join("/")));
        });
        let expected =
            [("a_b", "a.b"), ("o_bc", "o/bc"), ("o_o", "o/o/"), ("o_o_d", "o/o/d"), ("z", "z")];
        assert_eq!(found, pairs(&expected));
        let deep = "{\"a\":".repeat(10_000);
        FieldReader::json_paths(deep.as_bytes(), |_, _| panic!("too deep for a field"));
    }

    #[test]
    fn names_and_paths_agree_on_any_bytes() {
        // xorshift64*, so that the seed names the case.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |bound: usize| {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
        };
        let pieces: [&[u8]; 12] = [
            b"{",
            b"}",
            b"\"a\"",
            b"\"b.c\"",
            b":",
            b",",
            b"1",
            b"\"\\u00e9\"",
            b"\"\xff\"",
            b" ",
            b"[",
            b"x=y",
        ];
        let stream = Labels::empty();
        for _ in 0..2000 {
            let line: Vec<u8> = (0..below(24)).flat_map(|_| pieces[below(12)]).copied().collect();
            let mut names = Vec::new();
            let parser = FieldReader::new(&stream).read(&line, |name, _| names.push(name.to_vec()));
            let mut paths = Vec::new();
            FieldReader::json_paths(&line, |name, _| paths.push(name.to_vec()));
            if parser == FieldParser::Json {
                let missing = names.iter().find(|name| !paths.contains(name));
                assert_eq!(missing, None, "{}", line.escape_ascii());
            }
        }
    }
}
