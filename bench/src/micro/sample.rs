//! The input of the stages: the beginning of the data set, in the form that agents send.

use crate::compare::{DataArgs, DataSet};
use crate::wire::{Encoding, WireArgs};
use anyhow::{Result, bail};
use logsvc_proto::{Labels, StreamId, TenantId};

/// Bodies and streams of a sample.
pub(super) struct Sample {
    /// Bytes of lines and metadata.
    pub(super) raw_bytes: usize,
    pub(super) line_count: usize,
    pub(super) bodies: Vec<SampleBody>,
    pub(super) tenant: TenantId,
    /// All streams of the data set.
    pub(super) streams: Vec<(StreamId, Labels)>,
}

/// A push.
pub(super) struct SampleBody {
    /// Protobuf in a Snappy block.
    pub(super) wire: Vec<u8>,
    /// Which streams it has, in its order.
    pub(super) streams: Vec<SampleStream>,
}

/// A stream of a body.
pub(super) struct SampleStream {
    pub(super) id: StreamId,
    /// The level of all its lines, if its labels tell.
    pub(super) level: Option<String>,
}

impl Sample {
    /// The first `sample_bytes` of the data set, to the end of a body.
    pub(super) fn new(args: &DataArgs, sample_bytes: u64) -> Result<Sample> {
        let mut data = DataSet::new(args)?;
        let tenant = TenantId::new("micro")?;
        let texts = data.streams().to_vec();
        let streams = texts.iter().map(|labels| {
            let labels = Labels::from_pairs(labels)?;
            Ok((StreamId::new(&tenant, &labels), labels))
        });
        let streams = streams.collect::<Result<Vec<_>>>()?;
        let wire = WireArgs { encoding: Encoding::Protobuf, gzip: false };
        let (mut raw_bytes, mut line_count, mut bodies) = (0, 0, Vec::new());
        while raw_bytes < sample_bytes {
            let Some(body) = data.next() else { break };
            raw_bytes += body.raw_bytes;
            line_count += body.line_count;
            let of_body = body.streams.iter().map(|(number, _)| SampleStream {
                id: streams[*number].0,
                level: texts[*number].get("level").cloned(),
            });
            let of_body = of_body.collect();
            bodies.push(SampleBody { wire: wire.encode(body, &texts)?, streams: of_body });
        }
        if bodies.is_empty() {
            bail!("the sample is empty");
        }
        let raw_bytes = usize::try_from(raw_bytes)?;
        Ok(Sample { raw_bytes, line_count: usize::try_from(line_count)?, bodies, tenant, streams })
    }

    /// The bodies without their compression.
    pub(super) fn plain_bodies(&self) -> Result<Vec<Vec<u8>>> {
        let mut decoder = snap::raw::Decoder::new();
        self.bodies.iter().map(|body| Ok(decoder.decompress_vec(&body.wire)?)).collect()
    }
}
