//! TCP without deadlines.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::join;

use super::{connected, in_millis, loopback, pattern, read_up_to};
use crate::race::race;
use crate::{Listener, Monotonic, Reader, Runtime, Writer};

const NEVER: Monotonic = Monotonic::NEVER;

pub(super) async fn echoes_on_a_free_port<R: Runtime>(runtime: R, _: PathBuf) {
    let listener = runtime.listen(loopback()).expect("a free port");
    let address = listener.local_address().expect("a bound address");
    assert_ne!(address.port(), 0);
    assert!(address.ip().is_loopback());
    for round in 0..20_u8 {
        let (client, server) = join(runtime.connect(address, NEVER), listener.accept()).await;
        let (mut near_reader, mut near_writer) = client.expect("connected");
        let (mut far_reader, mut far_writer, peer) = server.expect("accepted");
        assert!(peer.ip().is_loopback() && peer.port() != 0);
        let message = vec![round; 100];
        let (result, returned) = near_writer.write_all(message.clone(), NEVER).await;
        result.expect("write");
        assert_eq!(returned, message, "the buffer comes back whole");
        let bytes = read_up_to(&mut far_reader, 100).await;
        far_writer.write_all(bytes, NEVER).await.0.expect("write");
        assert_eq!(read_up_to(&mut near_reader, 100).await, message);
    }
}

pub(super) async fn refused_connections_are_errors<R: Runtime>(runtime: R, _: PathBuf) {
    let listener = runtime.listen(loopback()).expect("a free port");
    let address = listener.local_address().expect("a bound address");
    drop(listener);
    // A ring closes the socket with its next entry.
    runtime.sleep_until(in_millis(&runtime, 5)).await;
    let error = runtime.connect(address, NEVER).await.err().expect("nobody listens");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let deadline = in_millis(&runtime, 10_000);
    let error = runtime.connect(address, deadline).await.err().expect("nobody listens");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

pub(super) async fn reads_append_and_keep_the_prefix<R: Runtime>(runtime: R, _: PathBuf) {
    let ((_near_reader, mut near_writer), (mut far_reader, _far_writer)) =
        connected(&runtime).await;
    near_writer.write_all(b"0123456789".to_vec(), NEVER).await.0.expect("write");
    let mut buffer = Vec::with_capacity(8);
    buffer.extend_from_slice(b"pre:");
    let capacity = buffer.capacity();
    while buffer.len() < capacity {
        let before = buffer.len();
        let (result, returned) = far_reader.read(buffer, NEVER).await;
        let count = result.expect("read");
        assert!(count > 0);
        assert_eq!(returned.len(), before + count);
        assert_eq!(returned.capacity(), capacity, "a read grows no buffer");
        buffer = returned;
    }
    let expected = [b"pre:".as_slice(), &b"0123456789"[..capacity - 4]].concat();
    assert_eq!(buffer, expected);
    let (result, returned) = far_reader.read(buffer, NEVER).await;
    assert_eq!(result.expect("no room is no error"), 0);
    assert_eq!(returned, expected);
    let rest = read_up_to(&mut far_reader, 10 - (capacity - 4)).await;
    assert_eq!(rest, b"0123456789"[capacity - 4..]);
}

pub(super) async fn reads_and_writes_do_not_block_each_other<R: Runtime>(runtime: R, _: PathBuf) {
    let ((mut near_reader, mut near_writer), (mut far_reader, mut far_writer)) =
        connected(&runtime).await;
    let waiting = runtime.spawn(async move { read_up_to(&mut near_reader, 2).await });
    // The read is pending by now; the write on the same connection goes through.
    runtime.sleep_until(in_millis(&runtime, 5)).await;
    near_writer.write_all(b"hi".to_vec(), NEVER).await.0.expect("write");
    let bytes = read_up_to(&mut far_reader, 2).await;
    far_writer.write_all(bytes, NEVER).await.0.expect("write");
    assert_eq!(waiting.await, b"hi");
}

pub(super) async fn large_writes_finish_while_reading<R: Runtime>(runtime: R, _: PathBuf) {
    const LEN: usize = 4 << 20;
    let ((mut near_reader, mut near_writer), (mut far_reader, mut far_writer)) =
        connected(&runtime).await;
    let echo = runtime.spawn(async move {
        loop {
            let (result, buffer) = far_reader.read(Vec::with_capacity(50_000), NEVER).await;
            if result.expect("read") == 0 {
                return;
            }
            far_writer.write_all(buffer, NEVER).await.0.expect("write");
        }
    });
    // More than the sockets hold: it ends only if both directions move.
    let write = async {
        near_writer.write_all(pattern(LEN), NEVER).await.0.expect("write");
    };
    let ((), bytes) = join(write, read_up_to(&mut near_reader, LEN)).await;
    assert!(bytes == pattern(LEN), "the bytes came back changed");
    drop((near_reader, near_writer));
    echo.await;
}

pub(super) async fn shutdown_is_the_end_of_the_stream<R: Runtime>(runtime: R, _: PathBuf) {
    let ((mut near_reader, mut near_writer), (mut far_reader, mut far_writer)) =
        connected(&runtime).await;
    near_writer.write_all(b"last words".to_vec(), NEVER).await.0.expect("write");
    near_writer.shutdown().await.expect("shutdown");
    assert_eq!(read_up_to(&mut far_reader, 100).await, b"last words");
    // Reading again says the same.
    assert_eq!(read_up_to(&mut far_reader, 100).await, b"");
    // The other direction still carries an answer that the peer sends at once.
    far_writer.write_all(b"answer".to_vec(), NEVER).await.0.expect("write");
    assert_eq!(read_up_to(&mut near_reader, 6).await, b"answer");
}

pub(super) async fn shutdown_ends_the_own_read<R: Runtime>(runtime: R, _: PathBuf) {
    let ((mut near_reader, mut near_writer), far) = connected(&runtime).await;
    let reading = runtime.spawn(async move {
        let (result, buffer) = near_reader.read(Vec::with_capacity(10), NEVER).await;
        (result.unwrap_or(0), buffer)
    });
    runtime.sleep_until(in_millis(&runtime, 5)).await;
    near_writer.shutdown().await.expect("shutdown");
    // The peer neither sends nor closes.
    assert_eq!(reading.await, (0, Vec::new()));
    drop(far);
}

pub(super) async fn dropping_both_halves_closes<R: Runtime>(runtime: R, _: PathBuf) {
    for reader_first in [true, false] {
        let ((near_reader, near_writer), (mut far_reader, _far_writer)) = connected(&runtime).await;
        if reader_first {
            drop(near_reader);
            drop(near_writer);
        } else {
            drop(near_writer);
            drop(near_reader);
        }
        assert_eq!(read_up_to(&mut far_reader, 1).await, b"");
    }
}

pub(super) async fn one_half_keeps_the_connection<R: Runtime>(runtime: R, _: PathBuf) {
    let ((near_reader, mut near_writer), (mut far_reader, far_writer)) = connected(&runtime).await;
    drop(near_reader);
    drop(far_writer);
    // Neither drop may have sent an end of stream or a reset.
    runtime.sleep_until(in_millis(&runtime, 5)).await;
    near_writer.write_all(b"still here".to_vec(), NEVER).await.0.expect("write");
    assert_eq!(read_up_to(&mut far_reader, 10).await, b"still here");

    let ((mut near_reader, near_writer), (mut far_reader, mut far_writer)) =
        connected(&runtime).await;
    drop(near_writer);
    runtime.sleep_until(in_millis(&runtime, 5)).await;
    far_writer.write_all(b"me too".to_vec(), NEVER).await.0.expect("write");
    assert_eq!(read_up_to(&mut near_reader, 6).await, b"me too");
    let (result, _) = far_reader.read(Vec::with_capacity(1), in_millis(&runtime, 10)).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut, "the stream has ended");
}

pub(super) async fn an_abandoned_accept_loses_no_connection<R: Runtime>(runtime: R, _: PathBuf) {
    let listener = runtime.listen(loopback()).expect("a free port");
    let address = listener.local_address().expect("a bound address");
    for round in 0..10_u8 {
        {
            // Dropped while it waits, as a server does that is told to stop.
            let accept = pin!(listener.accept());
            let soon = in_millis(&runtime, 1);
            assert!(race(accept, || runtime.sleep_until(soon)).await.is_none());
        }
        let (_near_reader, mut near_writer) =
            runtime.connect(address, NEVER).await.expect("connected");
        near_writer.write_all(vec![round], NEVER).await.0.expect("write");
        let (mut far_reader, _far_writer, _) = listener.accept().await.expect("accepted");
        assert_eq!(read_up_to(&mut far_reader, 1).await, [round]);
    }
}

pub(super) async fn a_busy_connection_starves_nobody<R: Runtime>(runtime: R, _: PathBuf) {
    const READS: usize = 4096;
    let ((_near_reader, mut near_writer), (mut far_reader, _far_writer)) =
        connected(&runtime).await;
    let write = runtime.spawn(async move {
        near_writer.write_all(pattern(READS * 16), NEVER).await.0.expect("write");
        near_writer
    });
    let _near_writer = write.await;
    // All the bytes are there, so no read has to wait.
    let turns = Rc::new(Cell::new(0));
    let (inner, counted) = (runtime.clone(), Rc::downgrade(&turns));
    drop(runtime.spawn(async move {
        while let Some(turns) = counted.upgrade() {
            turns.set(turns.get() + 1);
            drop(turns);
            inner.yield_now().await;
        }
    }));
    for _ in 0..READS {
        assert_eq!(read_up_to(&mut far_reader, 16).await.len(), 16);
    }
    assert!(turns.get() >= READS / 200, "only {} turns in {READS} reads", turns.get());
}

pub(super) async fn busy_accepting_starves_nobody<R: Runtime>(runtime: R, _: PathBuf) {
    const CONNECTIONS: usize = 200;
    let listener = runtime.listen(loopback()).expect("a free port");
    let address = listener.local_address().expect("a bound address");
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(runtime.connect(address, NEVER).await.expect("connected"));
    }
    // All of them are there, so no accept has to wait.
    let ran = Rc::new(Cell::new(false));
    let flag = Rc::clone(&ran);
    drop(runtime.spawn(async move { flag.set(true) }));
    let mut accepted = Vec::new();
    for _ in 0..CONNECTIONS / 2 {
        accepted.push(listener.accept().await.expect("accepted"));
    }
    assert!(ran.get(), "accepting kept the core to itself");
}

pub(super) async fn empty_writes_do_nothing<R: Runtime>(runtime: R, _: PathBuf) {
    let ((_near_reader, mut near_writer), (mut far_reader, _far_writer)) =
        connected(&runtime).await;
    near_writer.write_all(Vec::new(), NEVER).await.0.expect("write");
    near_writer.write_all(b"x".to_vec(), NEVER).await.0.expect("write");
    assert_eq!(read_up_to(&mut far_reader, 1).await, b"x");
}

pub(super) async fn names_of_hosts_are_resolved<R: Runtime>(runtime: R, _: PathBuf) {
    for host in ["localhost", "127.0.0.1", "::1"] {
        let found = runtime.resolve(host, in_millis(&runtime, 20_000)).await.expect(host);
        assert!(!found.is_empty() && found.iter().all(|address| address.is_loopback()));
    }
    assert!(runtime.resolve("no host", in_millis(&runtime, 20_000)).await.is_err());
    let error = runtime.resolve("localhost", runtime.now()).await.err();
    assert!(error.is_none_or(|error| error.kind() == io::ErrorKind::TimedOut));
}
