//! Reads the log of earlier processes.

use std::io;
use std::path::Path;

use logsvc_runtime::{File, OpenMode, Runtime, temporary_path};

use super::format::{FRAME_HEADER_BYTES, Frame, HEADER_BYTES, Header, read_frame};
use super::image::{Replay, StateImage};
use super::{FILE_NAME, FOLDER_NAME};

/// How much is read at once.
const PIECE_BYTES: usize = 1 << 20;

/// How the reading went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadReport {
    /// Bytes that were read and understood.
    pub good_bytes: u64,
    /// Bytes behind them that are of no use.
    pub lost_bytes: u64,
    /// What is wrong with the file, if anything is.
    pub fault: Option<String>,
}

/// The state that the file of a data folder tells. Nothing that is in the file, or wrong with it,
/// is an error; the report tells of it, and so does the log.
pub async fn load<R: Runtime>(runtime: &R, data_dir: &Path) -> (StateImage, LoadReport) {
    let path = data_dir.join(FOLDER_NAME).join(FILE_NAME);
    match runtime.remove_file(&temporary_path(&path)).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "cannot remove the left-over of a rewrite of the alerts' state");
        }
        _ => {}
    }
    let mut replay = Replay::default();
    let mut report = LoadReport::default();
    match read(runtime, &path, &mut replay, &mut report).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => report.fault = Some(format!("cannot read it: {error}")),
        Ok(()) => {}
    }
    if let Some(fault) = &report.fault {
        tracing::error!(
            path = %path.display(),
            good_bytes = report.good_bytes,
            lost_bytes = report.lost_bytes,
            "the state of alerts is damaged; alerts that are lost become pending again: {fault}"
        );
    } else if report.lost_bytes > 0 {
        tracing::info!(
            path = %path.display(),
            lost_bytes = report.lost_bytes,
            "the state of alerts ends in a frame that was not written to its end"
        );
    }
    (replay.finish(), report)
}

/// The state that the bytes of a whole file tell, as [`load`] does.
pub(super) async fn decode<R: Runtime>(runtime: &R, bytes: &[u8]) -> (StateImage, LoadReport) {
    let mut replay = Replay::default();
    let mut report = LoadReport { lost_bytes: bytes.len() as u64, ..LoadReport::default() };
    let header = match Header::decode(bytes) {
        Ok(header) => header,
        Err(error) => {
            report.fault = Some(error.to_string());
            return (replay.finish(), report);
        }
    };
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let Frame::Good(payload) = read_frame(header.nonce, &bytes[at..]) else {
            report.fault = Some(format!("no frame at byte {at}"));
            break;
        };
        if !replay.apply(payload) {
            report.fault = Some("a frame has an unknown record".to_owned());
        }
        at += FRAME_HEADER_BYTES + payload.len();
        runtime.yield_now().await;
    }
    report.good_bytes = at as u64;
    report.lost_bytes = (bytes.len() - at) as u64;
    (replay.finish(), report)
}

async fn read<R: Runtime>(
    runtime: &R,
    path: &Path,
    replay: &mut Replay,
    report: &mut LoadReport,
) -> io::Result<()> {
    let file = runtime.open(path, OpenMode::Read).await?;
    let len_bytes = file.len_bytes().await?;
    report.lost_bytes = len_bytes;
    let (result, mut buffer) = file.read_at(Vec::with_capacity(PIECE_BYTES), 0).await;
    let mut read_bytes = result? as u64;
    let header = match Header::decode(&buffer) {
        Ok(header) => header,
        Err(error) => {
            report.fault = Some(error.to_string());
            return Ok(());
        }
    };
    report.good_bytes = HEADER_BYTES as u64;
    report.lost_bytes = len_bytes - report.good_bytes;
    let mut at = HEADER_BYTES;
    loop {
        let wanted_bytes = match read_frame(header.nonce, &buffer[at..]) {
            Frame::Good(payload) => {
                if !replay.apply(payload) {
                    report.fault = Some("a frame has an unknown record".to_owned());
                }
                at += FRAME_HEADER_BYTES + payload.len();
                report.good_bytes += (FRAME_HEADER_BYTES + payload.len()) as u64;
                report.lost_bytes = len_bytes.saturating_sub(report.good_bytes);
                continue;
            }
            Frame::Bad => {
                report.fault = Some(format!("no frame at byte {}", report.good_bytes));
                return Ok(());
            }
            Frame::Short(wanted_bytes) => wanted_bytes,
        };
        // Whole pieces, and never more than the file has.
        buffer.drain(..at);
        at = 0;
        let room_bytes = wanted_bytes.saturating_sub(buffer.len()).max(PIECE_BYTES);
        buffer.reserve_exact(room_bytes);
        let (result, returned) = file.read_at(buffer, read_bytes).await;
        buffer = returned;
        match result? {
            0 => return Ok(()),
            count => read_bytes += count as u64,
        }
        runtime.yield_now().await;
    }
}
