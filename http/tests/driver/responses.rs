//! Compression and bodies that are made piece by piece.

use logsvc_runtime::Runtime;

use crate::client::get;
use crate::support::{Server, lines};

fn get_gzip(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: deflate, gzip;q=0.5\r\n\r\n")
}

pub(crate) async fn large_enough_bodies_are_compressed<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    for (len_bytes, compressed) in [(0, false), (1399, false), (1400, true), (900_000, true)] {
        let path = format!("/text?bytes={len_bytes}");
        let plain = client.exchange(get(&path)).await;
        assert_eq!(plain.header("vary"), Some("Accept-Encoding"));
        assert_eq!(plain.header("content-encoding"), None);
        assert!(plain.body == lines(len_bytes));

        let answer = client.exchange(get_gzip(&path)).await;
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
        if compressed {
            assert_eq!(answer.header("content-encoding"), Some("gzip"));
            assert!(answer.body.len() < len_bytes / 2);
            assert!(answer.gunzip() == lines(len_bytes));
        } else {
            assert_eq!(answer.header("content-encoding"), None);
            assert!(answer.body == lines(len_bytes));
        }
    }
    let refusing = "GET /text?bytes=5000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=0\r\n\r\n";
    assert!(client.exchange(refusing).await.body == lines(5000));
    assert_eq!(client.exchange(get_gzip("/ok")).await.header("vary"), None);
    drop(client);
    server.finish().await;
}

pub(crate) async fn streams_are_chunked_and_compressed<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    for (pieces, bytes, pause_every) in
        [(0, 0, 0), (3, 100, 1), (14, 100, 1), (50, 5000, 0), (50, 5000, 7), (5, 300_000, 2)]
    {
        let path = format!("/stream?pieces={pieces}&bytes={bytes}&pause_every={pause_every}");
        let expected = lines(bytes).repeat(pieces);
        let plain = client.exchange(get(&path)).await;
        assert!(plain.body == expected, "{path}");
        let is_short = expected.len() < 1400;
        assert_eq!(plain.header("transfer-encoding").is_none(), is_short, "{path}");

        let answer = client.exchange(get_gzip(&path)).await;
        assert_eq!(answer.header("content-encoding").is_none(), is_short, "{path}");
        if !is_short {
            assert!(answer.gunzip() == expected, "{path}");
        }
    }
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_stream_that_fails_is_cut_off<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    // At its start there is still time for an error.
    let answer = client.exchange(get("/stream?pieces=2&bytes=100&fail=1")).await;
    assert_eq!((answer.status(), answer.text()), (500, "out of luck"));
    client.send(get("/stream?pieces=20&bytes=1000&pause_every=3&fail=1")).await;
    let text = String::from_utf8(client.rest().await).expect("text");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && !text.ends_with("0\r\n\r\n"));
    assert!(text.len() > 20_000, "what was made before the failure arrives");
    let observed = server.service.observed.borrow().clone();
    assert_eq!(observed, ["500 stream", "200 stream!"]);
    server.finish().await;
}
