//! Texts: letters, regular expressions, host names.

use logsvc_proto::go::quote::quoted_bytes;

use super::super::{Function, Param, letters, regexes, text};
use super::address;
use crate::engine::template::value::{Text, Value};

const TEXT: &[Param] = &[Param::Text];

pub(in super::super) const FUNCTIONS: &[Function] = &[
    Function::new("title", TEXT, |run, args| letters::title(run, &text(args, 0)?)),
    Function::new("toUpper", TEXT, |run, args| letters::upper(run, text(args, 0)?)),
    Function::new("toLower", TEXT, |run, args| letters::lower(run, text(args, 0)?)),
    // Texts of alerts are no HTML, so nothing has to be marked as safe.
    Function::new("safeHtml", TEXT, |_, args| text(args, 0).map(Value::Text)),
    Function::new("match", &[Param::Text, Param::Text], |run, args| {
        let (pattern, value) = (text(args, 0)?, text(args, 1)?);
        regexes::is_match(run, pattern.bytes(), value.bytes()).map(Value::Bool)
    }),
    Function::new("reReplaceAll", &[Param::Text, Param::Text, Param::Text], |run, args| {
        let (pattern, template, value) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
        regexes::replaced(run, pattern.bytes(), value.bytes(), template.bytes())
            .map(Value::Text)
            .map_err(|error| of_pattern(error, &pattern))
    }),
    Function::new("stripPort", TEXT, |run, args| {
        let value = text(args, 0)?;
        run.work(value.bytes().len())?;
        let shown = String::from_utf8_lossy(value.bytes());
        let host = address::split(&shown).map(|(host, _)| host.to_owned());
        Ok(host.map_or(Value::Text(value.clone()), Value::text))
    }),
    Function::new("stripDomain", TEXT, |run, args| {
        let value = text(args, 0)?;
        run.work(value.bytes().len())?;
        let stripped = address::without_domain(&String::from_utf8_lossy(value.bytes()));
        Ok(stripped.map_or(Value::Text(value), Value::text))
    }),
];

/// The message of a pattern that Go compiles without a way to fail.
fn of_pattern(error: String, pattern: &Text<'_>) -> String {
    let bytes = pattern.bytes();
    if !error.starts_with("error parsing regexp") {
        return error;
    }
    let is_raw = std::str::from_utf8(bytes)
        .is_ok_and(|text| !text.contains('`') && !text.contains(|c: char| c.is_control()));
    let shown =
        if is_raw { format!("`{}`", String::from_utf8_lossy(bytes)) } else { quoted_bytes(bytes) };
    format!("regexp: Compile({shown}): {error}")
}
