//! Request heads: request line and headers.
//!
//! Guarantees: a head that is given out is unambiguous. It has exactly one way to find its body's
//! end, its names and values have no control characters, and its path is valid UTF-8. The shapes
//! that make two parsers disagree (RFC 9112, section 11.2) are refused. Heads are limited by their
//! bytes alone, however many fields they have. The memory of the fields of a larger head is
//! reserved before they are parsed; after a refusal for lack of memory the same call may be tried
//! again.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Version};
use logsvc_runtime::{Budget, Owner, Reservation};

use crate::config::IDLE_BUFFER_BYTES;
use crate::framing::{self, Framing};
use crate::input::InputBuffer;
use crate::percent;
use crate::refusal::Refusal;
use crate::scan::{HeadLimits, HeadScanner};

/// Fields that are parsed without an allocation, and held without a reservation.
const USUAL_FIELDS: usize = 64;
/// Bytes of a field in the map of headers, and while it is parsed: at most twice the room of an
/// entry and of its place in the index, since both grow by doubling.
const FIELD_BYTES: u64 = 320;

/// The head of a request.
#[derive(Debug)]
pub struct RequestHead {
    /// The method, which need not be a known one.
    pub method: Method,
    /// The path with its percent escapes decoded. Starts with `/`, or is `*` for
    /// `OPTIONS *`.
    pub path: String,
    /// The path as it was sent.
    pub raw_path: String,
    /// The text behind the first `?` of the target, as it was sent.
    pub query: Option<String>,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The headers, in the order of their arrival.
    pub headers: HeaderMap,
    /// How the body's end is found.
    pub framing: Framing,
    /// Whether the client lets the connection live after the answer.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Owners for a head that is larger than an idle buffer, or has many fields.
    reservation: Option<Reservation>,
}

impl RequestHead {
    /// The value of a header, if there is exactly such a field and it is plain
    /// ASCII or UTF-8. With several fields of the name, the first.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        std::str::from_utf8(self.headers.get(name)?.as_bytes()).ok()
    }

    /// A copy, whose memory is accounted for as well; `None` if there is none.
    pub(crate) fn try_copy(&self, budget: &Budget, owner: Owner) -> Option<RequestHead> {
        let reservation = match &self.reservation {
            Some(held) => Some(budget.try_reserve_for(owner, held.bytes())?),
            None => None,
        };
        Some(RequestHead {
            method: self.method.clone(),
            path: self.path.clone(),
            raw_path: self.raw_path.clone(),
            query: self.query.clone(),
            version: self.version,
            headers: self.headers.clone(),
            framing: self.framing,
            keep_alive: self.keep_alive,
            expects_continue: self.expects_continue,
            reservation,
        })
    }

    /// Whether the body is declared to be an HTML form. Parameters of the media
    /// type, such as a charset, do not matter.
    pub fn has_form_body(&self) -> bool {
        let content_type = self.header(http::header::CONTENT_TYPE).unwrap_or("");
        let media_type = content_type.split(';').next().unwrap_or("").trim();
        media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded")
    }
}

/// Reads one head after the other from a connection's bytes.
pub struct HeadDecoder {
    limits: HeadLimits,
    budget: Budget,
    owner: Owner,
    scanner: HeadScanner,
    /// Where a complete head is that has not been parsed yet.
    complete: Option<Range<usize>>,
}

impl HeadDecoder {
    /// A decoder for a new connection. Heads larger than an idle buffer, or with many fields,
    /// are taken from the budget.
    pub fn new(limits: HeadLimits, budget: Budget) -> HeadDecoder {
        let (owner, scanner) = (Owner::default(), HeadScanner::default());
        HeadDecoder { limits, budget, owner, scanner, complete: None }
    }

    /// Takes the memory on this account.
    #[must_use]
    pub fn for_owner(mut self, owner: Owner) -> HeadDecoder {
        self.owner = owner;
        self
    }

    /// Takes the next head from `input`, or gives `None` if more bytes are
    /// needed. After a refusal, unless it was for lack of memory, the connection must be
    /// closed.
    pub fn decode(&mut self, input: &mut InputBuffer) -> Result<Option<RequestHead>, Refusal> {
        if self.complete.is_none() {
            self.complete = self.scanner.scan(input.unread(), &self.limits)?;
        }
        let Some(range) = self.complete.clone() else { return Ok(None) };
        let bytes = &input.unread()[range.clone()];
        // Each has a line; the request line and the empty one are two more.
        let fields = memchr::memchr_iter(b'\n', bytes).count();
        let reservation = if range.len() > IDLE_BUFFER_BYTES || fields > USUAL_FIELDS {
            // The head's own copy, and the decoded and raw target at most.
            let copies_bytes = range.len() as u64 * 3;
            let bytes = copies_bytes + fields as u64 * FIELD_BYTES;
            let taken = self.budget.try_reserve_for(self.owner, bytes);
            Some(taken.ok_or(Refusal::BudgetExhausted)?)
        } else {
            None
        };
        let end = range.end;
        let mut head = parse_head(bytes, fields, &self.limits)?;
        head.reservation = reservation;
        input.consume(end);
        (self.scanner, self.complete) = (HeadScanner::default(), None);
        Ok(Some(head))
    }

    /// Whether part of a head was seen that is not complete yet.
    pub fn has_begun(&self) -> bool {
        self.scanner.has_begun()
    }
}

/// Parses a complete head, which ends in an empty line and has `max_fields` at most.
fn parse_head(head: &[u8], max_fields: usize, limits: &HeadLimits) -> Result<RequestHead, Refusal> {
    // One copy that all header values share.
    let bytes = Bytes::copy_from_slice(head);
    let mut usual = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
    let mut many = Vec::new();
    let fields = if max_fields <= USUAL_FIELDS {
        &mut usual[..]
    } else {
        many.resize_with(max_fields, MaybeUninit::uninit);
        &mut many[..]
    };
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(&bytes, fields) {
        Ok(httparse::Status::Complete(len)) if len == head.len() => {}
        Ok(_) => return Err(Refusal::BadRequest("malformed request head")),
        Err(error) => return Err(refusal_of(error, head)),
    }
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Refusal::BadRequest("malformed request line"));
    };
    if target.len() > limits.max_target_bytes {
        return Err(Refusal::TargetTooLong { max_bytes: limits.max_target_bytes });
    }
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| Refusal::BadRequest("malformed method"))?;
    let version = if minor == 1 { Version::HTTP_11 } else { Version::HTTP_10 };

    // The map has a bound of its own, which is 24,576 names.
    let mut headers =
        HeaderMap::try_with_capacity(parsed.headers.len()).map_err(|_| Refusal::HeadTooLarge)?;
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes())
            .map_err(|_| Refusal::BadRequest("malformed header name"))?;
        // An empty value may point outside of the shared copy.
        let value = if field.value.is_empty() {
            HeaderValue::from_static("")
        } else {
            HeaderValue::from_maybe_shared(bytes.slice_ref(field.value))
                .map_err(|_| Refusal::BadRequest("malformed header value"))?
        };
        headers.try_append(name, value).map_err(|_| Refusal::HeadTooLarge)?;
    }

    let (raw_path, query) = split_target(&method, target)?;
    let path = match percent::decode_path(raw_path) {
        Ok(path) => path.into_owned(),
        Err(reason) => return Err(Refusal::BadRequest(reason)),
    };
    framing::check_host(&headers, version)?;
    let framing = framing::body_framing(&headers, version)?;
    let expects_continue = framing::expects_continue(&headers, version)?;
    let keep_alive = framing::keeps_alive(&headers, version);
    Ok(RequestHead {
        method,
        path,
        raw_path: raw_path.to_owned(),
        query: query.map(str::to_owned),
        version,
        headers,
        framing,
        keep_alive,
        expects_continue: expects_continue && framing != Framing::None,
        reservation: None,
    })
}

/// Splits a request target (RFC 9112, section 3.2) into path and query.
fn split_target<'t>(
    method: &Method,
    target: &'t str,
) -> Result<(&'t str, Option<&'t str>), Refusal> {
    if target.contains('#') {
        return Err(Refusal::BadRequest("the request target has a fragment"));
    }
    let origin = if target.starts_with('/') {
        target
    } else if target == "*" && method == Method::OPTIONS {
        return Ok(("*", None));
    } else {
        let rest = ["http://", "https://"].into_iter().find_map(|scheme| {
            let (start, rest) = target.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        let rest = rest.ok_or(Refusal::BadRequest("unsupported form of the request target"))?;
        let path_start = rest.find(['/', '?']).unwrap_or(rest.len());
        if path_start == 0 {
            return Err(Refusal::BadRequest("the request target names no host"));
        }
        &rest[path_start..]
    };
    let (path, query) = match origin.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (origin, None),
    };
    Ok((if path.is_empty() { "/" } else { path }, query))
}

fn refusal_of(error: httparse::Error, head: &[u8]) -> Refusal {
    match error {
        httparse::Error::HeaderName => Refusal::BadRequest("malformed header name"),
        httparse::Error::HeaderValue => Refusal::BadRequest("malformed header value"),
        httparse::Error::Version if names_other_version(head) => Refusal::VersionNotSupported,
        _ => Refusal::BadRequest("malformed request line"),
    }
}

/// Whether the request line ends in a well-formed version that is not spoken here,
/// such as the one of the HTTP/2 preface.
fn names_other_version(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit() && version[5..] != *b"1.0"
            && version[5..] != *b"1.1")
}
