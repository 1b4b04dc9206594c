//! Golden cases of the parsers, each also cut at every byte, and the bodies of
//! the fuzz targets over the same cases and random bytes.

mod golden;

use golden::{Case, check_folder};
use logsvc_fuzz_bodies::http as fuzz;
use logsvc_http::Params;
use proptest::prelude::*;

/// The result of the whole input, after checking that no cut changes it.
fn same_for_all_cuts<T: PartialEq + std::fmt::Debug>(
    case: &Case,
    result_of: impl Fn(&[u8], Vec<usize>) -> T,
) -> T {
    let input = &case.input;
    let whole = result_of(input, vec![]);
    let in_bytes = result_of(input, vec![1; input.len()]);
    assert_eq!(in_bytes, whole, "{} in single bytes", case.name);
    // Long inputs are mostly repetition: cut them at fewer places.
    for cut in (0..=input.len()).step_by(1 + input.len() / 2000) {
        assert_eq!(result_of(input, vec![cut]), whole, "{} cut at {cut}", case.name);
    }
    whole
}

/// Shortens repetitions in the result that come from repetitions in the input.
fn shorten(text: &str) -> String {
    if text.len() <= 200 {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(100);
    format!("{}... ({} bytes)", &text[..end], text.len())
}

#[test]
fn requests() {
    check_folder("request", 90, |case| {
        let said = same_for_all_cuts(case, fuzz::parse_requests);
        fuzz::requests(&case.input);
        let mut lines: Vec<String> = said.iter().map(|line| shorten(line)).collect();
        for repeats in lines.chunk_by_mut(|a, b| a == b).filter(|repeats| repeats.len() > 1) {
            repeats[0] = format!("{} ({} times)", repeats[0], repeats.len());
            repeats[1..].fill(String::new());
        }
        lines.retain(|line| !line.is_empty());
        lines.join("\n")
    });
}

#[test]
fn answers() {
    check_folder("answer", 45, |case| {
        let said = same_for_all_cuts(case, fuzz::parse_answers);
        fuzz::answers(&case.input);
        said.iter().map(|line| shorten(line)).collect::<Vec<_>>().join("\n")
    });
}

#[test]
fn chunked_bodies() {
    check_folder("chunked", 25, |case| {
        let (data, end) = same_for_all_cuts(case, fuzz::decode_chunked);
        fuzz::chunked(&case.input);
        let data = shorten(&data.escape_ascii().to_string());
        match end {
            Ok(Some(left)) => format!("{data}\ncomplete, {left} bytes follow"),
            Ok(None) => format!("{data}\nincomplete"),
            Err(refusal) => format!("{data}\nrefused: {} {refusal}", refusal.status().as_u16()),
        }
    });
}

#[test]
fn websocket_frames() {
    check_folder("websocket", 35, |case| {
        let said = same_for_all_cuts(case, fuzz::websocket_events);
        fuzz::websocket_frames(&case.input);
        said.iter().map(|line| shorten(line)).collect::<Vec<_>>().join("\n")
    });
}

#[test]
fn params() {
    check_folder("params", 20, |case| {
        fuzz::params(&case.input);
        match Params::parse(&case.input) {
            Ok(params) if params.len() > 20 => format!("{} parameters", params.len()),
            Ok(params) => {
                params.iter().map(|(k, v)| format!("{k:?} = {v:?}")).collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("error: {error}"),
        }
    });
}

/// Pieces that bring random bytes deep into the parsers.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let words: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\n",
        b"POST /a?b=c HTTP/1.1\r\n",
        b"Host: a\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"\r\n",
        b"hello",
        b"5\r\nhello\r\n",
        b"0\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\0",
        b"\x81\x85\x00\x00\x00\x00hello",
        b"\x88\x82\x00\x00\x00\x00\x03\xe8",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 404 \r\n",
        b"HTTP/1.1 100\r\n\r\n",
        b"http://a:1/x?y",
        b"https://u:p@[::1]",
        b"%41",
        b"&a=b",
        b"%",
        b";",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fuzz_bodies_hold_on_random_bytes(cut in any::<u8>(), bytes in request_like()) {
        let mut data = vec![cut];
        data.extend_from_slice(&bytes);
        fuzz::requests(&data);
        fuzz::chunked(&data);
        fuzz::answers(&data);
        fuzz::request_targets(&bytes);
        fuzz::websocket_frames(&data);
        fuzz::websocket_messages(&data);
        fuzz::params(&bytes);
    }

    #[test]
    fn escaped_params_come_back(pairs in prop::collection::vec((".{0,8}", ".{0,8}"), 0..8)) {
        let text: Vec<String> = pairs
            .iter()
            .map(|(k, v)| format!("{}={}", logsvc_http::escape(k), logsvc_http::escape(v)))
            .collect();
        let parsed = Params::parse(text.join("&").as_bytes()).expect("escaped");
        let parsed: Vec<_> = parsed.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        prop_assert_eq!(parsed, pairs);
    }
}
