//! Pages for people: the landing page, and the members of the rings.
//!
//! This node is alone, so the members of every ring are its shards.

use http::header::{ACCEPT, LOCATION, VARY};
use http::{HeaderValue, Method, StatusCode};
use logsvc_http::{Request, Response};
use logsvc_proto::encode::write_json_text;
use logsvc_proto::time::{write_rfc3339, write_rfc3339_nano};
use logsvc_runtime::{CoreId, Runtime};

use crate::front::core::JSON;
use crate::front::operate::{Operator, web_page};
use crate::services::{Component, State};

pub(super) const HTML: &str = "text/html; charset=utf-8";

/// The time on a ring page that stands for never.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A member of a ring.
struct Member {
    id: String,
    state: &'static str,
}

impl<R: Runtime> Operator<R> {
    fn members(&self) -> Vec<Member> {
        let member = |core: u16| Member {
            id: format!("shard-{core}"),
            state: ring_state(self.core.node.services.share(CoreId(core), Component::Ingester)),
        };
        (0..self.core.runtime.core_count()).map(member).collect()
    }

    /// The members as a page, or as JSON if the client accepts JSON.
    pub(crate) fn ring_page(&self, request: &Request) -> Response {
        // The button of the page; there is nobody to forget.
        if request.head.method == Method::POST {
            let mut response = Response::new(StatusCode::FOUND);
            response.headers.insert(LOCATION, HeaderValue::from_static("#"));
            return response;
        }
        let address = self.core.config().http_address.to_string();
        let ring = Ring {
            members: self.members(),
            address,
            now_ns: self.core.runtime.unix_nanos(),
            registered_ns: self.started_ns,
        };
        let accept = request.head.header(ACCEPT).unwrap_or_default();
        let (media_type, body) = if accept.contains("application/json") {
            (JSON, ring.json())
        } else {
            (HTML, ring.html().into_bytes())
        };
        Response::new(StatusCode::OK).with_content_type(media_type).with_body(body)
    }
}

/// The state of a shard in the words of the rings.
fn ring_state(state: State) -> &'static str {
    match state {
        State::New => "PENDING",
        State::Starting => "JOINING",
        State::Running => "ACTIVE",
        State::Stopping => "LEAVING",
        State::Terminated => "LEFT",
        State::Failed => "UNHEALTHY",
    }
}

struct Ring {
    members: Vec<Member>,
    address: String,
    now_ns: i64,
    registered_ns: i64,
}

impl Ring {
    fn json(&self) -> Vec<u8> {
        let seconds = |ns| text_of(|out| write_rfc3339(Some(ns), out));
        let mut out = b"{\"shards\":[".to_vec();
        for (index, member) in self.members.iter().enumerate() {
            let fields = [
                ("id", member.id.as_str()),
                ("state", member.state),
                ("address", &self.address),
                ("timestamp", &seconds(self.now_ns)),
                ("registered_timestamp", &seconds(self.registered_ns)),
                ("read_only_updated_timestamp", NEVER),
                ("zone", ""),
            ];
            out.extend_from_slice(if index > 0 { b",{" } else { b"{" });
            for (name, value) in fields {
                write_json_text(name, &mut out);
                out.push(b':');
                write_json_text(value, &mut out);
                out.push(b',');
            }
            // Streams are spread by their hash, not by tokens.
            out.extend_from_slice(b"\"read_only\":false,\"tokens\":[]}");
        }
        out.extend_from_slice(b"],\"now\":");
        write_json_text(&text_of(|out| write_rfc3339_nano(Some(self.now_ns), out)), &mut out);
        out.extend_from_slice(b"}\n");
        out
    }

    fn html(&self) -> String {
        let share = 100.0 / self.members.len().max(1) as f64;
        let seconds = |ns| text_of(|out| write_rfc3339(Some(ns), out));
        let mut rows = String::new();
        for Member { id, state } in &self.members {
            rows += &format!(
                "<tr><td>{id}</td><td></td><td>{state}</td><td>{}</td><td>{}</td><td>false</td>\
                 <td></td><td>{}</td><td>0</td><td>{share:.2}%</td><td><form method=\"POST\">\
                 <button name=\"forget\" value=\"{id}\">Forget</button></form></td></tr>\n",
                escaped(&self.address),
                seconds(self.registered_ns),
                seconds(self.now_ns),
            );
        }
        const COLUMNS: [&str; 11] = [
            "Instance ID",
            "Availability Zone",
            "State",
            "Address",
            "Registered At",
            "Read-Only",
            "Read-Only Updated",
            "Last Heartbeat",
            "Tokens",
            "Ownership",
            "Actions",
        ];
        let header: String = COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
        page(
            "Ring Status",
            &format!(
                "<p>Current time: {}. The members are the shards of this node.</p>\n\
                 <table border=\"1\">\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
                 </table>\n",
                seconds(self.now_ns)
            ),
        )
    }
}

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

    fn ring() -> Ring {
        let member = |id: &str, state| Member { id: id.to_owned(), state };
        Ring {
            members: vec![member("shard-0", "ACTIVE"), member("shard-1", "JOINING")],
            address: "[::1]:3100".to_owned(),
            now_ns: 1_795_226_511_992_463_561,
            registered_ns: 1_795_225_999_000_000_000,
        }
    }

    #[test]
    fn rings_are_told_to_programs() {
        let expected = concat!(
            r#"{"shards":[{"id":"shard-0","state":"ACTIVE","address":"[::1]:3100","#,
            r#""timestamp":"2026-11-21T02:01:51Z","registered_timestamp":"2026-11-21T01:53:19Z","#,
            r#""read_only_updated_timestamp":"0001-01-01T00:00:00Z","zone":"","read_only":false,"#,
            r#""tokens":[]},{"id":"shard-1","state":"JOINING","address":"[::1]:3100","#,
            r#""timestamp":"2026-11-21T02:01:51Z","registered_timestamp":"2026-11-21T01:53:19Z","#,
            r#""read_only_updated_timestamp":"0001-01-01T00:00:00Z","zone":"","read_only":false,"#,
            r#""tokens":[]}],"now":"2026-11-21T02:01:51.992463561Z"}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(ring().json()).expect("UTF-8"), expected);
    }

    #[test]
    fn rings_are_shown_to_people() {
        let page = ring().html();
        for part in
            ["<title>Ring Status</title>", "<td>shard-1</td><td></td><td>JOINING</td>", "50.00%"]
        {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
