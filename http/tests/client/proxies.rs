//! Requests through proxies. Tunnels with TLS at their end are tested where TLS is.

use logsvc_http::client::{Proxies, Target};
use logsvc_runtime::Runtime;

use crate::peer::{Peer, Step, send};
use crate::support::{client_with, failure, get, whole};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

pub(crate) async fn a_proxy_gets_whole_addresses<R: Runtime>(runtime: R) {
    let peer = Peer::start(&runtime, vec![vec![Step::Head, send(OK), Step::Head, send(OK)]]);
    let proxy = format!("http://u:p@localhost:{}", peer.address.port());
    let client = client_with(&runtime, |config| {
        config.proxies = Proxies::always(&proxy).expect("a good address");
    });
    // Both hosts are behind one connection to the proxy.
    for url in ["http://am.example/x?y", "http://n:q@other.example:81"] {
        let target = Target::parse(url).expect("good");
        let answer = client.send(get(target)).await.expect("an answer");
        assert_eq!(whole(answer).await.1, b"hi");
    }
    assert_eq!(client.opened_connections(), 1);
    assert_eq!(
        peer.lines(),
        ["GET http://am.example/x?y HTTP/1.1", "GET http://other.example:81/ HTTP/1.1"]
    );
    let heads = peer.heads.borrow();
    assert!(heads[0].contains("\r\nHost: am.example\r\n"));
    assert!(heads[0].contains("\r\nProxy-Authorization: Basic dTpw\r\n"));
    assert!(heads[1].contains("\r\nAuthorization: Basic bjpx\r\n"));
}

pub(crate) async fn a_tunnel_may_be_refused<R: Runtime>(runtime: R) {
    for (answer, text) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "no tunnel: 407 Proxy"),
        ("HTTP/1.1 200 OK\r\n\r\n\x16", "there are bytes behind its answer"),
        ("HTTP", "it closed the connection"),
        ("nonsense", "malformed answer: "),
    ] {
        let peer = Peer::start(&runtime, vec![vec![Step::Head, send(answer)]]);
        let address = format!("localhost:{}", peer.address.port());
        let client = client_with(&runtime, |config| {
            config.proxies = Proxies::always(&format!("u:p@{address}")).expect("good");
        });
        let target = Target::parse("https://am.example/").expect("good");
        let error = failure(&client, get(target)).await.to_string();
        let start = format!("am.example:443: proxy {address}: {text}");
        assert!(error.starts_with(&start), "{error}");
        let heads = peer.heads.borrow();
        assert!(
            heads[0].starts_with("CONNECT am.example:443 HTTP/1.1\r\nHost: am.example:443\r\n")
        );
        assert!(heads[0].contains("\r\nProxy-Authorization: Basic dTpw\r\n"));
    }
}
