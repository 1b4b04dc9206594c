//! Fields of generated lines, found by the texts around them.

use logsvc_testkit::Style;

/// The text behind `name`, up to `end`.
pub(crate) fn until<'a>(line: &'a str, name: &str, end: char) -> Option<&'a str> {
    let rest = &line[line.find(name)? + name.len()..];
    rest.split(end).next()
}

/// The number behind `name`.
pub(crate) fn number(line: &str, name: &str) -> Option<u64> {
    let rest = &line[line.find(name)? + name.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The request of an access log line: `... "METHOD PATH HTTP/1.1" STATUS ...`.
#[derive(Debug, PartialEq)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: &'a str,
}

impl Request<'_> {
    pub(crate) fn of(line: &str) -> Option<Request<'_>> {
        let mut parts = line.splitn(3, '"').skip(1);
        let mut request = parts.next()?.split(' ');
        let status = parts.next()?.split(' ').nth(1)?;
        Some(Request { method: request.next()?, path: request.next()?, status })
    }
}

/// The level that a line of this style tells, or `unknown`.
pub(crate) fn level(style: Style, line: &str) -> &str {
    let told = match style {
        Style::Json => until(line, "\"level\":\"", '"'),
        Style::Logfmt => until(line, " level=", ' '),
        Style::Access => None,
        Style::Plain => until(line, "] ", ' ').and_then(|word| {
            ["info", "debug", "warn", "error"].into_iter().find(|l| word.eq_ignore_ascii_case(l))
        }),
    };
    told.unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names() {
        let line = r#"{"status":503,"method":"PUT","path":"/x"}"#;
        assert_eq!(number(line, "\"status\":"), Some(503));
        assert_eq!(until(line, "\"method\":\"", '"'), Some("PUT"));
        assert_eq!((number(line, "\"x\":"), until(line, "x=", ' ')), (None, None));
        assert_eq!(number("retries=", "retries="), None);
    }

    #[test]
    fn requests_of_access_logs() {
        let line =
            r#"10.0.0.1 - - [t] "GET /api/v1/carts/5 HTTP/1.1" 204 12 "https://a/b" "x" 0.001 ff"#;
        let request = Request { method: "GET", path: "/api/v1/carts/5", status: "204" };
        assert_eq!(Request::of(line), Some(request));
        assert_eq!(Request::of("\"GET"), None);
    }
}
