//! Pages for people: what all have in common, and the landing page.

use http::StatusCode;
use http::header::{ACCEPT, VARY};
use logsvc_http::{Request, Response};

use crate::front::operate::web_page;

pub(super) const HTML: &str = "text/html; charset=utf-8";

pub(super) fn text_of(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn page(title: &str, content: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\
         </head>\n<body>\n<h1>{title}</h1>\n{content}</body>\n</html>\n"
    )
}

/// The landing page, which links to other pages: each has a path and a purpose. Browsers are sent
/// to the web page.
pub(crate) fn landing(
    request: &Request,
    links: impl Iterator<Item = (String, &'static str)>,
) -> Response {
    let accepted = request.head.header(ACCEPT).unwrap_or_default();
    if accepted.contains("text/html") {
        return web_page::redirect(StatusCode::FOUND).with_header(VARY, "Accept");
    }
    let mut list = "<ul>\n".to_owned();
    for (path, purpose) in links {
        list += &format!("<li><a href=\"{path}\">{path}</a>: {purpose}</li>\n");
    }
    list += "</ul>\n";
    let body = page("logsvc", &list).into_bytes();
    let response = Response::new(StatusCode::OK).with_content_type(HTML).with_body(body);
    response.with_header(VARY, "Accept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_no_markup() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        assert!(page("T", "<p>x</p>").contains("<h1>T</h1>\n<p>x</p>"));
    }
}
