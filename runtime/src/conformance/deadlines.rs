//! Deadlines of reads, writes and connections.

use std::io;
use std::path::PathBuf;

use futures_util::future::join_all;

use super::{connected, in_millis, read_up_to};
use crate::{Monotonic, Reader, Runtime, Writer};

pub(super) async fn a_silent_peer_times_out<R: Runtime>(runtime: R, _: PathBuf) {
    let ((mut reader, _writer), _far) = connected(&runtime).await;
    let deadline = in_millis(&runtime, 20);
    let mut buffer = Vec::with_capacity(64);
    buffer.extend_from_slice(b"kept");
    let (result, buffer) = reader.read(buffer, deadline).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!(runtime.now() >= deadline);
    assert_eq!(buffer, b"kept");
    assert!(buffer.capacity() >= 64, "the buffer itself comes back");
}

pub(super) async fn after_a_timeout_nothing_is_read<R: Runtime>(runtime: R, _: PathBuf) {
    let ((mut reader, _writer), (_far, mut far_writer)) = connected(&runtime).await;
    let (result, _) = reader.read(Vec::with_capacity(8), in_millis(&runtime, 2)).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    // The abandoned read may have taken bytes with it, so later bytes must not look like their
    // continuation, nor like the end.
    far_writer.write_all(b"rest".to_vec(), Monotonic::NEVER).await.0.expect("write");
    runtime.sleep_until(in_millis(&runtime, 2)).await;
    let (result, buffer) = reader.read(Vec::with_capacity(8), Monotonic::NEVER).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(buffer, b"");
}

pub(super) async fn a_timeout_touches_no_other_connection<R: Runtime>(runtime: R, _: PathBuf) {
    // A read of another connection waits all the while, and new ones start
    // after each timeout: none may inherit a timer.
    let ((mut patient, _keep), (_far, mut far_writer)) = connected(&runtime).await;
    let reading = runtime.spawn(async move { read_up_to(&mut patient, 1).await });
    for _ in 0..5 {
        let ((mut silent, _writer), _silent_far) = connected(&runtime).await;
        let (result, _) = silent.read(Vec::with_capacity(8), in_millis(&runtime, 3)).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(silent);

        let ((mut next, _next_writer), (_next_far, mut next_far_writer)) =
            connected(&runtime).await;
        let inner = runtime.clone();
        drop(runtime.spawn(async move {
            inner.sleep_until(in_millis(&inner, 8)).await;
            next_far_writer.write_all(b"y".to_vec(), Monotonic::NEVER).await.0.expect("write");
        }));
        let (result, buffer) = next.read(Vec::with_capacity(8), in_millis(&runtime, 20_000)).await;
        assert_eq!(result.expect("a read with time left"), 1);
        assert_eq!(buffer, b"y");
    }
    far_writer.write_all(b"z".to_vec(), Monotonic::NEVER).await.0.expect("write");
    assert_eq!(reading.await, b"z");
}

pub(super) async fn a_kept_deadline_does_not_haunt_later_reads<R: Runtime>(runtime: R, _: PathBuf) {
    let ((mut reader, _writer), (_far, mut far_writer)) = connected(&runtime).await;
    let first_deadline = in_millis(&runtime, 30);
    far_writer.write_all(b"a".to_vec(), Monotonic::NEVER).await.0.expect("write");
    let (result, buffer) = reader.read(Vec::with_capacity(1), first_deadline).await;
    if let Err(error) = result {
        // A stalled machine may have missed it; then there is nothing to see.
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        return;
    }
    assert_eq!(buffer, b"a");
    let inner = runtime.clone();
    drop(runtime.spawn(async move {
        inner.sleep_until(first_deadline).await;
        inner.sleep_until(in_millis(&inner, 10)).await;
        far_writer.write_all(b"bc".to_vec(), Monotonic::NEVER).await.0.expect("write");
    }));
    // Waits beyond the first deadline, once without one and once with a later one.
    let (result, buffer) = reader.read(Vec::with_capacity(1), Monotonic::NEVER).await;
    assert_eq!((result.expect("no deadline"), buffer), (1, b"b".to_vec()));
    let (result, buffer) = reader.read(Vec::with_capacity(1), in_millis(&runtime, 20_000)).await;
    assert_eq!((result.expect("time left"), buffer), (1, b"c".to_vec()));
}

pub(super) async fn a_passed_deadline_times_out<R: Runtime>(runtime: R, _: PathBuf) {
    let ((mut reader, mut writer), _far) = connected(&runtime).await;
    let past = runtime.now();
    runtime.sleep_until(in_millis(&runtime, 1)).await;
    let (result, _) = reader.read(Vec::with_capacity(8), past).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    let (result, buffer) = writer.write_all(b"late".to_vec(), past).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(buffer, b"late");
}

pub(super) async fn a_stuck_write_times_out<R: Runtime>(runtime: R, _: PathBuf) {
    const LEN: usize = 64 << 20;
    let ((_reader, mut writer), far) = connected(&runtime).await;
    let deadline = in_millis(&runtime, 50);
    // More than any socket buffer holds, and the peer does not read.
    let (result, buffer) = writer.write_all(vec![7; LEN], deadline).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!(runtime.now() >= deadline);
    assert_eq!(buffer.len(), LEN);
    drop(far);
}

pub(super) async fn concurrent_deadlines_are_kept_apart<R: Runtime>(runtime: R, _: PathBuf) {
    let reads = (0..30_u64).map(|number| {
        let inner = runtime.clone();
        async move {
            let ((mut reader, _writer), (_far, mut far_writer)) = connected(&inner).await;
            let start = inner.now();
            let late = number % 2 == 0;
            // Even ones run into their deadline, odd ones get a byte before it.
            let deadline = in_millis(&inner, if late { 5 + number } else { 20_000 });
            let sender = inner.clone();
            drop(inner.spawn(async move {
                sender.sleep_until(in_millis(&sender, if late { 200 } else { 5 + number })).await;
                // The reader of a missed deadline may have gone.
                let _ = far_writer.write_all(vec![1], Monotonic::NEVER).await;
            }));
            let (result, _) = reader.read(Vec::with_capacity(1), deadline).await;
            match result {
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    assert!(late && inner.now() >= deadline, "timed out for no reason");
                }
                // A stalled machine may let the byte arrive first.
                Ok(count) => assert!(count == 1 && inner.now() > start),
            }
        }
    });
    join_all(reads).await;
}
