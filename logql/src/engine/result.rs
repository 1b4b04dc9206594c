//! The answer of a query.

use std::sync::Arc;

use logsvc_proto::Labels;

use super::place::EntryPlace;

/// The answer to a query, in the order of the response.
#[derive(Clone, PartialEq, Debug)]
pub enum QueryResult {
    /// A log query.
    Streams(Vec<StreamResult>),
    /// A metric range query.
    Matrix(Vec<MatrixSeries>),
    /// A metric instant query.
    Vector(Vec<VectorSample>),
    /// A literal, evaluated at one instant.
    Scalar {
        /// Evaluation time in milliseconds since the epoch.
        timestamp_ms: i64,
        /// The value.
        value: f64,
    },
}

impl QueryResult {
    /// Memory in bytes, about: label sets that many entries share may count several times.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Streams(streams) => streams.iter().map(StreamResult::held_bytes).sum(),
            Self::Matrix(series) => series.iter().map(MatrixSeries::held_bytes).sum(),
            Self::Vector(samples) => {
                let bytes = |one: &VectorSample| size_of_val(one) + one.labels.as_bytes().len();
                samples.iter().map(bytes).sum()
            }
            Self::Scalar { .. } => 0,
        }
    }
}

/// Entries with equal labels, in query direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamResult {
    /// All labels, or the labels of stream category where labels are categorised.
    pub labels: Labels,
    /// Not empty.
    pub entries: Vec<ResultEntry>,
    /// The place of each entry, where places were asked for.
    pub places: Vec<EntryPlace>,
}

impl StreamResult {
    /// Entries without places.
    #[must_use]
    pub fn new(labels: Labels, entries: Vec<ResultEntry>) -> StreamResult {
        StreamResult { labels, entries, places: Vec::new() }
    }

    fn held_bytes(&self) -> usize {
        let mut bytes = size_of_val(self) + self.labels.as_bytes().len();
        bytes += self.entries.capacity() * size_of::<ResultEntry>();
        bytes += self.places.capacity() * size_of::<EntryPlace>();
        let mut before = std::ptr::null();
        for entry in &self.entries {
            bytes += entry.line.len();
            // Entries of one label set mostly follow each other.
            if let Some(categories) = &entry.categories
                && !std::ptr::eq(before, Arc::as_ptr(categories))
            {
                before = Arc::as_ptr(categories);
                bytes += categories.held_bytes();
            }
        }
        bytes
    }
}

impl EntryCategories {
    fn held_bytes(&self) -> usize {
        size_of_val(self) + self.structured_metadata.as_bytes().len() + self.parsed.as_bytes().len()
    }
}

impl MatrixSeries {
    fn held_bytes(&self) -> usize {
        size_of_val(self)
            + self.labels.as_bytes().len()
            + self.points.capacity() * size_of::<ResultPoint>()
    }
}

/// An entry of a log query's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultEntry {
    /// Time in nanoseconds since the epoch.
    pub timestamp_ns: i64,
    /// The line as the pipeline left it.
    pub line: Box<[u8]>,
    /// The labels that are not of stream category, where labels are categorised.
    pub categories: Option<Arc<EntryCategories>>,
}

/// The labels of an entry that are not of stream category.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryCategories {
    /// Structured metadata.
    pub structured_metadata: Labels,
    /// Labels made by the pipeline, and the error labels.
    pub parsed: Labels,
}

/// One series of a metric range query.
#[derive(Clone, PartialEq, Debug)]
pub struct MatrixSeries {
    /// Labels of the series.
    pub labels: Labels,
    /// Times ascending; not empty.
    pub points: Vec<ResultPoint>,
}

/// A sample of a series.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResultPoint {
    /// Evaluation time in milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// The value.
    pub value: f64,
}

/// One sample of a metric instant query.
#[derive(Clone, PartialEq, Debug)]
pub struct VectorSample {
    /// Labels of the sample.
    pub labels: Labels,
    /// Evaluation time and value.
    pub point: ResultPoint,
}
