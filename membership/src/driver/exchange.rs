//! States over TCP: one message each way, behind its length.
//!
//! Guarantees: every exchange has a deadline. Memory grows with the bytes that have come, and not
//! with the length that was claimed.

use std::io;
use std::net::SocketAddr;

use logsvc_runtime::{Monotonic, Reader, Runtime, Writer};

use crate::settings::Settings;
use crate::wire::envelope::STREAM_MAX_BYTES;

const LEN_BYTES: usize = 4;
/// How much more memory is taken at a time.
const PIECE_BYTES: usize = 16 << 10;

/// Sends a message to a member, and gives its answer.
pub(super) async fn ask<R: Runtime>(
    runtime: &R,
    address: SocketAddr,
    message: &[u8],
    settings: &Settings,
) -> io::Result<Vec<u8>> {
    let dial_until = runtime.now().after(settings.packet_dial_timeout);
    let (mut reader, mut writer) = runtime.connect(address, dial_until).await?;
    let until = runtime.now().after(settings.stream_timeout);
    write(&mut writer, message, until).await?;
    read(&mut reader, until).await
}

/// Writes a message.
pub(super) async fn write<W: Writer>(
    writer: &mut W,
    message: &[u8],
    until: Monotonic,
) -> io::Result<()> {
    let len_bytes = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(LEN_BYTES + message.len());
    frame.extend_from_slice(&len_bytes.to_le_bytes());
    frame.extend_from_slice(message);
    writer.write_all(frame, until).await.0
}

/// Reads a message.
pub(super) async fn read<Rd: Reader>(reader: &mut Rd, until: Monotonic) -> io::Result<Vec<u8>> {
    let mut frame = Vec::with_capacity(PIECE_BYTES);
    loop {
        if let Some(len_bytes) = frame.first_chunk() {
            let whole_bytes = LEN_BYTES.saturating_add(u32::from_le_bytes(*len_bytes) as usize);
            if whole_bytes > LEN_BYTES + STREAM_MAX_BYTES || frame.len() > whole_bytes {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if frame.len() == whole_bytes {
                frame.drain(..LEN_BYTES);
                return Ok(frame);
            }
        }
        if frame.len() == frame.capacity() {
            frame.reserve(PIECE_BYTES);
        }
        let (result, buffer) = reader.read(frame, until).await;
        frame = buffer;
        if result? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
