//! Listings: a walk through the folders in the order of whole names.
//!
//! Guarantees: no folder is read whose names all come before the page. A folder that is gone when
//! the walk comes to it is empty. Files and folders whose names are none of objects are left out.
//!
//! Cost: a page reads the whole of each folder that it has a part of, so pages are long.

use std::vec::IntoIter;

use logsvc_runtime::{DirEntry, Runtime};

use super::Inner;
use super::errors::{is_absent, of_file};
use crate::bucket::{BucketError, ObjectInfo, Page};
use crate::name::{Folder, ObjectName};

/// Objects of a page.
const PAGE_OBJECTS: usize = 10_000;

/// A folder that the walk is in.
struct Level {
    /// Before the names of its entries; empty, or with `/` at its end.
    prefix: String,
    /// What is left of it. Names of folders have a `/` behind them, by which they sort.
    entries: IntoIter<DirEntry>,
}

impl<R: Runtime> Inner<R> {
    pub(super) async fn list(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
    ) -> Result<Page, BucketError> {
        let after = after.map_or("", ObjectName::as_str);
        let mut page = Page::default();
        let mut levels = Vec::new();
        if has_names_behind(folder.as_str(), true, after) {
            levels.push(self.level(folder.as_str().to_owned(), after).await?);
        }
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                levels.pop();
                continue;
            };
            let text = format!("{}{}", level.prefix, entry.name);
            if entry.is_dir {
                levels.push(self.level(text, after).await?);
                continue;
            }
            let Ok(name) = ObjectName::new(&text) else { continue };
            if page.objects.len() == PAGE_OBJECTS {
                page.has_more = true;
                break;
            }
            let (len_bytes, created_ns) = (entry.len_bytes, entry.modified_ns);
            page.objects.push(ObjectInfo { name, len_bytes, created_ns });
        }
        if !self.unsettled.borrow().is_empty() {
            for info in &page.objects {
                self.settle(&info.name).await?;
            }
        }
        Ok(page)
    }

    /// What comes behind `after` in a folder, in the order of whole names.
    async fn level(&self, prefix: String, after: &str) -> Result<Level, BucketError> {
        let mut entries = match self.runtime.read_dir(&self.root.join(&prefix)).await {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => match self.absent().await {
                BucketError::NotFound => Vec::new(),
                away => return Err(away),
            },
            Err(error) => return Err(of_file(&error)),
        };
        entries.retain_mut(|entry| {
            let is_name = ObjectName::new(&entry.name).is_ok();
            if entry.is_dir {
                entry.name.push('/');
            }
            is_name && has_names_behind(&format!("{prefix}{}", entry.name), entry.is_dir, after)
        });
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Level { prefix, entries: entries.into_iter() })
    }
}

/// Whether an object, or one of the objects of a folder, comes behind `after`.
fn has_names_behind(text: &str, is_folder: bool, after: &str) -> bool {
    text > after || (is_folder && after.starts_with(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_before_a_name_are_passed_by() {
        assert!(has_names_behind("", true, "") && has_names_behind("a", false, ""));
        for (text, is_folder, expected) in [
            ("a/", true, false),
            ("b/", true, true),
            ("b/c/", true, true),
            ("b/c/d", false, false),
            ("b/c/e", false, true),
            ("b/b/", true, false),
            ("b/d/", true, true),
            ("b-/", true, false),
            ("b", false, false),
            ("b0", false, true),
        ] {
            assert_eq!(has_names_behind(text, is_folder, "b/c/d"), expected, "{text}");
        }
    }
}
