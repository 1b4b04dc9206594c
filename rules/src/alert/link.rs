//! The address of a rule's query in Grafana.

use std::fmt::Write;

/// The link of notifications: Grafana's page for a query, with the query in its printed form.
///
/// The text is the one of Go's `json.Marshal` and `url.QueryEscape`.
pub fn generator_url(external_url: &str, datasource_uid: &str, query: &str) -> String {
    let json = format!(
        r#"{{"queries":[{{"expr":{},"queryType":"range","datasource":{{"type":"loki","uid":{}}}}}]}}"#,
        json_text(query),
        json_text(datasource_uid)
    );
    let mut url = format!("{}/explore?left=", external_url.trim_end_matches('/'));
    for byte in json.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                url.push(char::from(byte));
            }
            b' ' => url.push('+'),
            _ => {
                let written = write!(url, "%{byte:02X}");
                debug_assert!(written.is_ok(), "a text takes everything");
            }
        }
    }
    url
}

/// A quoted text, with what browsers might take for markup escaped.
fn json_text(text: &str) -> String {
    let mut quoted = serde_json::Value::from(text).to_string();
    for (mark, escaped) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if quoted.contains(mark) {
            quoted = quoted.replace(mark, escaped);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_the_one_of_the_reference() {
        let url = generator_url("http://grafana.example:3000", "ds-uid-1", "...");
        assert_eq!(
            url,
            "http://grafana.example:3000/explore?left=%7B%22queries%22%3A%5B%7B%22expr%22%3A%22...\
             %22%2C%22queryType%22%3A%22range%22%2C%22datasource%22%3A%7B%22type%22%3A%22loki%22%2C\
             %22uid%22%3A%22ds-uid-1%22%7D%7D%5D%7D"
        );
    }

    #[test]
    fn marks_and_spaces_are_escaped_as_go_does_it() {
        let url = generator_url("http://g/", "", r#"a > "b""#);
        assert!(url.starts_with("http://g/explore?left="), "{url}");
        assert!(url.contains("%22a+%5Cu003e+%5C%22b%5C%22%22"), "{url}");
    }
}
