//! What answers of Swift mean.

use http::StatusCode;
use logsvc_http::client::ClientError;

use crate::bucket::{BucketError, Reason};

/// The longest text of an answer that a message has.
const TEXT_MAX_CHARS: usize = 200;

/// What a status means that is not the one of success. `text` is of the body.
pub(super) fn of_status(status: StatusCode, text: &[u8]) -> BucketError {
    let mut words = status.to_string();
    words.push_str(match status.as_u16() {
        401 => ": the token or the credentials are refused",
        403 => ": the user may not do this",
        498 => " (too many requests)",
        _ => "",
    });
    let text = text_of(text);
    if !text.is_empty() {
        words = format!("{words}: {text}");
    }
    let reason = Reason(words);
    match status.as_u16() {
        404 => BucketError::NotFound,
        409 | 412 => BucketError::Exists(reason),
        // 498 is Swift's own for a rate that is too high.
        413 | 429 | 498 | 503 => BucketError::Busy(reason),
        408 => BucketError::Failed(reason),
        400..=499 => BucketError::Refused(reason),
        _ => BucketError::Failed(reason),
    }
}

/// What a request without an answer means.
pub(super) fn of_client(error: ClientError) -> BucketError {
    BucketError::failed(error)
}

/// Where there is no container, nothing is to be had until somebody makes it.
pub(super) fn of_container(error: BucketError, container: &str) -> BucketError {
    match error {
        BucketError::NotFound => {
            BucketError::Refused(Reason(format!("there is no container {container:?}")))
        }
        error => error,
    }
}

/// The words of a body, without the tags of HTML, on one line.
fn text_of(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let mut is_tag = false;
    let plain: String = body
        .chars()
        .map(|c| match c {
            '<' => {
                is_tag = true;
                ' '
            }
            '>' => {
                is_tag = false;
                ' '
            }
            _ if is_tag => ' ',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(TEXT_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_words() {
        let of = |status: u16, text: &str| {
            of_status(StatusCode::from_u16(status).expect("a status"), text.as_bytes())
        };
        let html = "<html><h1>Forbidden</h1><p>Access was denied\nto this.</p></html>";
        let text = "refused: 403 Forbidden: the user may not do this: Forbidden Access was denied to \
                    this.";
        assert_eq!(of(403, html).to_string(), text);
        assert_eq!(of(404, html), BucketError::NotFound);
        for status in [409, 412] {
            assert!(matches!(of(status, ""), BucketError::Exists(_)), "{status}");
        }
        for status in [413, 429, 498, 503] {
            assert!(matches!(of(status, ""), BucketError::Busy(_)), "{status}");
        }
        for status in [408, 500, 507, 302] {
            assert!(matches!(of(status, ""), BucketError::Failed(_)), "{status}");
        }
        for status in [400, 401, 422] {
            assert!(matches!(of(status, ""), BucketError::Refused(_)), "{status}");
        }
        let container = of_container(BucketError::NotFound, "c").to_string();
        assert_eq!(container, "refused: there is no container \"c\"");
    }
}
