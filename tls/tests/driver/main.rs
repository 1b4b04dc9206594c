//! HTTP over TLS on the runtime's backends, against clients that drive `rustls`
//! themselves, and against peers that speak no TLS at all.
//!
//! The keys of the simulation's cases come from the operating system, so their
//! handshakes differ from run to run in content; with Ed25519 they do not in length,
//! and a seed replays the order of events.

mod agreement;
mod certificates;
mod client;
mod dialer;
mod exchanges;
mod refusals;
mod support;

use std::future::Future;

use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_runtime::sim::{SimRuntime, for_each_seed};
use logsvc_runtime::{LaunchOptions, glommio_backend};

/// Seeds that each case runs with in the simulation.
const SEED_COUNT: u64 = 8;

fn on_epoll<F>(case: fn(MonoioRuntime) -> F)
where
    F: Future<Output = ()> + 'static,
{
    launch(&LaunchOptions::with_cores(1), MonoioDriver::Epoll, case).expect("one core starts");
}

/// With io_uring where the kernel allows it, and epoll elsewhere.
fn on_ring<F>(case: fn(MonoioRuntime) -> F)
where
    F: Future<Output = ()> + 'static,
{
    launch(&LaunchOptions::with_cores(1), MonoioDriver::Auto, case).expect("one core starts");
}

fn on_glommio<F>(case: fn(glommio_backend::GlommioRuntime) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let options = LaunchOptions::with_cores(1);
    if let Err(error) = glommio_backend::launch(&options, |_| async {}) {
        println!("SKIPPED: this machine refuses glommio: {error}");
        return;
    }
    glommio_backend::launch(&options, case).expect("one core starts");
}

fn on_sim<F>(case: fn(SimRuntime) -> F)
where
    F: Future<Output = ()> + 'static,
{
    for_each_seed(0..SEED_COUNT, |simulation| simulation.block_on(case));
}

macro_rules! cases {
    (@on $backend:ident $run:ident $($module:ident: $($case:ident)*;)*) => {
        mod $backend {
            $(mod $module {
                $(#[test]
                fn $case() {
                    crate::$run(crate::$module::$case);
                })*
            })*
        }
    };
    ($($module:ident: $($case:ident)*;)*) => {
        cases!(@on epoll on_epoll $($module: $($case)*;)*);
        cases!(@on ring on_ring $($module: $($case)*;)*);
        cases!(@on glommio on_glommio $($module: $($case)*;)*);
        cases!(@on sim on_sim $($module: $($case)*;)*);
    };
}

cases! {
    exchanges:
        requests_are_answered
        bytes_may_come_one_by_one
        large_bodies_go_both_ways
        a_pipeline_is_answered_in_order
        web_sockets_work
        new_keys_may_be_asked_for
        the_end_is_said
        the_connector_works
        a_stop_lets_requests_finish;
    agreement:
        old_clients_speak_tls_1_2
        tls_1_3_can_be_required
        suites_can_be_restricted
        only_http_1_1_is_offered;
    certificates:
        required_certificates_are_checked
        optional_certificates_are_checked
        any_certificate_may_do;
    dialer:
        requests_go_over_tls
        servers_have_to_prove_their_name
        a_client_may_show_a_certificate
        files_of_clients_can_be_replaced
        bad_files_are_named
        tunnels_lead_through_proxies
        a_server_without_tls_is_an_error;
    refusals:
        plain_http_is_told
        garbage_is_refused
        random_bytes_are_refused
        a_broken_record_ends_the_connection
        a_silent_client_is_dropped
        a_slow_handshake_is_dropped
        long_handshakes_cost_memory
        a_half_open_connection_holds_up_no_stop;
}
