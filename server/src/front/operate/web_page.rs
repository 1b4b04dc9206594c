//! The web page: the files of `ui/dist`, which are part of the binary.
//!
//! Guarantees: the files are the same for everybody and hold no data; the page asks for what it shows
//! like every other client. Whatever log lines hold, a browser runs no script but the page's own,
//! loads nothing from elsewhere, and shows the page in no frame (`Content-Security-Policy`). Files
//! whose names come from their content may be kept for good; the others are asked for each time,
//! which answers 304 while they are the same. Redirections are relative, so that they hold where a
//! proxy serves the node under a prefix of paths.

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, LOCATION,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use logsvc_http::{Request, Response, accepts_coding};
use logsvc_proto::error::ApiError;

/// What a browser may do with the page.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";

/// The page's own file.
const INDEX: &str = "index.html";

/// A file of the page.
struct File {
    name: &'static str,
    media_type: &'static str,
    /// Whether the name changes with the content.
    is_immutable: bool,
    /// The best first; the last is for every client.
    forms: [Form; 3],
}

/// A file with a content coding.
struct Form {
    /// As in `Content-Encoding`; empty without one.
    coding: &'static str,
    etag: &'static str,
    bytes: &'static [u8],
}

/// All files; written by `build/web_page.rs`.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/web_page.rs"));

/// Answers with a file of the page. `/ui` leads to `/ui/`, which is the page.
///
/// # Errors
/// 404: there is no such file.
pub(crate) fn answer(request: &Request, name: Option<&str>) -> Result<Response, ApiError> {
    if !request.head.path.starts_with("/ui/") {
        return Ok(redirect(StatusCode::MOVED_PERMANENTLY));
    }
    let name = name.filter(|name| !name.is_empty()).unwrap_or(INDEX);
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(ApiError::page_not_found)?;
    Ok(file.answer(&request.head.headers))
}

/// Leads from a page beside it to the web page.
pub(crate) fn redirect(status: StatusCode) -> Response {
    Response::new(status).with_header(LOCATION, "ui/")
}

impl File {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let is_taken =
            |form: &&Form| form.coding.is_empty() || accepts_coding(headers, form.coding);
        // The last form is always taken.
        let form = self.forms.iter().find(is_taken).unwrap_or(&self.forms[2]);
        let mut response = match is_known(headers, form.etag) {
            true => Response::new(StatusCode::NOT_MODIFIED),
            false => Response::new(StatusCode::OK)
                .with_content_type(self.media_type)
                .with_body(form.bytes.to_vec()),
        };
        if !form.coding.is_empty() && response.status == StatusCode::OK {
            response = response.with_header(CONTENT_ENCODING, form.coding);
        }
        let keep = match self.is_immutable {
            true => "public, max-age=31536000, immutable",
            false => "no-cache",
        };
        response
            .with_header(ETAG, form.etag)
            .with_header(CACHE_CONTROL, keep)
            .with_header(VARY, "Accept-Encoding")
            .with_header(CONTENT_SECURITY_POLICY, POLICY)
            .with_header(X_CONTENT_TYPE_OPTIONS, "nosniff")
            .with_header(REFERRER_POLICY, "no-referrer")
    }
}

/// Whether the client has this form already (RFC 9110, section 13.1.2).
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use http::HeaderValue;
    use http::header::{ACCEPT_ENCODING, HeaderName};
    use logsvc_http::ResponseBody;

    use super::*;

    fn ask(name: &str, headers: &[(HeaderName, &'static str)]) -> Response {
        let file = FILES.iter().find(|file| file.name == name).expect("a file");
        let pairs = headers.iter().map(|(n, v)| (n.clone(), HeaderValue::from_static(v)));
        file.answer(&HeaderMap::from_iter(pairs))
    }

    fn bytes(response: Response) -> Vec<u8> {
        let ResponseBody::Full(bytes) = response.body else { panic!("a body") };
        bytes
    }

    #[test]
    fn every_file_is_there_in_every_coding() {
        assert!(FILES.len() > 4);
        for file in FILES {
            let plain = bytes(ask(file.name, &[]));
            let zipped = ask(file.name, &[(ACCEPT_ENCODING, "gzip")]);
            assert_eq!(zipped.headers[CONTENT_ENCODING], "gzip");
            let mut unpacked = Vec::new();
            let zipped = bytes(zipped);
            flate2::read::GzDecoder::new(&zipped[..]).read_to_end(&mut unpacked).expect("gzip");
            assert!(unpacked == plain, "{}", file.name);
            let best = ask(file.name, &[(ACCEPT_ENCODING, "gzip, deflate, br")]);
            assert_eq!(best.headers[CONTENT_ENCODING], "br");
            assert!(bytes(best).len() < plain.len(), "{}", file.name);
            let etags: Vec<_> = file.forms.iter().map(|form| form.etag).collect();
            assert!(etags[0] != etags[1] && etags[1] != etags[2] && etags[0] != etags[2]);
            // A name with a hash stands for its content for good.
            assert_eq!(file.is_immutable, file.name.contains('-'), "{}", file.name);
        }
    }

    #[test]
    fn the_page_names_files_that_are_there_and_holds_no_script_of_its_own() {
        let index = String::from_utf8(bytes(ask(INDEX, &[]))).expect("UTF-8");
        let linked =
            index.split(['"', '\'']).filter(|word| word.contains(".js") || word.contains(".css"));
        let mut count = 0;
        for name in linked {
            assert!(FILES.iter().any(|file| file.name == name), "{name}");
            count += 1;
        }
        assert!(count >= 2, "{index}");
        assert!(!index.contains("<style") && !index.contains(" style=") && !index.contains(" on"));
        for script in index.split("<script").skip(1) {
            assert!(script.contains("src=") && script.contains("></script>"), "{script}");
        }
    }

    #[test]
    fn what_a_client_has_is_not_sent_again() {
        let first = ask(INDEX, &[]);
        assert_eq!(first.headers[CACHE_CONTROL], "no-cache");
        let etag = FILES.iter().find(|file| file.name == INDEX).expect("it").forms[2].etag;
        assert_eq!(first.headers[ETAG], etag);
        for header in ["*", etag, "\"x\", W/ETAG"] {
            let header: &'static str = header.replace("ETAG", etag).leak();
            let again = ask(INDEX, &[(IF_NONE_MATCH, header)]);
            assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{header}");
            assert_eq!(again.headers[ETAG], etag);
            assert!(matches!(again.body, ResponseBody::Empty));
        }
        // Another coding is another form.
        let other = ask(INDEX, &[(IF_NONE_MATCH, etag), (ACCEPT_ENCODING, "br")]);
        assert_eq!(other.status, StatusCode::OK);
        assert_eq!(ask(INDEX, &[(IF_NONE_MATCH, "\"x\"")]).status, StatusCode::OK);
    }
}
