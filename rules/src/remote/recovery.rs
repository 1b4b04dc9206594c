//! Reads a tenant's log at the start.
//!
//! Guarantees: torn ends are cut, damage is skipped and counted; whatever follows it is used. No
//! segment of an earlier process is appended to. A file of another version stays as it is. What can
//! go wrong: a file that cannot be read, repeatedly. It is counted as damage, and what it holds is
//! lost.

use std::io;

use ahash::{AHashMap, RandomState};
use logsvc_runtime::{Monotonic, Runtime, SideQueue};
use xxhash_rust::xxh3::xxh3_128;

use super::node::{Node, Tenant};
use super::position::{FILE_BYTES, Place, Position};
use super::segment::{Header, Segment, read_header};
use super::state::{SegmentMeta, start_of};

/// Attempts to read a log, after which files that cannot be read are given up.
const LOAD_ATTEMPTS: u32 = 5;
/// The longest file that is read as a segment; the program writes none longer than a quarter of it.
pub(super) const FILE_MAX_BYTES: usize = 16 << 20;

/// What a segment file holds.
struct Scanned {
    header: Header,
    end: u32,
    damaged: u64,
    /// Bytes behind the last frame.
    torn_bytes: u64,
    samples: u64,
    appended_ms: Option<i64>,
    /// The newest timestamp of each series.
    last: AHashMap<u128, i64>,
}

fn scan(bytes: &[u8], number: u64) -> Scanned {
    let segment = Segment::read(bytes);
    let mut last: AHashMap<u128, i64> =
        AHashMap::with_hasher(RandomState::with_seeds(13, 14, 15, 16));
    let mut of_sets: AHashMap<u32, i64> =
        AHashMap::with_hasher(RandomState::with_seeds(17, 18, 19, 20));
    for frame in &segment.frames {
        for sample in segment.samples(bytes, frame) {
            let last_ms = of_sets.entry(sample.set).or_insert(i64::MIN);
            *last_ms = (*last_ms).max(sample.timestamp_ms);
        }
    }
    for (set, last_ms) in of_sets {
        if let Some(set) = segment.set(bytes, set) {
            last.insert(xxh3_128(set), last_ms);
        }
    }
    Scanned {
        header: read_header(bytes, number),
        end: segment.end,
        damaged: segment.damaged,
        torn_bytes: (bytes.len() as u64).saturating_sub(u64::from(segment.end)),
        samples: segment.sample_count(),
        appended_ms: segment.frames.iter().map(|frame| frame.appended_ms).max(),
        last,
    }
}

/// The number in a file's name.
fn number_of(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

impl<R: Runtime, C: 'static> Node<R, C> {
    /// Reads the log of a tenant, unless that was done.
    pub(super) async fn load(&self, tenant: &Tenant) -> io::Result<()> {
        if tenant.is_loaded.get() {
            return Ok(());
        }
        let begun = self.runtime.now();
        let gives_up = tenant.failed_loads.get() + 1 >= LOAD_ATTEMPTS;
        if let Err(error) = self.load_files(tenant, gives_up).await {
            tenant.failed_loads.set(tenant.failed_loads.get() + 1);
            return Err(error);
        }
        let mut state = tenant.state.borrow_mut();
        state.numbers.replay_time = Some(self.runtime.now().since(begun));
        state.numbers.is_ready = true;
        tenant.is_loaded.set(true);
        Ok(())
    }

    async fn load_files(&self, tenant: &Tenant, gives_up: bool) -> io::Result<()> {
        let entries = match self.runtime.read_dir(&tenant.folder).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // An attempt that failed may have left some.
        {
            let mut state = tenant.state.borrow_mut();
            state.segments.clear();
            state.series.clear();
            (state.numbers.corruptions, state.numbers.repairs) = (0, 0);
        }
        let mut next_number = 1;
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            if let Some(number) = number_of(&entry.name, ".samples") {
                next_number = next_number.max(number.saturating_add(1));
                self.load_segment(tenant, number, gives_up).await?;
            } else if number_of(&entry.name, ".position").is_some() {
                let path = tenant.folder.join(&entry.name);
                let read = self.runtime.read_file(&path, FILE_BYTES).await;
                let position = read.ok().and_then(|file| Position::read(&file));
                // A position may be in a segment that a loss of power has taken away whole.
                let segment = position.map_or(0, |position| position.place.segment);
                next_number = next_number.max(segment.saturating_add(1));
            } else if entry.name.ends_with(".tmp") {
                self.runtime.remove_file(&tenant.folder.join(&entry.name)).await?;
            }
        }
        let mut state = tenant.state.borrow_mut();
        state.next_number = next_number;
        state.is_active = false;
        Ok(())
    }

    async fn load_segment(&self, tenant: &Tenant, number: u64, gives_up: bool) -> io::Result<()> {
        let path = tenant.segment_path(number);
        let bytes = match self.runtime.read_file(&path, FILE_MAX_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) if gives_up => {
                tenant.state.borrow_mut().numbers.corruptions += 1;
                tracing::error!(
                    file = %path.display(), %error,
                    "a segment of the sample log cannot be read; its samples are lost"
                );
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let scanned =
            self.runtime.offload_to(SideQueue::Upkeep, move || scan(&bytes, number)).await;
        let damaged = match scanned.header {
            Header::Good => scanned.damaged,
            Header::Damaged if scanned.samples == 0 && scanned.damaged == 0 => scanned.damaged,
            Header::Damaged => scanned.damaged + 1,
            Header::OtherVersion(version) => {
                tracing::error!(
                    file = %path.display(), version,
                    "a segment of the sample log has a format that is not known; it stays as it is"
                );
                tenant.state.borrow_mut().numbers.corruptions += 1;
                return Ok(());
            }
        };
        if damaged > 0 {
            tracing::error!(
                file = %path.display(), places = damaged,
                "a segment of the sample log is damaged; what can be read is used"
            );
        } else if scanned.torn_bytes > 0 {
            tracing::info!(
                file = %path.display(), bytes = scanned.torn_bytes,
                "the torn end of a segment of the sample log is cut"
            );
        }
        let now = self.runtime.now();
        let unix_ms = self.runtime.unix_nanos().div_euclid(1_000_000);
        let age_ms = scanned.appended_ms.map_or(0, |appended_ms| unix_ms - appended_ms);
        let age_ns = age_ms.max(0).cast_unsigned().saturating_mul(1_000_000);
        let mut state = tenant.state.borrow_mut();
        state.numbers.corruptions += damaged;
        state.numbers.repairs += damaged + u64::from(scanned.torn_bytes > 0);
        let newest_ms = scanned.last.values().copied().max();
        state.numbers.highest_timestamp_ms = state.numbers.highest_timestamp_ms.max(newest_ms);
        state.remember(&scanned.last, now);
        state.segments.push_back(SegmentMeta {
            number,
            len_bytes: u64::from(scanned.end),
            samples: scanned.samples,
            // The clock of this process may have begun later.
            appended: Monotonic(now.0.saturating_sub(age_ns)),
            waited_before_ns: age_ns.saturating_sub(now.0),
        });
        Ok(())
    }

    /// Where a receiver goes on: its position, and the samples of its segment before it. A receiver
    /// that is new begins behind all samples.
    ///
    /// # Errors
    /// The file cannot be read or written. The receiver must not be used then.
    pub(super) async fn load_position(
        &self,
        tenant: &Tenant,
        id: &str,
    ) -> io::Result<(Position, u64)> {
        let path = tenant.position_path(id);
        let (position, is_known) = match self.runtime.read_file(&path, FILE_BYTES).await {
            Ok(file) => match Position::read(&file) {
                Some(position) => (position, true),
                None => {
                    tracing::error!(
                        tenant = tenant.id.as_str(),
                        receiver = id,
                        "the position of a receiver of remote write is damaged; all samples of the \
                         log are sent again"
                    );
                    (Position::default(), false)
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let place = tenant.state.borrow().end();
                (Position { number: 1, place, under_way: None }, false)
            }
            Err(error) => return Err(error),
        };
        if !is_known {
            self.runtime.create_dir_all(&tenant.folder).await?;
            self.runtime.replace_file(&path, position.file()).await?;
            self.runtime.sync_dir(&self.folder).await?;
        }
        self.placed(tenant, position).await
    }

    /// A position within the segments that are there.
    async fn placed(&self, tenant: &Tenant, mut position: Position) -> io::Result<(Position, u64)> {
        let Place { segment, offset, index } = position.place;
        let known = {
            let state = tenant.state.borrow();
            state.segments.iter().find(|meta| meta.number == segment).map(|meta| meta.len_bytes)
        };
        let Some(len_bytes) = known else {
            let first = tenant.state.borrow().segments.front().map(|meta| meta.number);
            if first.is_some_and(|first| segment < first) {
                position.place = start_of(first.unwrap_or(segment));
                position.under_way = None;
            } else if first.is_none() {
                position.place = start_of(tenant.state.borrow().next_number);
                position.under_way = None;
            }
            return Ok((position, 0));
        };
        let bytes = self.runtime.read_file(&tenant.segment_path(segment), FILE_MAX_BYTES).await?;
        let read = self.runtime.offload_to(SideQueue::Upkeep, move || {
            let segment = Segment::read(&bytes);
            (segment.samples_before(offset, index), segment.sample_count())
        });
        let (passed, all) = read.await;
        if u64::from(offset) >= len_bytes {
            // A loss of power may have cut the segment.
            position.place.offset = u32::try_from(len_bytes).unwrap_or(u32::MAX);
            (position.place.index, position.under_way) = (0, None);
            return Ok((position, all));
        }
        Ok((position, passed))
    }
}
