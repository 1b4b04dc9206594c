//! Reads a part of a file around the page cache, mostly front to back, ahead of who asks.
//!
//! For what is read once: drafts, most of which are written around the page cache, and which are
//! removed when they are merged. Through it every byte would need a page, which the system clears, fills, copies
//! from and gives back; a virtual machine may have to ask its host for the page, too, which takes
//! many times as long as all of that. The system would also ask the device for more at once
//! than durable writes should wait for.
//!
//! Guarantees: gives the bytes that the file has. Memory: two buffers of a chunk each, used
//! again and again, of which one is read while the other is looked at. Bytes behind those that
//! were asked for last are read in the order of the file; what lies before is read by itself,
//! so that a look back does not undo what was read ahead. What can go wrong: the disk refuses,
//! or the file is shorter than it was said to be.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use logsvc_runtime::{AlignedBuffer, DIRECT_BLOCK_BYTES, File, Runtime};

type Filled = (io::Result<()>, AlignedBuffer);

/// See the module.
pub(super) struct ReadAhead<R: Runtime> {
    runtime: R,
    file: Rc<R::File>,
    len_bytes: u64,
    /// Bytes that are read at once, a multiple of [`DIRECT_BLOCK_BYTES`].
    chunk_bytes: usize,
    /// Where in the file `chunk` begins: at a multiple of `chunk_bytes`.
    start: u64,
    chunk: AlignedBuffer,
    /// The one behind it, on its way.
    next: Option<R::Task<Filled>>,
}

impl<R: Runtime> ReadAhead<R> {
    /// Reads nothing yet of a file of `len_bytes`, opened with
    /// [`logsvc_runtime::OpenMode::ReadDirect`]. A chunk has whole blocks.
    pub(super) fn new(
        runtime: &R,
        file: &Rc<R::File>,
        len_bytes: u64,
        chunk_bytes: usize,
    ) -> ReadAhead<R> {
        debug_assert!(chunk_bytes > 0 && chunk_bytes.is_multiple_of(DIRECT_BLOCK_BYTES));
        ReadAhead {
            runtime: runtime.clone(),
            file: Rc::clone(file),
            len_bytes,
            chunk_bytes,
            start: 0,
            chunk: AlignedBuffer::new(),
            next: None,
        }
    }

    /// The bytes of a range that should come behind those that were asked for before.
    pub(super) async fn read(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let behind = range.start..range.end.min(self.start);
        let mut bytes = match behind.is_empty() {
            true => Vec::new(),
            false => read_alone(&*self.file, behind).await?,
        };
        bytes.reserve_exact((range.end - range.start) as usize - bytes.len());
        loop {
            let at = range.start + bytes.len() as u64;
            if at >= range.end {
                return Ok(bytes);
            }
            if at >= self.start + self.chunk.len() as u64 {
                self.advance(at).await?;
            }
            let chunk = &self.chunk[(at - self.start) as usize..];
            let wanted = (range.end - at).min(chunk.len() as u64);
            bytes.extend_from_slice(&chunk[..wanted as usize]);
        }
    }

    /// Makes `chunk` that which has the byte at `at`, which lies behind it.
    async fn advance(&mut self, at: u64) -> io::Result<()> {
        let len = self.chunk_bytes as u64;
        let start = at - at % len;
        let used = std::mem::take(&mut self.chunk);
        let is_next = start == self.start + len;
        let (result, spare) = match self.next.take().filter(|_| is_next) {
            Some(next) => {
                let (result, chunk) = next.await;
                self.chunk = chunk;
                (result, used)
            }
            None => {
                let (result, chunk) =
                    self.file.read_aligned_at(used, self.chunk_bytes, start).await;
                self.chunk = chunk;
                (result, AlignedBuffer::new())
            }
        };
        self.start = start;
        if let Err(error) = result {
            self.chunk.clear();
            return Err(error);
        }
        if self.chunk.len() as u64 <= at - start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (next_start, count) = (start + len, self.chunk_bytes);
        if next_start < self.len_bytes {
            let file = Rc::clone(&self.file);
            self.next = Some(
                self.runtime
                    .spawn(async move { file.read_aligned_at(spare, count, next_start).await }),
            );
        }
        Ok(())
    }
}

/// The bytes of a range of a file that was opened in the same way, whatever lies around them.
pub(super) async fn read_alone<F: File>(file: &F, range: Range<u64>) -> io::Result<Vec<u8>> {
    let block = DIRECT_BLOCK_BYTES as u64;
    let start = range.start - range.start % block;
    let count = (range.end.next_multiple_of(block) - start) as usize;
    let (result, buffer) = file.read_aligned_at(AlignedBuffer::new(), count, start).await;
    result?;
    let wanted = (range.start - start) as usize..(range.end - start) as usize;
    let bytes = buffer.get(wanted).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logsvc_runtime::OpenMode;
    use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};

    use super::*;
    use crate::testing::{Rng, SeedGuard, seeds};

    const PATH: &str = "/draft";
    const CHUNK_BYTES: usize = 4 * DIRECT_BLOCK_BYTES;

    fn content(len: u64) -> Vec<u8> {
        (0..len).map(|at| (at / 3) as u8).collect()
    }

    async fn reader(runtime: &SimRuntime, content: &[u8], said_len: u64) -> ReadAhead<SimRuntime> {
        let file = runtime.open(PATH.as_ref(), OpenMode::CreateNew).await.unwrap();
        file.write_all_at(content.to_vec(), 0).await.0.unwrap();
        let file = runtime.open(PATH.as_ref(), OpenMode::ReadDirect).await.unwrap();
        ReadAhead::new(runtime, &Rc::new(file), said_len, CHUNK_BYTES)
    }

    #[test]
    fn gives_what_the_file_has_in_any_order() {
        for seed in seeds(20) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            Simulation::new(seed).block_on(|runtime| async move {
                let len = rng.below(6 * CHUNK_BYTES as u64) + 1;
                let content = content(len);
                let mut reader = reader(&runtime, &content, len).await;
                let mut at = 0;
                for _ in 0..60 {
                    let start = match rng.below(10) {
                        // Back, or ahead, or where the last one has ended.
                        0 => rng.below(at + 1),
                        1 => at + rng.below(len - at + 1),
                        _ => at,
                    };
                    let longest = if rng.below(5) == 0 { len } else { len / 50 };
                    let end = start + rng.below(longest.min(len - start) + 1);
                    let bytes = match rng.below(6) {
                        0 => read_alone(&*reader.file, start..end).await.unwrap(),
                        _ => reader.read(start..end).await.unwrap(),
                    };
                    assert!(bytes == content[start as usize..end as usize], "{start}..{end}");
                    at = end;
                }
            });
        }
    }

    #[test]
    fn a_look_back_reads_nothing_twice_that_comes() {
        let simulation = Simulation::new(1);
        let disk = simulation.disk().clone();
        simulation.block_on(|runtime| async move {
            let chunk = CHUNK_BYTES as u64;
            let content = content(4 * chunk);
            let mut reader = reader(&runtime, &content, 4 * chunk).await;
            reader.read(0..chunk + 1).await.unwrap();
            reader.read(5..70).await.unwrap();
            // The third one has come by then, so nothing else has to be read.
            runtime.sleep_until(runtime.now().after(Duration::from_secs(1))).await;
            disk.fail_next(DiskOperation::Read, PATH, 1);
            let bytes = reader.read(chunk + 1..3 * chunk).await.unwrap();
            assert!(bytes == content[chunk as usize + 1..3 * CHUNK_BYTES]);
            // The fourth one met the failure.
            assert!(reader.read(3 * chunk..3 * chunk + 1).await.is_err());
            let bytes = reader.read(3 * chunk..3 * chunk + 9).await.unwrap();
            assert!(bytes == content[3 * CHUNK_BYTES..3 * CHUNK_BYTES + 9]);
        });
    }

    #[test]
    fn a_file_that_is_too_short_is_told() {
        Simulation::new(2).block_on(|runtime| async move {
            let len = CHUNK_BYTES as u64 + 100;
            let mut reader = reader(&runtime, &content(len), 3 * len).await;
            assert!(reader.read(0..len).await.is_ok());
            for range in [len - 1..len + 1, len..len + 1, 2 * len..2 * len + 1] {
                let error = reader.read(range.clone()).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{range:?}");
                let error = read_alone(&*reader.file, range.clone()).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{range:?}");
            }
        });
    }
}
