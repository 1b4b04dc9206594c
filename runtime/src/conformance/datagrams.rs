//! UDP. On loopback nothing gets lost but what finds its socket full; nothing is said about order.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

use super::{in_millis, loopback, pattern};
use crate::race::race;
use crate::{Datagrams, Runtime};

const BUFFER_BYTES: usize = 1 << 20;
const LONGEST: usize = 65_507;

fn bound<R: Runtime>(runtime: &R) -> (R::Datagrams, SocketAddr) {
    let socket = runtime.bind_datagrams(loopback(), BUFFER_BYTES).expect("a free port");
    let address = socket.local_address().expect("a bound address");
    (socket, address)
}

/// The content of the next datagram, and its sender.
async fn next<D: Datagrams>(socket: &D) -> (Vec<u8>, SocketAddr) {
    let (result, buffer) = socket.receive(Vec::with_capacity(LONGEST)).await;
    let datagram = result.expect("received");
    assert_eq!(datagram.len_bytes, buffer.len());
    (buffer, datagram.sender)
}

/// The next datagram, if it comes within some time.
async fn next_within<R: Runtime>(
    runtime: &R,
    socket: &R::Datagrams,
    millis: u64,
) -> Option<(Vec<u8>, SocketAddr)> {
    let deadline = in_millis(runtime, millis);
    race(pin!(next(socket)), || runtime.sleep_until(deadline)).await
}

pub(super) async fn arrive_whole_with_their_senders<R: Runtime>(runtime: R, _: PathBuf) {
    let (socket, address) = bound(&runtime);
    let (one, one_address) = bound(&runtime);
    let (two, two_address) = bound(&runtime);
    assert!(address.ip().is_loopback() && address.port() != 0);
    assert!(socket.buffer_bytes().expect("a figure") > 0);
    let mut expected = BTreeSet::new();
    for content in [Vec::new(), b"x".to_vec(), pattern(1_400), pattern(LONGEST)] {
        for (from, sender) in [(&one, one_address), (&two, two_address)] {
            from.send(&content, address).expect("sent");
            expected.insert((content.clone(), sender));
        }
        // Large ones must not fill the socket.
        for _ in 0..2 {
            let received = next(&socket).await;
            assert!(expected.remove(&received), "{} bytes, twice or changed", received.0.len());
        }
    }
    socket.send(b"answer", one_address).expect("sent");
    assert_eq!(next(&one).await, (b"answer".to_vec(), address));
    assert_eq!(socket.dropped().expect("a figure"), 0);
}

pub(super) async fn longer_than_the_room_are_cut<R: Runtime>(runtime: R, _: PathBuf) {
    let (socket, address) = bound(&runtime);
    let (from, sender) = bound(&runtime);
    let mut buffer = Vec::with_capacity(8);
    buffer.extend_from_slice(b"pre:");
    let capacity = buffer.capacity();
    let content = pattern(1_000);
    from.send(&content, address).expect("sent");
    let (result, buffer) = socket.receive(buffer).await;
    let datagram = result.expect("received");
    assert_eq!((datagram.len_bytes, datagram.sender), (1_000, sender));
    assert_eq!(buffer, [b"pre:".as_slice(), &content[..capacity - 4]].concat());
    assert_eq!(buffer.capacity(), capacity, "a receive grows no buffer");
    // The rest of it is not the next one, and a full buffer takes none.
    from.send(b"next", address).expect("sent");
    let (result, _) = socket.receive(buffer).await;
    assert_eq!(result.expect_err("no room").kind(), io::ErrorKind::InvalidInput);
    assert_eq!(next(&socket).await, (b"next".to_vec(), sender));
}

pub(super) async fn an_abandoned_receive_loses_none<R: Runtime>(runtime: R, _: PathBuf) {
    let (socket, address) = bound(&runtime);
    let (from, sender) = bound(&runtime);
    for round in 0..20_u8 {
        assert_eq!(next_within(&runtime, &socket, 1).await, None);
        from.send(&[round], address).expect("sent");
        assert_eq!(next(&socket).await, (vec![round], sender));
    }
}

pub(super) async fn wake_a_receiver_that_waits<R: Runtime>(runtime: R, _: PathBuf) {
    let (socket, address) = bound(&runtime);
    let (from, sender) = bound(&runtime);
    let receiving = runtime.spawn(async move {
        let mut received = Vec::new();
        for _ in 0..5 {
            received.push(next(&socket).await);
        }
        received
    });
    for round in 0..5_u8 {
        // It waits by now, each time.
        runtime.sleep_until(in_millis(&runtime, 5)).await;
        from.send(&[round], address).expect("sent");
    }
    let expected: Vec<_> = (0..5_u8).map(|round| (vec![round], sender)).collect();
    let mut received = receiving.await;
    received.sort();
    assert_eq!(received, expected);
}

pub(super) async fn sockets_share_a_port<R: Runtime>(runtime: R, _: PathBuf) {
    const SENDERS: usize = 32;
    let (first, address) = bound(&runtime);
    let second = runtime.bind_datagrams(address, BUFFER_BYTES).expect("a shared port");
    assert_eq!(second.local_address().expect("a bound address"), address);
    let mut expected = BTreeSet::new();
    let mut senders = Vec::new();
    for number in 0..SENDERS as u8 {
        let (from, sender) = bound(&runtime);
        from.send(&[number], address).expect("sent");
        expected.insert((vec![number], sender));
        senders.push(from);
    }
    let mut counts = [0; 2];
    while !expected.is_empty() {
        for (socket, count) in [&first, &second].into_iter().zip(&mut counts) {
            if let Some(received) = next_within(&runtime, socket, 20).await {
                assert!(expected.remove(&received), "{received:?} came twice or changed");
                *count += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "one socket gets all: {counts:?}");
}

pub(super) async fn busy_receiving_starves_nobody<R: Runtime>(runtime: R, _: PathBuf) {
    const DATAGRAMS: usize = 200;
    let (socket, address) = bound(&runtime);
    let (from, _) = bound(&runtime);
    for _ in 0..DATAGRAMS {
        from.send(b"x", address).expect("sent");
    }
    // All of them are there, so no receive has to wait.
    runtime.sleep_until(in_millis(&runtime, 20)).await;
    let ran = Rc::new(Cell::new(false));
    let flag = Rc::clone(&ran);
    drop(runtime.spawn(async move { flag.set(true) }));
    for _ in 0..DATAGRAMS / 2 {
        next(&socket).await;
    }
    assert!(ran.get(), "receiving kept the core to itself");
}

pub(super) async fn a_full_socket_drops_and_counts<R: Runtime>(runtime: R, _: PathBuf) {
    const DATAGRAMS: u64 = 100;
    let socket = runtime.bind_datagrams(loopback(), 8 << 10).expect("a free port");
    let address = socket.local_address().expect("a bound address");
    let (from, _) = bound(&runtime);
    for _ in 0..DATAGRAMS {
        from.send(&pattern(1_000), address).expect("sent");
    }
    runtime.sleep_until(in_millis(&runtime, 20)).await;
    let mut received = 0;
    while let Some((content, _)) = next_within(&runtime, &socket, 5).await {
        assert!(content == pattern(1_000));
        received += 1;
    }
    assert!(received > 0 && received < DATAGRAMS, "{received} of {DATAGRAMS}");
    assert_eq!(socket.dropped().expect("a figure"), DATAGRAMS - received);
    // There is room again.
    from.send(b"later", address).expect("sent");
    assert_eq!(next(&socket).await.0, b"later");
}

pub(super) async fn impossible_ones_are_errors<R: Runtime>(runtime: R, _: PathBuf) {
    let (socket, address) = bound(&runtime);
    let error = socket.send(&pattern(LONGEST + 1), address).expect_err("too long");
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    // Nobody is told that nobody receives.
    let (gone, nobody) = bound(&runtime);
    drop(gone);
    runtime.sleep_until(in_millis(&runtime, 5)).await;
    socket.send(b"lost", nobody).expect("sent");
    socket.send(b"found", address).expect("sent");
    assert_eq!(next(&socket).await, (b"found".to_vec(), address));
}
