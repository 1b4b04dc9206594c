//! Names and values of labels that parsers take from lines.

/// Appends a value with every U+FFFD and every byte that is not valid UTF-8
/// replaced by a space, as Loki does for the values of all stages.
pub(crate) fn push_clean(out: &mut Vec<u8>, value: &[u8]) {
    if value.is_ascii() {
        out.extend_from_slice(value);
        return;
    }
    for chunk in value.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(char::REPLACEMENT_CHARACTER) {
            out.extend_from_slice(&rest.as_bytes()[..at]);
            out.push(b' ');
            rest = &rest[at + char::REPLACEMENT_CHARACTER.len_utf8()..];
        }
        out.extend_from_slice(rest.as_bytes());
        out.resize(out.len() + chunk.invalid().len(), b' ');
    }
}

/// True when [`push_clean`] would change the value.
#[inline(always)]
pub(crate) fn is_unclean(value: &[u8]) -> bool {
    let all = value.iter().fold(0, |all, byte| all | byte);
    all >= 0x80 && is_unclean_beyond_ascii(value)
}

#[cold]
fn is_unclean_beyond_ascii(value: &[u8]) -> bool {
    std::str::from_utf8(value).map_or(true, |text| text.contains(char::REPLACEMENT_CHARACTER))
}

/// True when a field's name is a label name as it is.
pub(crate) fn is_label_name(name: &[u8]) -> bool {
    name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// Appends a sanitised field name: without white space around it, with `_` for
/// every character (or invalid byte) that a label name cannot hold, and behind a
/// `_` when it begins with a digit that would be the first character of `out`.
pub(crate) fn push_sanitized(out: &mut Vec<u8>, name: &[u8]) {
    let name = trim(name);
    if out.is_empty() && name.first().is_some_and(u8::is_ascii_digit) {
        out.push(b'_');
    }
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            let plain = u8::try_from(c).ok().filter(u8::is_ascii_alphanumeric);
            out.push(plain.unwrap_or(b'_'));
        }
        out.resize(out.len() + chunk.invalid().len(), b'_');
    }
}

/// True when nothing but white space is there, so that the field has no name.
pub(crate) fn is_blank(name: &[u8]) -> bool {
    trim(name).is_empty()
}

/// Removes Unicode white space at both ends.
fn trim(mut name: &[u8]) -> &[u8] {
    if let ([first, .., last] | [first @ last], true) = (name, name.is_ascii())
        && first.is_ascii_graphic()
        && last.is_ascii_graphic()
    {
        return name;
    }
    if let Ok(text) = std::str::from_utf8(name) {
        return text.trim().as_bytes();
    }
    if let Some(chunk) = name.utf8_chunks().next() {
        name = &name[chunk.valid().len() - chunk.valid().trim_start().len()..];
    }
    let tail = name.utf8_chunks().last().filter(|chunk| chunk.invalid().is_empty());
    let blank = tail.map_or(0, |chunk| chunk.valid().len() - chunk.valid().trim_end().len());
    &name[..name.len() - blank]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lose_what_is_no_text() {
        let clean = |value: &[u8]| {
            let mut out = b"x".to_vec();
            push_clean(&mut out, value);
            assert_eq!(is_unclean(value), out[1..] != *value);
            String::from_utf8(out).expect("clean")
        };
        assert_eq!(clean(b"plain"), "xplain");
        assert_eq!(clean("\u{fc}\u{fffd}b".as_bytes()), "x\u{fc} b");
        assert_eq!(clean(b"a\xff\xe2\x82b"), "xa   b");
        assert_eq!(clean(b"\xff"), "x ");
    }

    #[test]
    fn names_are_sanitised() {
        let sanitized = |name: &[u8]| {
            let mut out = Vec::new();
            push_sanitized(&mut out, name);
            String::from_utf8(out).expect("ASCII")
        };
        for (name, wanted) in [
            (&b"abc_9"[..], "abc_9"),
            (b"9z", "_9z"),
            (b" a-b\t", "a_b"),
            ("\u{e9}t\u{e9}".as_bytes(), "_t_"),
            ("\u{43a}\u{43b}\u{44e}\u{447}".as_bytes(), "____"),
            (b"a\xff\xe2\x82", "a___"),
            (b"\xff ", "_"),
            (b" \xff", "_"),
            ("\u{3000}x\u{a0}".as_bytes(), "x"),
            (b"", ""),
            (b" \t ", ""),
        ] {
            assert_eq!(sanitized(name), wanted, "{name:?}");
            assert_eq!(is_blank(name), wanted.is_empty());
            if is_label_name(name) {
                assert_eq!(wanted.as_bytes(), name);
            }
        }
        let mut nested = b"o_".to_vec();
        push_sanitized(&mut nested, b"9");
        assert_eq!(nested, b"o_9");
    }
}
