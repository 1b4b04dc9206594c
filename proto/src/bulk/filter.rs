//! `filter_path`: the parts of an answer that a client wants.
//!
//! A pattern is a path of names with dots between them. In a name, `*` stands for any text; the
//! name `**` stands for any number of names. A pattern that begins with `-` takes its part out.
//! Elements of an array have the path of the array. Objects and arrays of which nothing is left
//! vanish. The answer of which nothing is left is `{}`.

use crate::push::json::{Cursor, JsonError};

/// Most patterns of a request, and most names of a pattern; further ones do not count.
const PATTERNS_MAX: usize = 64;
const NAMES_MAX: usize = 32;

/// The rest of a pattern, from a name on.
type Rest<'p> = &'p [&'p str];

/// The wanted parts of an answer, which is an object.
///
/// # Errors
/// The answer is not JSON.
pub fn filter(answer: &[u8], patterns: &str) -> Result<Vec<u8>, JsonError> {
    let all = patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
    let names = |pattern: &'_ str| -> Vec<String> {
        pattern.split('.').take(NAMES_MAX).map(str::to_owned).collect()
    };
    let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
    for pattern in all.take(PATTERNS_MAX) {
        match pattern.strip_prefix('-') {
            Some(pattern) => unwanted.push(names(pattern)),
            None => wanted.push(names(pattern)),
        }
    }
    let mut kept = answer.to_vec();
    for (patterns, keeps) in [(wanted, true), (unwanted, false)] {
        if patterns.is_empty() {
            continue;
        }
        let patterns: Vec<Vec<&str>> =
            patterns.iter().map(|names| names.iter().map(String::as_str).collect()).collect();
        let rests: Vec<Rest<'_>> = patterns.iter().map(Vec::as_slice).collect();
        let mut out = Vec::with_capacity(kept.len());
        let mut cursor = Cursor::new(&kept);
        if !copy(&mut cursor, &rests, keeps, &mut out)? {
            out.extend_from_slice(b"{}");
        }
        kept = out;
    }
    Ok(kept)
}

/// Copies a value as far as patterns keep it, and tells whether anything is left.
fn copy(
    cursor: &mut Cursor<'_>,
    rests: &[Rest<'_>],
    keeps: bool,
    out: &mut Vec<u8>,
) -> Result<bool, JsonError> {
    let start = out.len();
    let mut is_left = false;
    match cursor.peek() {
        Some(b'{') => {
            out.push(b'{');
            cursor.object(|cursor, name| {
                let before = out.len();
                if is_left {
                    out.push(b',');
                }
                out.push(b'"');
                out.extend_from_slice(name.raw());
                out.extend_from_slice(b"\":");
                let text = name.unescaped();
                let next = step(rests, &String::from_utf8_lossy(&text));
                let stays = match next {
                    Next::Whole if keeps => {
                        out.extend_from_slice(cursor.skip_value()?);
                        true
                    }
                    Next::Whole => {
                        cursor.skip_value()?;
                        false
                    }
                    Next::Rests(rests) => copy(cursor, &rests, keeps, out)?,
                };
                if !stays {
                    out.truncate(before);
                }
                is_left |= stays;
                Ok(())
            })?;
            out.push(b'}');
        }
        Some(b'[') => {
            out.push(b'[');
            let mut started = false;
            while cursor.next_element(&mut started)? {
                let before = out.len();
                if is_left {
                    out.push(b',');
                }
                let stays = copy(cursor, rests, keeps, out)?;
                if !stays {
                    out.truncate(before);
                }
                is_left |= stays;
            }
            out.push(b']');
        }
        _ => {
            let value = cursor.skip_value()?;
            is_left = !keeps;
            out.extend_from_slice(value);
        }
    }
    if !is_left {
        out.truncate(start);
    }
    Ok(is_left)
}

/// Where patterns lead to.
enum Next<'p> {
    /// One of them ends here.
    Whole,
    /// They go on.
    Rests(Vec<Rest<'p>>),
}

fn step<'p>(rests: &[Rest<'p>], name: &str) -> Next<'p> {
    let mut next: Vec<Rest<'p>> = Vec::new();
    let mut add = |rest: Rest<'p>| {
        if !next.contains(&rest) {
            next.push(rest);
        }
    };
    for rest in rests {
        let mut rest = *rest;
        while let [first, after @ ..] = rest {
            let is_any = *first == "**";
            if is_any {
                add(rest);
            }
            if is_any && after.is_empty() {
                return Next::Whole;
            }
            if is_any {
                rest = after;
                continue;
            }
            if matches_name(first, name) {
                if after.is_empty() {
                    return Next::Whole;
                }
                add(after);
            }
            break;
        }
    }
    Next::Rests(next)
}

/// Whether a name fits a pattern with stars.
fn matches_name(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            let before: &str = before;
            match rest.find(before) {
                Some(at) => rest = &rest[at + before.len()..],
                None => return false,
            }
        }
    }
    match last {
        Some(end) => rest.ends_with(end),
        None => rest.is_empty(),
    }
}
