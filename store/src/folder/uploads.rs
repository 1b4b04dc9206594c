//! Objects that come in parts: a hidden file that is written piece by piece.
//!
//! Guarantees: a part whose put has succeeded is durable. A part that comes twice is the same bytes
//! in the same place, even after the object has got its name.
//!
//! Failures: a failed sync ends the upload, because no later one would tell what was lost. An upload
//! that nobody has written to for a day is a left-over, and the next open removes it. In both cases
//! its parts and its end are not found from then on.

use std::path::PathBuf;

use bytes::Bytes;
use logsvc_runtime::{File, OpenMode, Runtime};

use super::Inner;
use super::errors::{is_absent, of_file};
use super::publish::write_at;
use crate::bucket::{BucketError, PartId, Reason, UploadId};
use crate::name::ObjectName;

impl<R: Runtime> Inner<R> {
    pub(super) async fn begin(&self) -> Result<UploadId, BucketError> {
        let upload = self.new_hidden_name();
        let path = self.hidden.join(&upload);
        let file = self.runtime.open(&path, OpenMode::CreateNew).await;
        file.map(|_| UploadId(upload)).map_err(|error| of_file(&error))
    }

    pub(super) async fn put_part(
        &self,
        upload: &UploadId,
        offset: u64,
        body: Bytes,
    ) -> Result<PartId, BucketError> {
        let file = self.open_upload(upload).await?;
        let written = write_at(&file, offset, &body).await;
        written.map_err(|error| of_file(&error))?;
        self.sync_upload(&file, upload).await?;
        Ok(PartId(format!("{offset}-{}", body.len())))
    }

    pub(super) async fn complete(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        parts: &[PartId],
    ) -> Result<(), BucketError> {
        let len_bytes = len_of(parts).ok_or_else(|| refused("parts are missing or cut"))?;
        let file = self.open_upload(upload).await?;
        // Also sets the time of the file, which is the object's age.
        file.truncate(len_bytes).await.map_err(|error| of_file(&error))?;
        self.sync_upload(&file, upload).await?;
        let path = self.path_of(upload)?;
        let result = self.publish(&path, name).await;
        if matches!(result, Ok(()) | Err(BucketError::Exists(_))) {
            self.remove_hidden(&path).await;
        }
        result
    }

    pub(super) async fn abort(&self, upload: &UploadId) -> Result<(), BucketError> {
        let Ok(path) = self.path_of(upload) else { return Ok(()) };
        match self.runtime.remove_file(&path).await {
            Err(error) if !is_absent(&error) => Err(of_file(&error)),
            _ => Ok(()),
        }
    }

    async fn sync_upload(&self, file: &R::File, upload: &UploadId) -> Result<(), BucketError> {
        let Err(error) = file.sync_data().await else { return Ok(()) };
        self.spoiled.borrow_mut().insert(upload.0.clone());
        if self.remove_hidden(&self.path_of(upload)?).await {
            self.spoiled.borrow_mut().remove(&upload.0);
        }
        Err(of_file(&error))
    }

    async fn open_upload(&self, upload: &UploadId) -> Result<R::File, BucketError> {
        if self.spoiled.borrow().contains(&upload.0) {
            return Err(BucketError::NotFound);
        }
        match self.runtime.open(&self.path_of(upload)?, OpenMode::ReadWrite).await {
            Ok(file) => Ok(file),
            Err(error) => Err(self.of_read(error).await),
        }
    }

    /// The file of an upload. A text that [`Inner::begin`] did not give leads nowhere.
    fn path_of(&self, upload: &UploadId) -> Result<PathBuf, BucketError> {
        let is_name = upload.0.len() == 32 && upload.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_name { Ok(self.hidden.join(&upload.0)) } else { Err(BucketError::NotFound) }
    }
}

fn refused(reason: &str) -> BucketError {
    BucketError::Refused(Reason(reason.to_owned()))
}

/// The length of an object of these parts, if each begins where the one before it ends.
fn len_of(parts: &[PartId]) -> Option<u64> {
    let mut len_bytes = 0u64;
    for part in parts {
        let (offset, len) = part.0.split_once('-')?;
        let (offset, len): (u64, u64) = (offset.parse().ok()?, len.parse().ok()?);
        if offset != len_bytes {
            return None;
        }
        len_bytes = len_bytes.checked_add(len)?;
    }
    Some(len_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_side_by_side() {
        let len = |parts: &[&str]| {
            len_of(&parts.iter().map(|part| PartId((*part).to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(len(&[]), Some(0));
        assert_eq!(len(&["0-7"]), Some(7));
        assert_eq!(len(&["0-7", "7-3"]), Some(10));
        let wrong: [&[&str]; 6] =
            [&["1-7"], &["0-7", "8-7"], &["0-7", "0-7"], &["0"], &["x-7"], &["0-7", "6-1"]];
        for parts in wrong {
            assert_eq!(len(parts), None, "{parts:?}");
        }
    }
}
