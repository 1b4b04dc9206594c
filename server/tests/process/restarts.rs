//! Starts right after the process before was killed, as a supervisor does it: its address and
//! its data folder may be held for a moment longer.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::{DataDir, Server, node};

/// A port without a listener.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port().to_string()
}

#[test]
fn a_killed_server_starts_again_at_once_on_its_port() {
    let folder = DataDir::new();
    let mut setups: Vec<&[&str]> =
        vec![&["--runtime", "monoio"], &["--runtime", "monoio", "--runtime.driver", "epoll"]];
    if node::glommio_works() {
        setups.push(&["--runtime", "glommio"]);
    }
    for setup in setups {
        let port = free_port();
        let args = [setup, &["--cores", "2"]].concat();
        let mut waited = 0;
        for _ in 0..10 {
            let mut server = Server::launch_on(&port, folder.path(), &args);
            let ready = server.await_ready();
            assert_eq!(ready, Some(format!("127.0.0.1:{port}")), "{}", server.log_text());
            waited += u32::from(server.log_text().contains("waiting for"));
            // A connection that is open, and one that waits for an answer.
            let mut client = server.client();
            assert_eq!(client.get("/ready").status, 200);
            server.kill();
            drop(client);
        }
        eprintln!("{setup:?}: {waited} of 10 starts had to wait");
    }
}

#[test]
fn an_address_that_another_server_answers_on_is_refused_at_once() {
    let (folder, other) = (DataDir::new(), DataDir::new());
    let first = Server::start(folder.path(), &["--cores", "1"]);
    let (_, port) = first.address().rsplit_once(':').expect("a port");
    let begun = Instant::now();
    let second = Server::launch_on(port, other.path(), &["--cores", "1"]);
    let (status, log) = second.wait();
    assert_eq!(status.code(), Some(1), "{log}");
    let text = format!("cannot listen on {}: Address already in use", first.address());
    assert!(log.contains(&text) && !log.contains("waiting for"), "{log}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    first.stop();
}

#[test]
fn an_address_that_nobody_answers_on_is_refused_in_the_end() {
    let folder = DataDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let server = Server::launch_on(port, folder.path(), &["--cores", "1"]);
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("nobody answers on it"), "{log}");
    assert!(log.contains(&format!("cannot listen on {address}: Address already in use")), "{log}");
}
