//! Reads kept files from their objects.

use std::time::Duration;

use logsvc_runtime::Runtime;
use logsvc_store::Store;
use logsvc_store::bucket::Span;
use logsvc_store::object::{HEADER_LEN, Header, ObjectError};

use super::{KIND_FILE, LedgerError};
use crate::kept::{Content, KeptFile, KeptPath};

/// How long the read of an object has patience.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reads the content of a kept file.
///
/// # Errors
/// The object is missing, damaged or another file's, or the bucket does not answer.
pub(crate) async fn fetch<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    path: &KeptPath,
    file: &KeptFile,
) -> Result<(KeptPath, Vec<u8>), LedgerError> {
    let name = file.object.name().map_err(LedgerError::Name)?;
    let unusable =
        |what: String| LedgerError::KeptFile { object: name.to_string(), path: path.clone(), what };
    let span = Span::Whole { max_bytes: HEADER_LEN as u64 + file.content.len_bytes };
    let object = match store.read(&name, span, runtime.now().after(PATIENCE)).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Err(unusable("it is missing".to_owned())),
        Err(error) => return Err(error.into()),
    };
    let (header, payload) =
        Header::decode(&object).map_err(|error: ObjectError| unusable(error.to_string()))?;
    if header.kind != KIND_FILE || Content::of(&payload) != file.content {
        return Err(unusable("it has other bytes than the log of the bucket says".to_owned()));
    }
    Ok((path.clone(), payload.to_vec()))
}
