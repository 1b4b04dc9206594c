//! Escapes and encodings: HTML, JavaScript, URLs, Base64, JSON.

use super::{Function, Param, runes, text};
use crate::engine::template::execution::Execution;
use crate::engine::template::json;
use crate::engine::template::out::Out;
use crate::engine::template::print;
use crate::engine::template::value::Value;
use logsvc_proto::go::quote::{is_printable, quoted_bytes};

/// How much slower decoding JSON is than copying the text.
const JSON_FACTOR: usize = 8;

/// Escapes that every Go template has.
pub(super) const GO_FUNCTIONS: &[Function] = &[
    Function::variadic("html", &[], Param::Any, |run, args| escaped(run, args, html)),
    Function::variadic("js", &[], Param::Any, |run, args| escaped(run, args, js)),
    Function::variadic("urlquery", &[], Param::Any, |run, args| escaped(run, args, query_escape)),
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("urlencode", &[Param::Text], |run, args| {
        let value = text(args, 0)?;
        run.build(|out| query_escape(out, value.bytes())).map(Value::text)
    }),
    Function::new("urldecode", &[Param::Text], |run, args| {
        let value = text(args, 0)?;
        run.build(|out| query_unescape(out, value.bytes())).map(Value::text)
    }),
    Function::new("b64enc", &[Param::Text], |run, args| {
        let value = text(args, 0)?;
        run.build(|out| base64_encode(out, value.bytes())).map(Value::text)
    }),
    // A failure is no error: the message becomes the value.
    Function::new("b64dec", &[Param::Text], |run, args| {
        let value = text(args, 0)?;
        let len_bytes = value.bytes().len();
        run.work(len_bytes)?;
        // With its padding.
        let _padded = run.hold(len_bytes + 3)?;
        let mut failed_at = None;
        let decoded = run.make(len_bytes + 3, || {
            base64_decode(value.bytes()).unwrap_or_else(|at| {
                failed_at = Some(at);
                Vec::new()
            })
        })?;
        Ok(match failed_at {
            None => Value::Text(decoded),
            Some(at) => Value::text(format!("illegal base64 data at input byte {at}")),
        })
    }),
    Function::new("fromJson", &[Param::Text], |run, args| {
        let value = text(args, 0)?;
        run.work(value.bytes().len().saturating_mul(JSON_FACTOR))?;
        let (parsed, bytes) = json::parse(value.bytes(), run.meter());
        run.keep(bytes);
        Ok(parsed.map_or(Value::Nothing, |json| Value::Element(json).unwrapped()))
    }),
];

/// Escapes the arguments as `print` would write them.
fn escaped<'v>(
    run: &Execution<'v>,
    args: &[Value<'v>],
    escape: fn(&mut Out<'_>, &[u8]) -> Result<(), String>,
) -> Result<Value<'v>, String> {
    let printed = run.build(|out| print::sprint(out, args))?;
    run.build(|out| escape(out, printed.bytes())).map(Value::text)
}

fn html(out: &mut Out<'_>, bytes: &[u8]) -> Result<(), String> {
    bytes.iter().try_for_each(|byte| match byte {
        0 => out.push("\u{fffd}".as_bytes()),
        b'"' => out.push(b"&#34;"),
        b'\'' => out.push(b"&#39;"),
        b'&' => out.push(b"&amp;"),
        b'<' => out.push(b"&lt;"),
        b'>' => out.push(b"&gt;"),
        byte => out.push(&[*byte]),
    })
}

fn js(out: &mut Out<'_>, bytes: &[u8]) -> Result<(), String> {
    runes(bytes).try_for_each(|c| match c {
        '\\' => out.push(br"\\"),
        '\'' => out.push(br"\'"),
        '"' => out.push(b"\\\""),
        '<' | '>' | '&' | '=' | '\0'..='\u{1f}' => {
            out.push(format!("\\u{:04X}", c as u32).as_bytes())
        }
        ' '..='\u{7f}' => out.push_char(c),
        c if is_printable(c) => out.push_char(c),
        c => out.push(format!("\\u{:04X}", c as u32).as_bytes()),
    })
}

pub(super) fn query_escape(out: &mut Out<'_>, bytes: &[u8]) -> Result<(), String> {
    bytes.iter().try_for_each(|byte| match byte {
        b' ' => out.push(b"+"),
        b'-' | b'_' | b'.' | b'~' => out.push(&[*byte]),
        byte if byte.is_ascii_alphanumeric() => out.push(&[*byte]),
        byte => out.push(format!("%{byte:02X}").as_bytes()),
    })
}

fn query_unescape(out: &mut Out<'_>, bytes: &[u8]) -> Result<(), String> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        rest = match first {
            b'%' => {
                let code = match tail {
                    [high, low, ..] => digit(high).zip(digit(low)),
                    _ => None,
                };
                let Some((high, low)) = code else {
                    let shown = quoted_bytes(&rest[..rest.len().min(3)]);
                    return Err(format!("invalid URL escape {shown}"));
                };
                out.push(&[u8::try_from(high * 16 + low).expect("two hexadecimal digits")])?;
                &tail[2..]
            }
            b'+' => {
                out.push(b" ")?;
                tail
            }
            byte => {
                out.push(&[*byte])?;
                tail
            }
        };
    }
    Ok(())
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64_encode(out: &mut Out<'_>, bytes: &[u8]) -> Result<(), String> {
    bytes.chunks(3).try_for_each(|chunk| {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let mut quad = [b'='; 4];
        for (i, digit) in quad.iter_mut().enumerate().take(chunk.len() + 1) {
            *digit = BASE64[(bits >> (18 - 6 * i) & 63) as usize];
        }
        out.push(&quad)
    })
}

fn base64_digit(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Decodes with the padding filled in where two or three digits are left over;
/// the error is the offset that Go names.
fn base64_decode(bytes: &[u8]) -> Result<Vec<u8>, usize> {
    let mut padded = Vec::with_capacity(bytes.len() + 3);
    padded.extend_from_slice(bytes);
    if matches!(bytes.len() % 4, 2 | 3) {
        padded.resize(bytes.len().next_multiple_of(4), b'=');
    }
    let mut out = Vec::with_capacity(padded.len() / 4 * 3);
    let mut position = 0;
    // Line feeds may stand anywhere.
    let skip_breaks = |mut position: usize| {
        while matches!(padded.get(position), Some(b'\n' | b'\r')) {
            position += 1;
        }
        position
    };
    loop {
        let (mut bits, mut digits) = (0, 0);
        while digits < 4 {
            position = skip_breaks(position);
            let Some(&byte) = padded.get(position) else {
                return if digits == 0 { Ok(out) } else { Err(position - digits) };
            };
            position += 1;
            if let Some(digit) = base64_digit(byte) {
                bits = bits << 6 | digit;
                digits += 1;
                continue;
            }
            if byte != b'=' || digits < 2 {
                return Err(position - 1);
            }
            if digits == 2 {
                position = skip_breaks(position);
                match padded.get(position) {
                    None => return Err(padded.len()),
                    Some(b'=') => position += 1,
                    Some(_) => return Err(position - 1),
                }
            }
            position = skip_breaks(position);
            if position < padded.len() {
                return Err(position);
            }
            break;
        }
        let [_, bytes @ ..] = (bits << (6 * (4 - digits))).to_be_bytes();
        out.extend_from_slice(&bytes[..digits - 1]);
        if digits < 4 {
            return Ok(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::meter::Meter;

    #[test]
    fn base64_round_trips_and_names_bad_bytes() {
        for text in ["", "a", "ab", "abc", "abcd", "h\u{e9}llo"] {
            let mut encoded = Vec::new();
            base64_encode(&mut Out::new(&mut encoded, 100, &Meter::default()), text.as_bytes())
                .expect("short");
            assert_eq!(base64_decode(&encoded), Ok(text.as_bytes().to_vec()), "{text}");
        }
        for (text, result) in [
            ("aGVsbG8", Ok("hello")),
            ("aGVs\nbG8=\r\n\n", Ok("hello")),
            ("aGk", Ok("hi")),
            ("***", Err(0)),
            ("aGVs*G8=", Err(4)),
            ("a", Err(0)),
            ("aGVsbG8=x", Err(8)),
            ("=aGV", Err(0)),
            ("aG=V", Err(2)),
            ("aGVsb", Err(4)),
        ] {
            assert_eq!(
                base64_decode(text.as_bytes()),
                result.map(|text| text.as_bytes().to_vec()),
                "{text}"
            );
        }
    }
}
