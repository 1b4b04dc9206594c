//! The client over whole connections, on the runtime's backends: against this crate's own server,
//! and against peers that follow a script.
//!
//! Cases never sleep for luck: they wait for something that must happen, and the timeouts that
//! they test are short while all others are long.

mod exchanges;
mod kept;
mod peer;
mod peers;
mod proxies;
mod support;

use std::future::Future;

use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_runtime::sim::{SimRuntime, Simulation, for_each_seed};
use logsvc_runtime::{LaunchOptions, glommio_backend};

/// Seeds that each case runs with in the simulation.
const SEED_COUNT: u64 = 12;

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
        bodies_go_both_ways
        streams_go_both_ways
        parts_of_a_body_are_answered
        many_requests_go_at_the_same_time
        an_early_refusal_is_read
        a_body_waits_until_it_is_wanted
        long_bodies_are_refused;
    kept:
        a_connection_serves_many_requests
        a_connection_that_the_server_closes_is_not_used
        idle_connections_are_closed
        few_idle_connections_are_kept
        a_dropped_request_ends_its_connection
        a_dropped_answer_ends_its_connection
        a_dropped_wait_loses_nothing;
    peers:
        heads_are_exact
        a_stale_connection_is_replaced
        a_request_that_must_not_be_repeated_is_not
        a_large_body_is_sent_again_whole
        answers_that_are_cut_off_are_errors
        answers_that_are_none_are_errors
        interim_answers_are_skipped
        a_silent_server_does_not_confuse_the_next_request
        the_end_of_the_connection_ends_a_body
        a_slow_server_times_out
        a_server_that_reads_nothing_times_out
        nobody_there_is_an_error
        bodies_that_cannot_be_made_are_errors
        a_server_that_never_says_continue_gets_the_body;
    proxies:
        a_proxy_gets_whole_addresses
        a_tunnel_may_be_refused;
}

/// The same seed gives the same run, so nothing in the client depends on the process that it runs
/// in.
#[test]
fn runs_replay() {
    let trace = |seed| {
        let simulation = Simulation::new(seed);
        simulation.block_on(exchanges::streams_go_both_ways);
        simulation.block_on(exchanges::many_requests_go_at_the_same_time);
        simulation.block_on(kept::idle_connections_are_closed);
        simulation.trace_hash()
    };
    for seed in 0..4 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert_ne!(trace(0), trace(1));
}
