//! A `MANIFEST` that a test takes apart and writes anew, with checksums that are right.

use logsvc_runtime::sim::Disk;
use logsvc_segment::FOOTER_LEN;
use logsvc_shards::wal::format::{FRAME_HEADER_LEN, FrameHeader, Layout};

/// Where it is.
pub(crate) const CHECKPOINT: &str = "/srv/data/segments/MANIFEST";

/// A record *footer*: kind, name, footer.
const RECORD_LEN: usize = 1 + 16 + FOOTER_LEN;
const KIND_FOOTER: u8 = 6;

/// See the module.
pub(crate) struct Checkpoint {
    header: Vec<u8>,
    payloads: Vec<Vec<u8>>,
}

impl Checkpoint {
    pub(crate) fn read(disk: &Disk) -> Checkpoint {
        let bytes = disk.read(CHECKPOINT).expect("a checkpoint");
        let mut payloads = Vec::new();
        let mut offset = 512;
        while offset < bytes.len() {
            let header = FrameHeader::decode_any(&bytes[offset..]).expect("a frame");
            let start = offset + FRAME_HEADER_LEN;
            let end = start + header.payload_len as usize;
            payloads.push(bytes[start..end].to_vec());
            offset = end.next_multiple_of(512);
        }
        Checkpoint { header: bytes[..64].to_vec(), payloads }
    }

    pub(crate) fn write(mut self, disk: &Disk) {
        self.header[40..48].copy_from_slice(&(self.payloads.len() as u64).to_le_bytes());
        seal(&mut self.header);
        let nonce = u64::from_le_bytes(self.header[16..24].try_into().expect("eight bytes"));
        let mut bytes = self.header;
        for (number, payload) in (0..).zip(&self.payloads) {
            bytes.resize(bytes.len().next_multiple_of(512), 0);
            let header = FrameHeader {
                nonce,
                number,
                durable_len: bytes.len() as u64,
                payload_len: payload.len() as u32,
                payload_crc: crc32c::crc32c(payload),
                layout: Layout::Packed,
            };
            bytes.extend_from_slice(&header.encode());
            bytes.extend_from_slice(payload);
        }
        disk.write(CHECKPOINT, &bytes);
    }

    /// The footers that it has, by the names of their segments.
    pub(crate) fn footers(&mut self) -> Vec<&mut [u8]> {
        let frames = self.payloads.iter_mut().filter(|payload| payload[0] == KIND_FOOTER);
        let records = frames.flat_map(|payload| payload.chunks_exact_mut(RECORD_LEN));
        records.map(|record| &mut record[RECORD_LEN - FOOTER_LEN..]).collect()
    }

    /// Takes the footers out, so that it is as a program writes it that does not know them.
    pub(crate) fn without_footers(mut self) -> Checkpoint {
        self.payloads.retain(|payload| payload[0] != KIND_FOOTER);
        self
    }
}

/// Gives a header or footer the checksum of its bytes.
pub(crate) fn seal(bytes: &mut [u8]) {
    bytes[12..16].fill(0);
    let crc = crc32c::crc32c(bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}
