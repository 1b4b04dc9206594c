//! The driver over whole connections, on the runtime's backends.
//!
//! Cases never sleep for luck: they wait for something that must happen, and
//! the timeouts that they test are short while all others are long.

mod client;
mod exchanges;
mod memory;
mod responses;
mod sockets;
mod streamed;
mod support;
mod time;

use std::future::Future;

use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_runtime::sim::{SimRuntime, for_each_seed};
use logsvc_runtime::{LaunchOptions, Runtime};

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
        cases!(@on sim on_sim $($module: $($case)*;)*);
    };
}

cases! {
    exchanges:
        heads_are_exact
        pipelined_requests_are_answered_in_order
        requests_may_come_in_single_bytes
        http_1_0_closes_unless_asked
        head_requests_get_no_body
        continue_is_sent_after_admission
        a_refused_short_body_is_skipped
        large_bodies_arrive_whole
        a_body_over_the_budget_is_refused
        disconnects_are_noticed
        reading_ahead_loses_nothing
        malformed_requests_are_answered_and_closed
        an_early_refusal_reaches_the_client;
    responses:
        large_enough_bodies_are_compressed
        streams_are_chunked_and_compressed
        a_stream_that_fails_is_cut_off;
    time:
        a_silent_connection_is_closed
        a_slow_head_is_refused
        an_idle_connection_is_closed
        a_slow_body_is_refused
        an_endless_body_is_refused
        a_client_that_reads_nothing_is_dropped
        connections_over_the_limit_are_turned_away
        a_stop_lets_requests_finish
        a_stop_does_not_wait_for_ever;
    memory:
        slow_bodies_give_way
        slow_heads_give_way
        a_trickle_after_a_burst_is_refused
        a_slow_body_goes_on_where_there_is_memory
        a_body_waits_for_memory;
    streamed:
        a_body_of_any_length_is_handed_over
        single_bytes_make_the_same_body
        the_connection_lives_on
        continue_comes_at_once
        an_early_answer_ends_the_connection
        malformed_chunks_are_refused
        a_handler_that_waits_holds_the_client_back
        a_client_that_vanishes_is_told
        a_body_that_stands_still_is_refused
        a_stop_refuses_the_rest
        http_1_0_may_send_a_length;
    sockets:
        messages_go_both_ways
        frames_right_behind_the_handshake_count
        the_handler_closes
        breaches_of_the_protocol_close
        a_slow_client_holds_the_handler_back
        a_stop_closes_sockets
        a_vanished_client_ends_the_handler
        http_1_0_may_open_one
        other_requests_are_refused;
}

/// Running out of descriptors passes; accepting must go on after it, and must not
/// spin until then.
#[test]
fn failing_accepts_are_tried_again() {
    for_each_seed(0..SEED_COUNT, |simulation| {
        simulation.fail_next_accepts(6);
        let polls = simulation.polls();
        simulation.block_on(|runtime| async move {
            let server = support::Server::start(&runtime);
            let started = server.runtime.now();
            let mut client = server.client().await;
            assert_eq!(client.exchange(client::get("/ok")).await.text(), "fine");
            let waited = client.now().since(started);
            assert!(waited >= std::time::Duration::from_millis(5 + 10 + 20 + 40 + 80 + 160));
            drop(client);
            server.finish().await;
        });
        assert!(simulation.polls() - polls < 500, "{} polls", simulation.polls() - polls);
    });
}

/// The same seed gives the same run, so nothing in the server depends on the
/// process that it runs in.
#[test]
fn runs_replay() {
    let trace = |seed| {
        let simulation = logsvc_runtime::sim::Simulation::new(seed);
        simulation.block_on(exchanges::reading_ahead_loses_nothing);
        simulation.block_on(responses::streams_are_chunked_and_compressed);
        simulation.block_on(sockets::messages_go_both_ways);
        simulation.trace_hash()
    };
    for seed in 0..4 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert_ne!(trace(0), trace(1));
}
