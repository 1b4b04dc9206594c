//! Archives whose bytes follow from their content alone: tar, gzip and ar.

use super::contents::Item;
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use std::collections::BTreeSet;
use std::io::Write;
use tar::{Builder, EntryType, Header};

/// The owner of an entry: number of user and of group.
pub(super) type Owner = (u64, u64);

/// A tar archive with the files, and the folders above them, owned by root.
pub(super) fn tar(items: &[Item], epoch_s: u32) -> Result<Vec<u8>> {
    let mut tar = Tar::new(epoch_s);
    for item in items {
        tar.file(item)?;
    }
    tar.finish()
}

/// A tar archive that is being written. Folders come before what is in them, once.
pub(super) struct Tar {
    builder: Builder<Vec<u8>>,
    folders: BTreeSet<String>,
    epoch_s: u32,
}

impl Tar {
    pub(super) fn new(epoch_s: u32) -> Tar {
        Tar { builder: Builder::new(Vec::new()), folders: BTreeSet::new(), epoch_s }
    }

    /// Adds a file of root, and the folders above it.
    pub(super) fn file(&mut self, item: &Item) -> Result<()> {
        self.parents(&item.path)?;
        self.append(EntryType::Regular, &item.path, item.mode, (0, 0), &item.data)
    }

    /// Adds a folder and the folders above it.
    pub(super) fn folder(&mut self, path: &str, mode: u32, owner: Owner) -> Result<()> {
        self.parents(path)?;
        if self.folders.insert(path.to_owned()) {
            self.append(EntryType::Directory, &format!("{path}/"), mode, owner, &[])?;
        }
        Ok(())
    }

    fn parents(&mut self, path: &str) -> Result<()> {
        match path.rsplit_once('/') {
            Some((parent, _)) => self.folder(parent, 0o755, (0, 0)),
            None => Ok(()),
        }
    }

    fn append(
        &mut self,
        kind: EntryType,
        path: &str,
        mode: u32,
        owner: Owner,
        data: &[u8],
    ) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner.0);
        header.set_gid(owner.1);
        header.set_mtime(u64::from(self.epoch_s));
        header.set_size(data.len() as u64);
        self.builder.append_data(&mut header, path, data).with_context(|| format!("adding {path}"))
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        self.builder.into_inner().context("ending an archive")
    }
}

/// Compresses without a name and a time.
pub(super) fn gzip(data: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(level));
    encoder.write_all(data)?;
    encoder.finish().context("compressing")
}

/// An ar archive, as `.deb` files are: names of at most 15 bytes, all owned by root.
pub(super) fn ar(members: &[(&str, &[u8])], epoch_s: u32) -> Result<Vec<u8>> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, data) in members {
        let size = data.len();
        writeln!(out, "{name:<16}{epoch_s:<12}{:<6}{:<6}{:<8}{size:<10}`", 0, 0, "100644")?;
        out.extend_from_slice(data);
        if size % 2 == 1 {
            out.push(b'\n');
        }
    }
    Ok(out)
}

/// The time as text. Days are counted in the proleptic Gregorian calendar.
pub(super) fn rfc3339(epoch_s: u32) -> String {
    let (days, second) = (epoch_s / 86_400, epoch_s % 86_400);
    // Years are counted from March, so that the day of a leap year is the last of its year.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u32::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (epoch_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_210_096, "2024-02-29T12:34:56Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(epoch_s), text);
        }
    }

    #[test]
    fn archives_of_equal_content_are_equal_and_folders_come_first() {
        let item = |path: &str| Item { path: path.to_owned(), mode: 0o640, data: b"x".to_vec() };
        let items = [item("a/b/c"), item("a/d")];
        let bytes = tar(&items, 7).unwrap();
        assert_eq!(bytes, tar(&items, 7).unwrap());
        let mut archive = ::tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 7));
            (entry.path().unwrap().display().to_string(), header.mode().unwrap())
        });
        let expected = [("a/", 0o755), ("a/b/", 0o755), ("a/b/c", 0o640), ("a/d", 0o640)];
        let expected = expected.map(|(path, mode)| (path.to_owned(), mode));
        assert_eq!(entries.collect::<Vec<_>>(), expected);
        assert_eq!(gzip(&bytes, 9).unwrap(), gzip(&bytes, 9).unwrap());
    }

    #[test]
    fn members_of_an_ar_archive_begin_at_even_places() {
        let bytes = ar(&[("a", b"123"), ("b", b"45")], 9).unwrap();
        assert_eq!(bytes.len(), 8 + 60 + 4 + 60 + 2);
        assert!(
            bytes[8..].starts_with(
                b"a               9           0     0     100644  3         `\n123\nb "
            )
        );
    }
}
