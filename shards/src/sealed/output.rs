//! Writes the file of a segment, from its first byte to its last.
//!
//! A segment that queries will read goes through the page cache, and is brought to the device on
//! the way. A segment that is read once and then removed goes around the page cache: copying it
//! into fresh pages would be most of the kernel's work while pushes come.
//!
//! Guarantees: once [`Output::finish`] has returned, the file has the bytes that were appended, on
//! stable storage. If the disk fails, the file is useless.

use std::io;

use logsvc_runtime::{AlignedBuffer, File};

/// So many bytes of a segment are brought to the device at a time while it is written. If
/// that were left to the sync at its end, commits of all shards would wait for all of it.
const WRITE_BACK_BYTES: u64 = 4 << 20;

/// A file that is being written.
#[derive(Debug)]
pub(super) enum Output<F> {
    /// Through the page cache.
    Cached(CachedOutput<F>),
    /// Around it.
    Direct(DirectOutput<F>),
}

#[derive(Debug)]
pub(super) struct CachedOutput<F> {
    file: F,
    len_bytes: u64,
    /// How far it was brought to the device, though not durably.
    written_back: u64,
}

#[derive(Debug)]
pub(super) struct DirectOutput<F> {
    file: F,
    /// Bytes that were appended.
    len_bytes: u64,
    /// Bytes that were written: the same bytes, and the filling of the last block.
    written: u64,
}

impl<F: File> Output<F> {
    /// Begins an empty file, open with [`logsvc_runtime::OpenMode::CreateNew`].
    pub(super) fn cached(file: F) -> Output<F> {
        Output::Cached(CachedOutput { file, len_bytes: 0, written_back: 0 })
    }

    /// Begins an empty file, open with [`logsvc_runtime::OpenMode::CreateNewDirect`].
    pub(super) fn direct(file: F) -> Output<F> {
        Output::Direct(DirectOutput { file, len_bytes: 0, written: 0 })
    }

    /// Appends bytes; gives their memory back. Waits for the device now and then. Around the
    /// page cache all but the last ones are whole blocks.
    pub(super) async fn append(&mut self, bytes: AlignedBuffer) -> io::Result<AlignedBuffer> {
        match self {
            Output::Cached(cached) => cached.append(bytes).await,
            Output::Direct(direct) => direct.append(bytes).await,
        }
    }

    /// Ends the file durably.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        match self {
            Output::Cached(cached) => cached.file.sync_data().await,
            Output::Direct(direct) => direct.finish().await,
        }
    }
}

impl<F: File> CachedOutput<F> {
    async fn append(&mut self, bytes: AlignedBuffer) -> io::Result<AlignedBuffer> {
        let len = bytes.len() as u64;
        let (result, bytes) = self.file.write_aligned_at(bytes, self.len_bytes).await;
        result?;
        self.len_bytes += len;
        if self.len_bytes - self.written_back >= WRITE_BACK_BYTES {
            self.file.write_back(self.written_back..self.len_bytes).await?;
            self.written_back = self.len_bytes;
        }
        Ok(bytes)
    }
}

impl<F: File> DirectOutput<F> {
    async fn append(&mut self, mut bytes: AlignedBuffer) -> io::Result<AlignedBuffer> {
        if self.len_bytes != self.written {
            return Err(io::Error::other("bytes come behind those that had to be the last"));
        }
        self.len_bytes += bytes.len() as u64;
        bytes.pad_to_block();
        let (result, bytes) = self.file.write_aligned_at(bytes, self.written).await;
        result?;
        self.written += bytes.len() as u64;
        Ok(bytes)
    }

    async fn finish(&mut self) -> io::Result<()> {
        if self.written > self.len_bytes {
            self.file.truncate(self.len_bytes).await?;
        }
        self.file.sync_data().await
    }
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};
    use logsvc_runtime::{DIRECT_BLOCK_BYTES, OpenMode, Runtime};

    use super::*;

    async fn begin(runtime: &SimRuntime, is_direct: bool) -> Output<impl File> {
        let path = "/segment".as_ref();
        if is_direct {
            Output::direct(runtime.open(path, OpenMode::CreateNewDirect).await.unwrap())
        } else {
            Output::cached(runtime.open(path, OpenMode::CreateNew).await.unwrap())
        }
    }

    #[test]
    fn what_was_appended_is_durable_at_the_end() {
        const MIB: usize = 1 << 20;
        let block = DIRECT_BLOCK_BYTES;
        let files: [&[usize]; 8] = [
            &[],
            &[1],
            &[block],
            &[block, 2 * block],
            &[MIB],
            &[MIB - block, 2],
            &[64 * block, MIB + 300 * block, 0, MIB + 17 * block, 5 * MIB, 100],
            &[3 * MIB, MIB - 1],
        ];
        for (seed, pieces) in files.into_iter().enumerate() {
            for is_direct in [false, true] {
                let simulation = Simulation::new(seed as u64);
                let mut expected = Vec::new();
                let mut appended = Vec::new();
                for len in pieces {
                    let start = expected.len() as u32;
                    let piece: Vec<u8> =
                        (start..start + *len as u32).map(|n| (n / 3) as u8).collect();
                    expected.extend_from_slice(&piece);
                    appended.push(piece);
                }
                simulation.block_on(|runtime| async move {
                    let mut output = begin(&runtime, is_direct).await;
                    for piece in appended {
                        let piece = AlignedBuffer::from(&piece[..]);
                        let memory = piece.as_ptr();
                        let returned = output.append(piece).await.unwrap();
                        assert_eq!(returned.as_ptr(), memory);
                    }
                    output.finish().await.unwrap();
                    runtime.sync_dir("/".as_ref()).await.unwrap();
                });
                simulation.disk().power_loss();
                let found = simulation.disk().read("/segment").unwrap();
                assert!(found == expected, "{pieces:?}, direct: {is_direct}");
            }
        }
    }

    #[test]
    fn nothing_comes_behind_half_a_block() {
        Simulation::new(1).block_on(|runtime| async move {
            let some = || AlignedBuffer::from(&[1; DIRECT_BLOCK_BYTES + 1][..]);
            let mut output = begin(&runtime, true).await;
            output.append(some()).await.unwrap();
            assert!(output.append(some()).await.is_err());
        });
    }

    #[test]
    fn failures_of_the_disk_are_told() {
        for operation in [DiskOperation::Write, DiskOperation::Resize, DiskOperation::Sync] {
            let simulation = Simulation::new(2);
            let disk = simulation.disk().clone();
            simulation.block_on(|runtime| async move {
                let mut output = begin(&runtime, true).await;
                disk.fail_next(operation, "/segment", 1);
                let appended = output.append(AlignedBuffer::from(&[1; 5000][..])).await;
                let is_told = appended.is_err() || output.finish().await.is_err();
                assert!(is_told, "{operation:?}");
            });
        }
    }
}
