//! Where a file is written to: memory that is counted as it grows.

use std::io::{self, Write};

use logsvc_proto::error::ApiError;
use logsvc_runtime::{Budget, Reservation};
use parquet::errors::ParquetError;

use crate::front::query::answer::reserve_answer;

/// Room that a sink begins with: most files are about this large.
const FIRST_BYTES: usize = 16 << 10;

/// The bytes of a file, all of whose room is reserved.
#[derive(Debug)]
pub(super) struct Sink {
    bytes: Vec<u8>,
    reservation: Reservation,
}

/// There is no memory for a file of this size.
#[derive(Debug, thiserror::Error)]
#[error("no memory for a file of {len_bytes} bytes")]
struct NoMemory {
    len_bytes: u64,
}

impl Sink {
    /// An empty sink.
    ///
    /// # Errors
    /// There is not even room for a small file.
    pub(super) fn new(budget: &Budget) -> Result<Sink, ApiError> {
        let reservation = reserve_answer(FIRST_BYTES as u64, budget)?;
        Ok(Sink { bytes: Vec::with_capacity(FIRST_BYTES), reservation })
    }

    /// The bytes, and the memory that they are counted with.
    pub(super) fn into_parts(self) -> (Vec<u8>, Reservation) {
        (self.bytes, self.reservation)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len_bytes = self.bytes.len() + bytes.len();
        let reserved_bytes = self.reservation.bytes() as usize;
        if len_bytes > reserved_bytes {
            // Twice as much each time, or the needed bytes if there is no more.
            let wanted = [len_bytes.max(reserved_bytes * 2), len_bytes];
            let granted = wanted.into_iter().find(|&room_bytes| {
                self.reservation.try_grow((room_bytes - reserved_bytes) as u64)
            });
            let Some(room_bytes) = granted else {
                let len_bytes = len_bytes as u64;
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, NoMemory { len_bytes }));
            };
            self.bytes.reserve_exact(room_bytes - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answer to a query whose file could not be written.
pub(super) fn refusal(error: &ParquetError, budget: &Budget) -> ApiError {
    let no_memory = match error {
        ParquetError::External(cause) => cause.downcast_ref::<io::Error>(),
        _ => None,
    };
    let no_memory = no_memory.and_then(io::Error::get_ref);
    match no_memory.and_then(|cause| cause.downcast_ref::<NoMemory>()) {
        Some(NoMemory { len_bytes }) => match reserve_answer(*len_bytes, budget) {
            // It may be there by now, but the file is not.
            Ok(_) => ApiError::too_many_requests("too many outstanding requests", 1),
            Err(refused) => refused,
        },
        None => ApiError::internal(format!("could not write a Parquet response: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_reserved_before_it_is_used() {
        let budget = Budget::new("queries", 100_000);
        let mut sink = Sink::new(&budget).expect("room for the first bytes");
        for _ in 0..90 {
            sink.write_all(&[7; 1000]).expect("there is room");
            assert_eq!(budget.used_bytes(), sink.reservation.bytes());
            assert!(sink.bytes.capacity() as u64 <= sink.reservation.bytes());
        }
        let error = sink.write_all(&[7; 20_000]).expect_err("more than there is");
        let refused = refusal(&ParquetError::from(error), &budget);
        assert_eq!(refused.status.as_u16(), 413, "{refused}: it will never fit");
        assert!(refused.message.contains("(110000 vs 100000)"), "{refused}");
        let other = budget.try_reserve(budget.max_bytes() - budget.used_bytes());
        let error = sink.write_all(&[7; 9000]).expect_err("others have the rest");
        let refused = refusal(&ParquetError::from(error), &budget);
        assert_eq!(refused.status.as_u16(), 429, "{refused}: it may fit later");
        drop((other, sink.into_parts()));
        assert_eq!(budget.used_bytes(), 0);
        let broken = refusal(&ParquetError::General("broken".into()), &budget);
        assert_eq!(broken.status.as_u16(), 500);
    }
}
