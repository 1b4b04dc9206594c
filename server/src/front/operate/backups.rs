//! `backup`: backups of the running node, made, listed and removed.
//!
//! Guarantees: when POST has answered 200, the folder that it names is a data folder on stable
//! storage with everything that was acknowledged before the request. One backup is made or removed
//! at a time, the others are refused with 409. Failures: memory cannot be written to segments, the
//! disk is full or fails (500); then nothing but a folder without `FORMAT` is left, which is not
//! listed and which the next backup removes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, StatusCode};
use logsvc_http::{Request, Response};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::error::ApiError;
use logsvc_proto::go::calendar::write_rfc3339;
use logsvc_runtime::Runtime;
use logsvc_shards::backup::{self, Backup, BackupError, Listed};

use crate::front::core::JSON;
use crate::front::operate::Operator;
use crate::front::query::params;

/// The right to make or remove a backup; given back when dropped, however the request ends.
struct Turn<'n>(&'n AtomicBool);

impl<'n> Turn<'n> {
    fn take(taken: &'n AtomicBool) -> Result<Turn<'n>, ApiError> {
        if taken.swap(true, Ordering::AcqRel) {
            let text = "another backup is being made or removed; try again when it has ended";
            return Err(ApiError::new(StatusCode::CONFLICT, text).with_newline());
        }
        Ok(Turn(taken))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<R: Runtime> Operator<R> {
    /// `backup`.
    pub(crate) async fn backup(&self, request: &Request) -> Result<Response, ApiError> {
        let data_dir = &self.core.config().data_dir;
        let runtime = &self.core.runtime;
        let params = params::of(request)?;
        let name = params.get_non_empty("name");
        if let Some(name) = name {
            backup::check_name(name).map_err(|error| refusal(&error))?;
        }
        let taken = &self.core.node.asked.is_backing_up;
        match request.head.method {
            Method::POST => {
                let _turn = Turn::take(taken)?;
                let begun = runtime.now();
                let name = name.map_or_else(|| name_of_time(runtime.unix_nanos()), str::to_owned);
                backup::remove_incomplete(runtime, data_dir).await.map_err(|e| refusal(&e))?;
                // What comes later may be in the backup or not.
                self.flush_shards().await?;
                let made = backup::take(runtime, data_dir, &name).await;
                let made = made.map_err(|error| refusal(&error))?;
                let took_ms = runtime.now().since(begun).as_millis() as u64;
                tracing::info!(
                    folder = %made.folder.display(),
                    segments = made.segments,
                    entries = made.entries,
                    bytes = made.bytes,
                    missing_segments = made.missing_segments,
                    took_ms,
                    "made a backup"
                );
                Ok(json(|out| write_made(&made, out)))
            }
            Method::DELETE => {
                let _turn = Turn::take(taken)?;
                let text = "the parameter name is missing: which backup is to be removed?";
                let name = name.ok_or_else(|| ApiError::bad_request(text).with_newline())?;
                backup::remove(runtime, data_dir, name).await.map_err(|error| refusal(&error))?;
                tracing::info!(name, "removed a backup");
                Ok(Response::new(StatusCode::NO_CONTENT))
            }
            _ => {
                let listed = backup::list(runtime, data_dir).await;
                let listed = listed.map_err(|error| refusal(&error))?;
                Ok(json(|out| write_list(&listed, out)))
            }
        }
    }
}

/// The time without punctuation, such as `20261126T133825Z`.
fn name_of_time(unix_ns: i64) -> String {
    let mut text = Vec::new();
    write_rfc3339(Some(unix_ns), &mut text);
    let kept = text.into_iter().filter(|byte| byte.is_ascii_alphanumeric());
    kept.map(char::from).collect()
}

fn refusal(error: &BackupError) -> ApiError {
    let status = match error {
        BackupError::BadName(_) => StatusCode::BAD_REQUEST,
        BackupError::Exists(_) => StatusCode::CONFLICT,
        BackupError::Unknown(_) => StatusCode::NOT_FOUND,
        BackupError::Restless => StatusCode::SERVICE_UNAVAILABLE,
        BackupError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        BackupError::Manifest(_) | BackupError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    ApiError::new(status, error.to_string()).with_newline()
}

fn json(write: impl FnOnce(&mut Vec<u8>)) -> Response {
    let mut body = Vec::new();
    write(&mut body);
    body.push(b'\n');
    Response::new(StatusCode::OK).with_content_type(JSON).with_body(body)
}

fn write_made(made: &Backup, out: &mut Vec<u8>) {
    write_names(&made.name, &made.folder.to_string_lossy(), out);
    let Backup { segments, entries, bytes, missing_segments, .. } = made;
    let numbers = format!(
        ",\"segments\":{segments},\"entries\":{entries},\"bytes\":{bytes},\
         \"missing_segments\":{missing_segments}}}"
    );
    out.extend_from_slice(numbers.as_bytes());
}

fn write_list(listed: &[Listed], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"backups\":[");
    for (place, one) in listed.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_names(&one.name, &one.folder.to_string_lossy(), out);
        let numbers = format!(",\"segments\":{},\"bytes\":{}}}", one.segments, one.bytes);
        out.extend_from_slice(numbers.as_bytes());
    }
    out.extend_from_slice(b"]}");
}

fn write_names(name: &str, folder: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"name\":");
    write_json_text(name, out);
    out.extend_from_slice(b",\"folder\":");
    write_json_text(folder, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_name() {
        let name = name_of_time(1_795_222_085_999_999_999);
        assert_eq!(name, "20261121T004805Z");
        assert!(backup::check_name(&name).is_ok());
    }

    #[test]
    fn one_has_its_turn_at_a_time() {
        let taken = AtomicBool::new(false);
        let turn = Turn::take(&taken).expect("nobody has it");
        let error = Turn::take(&taken).err().expect("somebody has it");
        assert_eq!(error.status, StatusCode::CONFLICT);
        drop(turn);
        assert!(Turn::take(&taken).is_ok());
    }
}
