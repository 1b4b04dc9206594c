//! Messages over connections, each behind its length. A state is answered with one.
//!
//! Guarantees: every exchange has a deadline. Memory grows with the bytes that have come, and not
//! with the length that was claimed.

use std::io;
use std::net::SocketAddr;

use logsvc_runtime::{Dial, Monotonic, Reader, Runtime, Writer};

use super::Links;
use crate::settings::Settings;
use crate::wire::envelope::STREAM_MAX_BYTES;

const LEN_BYTES: usize = 4;
/// How much more memory is taken at a time.
const PIECE_BYTES: usize = 16 << 10;

/// Sends a message to a member, and gives its answer.
pub(super) async fn ask<R: Runtime, D: Dial>(
    runtime: &R,
    links: &Links<D>,
    address: SocketAddr,
    message: &[u8],
    settings: &Settings,
) -> io::Result<Vec<u8>> {
    let dial_until = runtime.now().after(settings.packet_dial_timeout);
    let (mut reader, mut writer) = links.dial(address, dial_until).await?;
    let until = runtime.now().after(settings.stream_timeout);
    write(&mut writer, message, until).await?;
    let mut frames = Frames::default();
    let answer = frames.next(&mut reader, STREAM_MAX_BYTES, until).await?;
    match frames.is_empty() {
        true => answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
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

/// What has come on a connection and was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    came: Vec<u8>,
}

impl Frames {
    /// Whether nothing has come behind the last message.
    pub(super) fn is_empty(&self) -> bool {
        self.came.is_empty()
    }

    /// Reads a message of at most `max_bytes`; `None` if the connection has ended between messages.
    pub(super) async fn next<Rd: Reader>(
        &mut self,
        reader: &mut Rd,
        max_bytes: usize,
        until: Monotonic,
    ) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(len_bytes) = self.came.first_chunk() {
                let len_bytes = u32::from_le_bytes(*len_bytes) as usize;
                if len_bytes > max_bytes {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                let whole_bytes = LEN_BYTES + len_bytes;
                if self.came.len() >= whole_bytes {
                    let rest = self.came.split_off(whole_bytes);
                    let mut message = std::mem::replace(&mut self.came, rest);
                    message.drain(..LEN_BYTES);
                    return Ok(Some(message));
                }
            }
            let mut came = std::mem::take(&mut self.came);
            if came.len() == came.capacity() {
                came.reserve(PIECE_BYTES);
            }
            let (result, came) = reader.read(came, until).await;
            self.came = came;
            if result? == 0 {
                return match self.came.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }
}
