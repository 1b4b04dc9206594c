//! AWS signature version 4 of a request of remote write.
//!
//! The signed headers are `host`, `x-amz-date` and, with a session, `x-amz-security-token`; the
//! signature covers method, path, query and body. Proxies may add and change other headers. The
//! time is the caller's, so the simulation signs as any other machine.

use std::fmt::Write;

use http::Uri;
use sha2::{Digest, Sha256};

/// Key, its secret and where it counts.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) access_key: &'a str,
    pub(super) secret_key: &'a str,
    /// Of a temporary key; empty if there is none.
    pub(super) session_token: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// What is signed.
#[derive(Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) uri: &'a Uri,
    pub(super) body: &'a [u8],
    /// In s since the Unix epoch.
    pub(super) unix_seconds: i64,
}

/// The headers that a request gets, in lower case.
pub(super) fn sign(key: Key<'_>, request: Signed<'_>) -> Vec<(&'static str, String)> {
    let time = amz_date(request.unix_seconds);
    let date = &time[..8];
    let mut headers = vec![("host", host(request.uri)), ("x-amz-date", time.clone())];
    if !key.session_token.is_empty() {
        headers.push(("x-amz-security-token", key.session_token.to_owned()));
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!(
        "{}\n{}\n{}\n",
        request.method,
        canonical_path(request.uri.path()),
        canonical_query(request.uri.query().unwrap_or(""))
    );
    for (name, value) in &headers {
        canonical.push_str(&format!("{name}:{}\n", value.trim()));
    }
    canonical.push_str(&format!("\n{names}\n{}", hex(&Sha256::digest(request.body))));
    let scope = format!("{date}/{}/{}/aws4_request", key.region, key.service);
    let text = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let signature = hex(&hmac(&signing_key(key, date), text.as_bytes()));
    headers.remove(0);
    let credential = format!("{}/{scope}", key.access_key);
    headers.push((
        "authorization",
        format!(
            "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, \
             Signature={signature}"
        ),
    ));
    headers
}

fn signing_key(key: Key<'_>, date: &str) -> [u8; 32] {
    let first = hmac(format!("AWS4{}", key.secret_key).as_bytes(), date.as_bytes());
    let parts = [key.region, key.service, "aws4_request"];
    parts.iter().fold(first, |key, part| hmac(&key, part.as_bytes()))
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    const BLOCK_BYTES: usize = 64;
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner =
        Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner);
    outer.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}

/// The header `Host`, as [`logsvc_http::client::Target::host_header`] sends it: in lower case, and
/// without the port that the scheme implies.
fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or("").to_ascii_lowercase();
    match (uri.port_u16(), uri.scheme_str()) {
        (None, _) | (Some(80), Some("http")) | (Some(443), Some("https")) => host,
        (Some(port), _) => format!("{host}:{port}"),
    }
}

/// The path with all bytes escaped that AWS wants escaped. Services other than S3 want the escaped
/// path escaped once more.
fn canonical_path(path: &str) -> String {
    if path.is_empty() { "/".to_owned() } else { escape(path.as_bytes(), b"/") }
}

/// Parameters escaped, then sorted.
fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (escape(&unescape(name), b""), escape(&unescape(value), b""))
        })
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn escape(bytes: &[u8], also_kept: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || also_kept.contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all text");
        }
        text
    })
}

fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let digit = |place: usize| {
            bytes
                .get(place)
                .and_then(|&byte| char::from(byte).to_digit(16))
                .map(|digit| digit as u8)
        };
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// `20150830T123600Z`.
fn amz_date(unix_seconds: i64) -> String {
    let seconds = unix_seconds.max(0).cast_unsigned();
    let (year, month, day) = date_of(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month and day of a number of days since 1970-01-01.
fn date_of(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // A number of the clock reaches the year 2262, so the loop is short.
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and time of the test suite that AWS has published.
    const SUITE: Key<'_> = Key {
        access_key: "AKIDEXAMPLE",
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        session_token: "",
        region: "us-east-1",
        service: "service",
    };
    const SUITE_SECONDS: i64 = 1_440_938_160;

    fn signature(method: &str, url: &str) -> String {
        let uri: Uri = url.parse().unwrap();
        let request = Signed { method, uri: &uri, body: b"", unix_seconds: SUITE_SECONDS };
        let headers = sign(SUITE, request);
        assert_eq!(headers[0], ("x-amz-date", "20150830T123600Z".to_owned()));
        let (name, value) = headers.last().unwrap();
        assert_eq!(*name, "authorization");
        let begin = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/\
                     aws4_request, SignedHeaders=host;x-amz-date, Signature=";
        value.strip_prefix(begin).unwrap().to_owned()
    }

    #[test]
    fn signatures_are_those_of_the_test_suite_of_aws() {
        let cases = [
            // get-vanilla
            ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            // post-vanilla
            ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            // get-vanilla-query-order-key-case
            (
                "GET",
                "/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ];
        for (method, path, wanted) in cases {
            let url = format!("https://example.amazonaws.com{path}");
            assert_eq!(signature(method, &url), wanted, "{method} {path}");
        }
    }

    #[test]
    fn the_signing_key_is_the_one_of_the_documentation() {
        let key = Key { service: "iam", ..SUITE };
        assert_eq!(
            hex(&signing_key(key, "20150830")),
            "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
        );
    }

    #[test]
    fn the_signed_host_is_the_one_that_is_sent() {
        for (url, expected) in [
            ("https://aps.example:443/x", "aps.example"),
            ("http://aps.example:80/x", "aps.example"),
            ("https://aps.example/x", "aps.example"),
            ("https://aps.example:80/x", "aps.example:80"),
            ("http://aps.example:443", "aps.example:443"),
            ("https://APS.Example:8443/x", "aps.example:8443"),
            ("https://APS.Example/x", "aps.example"),
            ("http://aps.example:/x", "aps.example"),
            ("https://u:p@aps.example:443/x", "aps.example"),
            ("http://[2001:DB8::1]:80/x", "[2001:db8::1]"),
            ("http://[::1]:8080/x", "[::1]:8080"),
        ] {
            let target = logsvc_http::client::Target::parse(url).expect("an address");
            assert_eq!(target.host_header(), expected, "{url}");
            assert_eq!(host(&url.parse().expect("an address")), expected, "{url}");
        }
    }

    #[test]
    fn a_session_is_signed_and_the_body_counts() {
        let uri: Uri =
            "https://aps.example:8443/workspaces/w%201/api/v1/remote_write?x=%2F".parse().unwrap();
        let key = Key { session_token: "tok", service: "aps", ..SUITE };
        let signed = |body| sign(key, Signed { method: "POST", uri: &uri, body, unix_seconds: 0 });
        let headers = signed(b"a");
        assert!(headers.contains(&("x-amz-security-token", "tok".to_owned())));
        assert!(headers[2].1.contains("SignedHeaders=host;x-amz-date;x-amz-security-token,"));
        assert_ne!(headers, signed(b"b"));
        assert_eq!(host(&uri), "aps.example:8443");
        assert_eq!(host(&"https://a:443/".parse().unwrap()), "a");
        assert_eq!(canonical_path(uri.path()), "/workspaces/w%25201/api/v1/remote_write");
        assert_eq!(canonical_query("b=%2f&a&c=%zz"), "a=&b=%2F&c=%25zz");
    }

    #[test]
    fn dates() {
        assert_eq!(amz_date(0), "19700101T000000Z");
        assert_eq!(amz_date(951_782_399), "20000228T235959Z");
        assert_eq!(amz_date(951_782_400), "20000229T000000Z");
        assert_eq!(amz_date(1_798_761_599), "20261231T235959Z");
        assert_eq!(amz_date(4_107_542_400), "21000301T000000Z");
        assert_eq!(amz_date(-5), "19700101T000000Z");
    }

    #[test]
    fn hmac_of_rfc_4231() {
        let wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac(b"Jefe", b"what do ya want for nothing?")), wanted);
        let wanted = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&hmac(&[0xaa; 131], text)), wanted);
    }
}
