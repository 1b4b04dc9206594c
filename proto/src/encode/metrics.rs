//! Metric results: matrix, vector, scalar.

use crate::encode::{
    Commas, QueryStats, end_data, write_label_object, write_sample_time_ms, write_sample_value,
};

fn write_sample(unix_ms: i64, value: f64, out: &mut Vec<u8>) {
    out.push(b'[');
    write_sample_time_ms(unix_ms, out);
    out.push(b',');
    write_sample_value(value, out);
    out.push(b']');
}

/// A query answer of type `matrix`: series of samples.
#[derive(Clone, Copy, Default, Debug)]
pub struct MatrixWriter {
    series: Commas,
    samples: Commas,
}

impl MatrixWriter {
    /// A writer before its answer.
    pub fn new() -> MatrixWriter {
        MatrixWriter::default()
    }

    /// Opens the answer.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"status":"success","data":{"resultType":"matrix","result":["#);
    }

    /// Opens a series; the labels come by ascending name.
    pub fn series<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        out: &mut Vec<u8>,
    ) {
        self.close_series(out);
        self.series.next(out);
        out.extend_from_slice(b"{\"metric\":");
        write_label_object(labels, out);
        out.extend_from_slice(b",\"values\":[");
        self.samples = Commas::default();
    }

    fn close_series(&mut self, out: &mut Vec<u8>) {
        if self.series.started {
            out.extend_from_slice(b"]}");
        }
    }

    /// Writes a sample of the open series; time in Unix milliseconds.
    pub fn sample(&mut self, unix_ms: i64, value: f64, out: &mut Vec<u8>) {
        self.samples.next(out);
        write_sample(unix_ms, value, out);
    }

    /// Closes the answer.
    pub fn end(&mut self, stats: &QueryStats, warnings: &[&str], out: &mut Vec<u8>) {
        self.close_series(out);
        end_data(stats, warnings, out);
    }
}

/// A query answer of type `vector`: one sample per label set.
#[derive(Clone, Copy, Default, Debug)]
pub struct VectorWriter {
    samples: Commas,
}

impl VectorWriter {
    /// A writer before its answer.
    pub fn new() -> VectorWriter {
        VectorWriter::default()
    }

    /// Opens the answer.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"status":"success","data":{"resultType":"vector","result":["#);
    }

    /// Writes a sample; labels by ascending name, time in Unix milliseconds.
    pub fn sample<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        unix_ms: i64,
        value: f64,
        out: &mut Vec<u8>,
    ) {
        self.samples.next(out);
        out.extend_from_slice(b"{\"metric\":");
        write_label_object(labels, out);
        out.extend_from_slice(b",\"value\":");
        write_sample(unix_ms, value, out);
        out.push(b'}');
    }

    /// Closes the answer.
    pub fn end(&mut self, stats: &QueryStats, warnings: &[&str], out: &mut Vec<u8>) {
        end_data(stats, warnings, out);
    }
}

/// Appends a query answer of type `scalar`; time in Unix milliseconds, written
/// in seconds.
pub fn write_scalar(unix_ms: i64, value: f64, stats: &QueryStats, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"status":"success","data":{"resultType":"scalar","result":["#);
    write_sample_time_ms(unix_ms, out);
    out.push(b',');
    write_sample_value(value, out);
    end_data(stats, &[], out);
}
