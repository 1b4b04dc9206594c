//! Every trap that the backends are known to have is pinned by a check that all
//! of them run.

use logsvc_runtime::conformance::{self, cores};

/// Faults that libraries were seen to have, and the checks that would show them again.
const TRAPS: &[(&str, &[&str])] = &[
    (
        "monoio without its `sync` feature loses wakes from another thread",
        &["tasks::offloaded_work_returns", "cores::wake_ups_arrive"],
    ),
    (
        "monoio's own yield keeps the ring and the timers from running",
        &[
            "tasks::yielding_lets_ready_tasks_run",
            "tasks::yielding_lets_timers_run",
            "tasks::yielding_lets_io_run",
            "tasks::yielding_lets_other_threads_wake",
        ],
    ),
    (
        "glommio sleeps through wake-ups and beside ready tasks, more in queues with latency",
        &["tasks::offloaded_work_returns", "cores::wake_ups_arrive"],
    ),
    (
        "a read dropped midway loses bytes",
        &["deadlines::a_silent_peer_times_out", "deadlines::after_a_timeout_nothing_is_read"],
    ),
    (
        "an abandoned timed read on glommio expires the next one",
        &[
            "deadlines::a_timeout_touches_no_other_connection",
            "deadlines::a_kept_deadline_does_not_haunt_later_reads",
        ],
    ),
    (
        "dropping a task detaches on monoio and cancels on glommio",
        &["tasks::a_dropped_handle_detaches"],
    ),
    (
        "monoio reads to the start of a buffer",
        &["net::reads_append_and_keep_the_prefix", "files::reads_append_and_keep_the_prefix"],
    ),
    (
        "an accept dropped midway loses its connection",
        &["net::an_abandoned_accept_loses_no_connection"],
    ),
    ("dropping monoio's write half ends the stream", &["net::one_half_keeps_the_connection"]),
    (
        "operations that never wait keep a core to themselves",
        &["net::a_busy_connection_starves_nobody", "net::busy_accepting_starves_nobody"],
    ),
];

#[test]
fn every_trap_is_pinned() {
    for (trap, checks) in TRAPS {
        assert!(!checks.is_empty(), "{trap}");
        for check in *checks {
            let known = conformance::NAMES.contains(check) || cores::NAMES.contains(check);
            assert!(known, "{trap}: there is no check {check}");
        }
    }
}
