//! The contract of all backends, as checks that any [`Runtime`] can run.
//!
//! [`run_all`] runs the checks of one core; [`cores`] holds the checks that need two or more
//! cores, and [`machine`] the checks that need a real operating system. A check panics when the
//! backend breaks the contract, and the panic names the check. The checks assume that a loopback
//! address exists and that the scratch folder is empty.
//!
//! Limits are counted in steps (yields, rounds) rather than in time where possible, so that a
//! busy machine fails no check.

pub mod cores;
mod datagrams;
mod deadlines;
mod direct;
mod files;
mod folders;
pub mod machine;
mod net;
mod tasks;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join;

use crate::race::race;
use crate::{Listener, Monotonic, Runtime};

/// A check may take this long before it counts as hung, by the runtime's clock.
const PATIENCE: Duration = Duration::from_secs(30);

macro_rules! checks {
    ($($module:ident::$name:ident,)*) => {
        /// Names of the checks that [`run_all`] runs, in order.
        pub const NAMES: &[&str] =
            &[$(concat!(stringify!($module), "::", stringify!($name)),)*];

        /// Runs every check on this core, each in a folder of its own below
        /// `scratch_dir`.
        ///
        /// # Panics
        ///
        /// If the backend breaks the contract.
        pub async fn run_all<R: Runtime>(runtime: R, scratch_dir: PathBuf) {
            $({
                let name = concat!(stringify!($module), "::", stringify!($name));
                let folder = scratch_dir.join(concat!(stringify!($module), "-", stringify!($name)));
                runtime.create_dir_all(&folder).await.expect("the scratch folder can be written");
                let check = Box::pin($module::$name(runtime.clone(), folder));
                within(&runtime, name, check).await;
            })*
        }
    };
}

checks! {
    tasks::gives_the_output,
    tasks::a_dropped_handle_detaches,
    tasks::yielding_lets_ready_tasks_run,
    tasks::all_that_is_ready_runs_between_turns,
    tasks::yielding_lets_timers_run,
    tasks::yielding_lets_io_run,
    tasks::yielding_lets_other_threads_wake,
    tasks::many_tasks_yield_together,
    tasks::sleeps_are_never_early,
    tasks::many_timers_all_fire,
    tasks::dropped_sleeps_are_harmless,
    tasks::random_numbers_differ,
    tasks::offloaded_work_returns,
    net::echoes_on_a_free_port,
    net::refused_connections_are_errors,
    net::reads_append_and_keep_the_prefix,
    net::reads_and_writes_do_not_block_each_other,
    net::large_writes_finish_while_reading,
    net::shutdown_is_the_end_of_the_stream,
    net::shutdown_ends_the_own_read,
    net::dropping_both_halves_closes,
    net::one_half_keeps_the_connection,
    net::an_abandoned_accept_loses_no_connection,
    net::a_busy_connection_starves_nobody,
    net::busy_accepting_starves_nobody,
    net::empty_writes_do_nothing,
    net::names_of_hosts_are_resolved,
    datagrams::arrive_whole_with_their_senders,
    datagrams::longer_than_the_room_are_cut,
    datagrams::an_abandoned_receive_loses_none,
    datagrams::wake_a_receiver_that_waits,
    datagrams::sockets_share_a_port,
    datagrams::busy_receiving_starves_nobody,
    datagrams::a_full_socket_drops_and_counts,
    datagrams::impossible_ones_are_errors,
    deadlines::a_silent_peer_times_out,
    deadlines::after_a_timeout_nothing_is_read,
    deadlines::a_timeout_touches_no_other_connection,
    deadlines::a_kept_deadline_does_not_haunt_later_reads,
    deadlines::a_passed_deadline_times_out,
    deadlines::a_stuck_write_times_out,
    deadlines::concurrent_deadlines_are_kept_apart,
    files::create_new_wants_no_file,
    files::missing_files_are_not_found,
    files::reads_and_writes_at_positions,
    files::reads_append_and_keep_the_prefix,
    files::the_end_of_the_file,
    files::allocate_extends_with_zeros,
    files::truncate_cuts_and_extends,
    files::operations_share_a_file,
    files::aligned_memory_goes_to_any_file,
    files::writing_back_changes_nothing,
    files::read_only_files_refuse_writes,
    files::impossible_offsets_are_errors,
    direct::files_take_whole_blocks,
    direct::files_may_end_within_a_block,
    direct::operations_share_a_direct_file,
    direct::whole_blocks_are_read,
    folders::lists_sorted,
    folders::rename_replaces,
    folders::entries_tell_when_files_were_written,
    folders::links_and_empty_folders,
    folders::remove_file_removes,
    folders::replace_file_keeps_all_or_nothing,
    folders::read_file_refuses_large_files,
    folders::a_lock_excludes_a_second_one,
    folders::disk_space_adds_up,
}

/// Runs `check` and panics with its name if it hangs.
async fn within<R: Runtime, F: Future>(runtime: &R, name: &str, check: F) -> F::Output {
    let deadline = runtime.now().after(PATIENCE);
    match race(pin!(check), || runtime.sleep_until(deadline)).await {
        Some(output) => output,
        None => panic!("{name} hangs on {}", runtime.driver_name()),
    }
}

/// A free port on the loopback interface.
fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// A point `millis` from now.
fn in_millis<R: Runtime>(runtime: &R, millis: u64) -> Monotonic {
    runtime.now().after(Duration::from_millis(millis))
}

/// Both ends of a new connection, the accepting end second.
async fn connected<R: Runtime>(runtime: &R) -> ((R::Reader, R::Writer), (R::Reader, R::Writer)) {
    let listener = runtime.listen(loopback()).expect("a free port");
    let address = listener.local_address().expect("a bound address");
    let (client, server) =
        join(runtime.connect(address, Monotonic::NEVER), listener.accept()).await;
    let (reader, writer, _) = server.expect("accepted");
    (client.expect("connected"), (reader, writer))
}

/// Reads until `count_bytes` have come or the stream ends.
async fn read_up_to<T: crate::Reader>(reader: &mut T, count_bytes: usize) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(count_bytes);
    while buffer.len() < count_bytes {
        let (result, returned) = reader.read(buffer, Monotonic::NEVER).await;
        buffer = returned;
        if result.expect("read") == 0 {
            break;
        }
    }
    buffer
}

/// `len_bytes` bytes that differ from place to place.
fn pattern(len_bytes: usize) -> Vec<u8> {
    (0..len_bytes as u32).map(|place| (place.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}
