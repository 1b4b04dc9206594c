//! The memory of one push: its body, the unpacked body, and all that is made of it before it is
//! stored.
//!
//! Guarantees: memory is reserved before it is used. A push that would take more than the whole
//! memory for bodies is refused for good (413), even if others hold a part of it; one that finds
//! too little at the moment may be sent again (429). So a push that is no larger than that memory
//! gets in when the node is idle. Unpacking takes turns with other work of the core.

use logsvc_http::Body;
use logsvc_proto::body::{BodyBuffers, BodyError, Decoder, Unpacker};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Budget, Reservation, Runtime, TURN_BYTES};

use super::Ingest;
use super::push::KEPT_BUFFER_MAX_BYTES;
use crate::front::core::errors::too_many_bytes;

/// Bodies that are longer get rid of memory that they do not need.
const TRIMMED_MIN_BYTES: usize = 1 << 20;

/// Least memory that is reserved for an unpacked body.
const UNPACKED_MIN_BYTES: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct PushMemory {
    /// Bytes of the body itself.
    body_bytes: u64,
    /// Memory that is reserved besides.
    more: Reservation,
    /// The used part of it.
    used_bytes: u64,
    /// The part that was reserved from the start.
    headroom_bytes: u64,
    max_bytes: u64,
}

impl PushMemory {
    /// The memory of a push of which only the body is there. `headroom` is used first.
    pub(super) fn new(
        budget: &Budget,
        body_bytes: u64,
        headroom: Option<Reservation>,
    ) -> Result<PushMemory, ApiError> {
        let more = match headroom {
            Some(headroom) => headroom,
            None => budget.try_reserve(0).ok_or_else(too_many_bytes)?,
        };
        let (headroom_bytes, max_bytes) = (more.bytes(), budget.max_bytes());
        Ok(PushMemory { body_bytes, more, used_bytes: 0, headroom_bytes, max_bytes })
    }

    /// Bytes that the push may still take if nobody else takes any.
    fn room_bytes(&self) -> u64 {
        self.max_bytes.saturating_sub(self.body_bytes).saturating_sub(self.used_bytes)
    }

    /// Takes more.
    ///
    /// # Errors
    /// 413 if the push can never have so much, 429 if it cannot have it now.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), ApiError> {
        if bytes > self.room_bytes() {
            return Err(ApiError::push_too_large(self.max_bytes));
        }
        if self.take(bytes) { Ok(()) } else { Err(too_many_bytes()) }
    }

    fn take(&mut self, bytes: u64) -> bool {
        let missing_bytes = (self.used_bytes + bytes).saturating_sub(self.more.bytes());
        let is_taken = missing_bytes == 0 || self.more.try_grow(missing_bytes);
        if is_taken {
            self.used_bytes += bytes;
        }
        is_taken
    }

    /// Takes memory for at least one more byte, and for `wanted_bytes` if there is as much.
    /// Tells how much it took.
    fn grow_up_to(&mut self, wanted_bytes: u64) -> Result<u64, ApiError> {
        let bytes = wanted_bytes.min(self.room_bytes());
        if bytes > UNPACKED_MIN_BYTES && self.take(bytes) {
            return Ok(bytes);
        }
        let bytes = bytes.clamp(1, UNPACKED_MIN_BYTES);
        self.grow(bytes)?;
        Ok(bytes)
    }

    fn give_back(&mut self, bytes: u64) {
        self.used_bytes -= bytes;
        self.more.shrink_to(self.used_bytes.max(self.headroom_bytes));
    }

    /// The memory besides the body, to be held for as long as it is used.
    pub(super) fn into_reservation(mut self) -> Reservation {
        self.more.shrink_to(self.used_bytes);
        self.more
    }
}

/// A body without memory that it does not need, and how much it holds.
pub(super) fn trimmed(body: Body) -> (Body, u64) {
    if body.len() < TRIMMED_MIN_BYTES {
        // Its memory is a power of two and comes from others, who want it back.
        let held_bytes = body.len().next_power_of_two() as u64;
        return (body, held_bytes);
    }
    let (mut bytes, mut reservation) = body.into_parts();
    bytes.shrink_to_fit();
    let held_bytes = bytes.capacity() as u64;
    if let Some(reservation) = &mut reservation {
        reservation.shrink_to(held_bytes);
    }
    (Body::new(bytes, reservation), held_bytes)
}

impl<R: Runtime> Ingest<R> {
    /// Undoes the compression of a body.
    pub(super) async fn decompress<'b>(
        &self,
        decoder: Decoder,
        body: &'b [u8],
        memory: &mut PushMemory,
        buffers: &'b mut BodyBuffers,
    ) -> Result<&'b [u8], ApiError> {
        let max_bytes = self.core.config().push_decompressed_max_bytes;
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        if let Some(unpacker) = Unpacker::new(decoder.compression, body)? {
            let expected_bytes = decoder.expected_unwrapped_len(body.len() as u64);
            let out = &mut buffers.unwrapped;
            self.unpack(unpacker, expected_bytes, memory, out, max_bytes).await?;
        }
        let message_len = buffers.message_len(decoder, body)?;
        if message_len <= max_bytes {
            memory.grow(message_len as u64)?;
        }
        buffers.decode_unwrapped(decoder, body, max_bytes)?;
        let decoded = buffers.decoded(decoder, body);
        self.turns.note(decoded.len());
        Ok(decoded)
    }

    async fn unpack(
        &self,
        mut unpacker: Unpacker<'_>,
        expected_bytes: u64,
        memory: &mut PushMemory,
        out: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Result<(), ApiError> {
        out.clear();
        let mut reserved_bytes = memory.grow_up_to(expected_bytes.max(UNPACKED_MIN_BYTES))?;
        loop {
            let room = usize::try_from(reserved_bytes).unwrap_or(usize::MAX) - out.len();
            // One byte more than permitted tells that there are too many.
            let wanted = room.min(TURN_BYTES).min(max_bytes.saturating_add(1) - out.len());
            if out.capacity() - out.len() < wanted {
                out.reserve_exact(room);
            }
            let is_done = unpacker.read(out, wanted)?;
            if out.len() > max_bytes {
                return Err(BodyError::TooLarge { size_bytes: out.len(), max_bytes }.into());
            }
            if is_done {
                break;
            }
            if unpacker.is_small() {
                self.turns.note(wanted);
                self.turns.next(&self.core.runtime).await;
            }
            if out.len() as u64 == reserved_bytes {
                reserved_bytes += memory.grow_up_to(reserved_bytes)?;
            }
        }
        if out.capacity() > KEPT_BUFFER_MAX_BYTES {
            out.shrink_to_fit();
        }
        memory.give_back(reserved_bytes - out.len() as u64);
        Ok(())
    }
}
