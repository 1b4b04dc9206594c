//! Checks that need two or more cores.
//!
//! The caller makes one [`MultiCore`] and lets every core run
//! [`MultiCore::run`] with a clone of it.

use std::net::SocketAddr;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{join, join_all};

use super::{in_millis, loopback, read_up_to, within};
use crate::{CoreId, Latch, Listener, Monotonic, Runtime, Writer};

/// Round trips of each kind between neighbouring cores. A backend that loses
/// wake-ups has been seen to hang after a few hundred to a few thousand.
const ROUND_TRIPS: u64 = 10_000;

/// Connections that the cores' listeners share. That one core gets them all has
/// a chance of 2^-63 on two cores.
const CONNECTIONS: usize = 64;

/// Names of the checks that [`MultiCore::run`] runs, in order.
pub const NAMES: &[&str] = &["cores::wake_ups_arrive", "cores::listeners_share_a_port"];

struct Ping {
    number: u64,
    answer: oneshot::Sender<u64>,
}

type Lane<T> = (flume::Sender<T>, flume::Receiver<T>);

/// The state that the cores share.
#[derive(Clone)]
pub struct MultiCore {
    /// One lane into each core.
    pings: Vec<Lane<Ping>>,
    /// Brings the address of core 0's listener to each core.
    addresses: Vec<Lane<SocketAddr>>,
    /// Tells core 0 that a core has reached the next stage.
    arrived: Lane<CoreId>,
    /// Core 0 lets all cores go on.
    all_listen: Latch,
    all_done: Latch,
    /// Whether open connections are spread evenly.
    is_even: bool,
}

impl MultiCore {
    /// For a process with `core_count` cores.
    pub fn new(core_count: u16) -> MultiCore {
        MultiCore {
            pings: (0..core_count).map(|_| flume::bounded(16)).collect(),
            addresses: (0..core_count).map(|_| flume::bounded(1)).collect(),
            arrived: flume::unbounded(),
            all_listen: Latch::new(),
            all_done: Latch::new(),
            is_even: false,
        }
    }

    /// For a backend that spreads open connections evenly over listeners.
    pub fn with_even_listeners(self) -> MultiCore {
        MultiCore { is_even: true, ..self }
    }

    /// Runs all checks; to be called on every core at the same time.
    ///
    /// # Panics
    ///
    /// If the backend breaks the contract.
    pub async fn run<R: Runtime>(self, runtime: R) {
        assert_eq!(usize::from(runtime.core_count()), self.pings.len());
        let answering = self.pings[runtime.core().index()].1.clone();
        drop(runtime.spawn(async move {
            while let Ok(ping) = answering.recv_async().await {
                // The asking core may have failed meanwhile.
                let _ = ping.answer.send(ping.number + 1);
            }
        }));
        within(&runtime, NAMES[0], Box::pin(self.wake_ups_arrive(&runtime))).await;
        let shared = Box::pin(self.listeners_share_a_port(&runtime));
        within(&runtime, NAMES[1], shared).await;
        self.meet(&runtime, &self.all_done).await;
    }

    async fn ask(&self, core: usize, number: u64) {
        let (answer, answered) = oneshot::channel();
        let sent = self.pings[core].0.send_async(Ping { number, answer }).await;
        assert!(sent.is_ok(), "core {core} has gone");
        assert_eq!(answered.await, Ok(number + 1));
    }

    /// A message to another core and the answer to it each wake a sleeping
    /// core, whether it was busy, idle, or just about to sleep.
    async fn wake_ups_arrive<R: Runtime>(&self, runtime: &R) {
        let next = (runtime.core().index() + 1) % self.pings.len();
        for number in 0..ROUND_TRIPS {
            self.ask(next, number).await;
        }
        // Several at once, so that wakes meet a core that is awake.
        let several = (0..8).map(|_| async {
            for number in 0..ROUND_TRIPS / 8 {
                self.ask(next, number).await;
            }
        });
        join_all(several).await;
        // With timers and yields between, so that the driver is in every state.
        for number in 0..ROUND_TRIPS / 100 {
            let deadline = runtime.now().after(Duration::from_micros(number * 7 % 900));
            join(self.ask(next, number), runtime.sleep_until(deadline)).await;
            join(self.ask(next, number), runtime.yield_now()).await;
        }
    }

    /// Listeners of all cores on one port get connections each.
    async fn listeners_share_a_port<R: Runtime>(&self, runtime: &R) {
        let own = runtime.core();
        let listener = if own == CoreId(0) {
            let listener = runtime.listen(loopback()).expect("a free port");
            let address = listener.local_address().expect("a bound address");
            for (lane, _) in &self.addresses {
                lane.send(address).expect("the lanes are ours");
            }
            listener
        } else {
            let address = self.addresses[own.index()].1.recv_async().await.expect("an address");
            runtime.listen(address).expect("a port that another core listens on")
        };
        let address = listener.local_address().expect("a bound address");
        let core_byte = u8::try_from(own.0).expect("the checks run on few cores");
        drop(runtime.spawn(async move {
            let mut open = Vec::new();
            loop {
                let (reader, mut writer, _) = listener.accept().await.expect("accept");
                writer.write_all(vec![core_byte], Monotonic::NEVER).await.0.expect("write");
                open.push((reader, writer));
            }
        }));
        self.meet(runtime, &self.all_listen).await;
        if own != CoreId(0) {
            return;
        }
        let mut answers_of = vec![0_usize; self.pings.len()];
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            let deadline = in_millis(runtime, 20_000);
            let (mut reader, writer) = runtime.connect(address, deadline).await.expect("connected");
            let byte = read_up_to(&mut reader, 1).await;
            answers_of[usize::from(byte[0])] += 1;
            open.push((reader, writer));
        }
        if self.pings.len() == 2 {
            assert!(answers_of.iter().all(|count| *count > 0), "unshared: {answers_of:?}");
        }
        if self.is_even {
            let (least, most) = (answers_of.iter().min(), answers_of.iter().max());
            let uneven = least.zip(most).is_none_or(|(least, most)| most - least > 1);
            assert!(!uneven, "uneven: {answers_of:?}");
        }
    }

    /// Waits until every core has come here; core 0 counts them.
    async fn meet<R: Runtime>(&self, runtime: &R, all: &Latch) {
        self.arrived.0.send(runtime.core()).expect("the lane is ours");
        if runtime.core() == CoreId(0) {
            for _ in 0..self.pings.len() {
                self.arrived.1.recv_async().await.expect("the lane is ours");
            }
            all.trigger();
        }
        all.wait().await;
    }
}
