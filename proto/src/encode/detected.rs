//! Detected fields, their values, and detected labels.

use crate::encode::{Commas, write_json_text, write_text_array};

/// The type of the values of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    /// Anything.
    String,
    /// Whole numbers of 64 bits.
    Int,
    /// Numbers.
    Float,
    /// `true` and `false`.
    Boolean,
    /// Durations such as `1.5ms`.
    Duration,
    /// Sizes such as `12kB`.
    Bytes,
}

impl FieldType {
    /// Its name in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            FieldType::String => "string",
            FieldType::Int => "int",
            FieldType::Float => "float",
            FieldType::Boolean => "boolean",
            FieldType::Duration => "duration",
            FieldType::Bytes => "bytes",
        }
    }
}

/// A field of the lines that a query found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DetectedField {
    /// The label that a query gets by extracting it.
    pub label: String,
    /// The type of its values.
    pub kind: FieldType,
    /// How many values it has, about.
    pub cardinality: u64,
    /// The stages that extract it; none for structured metadata.
    pub parsers: Vec<&'static str>,
    /// The keys that lead to it, if lines are JSON.
    pub json_path: Vec<String>,
}

/// Appends the answer of `detected_fields`: an empty object when there are none.
pub fn write_detected_fields(fields: &[DetectedField], limit: u32, out: &mut Vec<u8>) {
    if fields.is_empty() {
        out.extend_from_slice(b"{}\n");
        return;
    }
    out.extend_from_slice(b"{\"fields\":[");
    let mut commas = Commas::default();
    for field in fields {
        commas.next(out);
        write_label_and_cardinality(&field.label, Some(field.kind), field.cardinality, out);
        out.extend_from_slice(b",\"parsers\":");
        if field.parsers.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            write_text_array(field.parsers.iter().copied(), out);
        }
        if !field.json_path.is_empty() {
            out.extend_from_slice(b",\"jsonPath\":");
            write_text_array(field.json_path.iter().map(String::as_str), out);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"limit\":");
    out.extend_from_slice(itoa::Buffer::new().format(limit).as_bytes());
    out.extend_from_slice(b"}\n");
}

/// Appends the answer of `detected_field/{name}/values`: an empty object when there
/// are none.
pub fn write_field_values<'a>(
    values: impl Iterator<Item = &'a str>,
    limit: u32,
    out: &mut Vec<u8>,
) {
    let mut values = values.peekable();
    if values.peek().is_none() {
        out.extend_from_slice(b"{}\n");
        return;
    }
    out.extend_from_slice(b"{\"limit\":");
    out.extend_from_slice(itoa::Buffer::new().format(limit).as_bytes());
    out.extend_from_slice(b",\"values\":");
    write_text_array(values, out);
    out.extend_from_slice(b"}\n");
}

/// Appends the answer of `detected_labels`, of names with their number of values: an
/// empty object when there are none.
pub fn write_detected_labels<'a>(labels: impl Iterator<Item = (&'a str, u64)>, out: &mut Vec<u8>) {
    let mut labels = labels.peekable();
    if labels.peek().is_none() {
        out.extend_from_slice(b"{}\n");
        return;
    }
    out.extend_from_slice(b"{\"detectedLabels\":[");
    let mut commas = Commas::default();
    for (label, cardinality) in labels {
        commas.next(out);
        write_label_and_cardinality(label, None, cardinality, out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}\n");
}

fn write_label_and_cardinality(
    label: &str,
    kind: Option<FieldType>,
    cardinality: u64,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"label\":");
    write_json_text(label, out);
    if let Some(kind) = kind {
        out.extend_from_slice(b",\"type\":");
        write_json_text(kind.as_str(), out);
    }
    out.extend_from_slice(b",\"cardinality\":");
    out.extend_from_slice(itoa::Buffer::new().format(cardinality).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        let text = String::from_utf8(out).expect("UTF-8");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        text
    }

    #[test]
    fn fields_show_what_is_known_of_them() {
        let field = |label: &str, kind, parsers: &[&'static str], path: &[&str]| DetectedField {
            label: label.to_owned(),
            kind,
            cardinality: 40,
            parsers: parsers.to_vec(),
            json_path: path.iter().map(|&key| key.to_owned()).collect(),
        };
        let fields = [
            field("req_id", FieldType::Int, &["json"], &["req", "i\"d"]),
            field("dur", FieldType::Duration, &["logfmt"], &[]),
            field("trace_id", FieldType::String, &[], &[]),
        ];
        let expected = concat!(
            r#"{"fields":[{"label":"req_id","type":"int","cardinality":40,"parsers":["json"],"#,
            r#""jsonPath":["req","i\"d"]},"#,
            r#"{"label":"dur","type":"duration","cardinality":40,"parsers":["logfmt"]},"#,
            r#"{"label":"trace_id","type":"string","cardinality":40,"parsers":null}],"limit":1000}"#,
            "\n"
        );
        assert_eq!(written(|out| write_detected_fields(&fields, 1000, out)), expected);
        assert_eq!(written(|out| write_detected_fields(&[], 1000, out)), "{}\n");
    }

    #[test]
    fn values_and_labels_are_lists_or_nothing() {
        let values = ["a", "\""].into_iter();
        let expected = "{\"limit\":5,\"values\":[\"a\",\"\\\"\"]}\n";
        assert_eq!(written(|out| write_field_values(values, 5, out)), expected);
        assert_eq!(written(|out| write_field_values([].into_iter(), 5, out)), "{}\n");
        let labels = [("app", 3), ("pod", 14)].into_iter();
        let expected = concat!(
            r#"{"detectedLabels":[{"label":"app","cardinality":3},{"label":"pod","cardinality":14}]}"#,
            "\n"
        );
        assert_eq!(written(|out| write_detected_labels(labels, out)), expected);
        assert_eq!(written(|out| write_detected_labels([].into_iter(), out)), "{}\n");
    }
}
