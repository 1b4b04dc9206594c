//! The values of an attribute with the names that they are stored under.
//!
//! Guarantees: the work is linear in the message that the attribute stands in, and the
//! recursion as deep as [`MAX_DEPTH`] at most, since a value that is nested deeper is refused
//! before it is walked. What can go wrong is a [`RecordError`].

use crate::otlp::fault::RecordError;
use crate::otlp::value::AnyValue;
use crate::push::metadata::{is_normal_name, write_name};

/// Joined names of nested values may be this many times as long as the message that
/// they are in, and a bit. So values in maps with long names cannot blow up.
const JOINED_NAMES_FACTOR: usize = 16;
const JOINED_NAMES_ALLOWANCE: usize = 64 << 10;

/// How long the joined names of a message may still be.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct NamesLeft {
    len_bytes: usize,
}

impl NamesLeft {
    /// For a resource, scope or record of so many bytes.
    pub(super) fn of_message(len_bytes: usize) -> NamesLeft {
        let len_bytes = len_bytes.saturating_mul(JOINED_NAMES_FACTOR);
        NamesLeft { len_bytes: len_bytes.saturating_add(JOINED_NAMES_ALLOWANCE) }
    }

    fn take(&mut self, len_bytes: usize) -> Result<(), RecordError> {
        self.len_bytes = self.len_bytes.checked_sub(len_bytes).ok_or(RecordError::NamesTooLong)?;
        Ok(())
    }
}

/// The name of a value in normal form.
pub(super) enum Name<'n, 'a> {
    /// The sender's own.
    Sent(&'a [u8]),
    /// Written anew.
    Written(&'n [u8]),
}

/// Visits the values of an attribute that are not empty: a map has several.
pub(super) fn visit_values<'a>(
    name: &'a [u8],
    value: AnyValue<'a>,
    left: &mut NamesLeft,
    buffers: &mut NameBuffers,
    visit: &mut impl FnMut(Name<'_, 'a>, AnyValue<'a>),
) -> Result<(), RecordError> {
    if value.is_empty() {
        return Ok(());
    }
    value.check_depth()?;
    let NameBuffers { path, normal } = buffers;
    if let AnyValue::Map(map) = value {
        path.clear();
        path.extend_from_slice(name);
        return visit_map(map, left, path, normal, visit);
    }
    if is_normal_name(name) {
        visit(Name::Sent(name), value);
    } else {
        normal.clear();
        write_name(name, normal)?;
        visit(Name::Written(normal), value);
    }
    Ok(())
}

/// The memory that names are put together in.
#[derive(Default, Debug)]
pub(super) struct NameBuffers {
    path: Vec<u8>,
    normal: Vec<u8>,
}

/// Visits the values in a map of checked depth; `path` is the name that leads to it.
fn visit_map<'a>(
    map: &'a [u8],
    left: &mut NamesLeft,
    path: &mut Vec<u8>,
    normal: &mut Vec<u8>,
    visit: &mut impl FnMut(Name<'_, 'a>, AnyValue<'a>),
) -> Result<(), RecordError> {
    let outer_len = path.len();
    for (inner, value) in AnyValue::pairs(map) {
        path.push(b'_');
        path.extend_from_slice(inner);
        match value {
            AnyValue::Map(map) => visit_map(map, left, path, normal, visit)?,
            value => {
                left.take(path.len())?;
                if !value.is_empty() {
                    normal.clear();
                    write_name(path, normal)?;
                    visit(Name::Written(normal), value);
                }
            }
        }
        path.truncate(outer_len);
    }
    Ok(())
}
