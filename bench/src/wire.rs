//! Encodings of a push body, as the push protocol defines them: the protobuf form
//! in one Snappy block, the JSON form, and gzip over either.

use crate::labels::{self, Labels};
use crate::source::Body;
use anyhow::Result;
use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;
use logsvc_proto::messages::{
    EntryAdapter, LabelPairAdapter, PushRequest, StreamAdapter, Timestamp,
};
use prost::Message;
use std::io::Write;

/// Which form of the push protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Encoding {
    /// Protobuf in a Snappy block
    Protobuf,
    /// JSON
    Json,
}

/// How bodies are encoded.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WireArgs {
    /// Form of the push body
    #[arg(long, value_enum, default_value_t = Encoding::Protobuf)]
    pub(crate) encoding: Encoding,
    /// Compress the body with gzip as well
    #[arg(long)]
    pub(crate) gzip: bool,
}

impl WireArgs {
    /// Header lines that describe the encoding, each with its line end.
    pub(crate) fn headers(self) -> &'static str {
        match (self.encoding, self.gzip) {
            (Encoding::Protobuf, false) => "Content-Type: application/x-protobuf\r\n",
            (Encoding::Protobuf, true) => {
                "Content-Type: application/x-protobuf\r\nContent-Encoding: gzip\r\n"
            }
            (Encoding::Json, false) => "Content-Type: application/json\r\n",
            (Encoding::Json, true) => {
                "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
            }
        }
    }

    /// The body as it goes over the wire. `streams` are the labels that the
    /// body's stream numbers index.
    pub(crate) fn encode(self, body: Body, streams: &[Labels]) -> Result<Vec<u8>> {
        let plain = match self.encoding {
            Encoding::Protobuf => {
                let message = to_message(body, streams).encode_to_vec();
                snap::raw::Encoder::new().compress_vec(&message)?
            }
            Encoding::Json => to_json(&body, streams)?,
        };
        if !self.gzip {
            return Ok(plain);
        }
        let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 2), Compression::fast());
        encoder.write_all(&plain)?;
        Ok(encoder.finish()?)
    }
}

fn to_message(body: Body, streams: &[Labels]) -> PushRequest {
    let streams = body.streams.into_iter().map(|(number, entries)| StreamAdapter {
        labels: labels::to_selector(&streams[number]),
        entries: entries
            .into_iter()
            .map(|entry| EntryAdapter {
                timestamp: Some(Timestamp::from_unix_ns(entry.unix_nanos)),
                line: entry.line.into_bytes(),
                structured_metadata: entry
                    .metadata
                    .into_iter()
                    .map(|(name, value)| LabelPairAdapter {
                        name: name.as_bytes().to_vec(),
                        value: value.into_bytes(),
                    })
                    .collect(),
                parsed: Vec::new(),
            })
            .collect(),
        hash: 0,
    });
    PushRequest { streams: streams.collect(), format: String::new() }
}

fn to_json(body: &Body, streams: &[Labels]) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(body.raw_bytes as usize * 5 / 4);
    out.extend_from_slice(b"{\"streams\":[");
    for (index, (number, entries)) in body.streams.iter().enumerate() {
        out.extend_from_slice(if index > 0 { b",{\"stream\":" } else { b"{\"stream\":" });
        serde_json::to_writer(&mut out, &streams[*number])?;
        out.extend_from_slice(b",\"values\":[");
        for (index, entry) in entries.iter().enumerate() {
            out.extend_from_slice(if index > 0 { b",[\"" } else { b"[\"" });
            out.extend_from_slice(entry.unix_nanos.to_string().as_bytes());
            out.extend_from_slice(b"\",");
            serde_json::to_writer(&mut out, &entry.line)?;
            if !entry.metadata.is_empty() {
                let pairs = entry.metadata.iter().map(|(name, value)| ((*name).to_owned(), value));
                out.push(b',');
                serde_json::to_writer(
                    &mut out,
                    &pairs.collect::<std::collections::BTreeMap<_, _>>(),
                )?;
            }
            out.push(b']');
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"]}");
    Ok(out)
}
