//! The conformance suite on glommio.

mod support;

use logsvc_runtime::{LaunchOptions, glommio_backend};

/// Whether this machine lets a process use glommio; prints a line if it does not.
fn has_ring() -> bool {
    match glommio_backend::launch(&LaunchOptions::with_cores(2), |_| async {}) {
        Ok(()) => true,
        Err(error) => {
            println!("SKIPPED: this machine refuses glommio: {error}");
            false
        }
    }
}

#[test]
fn one_core_conforms() {
    if has_ring() {
        support::run_single_core(|options, checks| {
            glommio_backend::launch(options, move |runtime| checks.clone().run(runtime))
        });
    }
}

#[test]
fn two_cores_conform() {
    if has_ring() {
        support::run_two_cores(|options, checks| {
            glommio_backend::launch(options, move |runtime| checks.clone().run(runtime))
        });
    }
}

#[test]
fn two_cores_conform_on_a_busy_machine() {
    if has_ring() {
        support::run_two_busy_cores(|options, checks| {
            glommio_backend::launch(options, move |runtime| checks.clone().run(runtime))
        });
    }
}
