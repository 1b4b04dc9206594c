//! Requests, chunked bodies, WebSocket frames and parameters out of arbitrary bytes.
//!
//! Each body checks that the input gives the same result whole and cut into pieces.

use logsvc_runtime::{Budget, BufferPool};

use bytes::Bytes;
use logsvc_http::client::{Piece, ResponseDecoder, ResponseLimits, Target};
use logsvc_http::websocket::{Event, Handshake, MessageDecoder};
use logsvc_http::{
    BodyPieces, BodyReader, ChunkedDecoder, Decoded, Framing, HeadDecoder, HeadLimits, InputBuffer,
    Params, Refusal, accepts_gzip, clean_path, escape,
};

/// Longest body that [`parse_requests`] admits.
pub const MAX_BODY_BYTES: u64 = 4096;

/// The requests in a connection's bytes, in text for comparison, until the bytes end or a request
/// is refused. `cuts` are the lengths of the pieces; the bytes behind the last piece come at once.
pub fn parse_requests(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) -> Vec<String> {
    let limits = HeadLimits { max_target_bytes: 1024, max_headers_bytes: 2048 };
    let budget = Budget::new("fuzz", 1 << 20);
    let pool = BufferPool::new(16 * 1024);
    let mut heads = HeadDecoder::new(limits, budget.clone());
    let mut body: Option<BodyReader> = None;
    let mut input = InputBuffer::new();
    let mut said = Vec::new();
    let mut rest = bytes;
    let mut cuts = cuts.into_iter();
    loop {
        let piece_len = cuts.next().unwrap_or(rest.len()).min(rest.len());
        let (piece, after) = rest.split_at(piece_len);
        rest = after;
        input.extend(piece);
        if let Err(refusal) =
            advance(&mut heads, &mut body, &mut input, (&budget, &pool), &mut said)
        {
            said.push(format!("refused: {} {refusal}", refusal.status().as_u16()));
            return said;
        }
        if rest.is_empty() {
            break;
        }
    }
    if body.is_some() {
        said.push("incomplete body".to_owned());
    } else if heads.has_begun() {
        said.push("incomplete head".to_owned());
    }
    said
}

fn advance(
    heads: &mut HeadDecoder,
    body: &mut Option<BodyReader>,
    input: &mut InputBuffer,
    (budget, pool): (&Budget, &BufferPool),
    said: &mut Vec<String>,
) -> Result<(), Refusal> {
    loop {
        if let Some(mut reader) = body.take() {
            if !reader.decode(input)? {
                *body = Some(reader);
                return Ok(());
            }
            let bytes = reader.finish().into_vec();
            if !bytes.is_empty() {
                said.push(format!("body: {}", bytes.escape_ascii()));
            }
        }
        let Some(head) = heads.decode(input)? else { return Ok(()) };
        said.push(format!(
            "{} {:?} query={:?} {:?} {:?} keep_alive={} expects_continue={}",
            head.method,
            head.path,
            head.query,
            head.version,
            head.framing,
            head.keep_alive,
            head.expects_continue,
        ));
        for (name, value) in &head.headers {
            said.push(format!("  {name}: {}", value.as_bytes().escape_ascii()));
        }
        // A service calls these functions with a head before it reads the body.
        if let Some(clean) = clean_path(&head.path) {
            assert_eq!(clean_path(&clean), None, "{:?} is not clean", head.path);
        }
        // These have nothing to compare with; they must not panic.
        let _ = (accepts_gzip(&head.headers), Handshake::of_request(&head));
        *body = Some(BodyReader::new(head.framing, MAX_BODY_BYTES, budget, pool)?);
    }
}

/// Fuzz target: request heads and bodies.
pub fn requests(data: &[u8]) {
    let (cut, bytes) = split_cut(data);
    let whole = parse_requests(bytes, []);
    streamed_bodies(cut, bytes);
    assert_eq!(whole, parse_requests(bytes, [cut]), "cut at {cut}");
    assert_eq!(whole, parse_requests(bytes, std::iter::repeat_n(1, bytes.len())), "in bytes");
}

/// Checks that a body in pieces is the same as one that is received whole, for the framing of a
/// length and of chunks.
fn streamed_bodies(cut: usize, bytes: &[u8]) {
    let budget = Budget::new("fuzz", 1 << 20);
    let pool = BufferPool::new(16 * 1024);
    for framing in [Framing::Chunked, Framing::Length(cut as u64 + 1)] {
        let mut input = InputBuffer::new();
        input.extend(bytes);
        let max_bytes = budget.max_bytes();
        let Ok(mut reader) = BodyReader::new(framing, max_bytes, &budget, &pool) else { continue };
        let whole = reader.decode(&mut input);
        let received_bytes = reader.received_bytes();
        for piece_len in [cut.max(1), 1] {
            let (mut rest, mut body) = (InputBuffer::new(), BodyPieces::new(framing));
            let mut data = Vec::new();
            let mut end = Ok(());
            for piece in bytes.chunks(piece_len) {
                rest.extend(piece);
                end = body.decode(&mut rest, &mut data);
                if end.is_err() {
                    break;
                }
            }
            // A body without a longest length gets further than one with it.
            if matches!(whole, Err(Refusal::BodyTooLarge { .. } | Refusal::BudgetExhausted)) {
                continue;
            }
            assert_eq!(whole, end.map(|()| body.is_done()), "in pieces of {piece_len}");
            assert_eq!(received_bytes, data.len() as u64);
            // The pieces behind a malformed one have not come.
            if whole.is_ok() {
                assert_eq!(input.unread(), rest.unread());
            }
        }
    }
}

/// The answers in a connection's bytes, in text for comparison, until the connection ends by its
/// own rules or an answer is refused. Bytes that begin with `HEAD ` are answers to such requests.
pub fn parse_answers(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) -> Vec<String> {
    let limits = ResponseLimits { max_head_bytes: 1024, max_body_bytes: MAX_BODY_BYTES };
    let answers = bytes.strip_prefix(b"HEAD ");
    let is_head = answers.is_some();
    let mut rest = Bytes::copy_from_slice(answers.unwrap_or(bytes));
    let mut cuts = cuts.into_iter();
    let mut input = Bytes::new();
    let mut said = Vec::new();
    loop {
        let mut decoder = ResponseDecoder::new(limits, is_head);
        let mut body = Vec::new();
        let end = loop {
            match decoder.decode(&mut input) {
                Ok(Some(Piece::Interim(status))) => said.push(format!("interim {status}")),
                Ok(Some(Piece::Head(head))) => {
                    said.push(format!("{:?} {}", head.version, head.status.as_u16()));
                    for (name, value) in &head.headers {
                        said.push(format!("  {name}: {}", value.as_bytes().escape_ascii()));
                    }
                }
                Ok(Some(Piece::Data(data))) => body.extend_from_slice(&data),
                Ok(Some(Piece::End)) => break None,
                Ok(None) if rest.is_empty() => break Some(decoder.finish()),
                Ok(None) => {
                    assert!(input.is_empty(), "the decoder leaves bytes");
                    let piece_len = cuts.next().unwrap_or(rest.len()).clamp(1, rest.len());
                    input = rest.split_to(piece_len);
                }
                Err(error) => break Some(Err(error)),
            }
        };
        let has_begun = decoder.has_begun();
        if !body.is_empty() {
            said.push(format!("body: {}", body.escape_ascii()));
        }
        match end {
            None => said.push(format!("complete, keep_alive={}", decoder.keep_alive())),
            Some(Ok(())) => said.push("complete at the end of the connection".to_owned()),
            Some(Err(error)) if has_begun => said.push(format!("refused: {error}")),
            Some(Err(_)) => {}
        }
        if end.is_some() || !decoder.keep_alive() {
            return said;
        }
    }
}

/// Fuzz target: answers, as the client reads them.
pub fn answers(data: &[u8]) {
    let (cut, bytes) = split_cut(data);
    let whole = parse_answers(bytes, []);
    assert_eq!(whole, parse_answers(bytes, [cut]), "cut at {cut}");
    assert_eq!(whole, parse_answers(bytes, std::iter::repeat_n(1, bytes.len())), "in bytes");
}

/// Fuzz target: addresses of requests. What is taken can stand in a request.
pub fn request_targets(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(target) = Target::parse(text) else { return };
    let parts = [target.host(), target.path_and_query()];
    for part in parts {
        assert!(!part.is_empty() && part.bytes().all(|byte| byte > b' ' && byte != 0x7f));
    }
    assert!(target.path_and_query().starts_with('/') && target.port() > 0);
    let shown = format!("{target:?}");
    assert_eq!(Target::parse(&shown).map(|again| format!("{again:?}")), Ok(shown));
}

/// The content of a chunked body, in pieces of `cuts`: data, then the refusal or whether it is
/// complete and how many bytes follow it.
pub fn decode_chunked(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
) -> (Vec<u8>, Result<Option<usize>, Refusal>) {
    let mut decoder = ChunkedDecoder::new(1 << 20);
    let mut data = Vec::new();
    let mut rest = bytes;
    let mut cuts = cuts.into_iter();
    while !rest.is_empty() {
        let piece_len = cuts.next().unwrap_or(rest.len()).min(rest.len());
        let mut piece = &rest[..piece_len];
        rest = &rest[piece_len..];
        while !piece.is_empty() {
            match decoder.decode(piece) {
                Ok((consumed, decoded)) => {
                    piece = &piece[consumed..];
                    match decoded {
                        Decoded::Data(part) => data.extend_from_slice(part),
                        Decoded::Done => return (data, Ok(Some(piece.len() + rest.len()))),
                        Decoded::NeedMore => {}
                    }
                }
                Err(refusal) => return (data, Err(refusal)),
            }
        }
    }
    (data, Ok(None))
}

/// Fuzz target: the chunked transfer coding.
pub fn chunked(data: &[u8]) {
    let (cut, bytes) = split_cut(data);
    let whole = decode_chunked(bytes, []);
    assert!(whole.0.len() <= bytes.len());
    assert_eq!(whole, decode_chunked(bytes, [cut]), "cut at {cut}");
    assert_eq!(whole, decode_chunked(bytes, std::iter::repeat_n(1, bytes.len())), "in bytes");
}

/// The events in a client's WebSocket bytes, in text for comparison.
pub fn websocket_events(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) -> Vec<String> {
    let mut decoder = MessageDecoder::new(1000);
    let mut said = Vec::new();
    let mut rest = bytes;
    let mut cuts = cuts.into_iter();
    while !rest.is_empty() {
        let piece_len = cuts.next().unwrap_or(rest.len()).min(rest.len());
        let mut piece = &rest[..piece_len];
        rest = &rest[piece_len..];
        while !piece.is_empty() {
            match decoder.decode(piece) {
                Ok((consumed, event)) => {
                    piece = &piece[consumed..];
                    match event {
                        Some(Event::Message(message)) => said.push(format!("{message:?}")),
                        Some(Event::Ping(payload)) => {
                            said.push(format!("Ping({})", payload.escape_ascii()));
                        }
                        Some(Event::Pong(payload)) => {
                            said.push(format!("Pong({})", payload.escape_ascii()));
                        }
                        Some(Event::Close(reason)) => said.push(format!("Close({reason})")),
                        None => {}
                    }
                }
                Err(reason) => {
                    said.push(format!("broken: {reason}"));
                    return said;
                }
            }
        }
    }
    said
}

/// Fuzz target: WebSocket frames.
pub fn websocket_frames(data: &[u8]) {
    let (cut, bytes) = split_cut(data);
    let whole = websocket_events(bytes, []);
    assert_eq!(whole, websocket_events(bytes, [cut]), "cut at {cut}");
    assert_eq!(whole, websocket_events(bytes, std::iter::repeat_n(1, bytes.len())), "in bytes");
}

/// Makes frames as clients send them, masked and with lengths in their shortest form,
/// of which `data` decides kinds, ends of messages, lengths and payloads. So most frames get
/// past the header check, which random bytes seldom do.
fn masked_frames(data: &[u8]) -> Vec<u8> {
    const OPCODES: [u8; 8] = [0, 0, 1, 2, 8, 9, 10, 3];
    let mut frames = Vec::new();
    let mut rest = data;
    while let Some(([kind, len], after)) = rest.split_first_chunk() {
        // Lengths from 0 to 1020, so that some need two bytes and some are too long.
        let len_bytes = usize::from(len & 0x3f) << (2 * (len >> 6));
        let (payload, after) = after.split_at(len_bytes.min(after.len()));
        rest = after;
        let mask = [*kind, *len, 0x5a, 0];
        frames.push(kind & 0x80 | OPCODES[usize::from(kind & 7)]);
        match payload.len() {
            len @ 0..126 => frames.push(0x80 | len as u8),
            len => {
                frames.push(0x80 | 126);
                frames.extend_from_slice(&(len as u16).to_be_bytes());
            }
        }
        frames.extend_from_slice(&mask);
        frames.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    }
    frames
}

/// Fuzz target: WebSocket messages of several frames, with control frames between.
pub fn websocket_messages(data: &[u8]) {
    let (cut, data) = split_cut(data);
    let frames = masked_frames(data);
    let whole = websocket_events(&frames, []);
    let cut = cut.min(frames.len());
    assert_eq!(whole, websocket_events(&frames, [cut]), "cut at {cut}");
    assert_eq!(whole, websocket_events(&frames, std::iter::repeat_n(1, frames.len())), "in bytes");
}

/// Fuzz target: query strings and forms. Parameters that are parsed, escaped and parsed again stay
/// the same.
pub fn params(data: &[u8]) {
    let Ok(parsed) = Params::parse(data) else { return };
    let mut escaped = String::new();
    for (name, value) in parsed.iter() {
        escaped.push('&');
        escaped.push_str(&escape(name));
        escaped.push('=');
        escaped.push_str(&escape(value));
    }
    assert_eq!(Params::parse(escaped.as_bytes()), Ok(parsed));
}

/// Takes the place to cut at from the first byte.
fn split_cut(data: &[u8]) -> (usize, &[u8]) {
    match data.split_first() {
        Some((cut, bytes)) => (usize::from(*cut) % (bytes.len() + 1), bytes),
        None => (0, data),
    }
}
