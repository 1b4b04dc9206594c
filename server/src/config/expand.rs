//! Variables of the environment in the text of the configuration file, which
//! `--config.expand-env` switches on.
//!
//! `${VAR}` becomes the value of the variable, or nothing. `${VAR:-text}`, and likewise
//! `${VAR:text}`, `${VAR-text}`, `${VAR:=text}` and `${VAR=text}`, become the text if the
//! variable is missing or empty; the text can hold variables. In the same case `${VAR:?text}`
//! refuses the file with the text. `$${` becomes `${`, and two backslashes become one, as in the
//! reference. A dollar sign without a brace stays.

use super::yaml::TEXT_MAX_BYTES;

/// Deepest nesting of variables in the texts of others.
const MAX_DEPTH: usize = 8;

/// Replaces the variables of a text; `lookup` knows their values.
///
/// # Errors
/// A variable is written wrong, or the outcome would be too long. The text names the line.
pub(super) fn expand(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    expand_into(text, lookup, 0, &mut out).map_err(|(rest_len, error)| {
        let before = &text.as_bytes()[..text.len() - rest_len];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        format!("line {line}: {error}")
    })?;
    Ok(out)
}

/// On errors, how many bytes of the text are left from the variable on.
fn expand_into(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
    out: &mut String,
) -> Result<(), (usize, String)> {
    let mut rest = text;
    while let Some(place) = rest.find(['$', '\\']) {
        out.push_str(&rest[..place]);
        rest = &rest[place..];
        if let Some(behind) = rest.strip_prefix("$${") {
            out.push_str("${");
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("\\\\") {
            out.push('\\');
            rest = behind;
        } else if let Some(inner) = rest.strip_prefix("${") {
            let fail = |error: String| (rest.len(), error);
            let end = closing_brace(inner).ok_or_else(|| fail("${ has no end".to_owned()))?;
            variable(&inner[..end], lookup, depth, out).map_err(fail)?;
            rest = &inner[end + 1..];
        } else {
            // One byte: both are ASCII.
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
        check_len(out).map_err(|error| (rest.len(), error))?;
    }
    out.push_str(rest);
    check_len(out).map_err(|error| (0, error))
}

fn check_len(out: &str) -> Result<(), String> {
    if out.len() > TEXT_MAX_BYTES {
        return Err(format!("with its variables the file is longer than {TEXT_MAX_BYTES} bytes"));
    }
    Ok(())
}

/// The index of the brace that closes a variable, in the text behind its opening brace.
fn closing_brace(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    for (place, &byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if place > 0 && bytes[place - 1] == b'$' => depth += 1,
            b'}' if depth == 0 => return Some(place),
            b'}' => depth -= 1,
            // A value stands on one line; so a missing brace does not search the whole file
            // again and again.
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

/// Writes the value of `inner`, the text between the braces.
fn variable(
    inner: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
    out: &mut String,
) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (name, rest) = inner.split_at(inner.find(|c| !is_name(c)).unwrap_or(inner.len()));
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let ways = [":-", ":=", ":?", ":", "-", "="];
    let way = ways.into_iter().find(|way| rest.starts_with(way));
    if !begins_well || (way.is_none() && !rest.is_empty()) {
        let shown: String = inner.chars().take(64).collect();
        return Err(format!("${{{shown}}} is neither ${{VAR}} nor ${{VAR:-default}}"));
    }
    let value = lookup(name).filter(|value| !value.is_empty());
    match (value, way) {
        (Some(value), _) => out.push_str(&value),
        (None, None) => {}
        (None, Some(":?")) => return Err(format!("{name}: {}", &rest[2..])),
        (None, Some(_)) if depth == MAX_DEPTH => return Err("too many nested ${".to_owned()),
        (None, Some(way)) => {
            expand_into(&rest[way.len()..], lookup, depth + 1, out).map_err(|(_, error)| error)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        let value = match name {
            "HOME" => "/srv",
            "EMPTY" => "",
            "_x1" => "${HOME}",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn variables_become_values() {
        for (text, expected) in [
            ("a: ${HOME}/x${EMPTY}${NONE}", "a: /srv/x"),
            ("${NONE:-d}${EMPTY:-e}${HOME:-f}", "de/srv"),
            ("${NONE:d}${NONE-e}${NONE=f}${NONE:=g}", "defg"),
            ("${NONE:-}${NONE:-a:b-c}", "a:b-c"),
            ("${NONE:-${HOME}/${NONE:-y}}", "/srv/y"),
            ("$HOME $ {HOME} 5$", "$HOME $ {HOME} 5$"),
            ("$${HOME} $$", "${HOME} $$"),
            (r"a\\.b \d", r"a\.b \d"),
            ("${_x1}", "${HOME}"),
            ("é${HOME}é", "é/srvé"),
        ] {
            assert_eq!(expand(text, &lookup).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        let deep = "${N:-".repeat(20) + &"}".repeat(20);
        for (text, expected) in [
            ("a\n${HOME", "line 2: ${ has no end"),
            ("${HOME\n}", "line 1: ${ has no end"),
            ("${}", "line 1: ${} is neither"),
            ("\n\n${1A}", "line 3: ${1A} is neither"),
            ("${HOME^^}", "line 1: ${HOME^^} is neither"),
            ("${NONE:?set it}", "line 1: NONE: set it"),
            (deep.as_str(), "line 1: too many nested ${"),
        ] {
            let error = expand(text, &lookup).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let long = |_: &str| Some("x".repeat(1 << 20));
        let error = expand(&"${A}".repeat(9), &long).expect_err("too long");
        assert!(error.contains("longer than"), "{error}");
    }
}
