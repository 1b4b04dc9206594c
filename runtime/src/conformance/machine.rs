//! Checks that need a real operating system. Their arguments name its resources.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;

use futures_util::future::join_all;

use super::{connected, in_millis, loopback, read_up_to};
use crate::race::race;
use crate::{File, Listener, Monotonic, OpenMode, Reader, Runtime, Writer};

/// A connection to `silent`, which never answers, fails at its deadline.
///
/// # Panics
///
/// If the backend breaks the contract.
pub async fn connecting_times_out<R: Runtime>(runtime: R, silent: SocketAddr) {
    let deadline = in_millis(&runtime, 30);
    let error = runtime.connect(silent, deadline).await.err().expect("nobody answers");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(runtime.now() >= deadline);
}

/// After a failed sync of the file at `path`, which takes writes but cannot be
/// synced, no write and no sync succeeds.
///
/// # Panics
///
/// If the backend breaks the contract.
pub async fn a_failed_sync_poisons<R: Runtime>(runtime: R, path: &Path) {
    let file = runtime.open(path, OpenMode::ReadWrite).await.expect("open");
    file.write_all_at(b"before".to_vec(), 0).await.0.expect("a write before the failure");
    let first = file.sync_data().await.expect_err("the file cannot be synced");
    let again = file.sync_data().await.expect_err("it stays so");
    assert_ne!(first.to_string(), again.to_string(), "the second sync was not tried");
    let (result, buffer) = file.write_all_at(b"after".to_vec(), 0).await;
    assert_eq!(result.expect_err("poisoned").to_string(), again.to_string());
    assert_eq!(buffer, b"after");
    file.truncate(0).await.expect_err("poisoned");
    file.allocate(10).await.expect_err("poisoned");
}

/// Everything that opens a descriptor, ended in every way that might leak it.
/// The caller counts descriptors before and after.
///
/// # Panics
///
/// If an operation fails that should not.
pub async fn open_and_close_much<R: Runtime>(runtime: R, dir: &Path, silent: SocketAddr) {
    for number in 0..20 {
        let path = dir.join(format!("file-{number}"));
        let file = runtime.open(&path, OpenMode::CreateNew).await.expect("a new file");
        file.write_all_at(vec![1; 100], 0).await.0.expect("write");
        file.allocate(1000).await.expect("allocate");
        drop(file);
        {
            let soon = runtime.now();
            let abandoned = pin!(runtime.open(&path, OpenMode::Read));
            race(abandoned, || runtime.sleep_until(soon)).await;
        }
        drop(runtime.lock_file(&dir.join("lock")).await);
        runtime.sync_dir(dir).await.expect("sync");
        runtime.remove_file(&path).await.expect("remove");

        let ((near_reader, near_writer), far) = connected(&runtime).await;
        drop((near_reader, near_writer, far));

        let ((mut silent_reader, _writer), _far) = connected(&runtime).await;
        let (result, _) = silent_reader.read(Vec::with_capacity(8), in_millis(&runtime, 2)).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);

        let ((_reader, mut writer), (mut far_reader, _far_writer)) = connected(&runtime).await;
        writer.shutdown().await.expect("shutdown");
        assert_eq!(read_up_to(&mut far_reader, 1).await, b"");

        // A read dropped midway, which the contract allows if the connection
        // is never used again.
        let ((mut dropped_reader, _writer), _far) = connected(&runtime).await;
        let soon = in_millis(&runtime, 1);
        {
            let read = pin!(dropped_reader.read(Vec::with_capacity(8), Monotonic::NEVER));
            assert!(race(read, || runtime.sleep_until(soon)).await.is_none());
        }

        // Accepts dropped midway, with connections on their way.
        let listener = runtime.listen(loopback()).expect("a free port");
        let address = listener.local_address().expect("a bound address");
        let clients = (0..4).map(|_| runtime.connect(address, Monotonic::NEVER));
        let accept_some = async {
            for _ in 0..8 {
                let now = runtime.now();
                let accept = pin!(listener.accept());
                race(accept, || runtime.sleep_until(now)).await;
            }
        };
        let (clients, ()) = futures_util::future::join(join_all(clients), accept_some).await;
        assert!(clients.iter().all(Result::is_ok));

        let timed_out = runtime.connect(silent, in_millis(&runtime, 2)).await;
        assert_eq!(timed_out.err().expect("nobody answers").kind(), io::ErrorKind::TimedOut);
    }
}
