//! Answers of the query family, written straight into a byte buffer: no trees, no intermediate
//! strings.
//!
//! Writers keep only the state that places commas. The buffer is handed in at every step, so that a
//! caller may send it off and go on with an empty one. Bodies of log lines, labels and series end
//! with a line break, bodies of metric results do not.

mod detected;
mod index;
mod json;
mod lists;
mod metrics;
mod number;
mod stats;
mod streams;

pub use detected::{
    DetectedField, FieldType, write_detected_fields, write_detected_labels, write_field_values,
};
pub use index::{IndexStats, write_index_shards, write_index_stats};
pub use json::{write_json_bytes, write_json_line, write_json_text, write_label_object};
pub use lists::{SeriesWriter, write_label_list, write_text_array};
pub use metrics::{MatrixWriter, VectorWriter, write_scalar};
pub use number::{write_sample_time_ms, write_sample_value};
pub use stats::{CacheStats, IngesterStats, QueryStats, StoreStats};
pub use streams::{LegacyStreamsWriter, StreamArrayWriter, StreamsWriter};

/// The comma between items: none before the first.
#[derive(Clone, Copy, Default, Debug)]
struct Commas {
    started: bool,
}

impl Commas {
    fn next(&mut self, out: &mut Vec<u8>) {
        if self.started {
            out.push(b',');
        }
        self.started = true;
    }
}

/// Closes `result` and `data`, with the statistics, and the warnings if any.
fn end_data(stats: &QueryStats, warnings: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(b"],\"stats\":");
    stats.write_json(out);
    out.push(b'}');
    lists::write_warnings(warnings, out);
    out.push(b'}');
}
