//! A decoded push, borrowed from its body.
//!
//! [`Push::protobuf`], [`Push::json`] and [`Push::legacy_json`] walk the whole body once and refuse
//! it if anything is malformed: one bad byte refuses the request before anything is stored. A
//! [`Push`] only remembers where the streams are. Entries are decoded a second time when they are
//! visited. The second walk needs memory for one entry at most and cannot fail, so the ingest loop
//! has no error paths. [`Push::protobuf_listed`] and [`Push::json_listed`] also note where the
//! entries of usual bodies are, in memory of bounded size, which saves the second walk.
//!
//! Labels are not parsed here: a [`LabelSource`] is a cache key first.

mod entries;
pub mod json;
pub mod labels;
mod listed;
pub mod metadata;
pub mod protobuf;

pub(crate) use entries::Text;
pub use entries::{Entries, EntryRef, MetadataIter, MetadataRef};
pub use labels::{LabelForm, LabelSource};
pub use listed::EntryList;

use json::{JsonError, JsonPush};
use protobuf::{ProtobufError, ProtobufPush};

/// Counts of a push, made while it was checked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Streams, including those without entries.
    pub streams: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes of all lines, unescaped.
    pub line_bytes: u64,
    /// Structured metadata pairs as sent.
    pub metadata_pairs: u64,
    /// Bytes of all structured metadata names and values as sent, unescaped.
    pub metadata_bytes: u64,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.streams += other.streams;
        self.entries += other.entries;
        self.line_bytes += other.line_bytes;
        self.metadata_pairs += other.metadata_pairs;
        self.metadata_bytes += other.metadata_bytes;
    }
}

/// A well-formed push.
#[derive(Debug)]
pub struct Push<'a> {
    form: Form<'a>,
    totals: Totals,
}

#[derive(Debug)]
enum Form<'a> {
    Protobuf(ProtobufPush<'a>),
    Json(JsonPush<'a>),
}

impl<'a> Push<'a> {
    /// Checks an uncompressed protobuf body.
    pub fn protobuf(body: &'a [u8]) -> Result<Push<'a>, ProtobufError> {
        let (push, totals) = ProtobufPush::parse(body)?;
        Ok(Push { form: Form::Protobuf(push), totals })
    }

    /// Like [`Push::protobuf`], and notes the places of the entries in `list`, so that visiting
    /// them costs less.
    pub fn protobuf_listed(
        body: &'a [u8],
        list: &'a mut EntryList,
    ) -> Result<Push<'a>, ProtobufError> {
        let (push, totals) = ProtobufPush::parse_listed(body, list)?;
        Ok(Push { form: Form::Protobuf(push), totals })
    }

    /// Checks an uncompressed JSON body of the v1 push endpoint.
    pub fn json(body: &'a [u8]) -> Result<Push<'a>, JsonError> {
        let (push, totals) = JsonPush::parse(body, json::Dialect::V1)?;
        Ok(Push { form: Form::Json(push), totals })
    }

    /// Checks an uncompressed JSON body of the deprecated push endpoint.
    pub fn legacy_json(body: &'a [u8]) -> Result<Push<'a>, JsonError> {
        let (push, totals) = JsonPush::parse(body, json::Dialect::Legacy)?;
        Ok(Push { form: Form::Json(push), totals })
    }

    /// Like [`Push::json`] or [`Push::legacy_json`], and notes in `list` where the entries
    /// are, so that visiting them costs less.
    pub fn json_listed(
        body: &'a [u8],
        dialect: json::Dialect,
        list: &'a mut EntryList,
    ) -> Result<Push<'a>, JsonError> {
        let (push, totals) = JsonPush::parse_listed(body, dialect, list)?;
        Ok(Push { form: Form::Json(push), totals })
    }

    /// Counts of the push. Zero streams are an error of its own (422).
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The streams in the order sent. A stream may occur several times; streams
    /// without labels and entries may be left out.
    pub fn streams(&self) -> Streams<'_, 'a> {
        Streams(match &self.form {
            Form::Protobuf(push) => StreamsForm::Protobuf(push.streams()),
            Form::Json(push) => StreamsForm::Json(push.streams()),
        })
    }
}

/// Iterator over the streams of a push.
pub struct Streams<'p, 'a>(StreamsForm<'p, 'a>);

enum StreamsForm<'p, 'a> {
    Protobuf(protobuf::Streams<'a>),
    Json(json::Streams<'p, 'a>),
}

impl<'a> Iterator for Streams<'_, 'a> {
    type Item = StreamRef<'a>;

    fn next(&mut self) -> Option<StreamRef<'a>> {
        match &mut self.0 {
            StreamsForm::Protobuf(streams) => streams.next(),
            StreamsForm::Json(streams) => streams.next(),
        }
    }
}

/// One stream of a push.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef<'a> {
    /// Its labels, not parsed.
    pub labels: LabelSource<'a>,
    entries: entries::EntrySource<'a>,
}

impl<'a> StreamRef<'a> {
    /// A cursor over its entries, in the order sent.
    pub fn entries(&self) -> Entries<'a> {
        Entries::new(self.entries)
    }
}
