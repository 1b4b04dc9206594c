//! Pushes as owned values, for comparison.

use std::fmt;

use logsvc_proto::push::Push;

/// One entry, owned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) timestamp_ns: Option<i64>,
    pub(crate) line: Vec<u8>,
    pub(crate) metadata: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One stream, owned; labels as sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub(crate) labels: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
}

/// Everything a push shows when it is visited.
pub(crate) fn dump(push: &Push<'_>) -> Vec<Stream> {
    let mut streams = Vec::new();
    for stream in push.streams() {
        let mut cursor = stream.entries();
        let mut entries = Vec::new();
        while let Some(entry) = cursor.next() {
            assert_eq!(entry.metadata.is_empty(), entry.metadata.iter().next().is_none());
            entries.push(Entry {
                timestamp_ns: entry.timestamp_ns,
                line: entry.line.to_vec(),
                metadata: entry
                    .metadata
                    .iter()
                    .map(|(name, value)| (name.to_vec(), value.to_vec()))
                    .collect(),
            });
        }
        streams.push(Stream { labels: stream.labels.bytes.to_vec(), entries });
    }
    streams
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.labels.escape_ascii())?;
        for (index, entry) in self.entries.iter().enumerate() {
            let separator = if index > 0 { " " } else { "" };
            match entry.timestamp_ns {
                Some(timestamp_ns) => write!(f, "{separator}{timestamp_ns}:")?,
                None => write!(f, "{separator}none:")?,
            }
            write!(f, "{}", entry.line.escape_ascii())?;
            for (name, value) in &entry.metadata {
                write!(f, ",{}={}", name.escape_ascii(), value.escape_ascii())?;
            }
        }
        write!(f, "]")
    }
}
