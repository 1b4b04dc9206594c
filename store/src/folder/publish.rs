//! How bytes become an object: written aside, synced, and linked to their name.
//!
//! Guarantee: from the link until the folder has been synced the name is among the unsettled ones.
//! [`Inner::settle`] syncs it for those who have seen it, so that nobody takes for durable what only
//! the page cache holds: a create whose sync failed must not pass for done because its object can be
//! read.

use std::io;
use std::path::Path;

use bytes::Bytes;
use logsvc_runtime::{File, OpenMode, Runtime};

use super::errors::of_file;
use super::{Inner, parent_of};
use crate::bucket::{BucketError, Reason};
use crate::name::ObjectName;

/// The most bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// The most folders that are known to be durable.
const KNOWN_FOLDERS: usize = 1024;

impl<R: Runtime> Inner<R> {
    pub(super) async fn create(&self, name: &ObjectName, body: Bytes) -> Result<(), BucketError> {
        let hidden = self.hidden.join(self.new_hidden_name());
        let result = match self.write_new(&hidden, body).await {
            Ok(()) => self.publish(&hidden, name).await,
            Err(error) => Err(of_file(&error)),
        };
        self.remove_hidden(&hidden).await;
        result
    }

    /// Writes a new file and syncs its bytes, not its name.
    pub(super) async fn write_new(&self, path: &Path, body: Bytes) -> io::Result<()> {
        let file = self.runtime.open(path, OpenMode::CreateNew).await?;
        write_at(&file, 0, &body).await?;
        file.sync_data().await
    }

    /// Gives a synced file the name of an object, for good.
    pub(super) async fn publish(
        &self,
        hidden: &Path,
        name: &ObjectName,
    ) -> Result<(), BucketError> {
        let path = self.path(name);
        let folder = parent_of(&path);
        self.make_durable(folder).await?;
        *self.unsettled.borrow_mut().entry(name.clone()).or_default() += 1;
        let linked = self.runtime.hard_link(hidden, &path).await;
        // Whoever made a name that exists, it is durable after this.
        let is_there = match &linked {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::AlreadyExists,
        };
        let synced = if is_there { Some(self.runtime.sync_dir(folder).await) } else { None };
        self.note_end(name, matches!(synced, Some(Ok(()))));
        match (linked, synced) {
            (_, Some(Err(error))) => Err(of_file(&error)),
            (Ok(()), _) => Ok(()),
            (Err(error), Some(Ok(()))) => Err(self.taken(&path, &error).await),
            (Err(error), None) => {
                // Perhaps somebody has removed the folder in spite of all.
                self.durable_folders.borrow_mut().clear();
                Err(of_file(&error))
            }
        }
    }

    /// The error of a create whose name is taken, by an object or by a folder.
    async fn taken(&self, path: &Path, error: &io::Error) -> BucketError {
        match self.runtime.entry(path).await {
            Ok(entry) if entry.is_dir => {
                BucketError::Refused(Reason("a folder has that name".to_owned()))
            }
            _ => BucketError::Exists(Reason(error.to_string())),
        }
    }

    /// Notes that a create has ended, with a sync that covers the name or without.
    fn note_end(&self, name: &ObjectName, is_synced: bool) {
        let mut unsettled = self.unsettled.borrow_mut();
        let Some(under_way) = unsettled.get_mut(name) else { return };
        *under_way -= 1;
        if *under_way == 0 && is_synced {
            unsettled.remove(name);
        }
    }

    /// Syncs the folder of a name that was seen, unless it is known to be durable.
    pub(super) async fn settle(&self, name: &ObjectName) -> Result<(), BucketError> {
        if !self.unsettled.borrow().contains_key(name) {
            return Ok(());
        }
        let path = self.path(name);
        self.runtime.sync_dir(parent_of(&path)).await.map_err(|error| of_file(&error))?;
        self.note_sync(name);
        Ok(())
    }

    /// Notes that the folder of a name was synced after the name had been seen, or removed. A create
    /// that is still under way notes its own end.
    pub(super) fn note_sync(&self, name: &ObjectName) {
        let mut unsettled = self.unsettled.borrow_mut();
        if unsettled.get(name) == Some(&0) {
            unsettled.remove(name);
        }
    }

    /// Makes the folder of an object with all above it, so that their names are durable.
    async fn make_durable(&self, folder: &Path) -> Result<(), BucketError> {
        let is_known =
            |folder: &Path| folder == self.root || self.durable_folders.borrow().contains(folder);
        if is_known(folder) {
            return Ok(());
        }
        self.runtime.create_dir_all(folder).await.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                BucketError::Refused(Reason("an object has the name of a folder of it".to_owned()))
            }
            _ => of_file(&error),
        })?;
        let new: Vec<&Path> = folder.ancestors().take_while(|above| !is_known(above)).collect();
        // Another core may have made them and not have synced them yet.
        for folder in &new {
            self.runtime.sync_dir(parent_of(folder)).await.map_err(|error| of_file(&error))?;
        }
        let mut known = self.durable_folders.borrow_mut();
        if known.len() + new.len() > KNOWN_FOLDERS {
            known.clear();
        }
        known.extend(new.into_iter().map(Path::to_owned));
        Ok(())
    }
}

/// Writes bytes from `offset_bytes` on.
pub(super) async fn write_at<F: File>(file: &F, offset_bytes: u64, body: &Bytes) -> io::Result<()> {
    let mut at = offset_bytes;
    let mut buffer = Vec::with_capacity(body.len().min(COPY_BYTES));
    for piece in body.chunks(COPY_BYTES) {
        buffer.clear();
        buffer.extend_from_slice(piece);
        let (result, returned) = file.write_all_at(buffer, at).await;
        result?;
        buffer = returned;
        at += piece.len() as u64;
    }
    Ok(())
}
