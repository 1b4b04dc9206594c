//! Three nodes that tell each other everything over mutual TLS, and strangers that are refused.

use std::thread;
use std::time::{Duration, Instant};

use rustls::AlertDescription;

use crate::cluster::{Cluster, all_have, base_ns, insist};
use crate::support::Server;
use crate::tls::{Files, exchange, get};

/// Longest time until a node knows of others.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ports of a node on which others speak with it.
const PORTS: [u16; 2] = [9095, 7946];

/// The flags of a node that shows the certificate of `server` to everybody.
fn flags(files: &Files) -> Vec<String> {
    let (cert, key, ca) =
        (files.text("server.pem"), files.text("server.key"), files.text("ca.pem"));
    let mut flags = vec![
        format!("--server.grpc-tls-cert-path={cert}"),
        format!("--server.grpc-tls-key-path={key}"),
        "--server.grpc-tls-client-auth=RequireAndVerifyClientCert".to_owned(),
        format!("--server.grpc-tls-ca-path={ca}"),
    ];
    for start in ["ingester.client", "memberlist"] {
        flags.extend([
            format!("--{start}.tls-enabled=true"),
            format!("--{start}.tls-cert-path={cert}"),
            format!("--{start}.tls-key-path={key}"),
            format!("--{start}.tls-ca-path={ca}"),
            format!("--{start}.tls-server-name=localhost"),
        ]);
    }
    flags
}

/// The alert that somebody gets who shows a certificate, or none; `None` if there is an answer or the
/// connection ends without one.
fn refusal(files: &Files, address: &str, identity: Option<&str>) -> Option<AlertDescription> {
    let mut connection = files.connect_to(address, identity);
    let error = exchange(&mut connection, &get("/v1/push")).err()?;
    let told = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match told {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        other => panic!("{other}"),
    }
}

/// The certificate that a port shows.
fn shown(files: &Files, address: &str) -> Vec<u8> {
    let mut connection = files.connect_to(address, Some("client"));
    // Whatever it answers, its certificate has come.
    let _ = exchange(&mut connection, &get("/"));
    let chain = connection.get_ref().conn.peer_certificates().expect("a certificate");
    chain[0].to_vec()
}

/// Waits until the gossip of a node has found all of three nodes alive.
#[track_caller]
fn sees_three(server: &Server) {
    let begun = Instant::now();
    loop {
        let page = server.get("/memberlist").text();
        if (1..=3).all(|node| page.contains(&format!("node-{node}"))) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{page}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn nodes_that_know_each_other_share_and_strangers_are_refused() {
    let (files, cluster, base) = (Files::new(), Cluster::new(), base_ns());
    let flags = flags(&files);
    let nodes = [1, 2, 3].map(|node| cluster.start_with(node, &flags));
    nodes.iter().for_each(sees_three);
    for number in 0..6 {
        insist(&mut nodes[number as usize % 3].client(), base, number);
    }
    let [first, second, third] = &nodes;
    all_have(&[first, second, third], base, 6);

    for port in PORTS {
        let address = format!("{}:{port}", cluster.ip(1));
        let required = Some(AlertDescription::CertificateRequired);
        assert_eq!(refusal(&files, &address, None), required, "{port}");
        let unknown = Some(AlertDescription::UnknownCA);
        assert_eq!(refusal(&files, &address, Some("stranger")), unknown, "{port}");
        assert_eq!(refusal(&files, &address, Some("client")), None, "{port}");
    }

    // Certificates are replaced while the nodes run.
    let address = |node, port| format!("{}:{port}", cluster.ip(node));
    let before = PORTS.map(|port| shown(&files, &address(1, port)));
    files.renew();
    for node in &nodes {
        node.client().request("POST", "/-/reload", &[], None).expect(200);
    }
    for (port, before) in PORTS.into_iter().zip(before) {
        assert_ne!(shown(&files, &address(1, port)), before, "{port}");
    }

    // One dies, which is noticed although all connections are encrypted.
    let [first, second, third] = nodes;
    second.kill();
    insist(&mut third.client(), base, 6);
    all_have(&[&first, &third], base, 7);
    sees_three(&cluster.start_with(2, &flags));
    for node in [first, third] {
        let log = node.stop();
        assert!(!log.contains("\"ERROR\"") && !log.contains("panicked"), "{log}");
    }
}

#[test]
fn files_that_do_not_do_stop_the_start() {
    let (files, cluster) = (Files::new(), Cluster::new());
    let bad = |path: &str, with: &str| -> String {
        let flags: Vec<String> =
            flags(&files).iter().map(|flag| flag.replace(path, with)).collect();
        let (status, log) = cluster.launch_with(1, &flags).wait();
        assert_eq!(status.code(), Some(1), "{log}");
        log
    };
    let stranger = files.text("stranger.key");
    let log = bad(&files.text("server.key"), &stranger);
    assert!(log.contains("failed to load TLS certificate "), "{log}");
    let log = bad(
        &format!("--memberlist.tls-ca-path={}", files.text("ca.pem")),
        "--memberlist.tls-ca-path=/nonexistent/ca.pem",
    );
    assert!(log.contains("error loading ca cert: /nonexistent/ca.pem"), "{log}");
    let log = bad(
        &format!("--ingester.client.tls-ca-path={}", files.text("ca.pem")),
        "--ingester.client.tls-ca-path=/nonexistent/ca.pem",
    );
    assert!(log.contains("ingester_client.grpc_client_config: error loading ca cert: "), "{log}");
    let log = bad("--ingester.client.tls-enabled=true", "--ingester.client.tls-enabled=false");
    assert!(log.contains("server.grpc_tls_config: nodes would not reach each other"), "{log}");
}
