//! The fate of connections over the limit, and of connections without a descriptor: they are told,
//! as far as that is cheap.

use std::time::Duration;

use logsvc_runtime::{Reader, Runtime, Writer};

/// Connections that are being told at a time, per core; others are closed at once.
pub(crate) const MAX_TURNED_AWAY: usize = 64;

/// Time for the answer to be taken and for the client to stop sending.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The same where the connection takes one of a few descriptors that are kept for this.
pub(crate) const SPARE_PATIENCE: Duration = Duration::from_millis(250);

/// Bytes of the client that are read and dropped meanwhile.
const MAX_DROPPED_BYTES: usize = 64 * 1024;

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\
    Retry-After: 1\r\n\
    Content-Length: 21\r\n\
    \r\n\
    too many connections\n";

/// Answers a connection whatever it asks, and closes it so that the answer arrives.
pub(crate) async fn turn_away<R: Runtime>(
    runtime: &R,
    mut reader: impl Reader,
    mut writer: impl Writer,
    patience: Duration,
) {
    let deadline = runtime.now().after(patience);
    if writer.write_all(ANSWER.to_vec(), deadline).await.0.is_err()
        || writer.shutdown().await.is_err()
    {
        return;
    }
    let mut dropped_bytes = 0;
    let mut buffer = Vec::with_capacity(1024);
    while dropped_bytes < MAX_DROPPED_BYTES {
        buffer.clear();
        let (result, returned) = reader.read(buffer, deadline).await;
        buffer = returned;
        match result {
            Ok(count) if count > 0 => dropped_bytes += count,
            Ok(_) | Err(_) => return,
        }
    }
}
