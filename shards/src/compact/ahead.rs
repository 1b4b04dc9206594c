//! Reads the blocks of a file around the page cache, one block ahead of the reader.
//!
//! It serves files that are read once: drafts, most of which are written around the page cache,
//! and which are removed when they are merged. Through the page cache every byte would need a
//! page, which the system clears, fills, copies from and gives back. A virtual machine may also
//! have to ask its host for the page, which takes many times as long. And the system would ask
//! the device for more bytes at once than durable writes should wait for.
//!
//! Guarantees: it gives the bytes of the file, in the memory that the device has filled.
//! Memory: the range that it gave last, and the next range, which is on its way. A range before
//! these is read by itself, so that a look back keeps the range ahead. It fails if the disk
//! refuses, or if the file is shorter than expected.

use std::io;
use std::ops::{Deref, Range};
use std::rc::Rc;

use logsvc_runtime::{AlignedBuffer, DIRECT_BLOCK_BYTES, File, Runtime};

/// Longer ranges are not read before they are asked for.
const AHEAD_MAX_BYTES: u64 = 1 << 20;

/// A range of a file, within whole blocks of the device.
#[derive(Debug)]
pub(super) struct Piece {
    memory: AlignedBuffer,
    wanted: Range<usize>,
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.wanted.clone()]
    }
}

/// See the module.
pub(super) struct ReadAhead<R: Runtime> {
    runtime: R,
    file: Rc<R::File>,
    next: Option<Coming<R>>,
}

/// A range that is on its way.
struct Coming<R: Runtime> {
    range: Range<u64>,
    piece: R::Task<io::Result<Piece>>,
}

impl<R: Runtime> ReadAhead<R> {
    /// Reads nothing yet of a file that was opened with
    /// [`logsvc_runtime::OpenMode::ReadDirect`].
    pub(super) fn new(runtime: &R, file: Rc<R::File>) -> ReadAhead<R> {
        ReadAhead { runtime: runtime.clone(), file, next: None }
    }

    /// The bytes of a range. `behind` is the range that will most likely be asked for next.
    pub(super) async fn read(
        &mut self,
        range: Range<u64>,
        behind: Option<Range<u64>>,
    ) -> io::Result<Piece> {
        let is_back = self.next.as_ref().is_some_and(|next| range.start < next.range.start);
        if is_back {
            return self.read_alone(range).await;
        }
        let piece = match self.next.take() {
            Some(next) if next.range == range => next.piece.await?,
            _ => self.read_alone(range).await?,
        };
        let behind = behind.filter(|behind| behind.end - behind.start <= AHEAD_MAX_BYTES);
        self.next = behind.map(|range| {
            let (file, wanted) = (Rc::clone(&self.file), range.clone());
            let piece = self.runtime.spawn(async move { read(&*file, wanted).await });
            Coming { range, piece }
        });
        Ok(piece)
    }

    /// The bytes of a range, without a change to the range that is read ahead.
    pub(super) async fn read_alone(&self, range: Range<u64>) -> io::Result<Piece> {
        read(&*self.file, range).await
    }
}

async fn read<F: File>(file: &F, range: Range<u64>) -> io::Result<Piece> {
    let block = DIRECT_BLOCK_BYTES as u64;
    let start = range.start - range.start % block;
    let count = (range.end.next_multiple_of(block) - start) as usize;
    let (result, memory) = file.read_aligned_at(AlignedBuffer::new(), count, start).await;
    result?;
    let wanted = (range.start - start) as usize..(range.end - start) as usize;
    if wanted.end > memory.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Piece { memory, wanted })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logsvc_runtime::OpenMode;
    use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};

    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    const PATH: &str = "/draft";
    const BLOCK: u64 = DIRECT_BLOCK_BYTES as u64;

    fn content(len: u64) -> Vec<u8> {
        (0..len).map(|at| (at / 3) as u8).collect()
    }

    async fn reader(runtime: &SimRuntime, content: &[u8]) -> ReadAhead<SimRuntime> {
        let file = runtime.open(PATH.as_ref(), OpenMode::CreateNew).await.unwrap();
        file.write_all_at(content.to_vec(), 0).await.0.unwrap();
        let file = runtime.open(PATH.as_ref(), OpenMode::ReadDirect).await.unwrap();
        ReadAhead::new(runtime, Rc::new(file))
    }

    #[test]
    fn gives_what_the_file_has_in_any_order() {
        for seed in seeds(20) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            Simulation::new(seed).block_on(|runtime| async move {
                let len = rng.below(20 * BLOCK) + 1;
                let content = content(len);
                let mut reader = reader(&runtime, &content).await;
                let any = |rng: &mut Rng, from: u64| {
                    let start = from + rng.below(len - from + 1);
                    start..start + rng.below((len - start).min(3 * BLOCK) + 1)
                };
                let mut promised = None;
                for _ in 0..60 {
                    let range = match rng.below(5) {
                        0 => any(&mut rng, 0),
                        _ => promised.take().unwrap_or_else(|| any(&mut rng, 0)),
                    };
                    if rng.below(5) > 0 {
                        promised = Some(any(&mut rng, range.end));
                    }
                    let piece = reader.read(range.clone(), promised.clone()).await.unwrap();
                    assert!(*piece == content[range.start as usize..range.end as usize]);
                }
            });
        }
    }

    #[test]
    fn a_look_back_reads_nothing_twice_that_comes() {
        let simulation = Simulation::new(1);
        let disk = simulation.disk().clone();
        simulation.block_on(|runtime| async move {
            let content = content(4 * BLOCK);
            let mut reader = reader(&runtime, &content).await;
            let (second, third) = (BLOCK + 5..2 * BLOCK, 2 * BLOCK..4 * BLOCK);
            reader.read(0..BLOCK + 5, Some(second.clone())).await.unwrap();
            reader.read(5..70, Some(70..80)).await.unwrap();
            // The second one has come by then, so nothing else has to be read for it.
            runtime.sleep_until(runtime.now().after(Duration::from_secs(1))).await;
            disk.fail_next(DiskOperation::Read, PATH, 1);
            let piece = reader.read(second, Some(third.clone())).await.unwrap();
            assert!(*piece == content[BLOCK as usize + 5..2 * BLOCK as usize]);
            // The third one met the failure.
            assert!(reader.read(third.clone(), None).await.is_err());
            let piece = reader.read(third, None).await.unwrap();
            assert!(*piece == content[2 * BLOCK as usize..]);
        });
    }

    #[test]
    fn a_file_that_is_too_short_is_told() {
        Simulation::new(2).block_on(|runtime| async move {
            let len = 3 * BLOCK + 100;
            let mut reader = reader(&runtime, &content(len)).await;
            assert!(reader.read(0..len, Some(len - 1..len + 1)).await.is_ok());
            for range in [len - 1..len + 1, len..len + 1, 2 * len..2 * len + 1] {
                let error = reader.read(range.clone(), None).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{range:?}");
            }
        });
    }
}
