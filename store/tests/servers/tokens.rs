//! Tokens of Swift that end early, at a server of the test's own on the loopback interface.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use futures_util::future::join_all;
use logsvc_runtime::Runtime;
use logsvc_store::bucket::Bucket;

use crate::{Place, Server, fresh, soon, swift};

#[test]
fn refused_tokens_are_renewed_once() {
    crate::on_all(tokens_are_renewed_once, tokens_are_renewed_once);
}

/// How often the server gave a token, and the first one that it takes.
struct Tokens {
    given: AtomicUsize,
    first_good: AtomicUsize,
}

async fn tokens_are_renewed_once<R: Runtime>(runtime: R, server: Rc<Server>) {
    // Once for each backend.
    let Place::Folder(_) = &server.place else { return };
    let tokens = Arc::new(Tokens { given: AtomicUsize::new(0), first_good: AtomicUsize::new(1) });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (own, address) = (Arc::clone(&tokens), url.clone());
    thread::spawn(move || {
        while let Ok((connection, _)) = listener.accept() {
            let (tokens, url) = (Arc::clone(&own), address.clone());
            thread::spawn(move || serve(connection, &tokens, &url));
        }
    });
    let config = swift::config(
        "c".to_owned(),
        String::new(),
        format!("{url}/auth/v1.0"),
        "u".to_owned(),
        "k".to_owned(),
    );
    let bucket = swift::bucket(&runtime, config);
    let until = soon(&runtime);
    let create_all = async || {
        let names = [(); 16].map(|()| fresh(&runtime, "token"));
        let all = names.iter().map(|name| bucket.create(name, Bytes::from_static(b"x"), until));
        join_all(all).await
    };
    for given in 1..4 {
        // The token of the last round is refused in this one.
        tokens.first_good.store(given, Ordering::SeqCst);
        assert_eq!(create_all().await, vec![Ok(()); 16]);
        assert_eq!(tokens.given.load(Ordering::SeqCst), given);
    }
    tokens.first_good.store(usize::MAX, Ordering::SeqCst);
    let refused = create_all().await;
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    let given = tokens.given.load(Ordering::SeqCst);
    assert!((4..=19).contains(&given), "each request asks once more at most: {given}");
}

/// Answers the requests of a connection.
fn serve(mut connection: TcpStream, tokens: &Tokens, url: &str) {
    let mut reader = BufReader::new(connection.try_clone().expect("a socket"));
    loop {
        let (mut is_exchange, mut token, mut len_bytes) = (false, 0, 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_ascii_lowercase();
            is_exchange |= line.starts_with("get /auth/");
            match line.split_once(": ") {
                Some(("x-auth-token", value)) => token = value.parse().expect("a number"),
                Some(("content-length", value)) => len_bytes = value.parse().expect("a number"),
                _ => {}
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; len_bytes];
        reader.read_exact(&mut body).expect("a body");
        let head = if is_exchange {
            let number = tokens.given.fetch_add(1, Ordering::SeqCst) + 1;
            format!("200 OK\r\nX-Auth-Token: {number}\r\nX-Storage-Url: {url}/v1/a")
        } else if token < tokens.first_good.load(Ordering::SeqCst) {
            "401 Unauthorized".to_owned()
        } else {
            "201 Created".to_owned()
        };
        if write!(connection, "HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}
