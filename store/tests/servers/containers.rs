//! Credentials of containers, from an agent on the loopback interface.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::thread;

use bytes::Bytes;
use logsvc_runtime::Runtime;
use logsvc_store::bucket::{Bucket, Span};
use logsvc_store::cloud::{CloudConfig, ContainerAddress, S3Config, S3Credentials};

use crate::{Place, Scratch, Server, cloud, fresh, soon};

/// moto takes any key, also with the token of a session.
pub(crate) async fn containers_get_their_credentials<R: Runtime>(runtime: R, server: Rc<Server>) {
    let Place::Cloud(CloudConfig::S3(config)) = &server.place else { return };
    if server.name != "moto" {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir_all(&scratch.0).expect("a folder");
    let token_file = scratch.0.join("token");
    std::fs::write(&token_file, "a-token").expect("written");
    let token_file = token_file.to_str().expect("a path of ASCII").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1/credentials", listener.local_addr().expect("bound"));
    let giver = thread::spawn(move || give_credentials(&listener));
    let credentials = S3Credentials::OfContainer(ContainerAddress::Whole { url, token_file });
    let bucket = cloud(&runtime, &CloudConfig::S3(S3Config { credentials, ..config.clone() }));
    let (name, until) = (fresh(&runtime, "container"), soon(&runtime));
    bucket.create(&name, Bytes::from_static(b"x"), until).await.expect("it is free");
    assert_eq!(bucket.read(&name, Span::Range(0..9), until).await.expect("there"), "x");
    let head = giver.join().expect("asked once").to_ascii_lowercase();
    assert!(head.starts_with("get /v1/credentials http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: a-token\r\n"), "{head}");
}

/// Answers one request for credentials as a pod's agent does, and gives its head.
fn give_credentials(listener: &TcpListener) -> String {
    let (mut connection, _) = listener.accept().expect("a connection");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let body = r#"{"AccessKeyId": "any", "SecretAccessKey": "any", "Token": "t",
        "Expiration": "2100-01-01T00:00:00Z"}"#;
    let length = body.len();
    write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
    String::from_utf8(head).expect("ASCII")
}
