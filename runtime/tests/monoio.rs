//! The conformance suite on monoio, over both of its drivers.

mod support;

use logsvc_runtime::monoio_backend::{self, MonoioDriver};
use logsvc_runtime::{LaunchOptions, Runtime};

/// Whether this machine lets a process use io_uring; prints a line if it does not.
fn has_ring() -> bool {
    let options = LaunchOptions::with_cores(1);
    match monoio_backend::launch(&options, MonoioDriver::IoUring, |_| async {}) {
        Ok(()) => true,
        Err(error) => {
            println!("SKIPPED: this machine refuses io_uring: {error}");
            false
        }
    }
}

fn run(driver: MonoioDriver) {
    support::run_single_core(|options, main| {
        monoio_backend::launch(options, driver, move |runtime| main.clone().run(runtime))
    });
    support::run_two_cores(|options, shared| {
        monoio_backend::launch(options, driver, move |runtime| shared.clone().run(runtime))
    });
    support::run_two_busy_cores(|options, shared| {
        monoio_backend::launch(options, driver, move |runtime| shared.clone().run(runtime))
    });
}

#[test]
fn io_uring_conforms() {
    if has_ring() {
        run(MonoioDriver::IoUring);
    }
}

#[test]
fn epoll_conforms() {
    run(MonoioDriver::Epoll);
}

#[test]
fn the_driver_is_named() {
    let options = LaunchOptions::with_cores(1);
    let expect = |driver, name: &'static str| {
        monoio_backend::launch(&options, driver, move |runtime| async move {
            assert_eq!(runtime.driver_name(), name);
        })
        .unwrap();
    };
    expect(MonoioDriver::Epoll, "monoio/epoll");
    let with_ring = if has_ring() { "monoio/io_uring" } else { "monoio/epoll" };
    expect(MonoioDriver::Auto, with_ring);
}
