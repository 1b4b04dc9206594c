//! Addresses of pages.

use super::super::encoding::query_escape;
use super::super::{Function, Param, text};
use super::alert;
use crate::engine::template::execution::Execution;
use crate::engine::template::value::Value;

pub(in super::super) const FUNCTIONS: &[Function] = &[
    Function::new("graphLink", &[Param::Text], |run, args| link(run, args, b"0")),
    Function::new("tableLink", &[Param::Text], |run, args| link(run, args, b"1")),
    Function::new("urlQueryEscape", &[Param::Text], |run, args| {
        let value = text(args, 0)?;
        run.build(|out| query_escape(out, value.bytes())).map(Value::text)
    }),
    Function::new("externalURL", &[], |run, _| {
        Ok(Value::text(alert(run)?.data.external_url.as_bytes()))
    }),
    Function::new("pathPrefix", &[], |run, _| {
        Ok(Value::text(path(alert(run)?.data.external_url).as_bytes()))
    }),
];

/// The page of an expression, which Prometheus has.
fn link<'v>(run: &Execution<'v>, args: &mut [Value<'v>], tab: &[u8]) -> Result<Value<'v>, String> {
    let expr = text(args, 0)?;
    run.build(|out| {
        out.push(b"/graph?g0.expr=")?;
        query_escape(out, expr.bytes())?;
        out.push(b"&g0.tab=")?;
        out.push(tab)
    })
    .map(Value::text)
}

/// The path of a URL.
fn path(url: &str) -> &str {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    let Some((_, behind)) = url.split_once("://") else { return url };
    behind.find('/').map_or("", |at| &behind[at..])
}
