//! No backend leaks descriptors, whichever way operations end.
//!
//! The only test of its binary, because it counts the descriptors of the process.

mod support;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use logsvc_runtime::conformance::machine;
use logsvc_runtime::monoio_backend::{self, MonoioDriver};
use logsvc_runtime::{LaunchOptions, Runtime, glommio_backend};

async fn open_descriptors<R: Runtime>(runtime: &R) -> usize {
    runtime.read_dir(&PathBuf::from("/proc/self/fd")).await.unwrap().len()
}

async fn check<R: Runtime>(runtime: R, dir: PathBuf, silent: std::net::SocketAddr) {
    // The first round opens descriptors that stay open, such as caches of the driver.
    machine::open_and_close_much(runtime.clone(), &dir, silent).await;
    let settle = Duration::from_millis(50);
    runtime.sleep_until(runtime.now().after(settle)).await;
    let before = open_descriptors(&runtime).await;
    machine::open_and_close_much(runtime.clone(), &dir, silent).await;
    for _ in 0..100 {
        runtime.sleep_until(runtime.now().after(settle)).await;
        if open_descriptors(&runtime).await <= before {
            return;
        }
    }
    let after = open_descriptors(&runtime).await;
    panic!("{}: {before} descriptors became {after}", runtime.driver_name());
}

fn run(
    name: &str,
    launch: impl FnOnce(&LaunchOptions, PathBuf, std::net::SocketAddr) -> io::Result<()>,
) {
    let (scratch, silent) = (support::Scratch::new(), support::Silent::new());
    let dir = scratch.path().to_owned();
    if let Err(error) = launch(&LaunchOptions::with_cores(1), dir, silent.address()) {
        println!("SKIPPED: {name} cannot start here: {error}");
    }
}

#[test]
fn nothing_leaks() {
    run("monoio/epoll", |options, dir, silent| {
        let main = move |runtime| check(runtime, dir.clone(), silent);
        monoio_backend::launch(options, MonoioDriver::Epoll, main)
    });
    run("monoio/io_uring", |options, dir, silent| {
        let main = move |runtime| check(runtime, dir.clone(), silent);
        monoio_backend::launch(options, MonoioDriver::IoUring, main)
    });
    run("glommio", |options, dir, silent| {
        glommio_backend::launch(options, move |runtime| check(runtime, dir.clone(), silent))
    });
}
