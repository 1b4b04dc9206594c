//! The body of the answer to a request of which some records were refused:
//! `ExportLogsServiceResponse`, in the encoding of the request.
//!
//! ```text
//! ExportLogsServiceResponse { ExportLogsPartialSuccess partial_success = 1; }
//! ExportLogsPartialSuccess  { int64 rejected_log_records = 1; string error_message = 2; }
//! ```

use crate::encode::write_json_text;
use crate::varint;

/// The encoding of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseFormat {
    /// Protobuf.
    Protobuf,
    /// JSON.
    Json,
}

impl ResponseFormat {
    /// Content type of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            ResponseFormat::Protobuf => "application/x-protobuf",
            ResponseFormat::Json => "application/json",
        }
    }
}

/// Records that were refused for good, while others of the request were stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartialSuccess {
    /// How many.
    pub rejected_log_records: u64,
    /// Why.
    pub error_message: String,
}

impl PartialSuccess {
    /// The body of the answer.
    pub fn encode(&self, format: ResponseFormat) -> Vec<u8> {
        match format {
            ResponseFormat::Protobuf => self.protobuf(),
            ResponseFormat::Json => self.json(),
        }
    }

    fn protobuf(&self) -> Vec<u8> {
        const PARTIAL_SUCCESS_TAG: u8 = 1 << 3 | 2;
        const REJECTED_TAG: u8 = 1 << 3;
        const MESSAGE_TAG: u8 = 2 << 3 | 2;
        let mut inner = vec![REJECTED_TAG];
        varint::write(&mut inner, self.rejected_log_records);
        inner.push(MESSAGE_TAG);
        varint::write(&mut inner, self.error_message.len() as u64);
        inner.extend_from_slice(self.error_message.as_bytes());
        let mut out = vec![PARTIAL_SUCCESS_TAG];
        varint::write(&mut out, inner.len() as u64);
        out.extend_from_slice(&inner);
        out
    }

    /// Numbers of 64 bits are texts in the JSON form of protobuf.
    fn json(&self) -> Vec<u8> {
        let mut out = b"{\"partialSuccess\":{\"rejectedLogRecords\":".to_vec();
        write_json_text(itoa::Buffer::new().format(self.rejected_log_records), &mut out);
        out.extend_from_slice(b",\"errorMessage\":");
        write_json_text(&self.error_message, &mut out);
        out.extend_from_slice(b"}}");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let partial =
            PartialSuccess { rejected_log_records: 300, error_message: "a \"bad\" name".into() };
        assert_eq!(
            partial.encode(ResponseFormat::Protobuf),
            b"\x0a\x11\x08\xac\x02\x12\x0ca \"bad\" name"
        );
        assert_eq!(
            String::from_utf8_lossy(&partial.encode(ResponseFormat::Json)),
            r#"{"partialSuccess":{"rejectedLogRecords":"300","errorMessage":"a \"bad\" name"}}"#
        );
    }
}
