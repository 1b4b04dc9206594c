//! Cursors of log queries: where a page of entries ended, as a text that clients send back.
//!
//! Guarantees: a cursor is taken by the query that it was made for, of the same tenants and in the
//! same direction, whatever the range of time; anything else is refused. It holds while entries
//! arrive and while the store moves them ([`Place`]). It tells nothing of the entries but the time
//! of one, and needs no state here.
//!
//! The text is `1-` and these bytes in lower hexadecimal digits, numbers big-endian: the time in ns
//! (8), the hash of the stream (8), the hash of the entry (8), the ordinal number (4), and XXH64 of
//! these bytes and of what the cursor belongs to (8).

use http::header::{HeaderName, HeaderValue};
use logsvc_http::Response;
use logsvc_logql::engine::{Direction, Place};
use logsvc_proto::error::ApiError;
use xxhash_rust::xxh64::Xxh64;

use super::tenants::Tenants;

/// The header of an answer behind which there may be more entries.
const NEXT_HEADER: HeaderName = HeaderName::from_static("x-logsvc-next-cursor");

const PREFIX: &str = "1-";

/// Bytes of a place.
const PLACE_BYTES: usize = 28;

/// What a cursor belongs to.
pub(super) struct CursorScope<'q> {
    pub(super) tenants: &'q Tenants,
    /// The query as it is printed.
    pub(super) query: &'q str,
    pub(super) direction: Direction,
}

impl CursorScope<'_> {
    /// The text of a place.
    pub(super) fn print(&self, place: &Place) -> String {
        let bytes = bytes_of(place);
        let check = self.check(&bytes).to_be_bytes();
        let digits = bytes.iter().chain(&check).map(|byte| format!("{byte:02x}"));
        PREFIX.chars().map(String::from).chain(digits).collect()
    }

    /// The place that a text stands for.
    ///
    /// # Errors
    /// It was not made for this.
    pub(super) fn parse(&self, text: &str) -> Result<Place, ApiError> {
        let place = text.strip_prefix(PREFIX).and_then(bytes_from_hex).and_then(|bytes| {
            let (place, check) = bytes.split_first_chunk::<PLACE_BYTES>()?;
            (*check == self.check(place).to_be_bytes()).then(|| place_of(place))
        });
        place.ok_or_else(|| {
            ApiError::bad_request(
                "invalid cursor: it must come from the X-Logsvc-Next-Cursor header of an answer to \
                 the same query, of the same tenants and in the same direction",
            )
        })
    }

    fn check(&self, place: &[u8; PLACE_BYTES]) -> u64 {
        let mut hash = Xxh64::new(0);
        hash.update(place);
        hash.update(&[u8::from(self.direction == Direction::Forward)]);
        for text in [self.tenants.to_string().as_str(), self.query] {
            hash.update(&(text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        hash.digest()
    }
}

/// Puts a cursor into an answer.
pub(super) fn with_next(mut response: Response, cursor: Option<String>) -> Response {
    if let Some(value) = cursor.and_then(|cursor| HeaderValue::try_from(cursor).ok()) {
        response.headers.insert(NEXT_HEADER, value);
    }
    response
}

fn bytes_of(place: &Place) -> [u8; PLACE_BYTES] {
    let mut bytes = [0; PLACE_BYTES];
    bytes[..8].copy_from_slice(&place.timestamp_ns.to_be_bytes());
    bytes[8..16].copy_from_slice(&place.stream_hash.to_be_bytes());
    bytes[16..24].copy_from_slice(&place.entry_hash.to_be_bytes());
    bytes[24..].copy_from_slice(&place.ordinal.to_be_bytes());
    bytes
}

fn place_of(bytes: &[u8; PLACE_BYTES]) -> Place {
    let word =
        |at: usize| bytes[at..at + 8].iter().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    let ordinal = bytes[24..].iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
    Place {
        timestamp_ns: word(0).cast_signed(),
        stream_hash: word(8),
        entry_hash: word(16),
        ordinal,
    }
}

/// The bytes of a text of lower hexadecimal digits.
fn bytes_from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != PLACE_BYTES + size_of::<u64>() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

#[cfg(test)]
mod tests {
    use logsvc_proto::TenantId;

    use super::*;

    #[test]
    fn a_cursor_comes_back_for_its_own_query_alone() {
        let place = Place {
            timestamp_ns: -1_700_000_000_000_000_007,
            stream_hash: u64::MAX - 5,
            entry_hash: 3,
            ordinal: 1 << 20,
        };
        let tenants = Tenants::from(TenantId::no_auth());
        let others = Tenants::from(TenantId::new("other").expect("an id"));
        let scope = |tenants, query, direction| CursorScope { tenants, query, direction };
        let own = scope(&tenants, "{a=\"b\"}", Direction::Forward);
        let text = own.print(&place);
        assert_eq!(text.len(), 74);
        assert_eq!(own.parse(&text).expect("its own"), place);
        for other in [
            scope(&tenants, "{a=\"b\"}", Direction::Backward),
            scope(&tenants, "{a=\"c\"}", Direction::Forward),
            scope(&others, "{a=\"b\"}", Direction::Forward),
        ] {
            assert_eq!(other.parse(&text).expect_err("of another").status.as_u16(), 400);
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            let damaged = String::from_utf8(bytes).expect("ASCII");
            assert!(own.parse(&damaged).is_err(), "{damaged}");
            assert!(own.parse(&text[..at]).is_err());
        }
        for text in ["", "1-", "2-00", "1-zz", "ä", &format!("{text}0"), &text.to_uppercase()] {
            assert!(own.parse(text).is_err(), "{text}");
        }
    }
}
