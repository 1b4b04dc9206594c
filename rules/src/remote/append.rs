//! Appends samples to a tenant's log.
//!
//! Guarantees: when an append succeeds, its samples are in the page cache of the system at least,
//! and survive the end of the process. Samples of one append are in the log in their order. What
//! can go wrong: a write fails. Then the segment ends where it was, the next one is begun, and the
//! timestamps count as accepted, because the bytes may be in the file all the same.

use std::io;
use std::rc::Rc;

use ahash::AHashMap;
use logsvc_runtime::{File, Monotonic, OpenMode, Runtime, SideQueue};
use xxhash_rust::xxh3::xxh3_128;

use super::node::{Node, Tenant};
use super::segment::{FrameWriter, StoredSample, encode_labels, header};
use super::state::{Drop, LogState, SeriesState, seconds};
use crate::sink::{AppendError, RecordedSample};

/// Most samples of a frame.
const FRAME_SAMPLES: u32 = 1000;
/// A frame ends when its payload is so long.
const FRAME_BYTES: usize = 256 << 10;
/// The longest label set; with it a frame keeps within its bound.
pub(super) const LABELS_MAX_BYTES: usize = 128 << 10;
/// Longer vectors are encoded on a side thread.
const INLINE_SAMPLES: usize = 512;

/// A sample with its label set as the log has it.
#[derive(Debug)]
pub(super) struct Encoded {
    hash: u128,
    set: Vec<u8>,
    timestamp_ms: i64,
    value: f64,
}

/// Encodes label sets.
pub(super) fn encode(samples: &[RecordedSample]) -> Vec<Encoded> {
    let encoded = samples.iter().map(|sample| {
        let mut set = Vec::new();
        encode_labels(&sample.labels, &mut set);
        Encoded {
            hash: xxh3_128(&set),
            set,
            timestamp_ms: sample.timestamp_ms,
            value: sample.value,
        }
    });
    encoded.collect()
}

impl LogState {
    /// Puts samples into a frame of the active segment, as many as a frame takes, and gives how
    /// many of them it has dealt with and the bytes of the frame. Timestamps count as accepted from
    /// here on.
    pub(super) fn frame(
        &mut self,
        samples: &[Encoded],
        now: Monotonic,
        unix_ms: i64,
    ) -> (usize, u64, Vec<u8>) {
        let mut frame = FrameWriter::default();
        let (first_set, segment) = (self.next_set, self.next_number - 1);
        let mut done = 0;
        for sample in samples {
            if frame.sample_count() >= FRAME_SAMPLES || frame.payload_bytes() >= FRAME_BYTES {
                break;
            }
            done += 1;
            if sample.set.len() > LABELS_MAX_BYTES {
                self.numbers.samples_too_large += 1;
                continue;
            }
            let set = match self.accept(sample, now, segment) {
                None => {
                    self.numbers.samples_out_of_order += 1;
                    continue;
                }
                Some(set) => set,
            };
            if set >= first_set && set == self.next_set {
                frame.add_set(&sample.set);
                self.next_set += 1;
            }
            let timestamp_ms = sample.timestamp_ms;
            frame.add(StoredSample { set, timestamp_ms, value: sample.value });
            let highest_ms = &mut self.numbers.highest_timestamp_ms;
            *highest_ms = (*highest_ms).max(Some(timestamp_ms));
        }
        let count = u64::from(frame.sample_count());
        let mut bytes = Vec::new();
        if count > 0 {
            frame.finish(first_set, unix_ms, &mut bytes);
        }
        (done, count, bytes)
    }

    /// The number of the sample's label set in the segment, which is the next number if the segment
    /// has not named it; `None` if the sample is not newer than the last one of its series.
    fn accept(&mut self, sample: &Encoded, now: Monotonic, segment: u64) -> Option<u32> {
        let next = SeriesState {
            last_ms: sample.timestamp_ms,
            segment,
            set: self.next_set,
            seen_s: seconds(now),
        };
        match self.series.entry(sample.hash) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                self.numbers.created_series += 1;
                entry.insert(next);
                Some(next.set)
            }
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                let known = *entry.get();
                if known.last_ms >= sample.timestamp_ms {
                    return None;
                }
                let set = if known.segment == segment { known.set } else { next.set };
                entry.insert(SeriesState { set, ..next });
                Some(set)
            }
        }
    }

    /// Notes a sample of a series that was found in a segment at the start.
    pub(super) fn remember(&mut self, last: &AHashMap<u128, i64>, now: Monotonic) {
        for (&hash, &last_ms) in last {
            let new = SeriesState { last_ms, segment: 0, set: 0, seen_s: seconds(now) };
            let known = self.series.entry(hash).or_insert(new);
            known.last_ms = known.last_ms.max(last_ms);
        }
    }
}

impl<R: Runtime, C: 'static> Node<R, C> {
    /// Appends samples. To be called by the task that works on the tenant alone.
    pub(super) async fn append_now(
        &self,
        tenant: &Tenant,
        samples: Vec<RecordedSample>,
    ) -> Result<(), AppendError> {
        let encoded = if samples.len() > INLINE_SAMPLES {
            self.runtime.offload_to(SideQueue::Upkeep, move || encode(&samples)).await
        } else {
            encode(&samples)
        };
        let mut rest = &encoded[..];
        while !rest.is_empty() {
            if let Err(error) = self.append_frame(tenant, &mut rest).await {
                let mut state = tenant.state.borrow_mut();
                state.numbers.samples_not_written += rest.len() as u64;
                return Err(AppendError::Io(error.to_string()));
            }
        }
        Ok(())
    }

    async fn append_frame(&self, tenant: &Tenant, rest: &mut &[Encoded]) -> io::Result<()> {
        let max_bytes = self.config.max_bytes;
        let is_full = tenant.state.borrow().is_full(max_bytes);
        if is_full {
            self.begin_segment(tenant).await?;
        }
        let now = self.runtime.now();
        let unix_ms = self.runtime.unix_nanos().div_euclid(1_000_000);
        let (done, count, bytes) = tenant.state.borrow_mut().frame(rest, now, unix_ms);
        let (dealt_with, behind) = rest.split_at(done);
        if count > 0 {
            self.make_room(tenant, bytes.len() as u64).await;
            if let Err(error) = self.write(tenant, bytes, count).await {
                tenant.state.borrow_mut().seal();
                self.files.borrow_mut().close(&tenant.id);
                return Err(error);
            }
        }
        debug_assert!(!dealt_with.is_empty());
        *rest = behind;
        Ok(())
    }

    /// Ends the active segment, if there is one, and begins the next one.
    async fn begin_segment(&self, tenant: &Tenant) -> io::Result<()> {
        self.files.borrow_mut().close(&tenant.id);
        let is_dirty = {
            let mut state = tenant.state.borrow_mut();
            state.seal();
            state.is_dirty
        };
        if is_dirty {
            self.sync(tenant).await;
        }
        let number = tenant.state.borrow().next_number;
        let path = tenant.segment_path(number);
        self.runtime.create_dir_all(&tenant.folder).await?;
        match self.runtime.remove_file(&path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // What a failed attempt has left.
            _ => {}
        }
        let file = self.runtime.open(&path, OpenMode::CreateNew).await?;
        file.write_all_at(header(number).to_vec(), 0).await.0?;
        let now = self.runtime.now();
        tenant.state.borrow_mut().add_segment(now);
        tenant.begun.set(now);
        self.files.borrow_mut().put(tenant.id.clone(), Rc::new(file));
        Ok(())
    }

    /// Drops the oldest segments until so many more bytes are within the bound. The active segment
    /// stays.
    async fn make_room(&self, tenant: &Tenant, more_bytes: u64) {
        let mut dropped = 0;
        loop {
            let mut state = tenant.state.borrow_mut();
            let is_over = state.size_bytes() + more_bytes > self.config.max_bytes;
            if !is_over || state.segments.len() <= 1 {
                break;
            }
            dropped += state.drop_oldest(Drop::Room);
        }
        self.note_drops(tenant, dropped, "the log of samples for remote write is full");
        self.remove_garbage(tenant).await;
    }

    /// Says in the log that samples were dropped, once a minute.
    pub(super) fn note_drops(&self, tenant: &Tenant, dropped: u64, why: &str) {
        if dropped > 0
            && let Some(samples) = tenant.drops.count(self.runtime.now(), dropped)
        {
            tracing::warn!(
                tenant = tenant.id.as_str(),
                samples,
                "the oldest samples that wait for remote write are dropped: {why}"
            );
        }
    }

    async fn write(&self, tenant: &Tenant, bytes: Vec<u8>, samples: u64) -> io::Result<()> {
        let len_bytes = bytes.len() as u64;
        let (number, at) = {
            let state = tenant.state.borrow();
            state.segments.back().map_or((0, 0), |last| (last.number, last.len_bytes))
        };
        let file = self.active_file(tenant, number).await?;
        let (result, _) = file.write_all_at(bytes, at).await;
        if let Err(error) = result {
            // A part that was written is a torn end, which readers know.
            if let Err(error) = file.truncate(at).await {
                tracing::debug!(tenant = tenant.id.as_str(), %error, "cannot cut a torn end");
            }
            return Err(error);
        }
        let now = self.runtime.now();
        tenant.state.borrow_mut().appended(len_bytes, samples, now);
        Ok(())
    }

    /// The file of the active segment, opened again if it was closed for others.
    async fn active_file(&self, tenant: &Tenant, number: u64) -> io::Result<Rc<R::File>> {
        let open = self.files.borrow_mut().get(&tenant.id);
        if let Some(file) = open {
            return Ok(file);
        }
        let path = tenant.segment_path(number);
        let file = Rc::new(self.runtime.open(&path, OpenMode::ReadWrite).await?);
        self.files.borrow_mut().put(tenant.id.clone(), Rc::clone(&file));
        Ok(file)
    }

    /// Brings what was appended to stable storage. A failure ends the segment.
    pub(super) async fn sync(&self, tenant: &Tenant) {
        let (number, is_folder_dirty) = {
            let mut state = tenant.state.borrow_mut();
            state.is_dirty = false;
            let number = state.segments.back().map(|last| last.number);
            (number, std::mem::take(&mut state.is_folder_dirty))
        };
        let Some(number) = number else { return };
        let result = self.sync_file(tenant, number, is_folder_dirty).await;
        if let Err(error) = result {
            let mut state = tenant.state.borrow_mut();
            state.is_folder_dirty |= is_folder_dirty;
            state.seal();
            drop(state);
            self.files.borrow_mut().close(&tenant.id);
            if tenant.troubles.count(self.runtime.now(), 1).is_some() {
                tracing::error!(
                    tenant = tenant.id.as_str(),
                    %error,
                    "samples that wait for remote write may be lost when the machine loses power"
                );
            }
        }
    }

    async fn sync_file(&self, tenant: &Tenant, number: u64, with_folder: bool) -> io::Result<()> {
        self.active_file(tenant, number).await?.sync_data().await?;
        if with_folder {
            self.runtime.sync_dir(&tenant.folder).await?;
            self.runtime.sync_dir(&self.folder).await?;
        }
        Ok(())
    }

    /// Removes the files of segments that were let go of.
    pub(super) async fn remove_garbage(&self, tenant: &Tenant) {
        loop {
            let number = tenant.state.borrow_mut().garbage.pop();
            let Some(number) = number else { return };
            let result = self.runtime.remove_file(&tenant.segment_path(number)).await;
            if let Err(error) = result
                && error.kind() != io::ErrorKind::NotFound
            {
                tenant.state.borrow_mut().garbage.push(number);
                if tenant.troubles.count(self.runtime.now(), 1).is_some() {
                    tracing::error!(
                        tenant = tenant.id.as_str(),
                        %error,
                        "cannot remove a segment of the sample log; this is tried again"
                    );
                }
                return;
            }
        }
    }
}
