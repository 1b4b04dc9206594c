//! The bytes of a segment of the sample log (docs/format.md, *Samples that wait*).
//!
//! A segment is a header and frames. A frame has the label sets that the segment has not named
//! before, and samples that refer to label sets by their number within the segment. The number of
//! its first label set is in a frame's header, so that a frame can be read though another one is
//! damaged.
//!
//! Guarantees of the reader: no panic on any bytes; memory and time are linear in their number.
//! Behind damage it finds the next frame whose header checks. What was whole stays usable: the
//! samples of other frames, unless their label set was in the damaged one. What can go wrong:
//! bytes that are changed on purpose together with their checksums give wrong samples.

use std::ops::Range;

use crc32c::{crc32c, crc32c_append};
use logsvc_proto::{Labels, varint};

/// Length of the header of a segment.
pub(super) const HEADER_BYTES: usize = 64;
/// Length of the header of a frame.
pub(super) const FRAME_HEADER_BYTES: usize = 32;
/// Most bytes of the payload of a frame.
pub(super) const PAYLOAD_MAX_BYTES: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"LSVC-SMP";
const VERSION: u32 = 1;
const MARKER: [u8; 4] = *b"SFRM";

/// The header of segment `number`.
pub(super) fn header(number: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What the header of a file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    /// A segment of this version.
    Good,
    /// The header is right, and of another version.
    OtherVersion(u32),
    /// Not the header of this segment.
    Damaged,
}

/// Reads the header of segment `number`.
pub(super) fn read_header(bytes: &[u8], number: u64) -> Header {
    let Some(header) = bytes.get(..HEADER_BYTES) else { return Header::Damaged };
    let crc = crc32c_append(crc32c(&header[..12]), &[0; 4]);
    let crc = crc32c_append(crc, &header[16..]);
    if header[..8] != *MAGIC || number_at::<4>(header, 12) != u64::from(crc) {
        return Header::Damaged;
    }
    match number_at::<4>(header, 8) as u32 {
        VERSION if number_at::<8>(header, 16) == number => Header::Good,
        VERSION => Header::Damaged,
        other => Header::OtherVersion(other),
    }
}

fn number_at<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(number)
}

/// The bytes of a label set: for each label with a value the name and the value, each with its
/// length as a varint before it.
pub(super) fn encode_labels(labels: &Labels, out: &mut Vec<u8>) {
    for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        for text in [name, value] {
            varint::write(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// The labels that the bytes hold; `None` if they hold none such.
pub(super) fn decode_labels(mut bytes: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut labels = Vec::new();
    while !bytes.is_empty() {
        let name = take_text(&mut bytes)?;
        labels.push((name, take_text(&mut bytes)?));
    }
    Some(labels)
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take_bytes(bytes)?).ok()
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len_bytes = usize::try_from(take_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len_bytes)?;
    *bytes = rest;
    Some(text)
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut position = 0;
    let number = varint::read(bytes, &mut position).ok()?;
    *bytes = &bytes[position..];
    Some(number)
}

/// A sample that refers to a label set of its segment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct StoredSample {
    /// The number of the label set within the segment.
    pub(super) set: u32,
    /// In ms since the Unix epoch.
    pub(super) timestamp_ms: i64,
    pub(super) value: f64,
}

/// Gathers the samples of a frame.
#[derive(Debug, Default)]
pub(super) struct FrameWriter {
    sets: Vec<u8>,
    set_count: u64,
    samples: Vec<u8>,
    sample_count: u32,
    last_ms: i64,
}

impl FrameWriter {
    /// How long the payload is.
    pub(super) fn payload_bytes(&self) -> usize {
        self.sets.len() + self.samples.len() + varint::MAX_LEN_BYTES
    }

    /// How many samples it has.
    pub(super) fn sample_count(&self) -> u32 {
        self.sample_count
    }

    /// Adds a label set, which gets the next number of the segment.
    pub(super) fn add_set(&mut self, encoded: &[u8]) {
        varint::write(&mut self.sets, encoded.len() as u64);
        self.sets.extend_from_slice(encoded);
        self.set_count += 1;
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, sample: StoredSample) {
        varint::write(&mut self.samples, u64::from(sample.set));
        let step = sample.timestamp_ms.wrapping_sub(self.last_ms);
        varint::write(&mut self.samples, (step << 1 ^ step >> 63).cast_unsigned());
        self.samples.extend_from_slice(&sample.value.to_le_bytes());
        self.last_ms = sample.timestamp_ms;
        self.sample_count += 1;
    }

    /// Appends the frame. `first_set` is the number of the first label set that was added;
    /// `appended_ms` is the wall clock.
    pub(super) fn finish(self, first_set: u32, appended_ms: i64, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + FRAME_HEADER_BYTES, 0);
        varint::write(out, self.set_count);
        out.extend_from_slice(&self.sets);
        out.extend_from_slice(&self.samples);
        let (header, payload) = out[start..].split_at_mut(FRAME_HEADER_BYTES);
        header[..4].copy_from_slice(&MARKER);
        header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&crc32c(payload).to_le_bytes());
        header[16..20].copy_from_slice(&self.sample_count.to_le_bytes());
        header[20..24].copy_from_slice(&first_set.to_le_bytes());
        header[24..32].copy_from_slice(&appended_ms.to_le_bytes());
        let crc = crc32c(&header[8..]);
        header[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A frame whose header checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    /// Where it begins in the file.
    pub(super) offset: u32,
    /// How many samples it has.
    pub(super) samples: u32,
    /// The wall clock when it was appended, in ms since the Unix epoch.
    pub(super) appended_ms: i64,
    /// Where its samples are; `None` if its payload is damaged.
    content: Option<Range<usize>>,
}

impl Frame {
    /// Whether its samples can be read.
    pub(super) fn is_whole(&self) -> bool {
        self.content.is_some()
    }
}

/// What a reader has found in the bytes of a segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Segment {
    /// Frames in their order.
    pub(super) frames: Vec<Frame>,
    /// Number and place of each label set, by number.
    sets: Vec<(u32, Range<usize>)>,
    /// Behind the last frame.
    pub(super) end: u32,
    /// Places with damage before `end`.
    pub(super) damaged: u64,
}

impl Segment {
    /// Finds the frames of a segment behind its header, which is not looked at.
    pub(super) fn read(bytes: &[u8]) -> Segment {
        let mut segment = Segment { end: HEADER_BYTES as u32, ..Segment::default() };
        let mut at = HEADER_BYTES.min(bytes.len());
        let mut is_lost = false;
        // Offsets of a frame have four bytes.
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        while let Some(header) = bytes.get(at..at + FRAME_HEADER_BYTES) {
            let Some((payload_len, payload_crc, first_set)) = check_header(header) else {
                is_lost = true;
                at += 1;
                // The marker begins every frame.
                match bytes[at..].iter().position(|&byte| byte == MARKER[0]) {
                    Some(ahead) => at += ahead,
                    None => break,
                }
                continue;
            };
            let start = at + FRAME_HEADER_BYTES;
            // A payload that the file does not hold whole was not written to its end.
            let Some(payload) = bytes.get(start..start + payload_len) else { break };
            segment.damaged += u64::from(std::mem::take(&mut is_lost));
            let content = (crc32c(payload) == payload_crc)
                .then(|| segment.take_sets(payload, start, first_set))
                .flatten();
            segment.damaged += u64::from(content.is_none());
            segment.frames.push(Frame {
                offset: at as u32,
                samples: number_at::<4>(header, 16) as u32,
                appended_ms: number_at::<8>(header, 24).cast_signed(),
                content,
            });
            at = start + payload_len;
            segment.end = at as u32;
        }
        segment.sets.sort_by_key(|(number, _)| *number);
        segment
    }

    /// Notes the label sets of a payload, and gives the place of its samples.
    fn take_sets(&mut self, payload: &[u8], start: usize, first_set: u32) -> Option<Range<usize>> {
        let mut rest = payload;
        let end = start + payload.len();
        let count = take_number(&mut rest)?;
        // Each takes a byte at least.
        if count > rest.len() as u64 {
            return None;
        }
        let before = self.sets.len();
        for index in 0..count as u32 {
            let place = take_bytes(&mut rest).zip(first_set.checked_add(index));
            let Some((set, number)) = place else {
                self.sets.truncate(before);
                return None;
            };
            let set_end = end - rest.len();
            self.sets.push((number, set_end - set.len()..set_end));
        }
        Some(end - rest.len()..end)
    }

    /// All samples.
    pub(super) fn sample_count(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.samples)).sum()
    }

    /// Samples before a place.
    pub(super) fn samples_before(&self, offset: u32, index: u32) -> u64 {
        let before = |frame: &Frame| {
            if frame.offset < offset {
                u64::from(frame.samples)
            } else if frame.offset == offset {
                u64::from(frame.samples.min(index))
            } else {
                0
            }
        };
        self.frames.iter().map(before).sum()
    }

    /// The bytes of a label set.
    pub(super) fn set<'a>(&self, bytes: &'a [u8], number: u32) -> Option<&'a [u8]> {
        let index = self.sets.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        bytes.get(self.sets[index].1.clone())
    }

    /// The samples of a frame, in their order; fewer than the header says if the frame is damaged.
    pub(super) fn samples<'a>(
        &self,
        bytes: &'a [u8],
        frame: &Frame,
    ) -> impl Iterator<Item = StoredSample> + use<'a> {
        let mut rest = frame.content.clone().and_then(|place| bytes.get(place)).unwrap_or(&[]);
        let mut last_ms = 0i64;
        let mut left = frame.samples;
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let set = u32::try_from(take_number(&mut rest)?).ok()?;
            let step = take_number(&mut rest)?;
            last_ms = last_ms.wrapping_add((step >> 1).cast_signed() ^ -(step & 1).cast_signed());
            let (value, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(StoredSample { set, timestamp_ms: last_ms, value: f64::from_le_bytes(*value) })
        })
    }
}

fn check_header(header: &[u8]) -> Option<(usize, u32, u32)> {
    let crc = number_at::<4>(header, 4) as u32;
    if header[..4] != MARKER || crc32c(&header[8..]) != crc {
        return None;
    }
    let payload_len = number_at::<4>(header, 8) as usize;
    let limit = PAYLOAD_MAX_BYTES + (PAYLOAD_MAX_BYTES >> 1);
    (payload_len <= limit).then(|| {
        (payload_len, number_at::<4>(header, 12) as u32, number_at::<4>(header, 20) as u32)
    })
}

/// Reads the bytes as a segment; samples and label sets that it gives are written anew and read
/// again.
///
/// # Panics
/// If something changes on the way.
pub(crate) fn fuzz_segment(data: &[u8]) {
    let segment = Segment::read(data);
    assert!(segment.end as usize <= data.len().max(HEADER_BYTES));
    for frame in &segment.frames {
        let samples: Vec<StoredSample> = segment.samples(data, frame).collect();
        assert!(samples.len() <= frame.samples as usize);
        let mut writer = FrameWriter::default();
        for sample in &samples {
            if let Some(set) = segment.set(data, sample.set) {
                decode_labels(set);
            }
            writer.add(*sample);
        }
        let mut bytes = header(1).to_vec();
        writer.finish(0, frame.appended_ms, &mut bytes);
        let again = Segment::read(&bytes);
        let read: Vec<StoredSample> = again.samples(&bytes, &again.frames[0]).collect();
        let same = |(a, b): (&StoredSample, &StoredSample)| {
            (a.set, a.timestamp_ms, a.value.to_bits()) == (b.set, b.timestamp_ms, b.value.to_bits())
        };
        assert!(read.len() == samples.len() && read.iter().zip(&samples).all(same));
    }
}

#[cfg(test)]
mod tests;
