//! Live tails at one node show what all nodes take.

use std::cell::Cell;

use super::*;

/// A line that a tail has shown: its stream, its number and its time.
type Shown = (String, u64, i64);

/// Nodes that take pushes, as far as somebody knows.
type Pushable = Rc<RefCell<Vec<usize>>>;

/// An open tail.
struct Tail {
    shown: Rc<RefCell<Vec<Shown>>>,
    missed: Rc<Cell<usize>>,
    /// Why it has ended, if it has.
    end: Rc<RefCell<Option<String>>>,
    close: Latch,
}

impl Tail {
    /// Opens a tail of all lines at a node.
    fn open(world: &World, node: usize, params: &str) -> Tail {
        let runtime = world.clients.runtime(CoreId(0)).clone();
        let tail = Tail {
            shown: Rc::default(),
            missed: Rc::default(),
            end: Rc::default(),
            close: Latch::new(),
        };
        let target = format!("/loki/api/v1/tail?query=%7Bapp%3D%22a%22%7D{params}");
        let reading = Reading {
            shown: Rc::clone(&tail.shown),
            missed: Rc::clone(&tail.missed),
            end: Rc::clone(&tail.end),
        };
        let closed = tail.close.wait();
        drop(runtime.clone().spawn(async move {
            let reading = std::pin::pin!(reading.read(&runtime, node, &target));
            select(std::pin::pin!(closed), reading).await;
        }));
        tail
    }

    fn lines(&self) -> BTreeSet<(String, u64)> {
        let shown = self.shown.borrow();
        shown.iter().map(|(stream, number, _)| (stream.clone(), *number)).collect()
    }

    /// It has shown just these, each once.
    #[track_caller]
    fn has_shown(&self, expected: &BTreeSet<(String, u64)>) {
        let lines = self.lines();
        let missing: Vec<_> = expected.difference(&lines).take(5).collect();
        assert!(missing.is_empty(), "{missing:?} are missing of {}", expected.len());
        let others: Vec<_> = lines.difference(expected).take(5).collect();
        assert!(others.is_empty(), "{others:?} were never sent");
        self.has_none_twice();
    }

    #[track_caller]
    fn has_none_twice(&self) {
        let mut all: Vec<_> = self.shown.borrow().clone();
        all.sort_unstable();
        let twice: Vec<_> = all.windows(2).filter(|two| two[0] == two[1]).take(5).collect();
        assert!(twice.is_empty(), "{twice:?} were shown twice, of {}", all.len());
        assert_eq!(self.missed.get(), 0);
        assert_eq!(*self.end.borrow(), None);
    }
}

struct Reading {
    shown: Rc<RefCell<Vec<Shown>>>,
    missed: Rc<Cell<usize>>,
    end: Rc<RefCell<Option<String>>>,
}

impl Reading {
    async fn read(self, runtime: &SimRuntime, node: usize, target: &str) {
        let reason = match self.frames(runtime, node, target).await {
            Ok(reason) => reason,
            Err(error) => error.to_string(),
        };
        self.end.replace(Some(reason));
    }

    /// Takes frames until the server closes the tail.
    async fn frames(
        &self,
        runtime: &SimRuntime,
        node: usize,
        target: &str,
    ) -> std::io::Result<String> {
        let address = SocketAddr::new(ip(node), HTTP_PORT);
        let (mut reader, mut writer) = runtime.connect(address, Monotonic::NEVER).await?;
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nX-Scope-OrgID: t\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Version: 13\r\n\r\n"
        );
        writer.write_all(request.into_bytes(), Monotonic::NEVER).await.0?;
        let mut came = Vec::new();
        let mut has_head = false;
        loop {
            came.reserve(64 << 10);
            let (read, filled) = reader.read(came, Monotonic::NEVER).await;
            came = filled;
            if read? == 0 {
                return Ok("the connection ends".to_owned());
            }
            if !has_head {
                let Some(end) = came.windows(4).position(|four| four == b"\r\n\r\n") else {
                    continue;
                };
                let head = String::from_utf8_lossy(&came[..end]).into_owned();
                if !head.starts_with("HTTP/1.1 101") {
                    return Ok(head);
                }
                came.drain(..end + 4);
                has_head = true;
            }
            while let Some((kind, payload, rest)) = frame(&came) {
                match kind {
                    0x81 => self.take(&payload),
                    0x88 => return Ok(String::from_utf8_lossy(&payload[2..]).into_owned()),
                    _ => {}
                }
                came = rest;
            }
        }
    }

    fn take(&self, payload: &[u8]) {
        let frame: Value = serde_json::from_slice(payload).expect("JSON");
        for stream in frame["streams"].as_array().expect("streams") {
            let name = stream["stream"]["n"].as_str().expect("a name");
            for value in stream["values"].as_array().expect("values") {
                let time_ns = value[0].as_str().expect("a time").parse().expect("a number");
                let number = value[1].as_str().expect("a line").parse().expect("a number");
                self.shown.borrow_mut().push((name.to_owned(), number, time_ns));
            }
        }
        let missed = frame["dropped_entries"].as_array().map_or(0, Vec::len);
        self.missed.set(self.missed.get() + missed);
    }
}

/// The first frame: its first byte, its payload, and what is behind it.
fn frame(bytes: &[u8]) -> Option<(u8, Vec<u8>, Vec<u8>)> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (start, len) = match *bytes.get(1)? {
        126 => (4, number(bytes.get(2..4)?)),
        127 => (10, number(bytes.get(2..10)?)),
        len => (2, usize::from(len)),
    };
    let payload = bytes.get(start..start + len)?.to_vec();
    Some((bytes[0], payload, bytes[start + len..].to_vec()))
}

/// The lines of so many pushes by [`push`].
fn pushed(numbers: std::ops::Range<u64>) -> BTreeSet<(String, u64)> {
    let of = |number: u64| (0..20).map(move |stream: u64| (stream.to_string(), number));
    numbers.flat_map(of).collect()
}

/// Streams of a node that tails follow, those of other nodes included.
fn streams_followed(world: &World, node: usize) -> f64 {
    world.client(async move |runtime| {
        let address = SocketAddr::new(ip(node), HTTP_PORT);
        let (status, text) = http(&runtime, address, "GET", "/metrics", "").await.expect("text");
        assert_eq!(status, 200);
        let values =
            text.lines().filter(|line| line.starts_with("loki_querier_tail_active_streams"));
        values
            .map(|line| line.rsplit(' ').next().expect("a value").parse::<f64>().expect("one"))
            .sum()
    })
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_tail_shows_what_all_nodes_take() {
    let _guard = SeedGuard(11);
    let mut world = World::new(11);
    world.start(0, 2);
    world.start(1, 1);
    world.start(2, 2);
    world.run_for(seconds(10));
    world.client(async |runtime| push(&runtime, 0, 0..5).await);
    let tail = Tail::open(&world, 1, "&limit=5000");
    let delayed = Tail::open(&world, 2, "&limit=5000&delay_for=3");
    world.run_for(seconds(5));
    tail.has_shown(&pushed(0..5));
    assert!((0..3).all(|node| streams_followed(&world, node) > 0.0));
    // Lines of the second node are pushed before they are due at the first one.
    world.client(async |runtime| {
        for number in (5..25).step_by(2) {
            push(&runtime, (number % 3) as usize, number..number + 2).await;
        }
    });
    world.run_for(seconds(5));
    tail.has_shown(&pushed(0..25));
    delayed.has_shown(&pushed(0..25));
    let times: Vec<i64> = delayed.shown.borrow().iter().map(|(_, _, time_ns)| *time_ns).collect();
    assert!(times.is_sorted(), "in order of time");
    // When the clients are gone, nobody follows.
    tail.close.trigger();
    delayed.close.trigger();
    world.run_for(seconds(5));
    assert!((0..3).all(|node| streams_followed(&world, node) == 0.0));
    assert!(world.nodes.values().all(|node| node.state.budgets.tails.used_bytes() == 0));
}

#[test]
fn a_tail_goes_on_when_nodes_come_and_go() {
    let _guard = SeedGuard(12);
    let mut world = World::new(12);
    world.start(0, 2);
    world.start(1, 1);
    world.start(2, 1);
    world.run_for(seconds(10));
    let tail = Tail::open(&world, 0, "");
    world.run_for(seconds(2));
    world.client(async |runtime| push(&runtime, 1, 0..5).await);
    world.run_for(seconds(2));
    tail.has_shown(&pushed(0..5));
    // One dies. What the heirs take is shown.
    world.kill(1);
    world.client(async |runtime| push(&runtime, 0, 5..10).await);
    world.run_for(seconds(20));
    tail.has_shown(&pushed(0..10));
    // One is added, and gets partitions at once.
    world.start(3, 2);
    world.client(async |runtime| {
        for number in 10..30 {
            push(&runtime, [0, 2, 3][number as usize % 3], number..number + 1).await;
        }
    });
    world.run_for(seconds(10));
    tail.has_shown(&pushed(0..30));
    // One leaves in order while lines come.
    let runtime = world.clients.runtime(CoreId(0)).clone();
    drop(runtime.clone().spawn(async move {
        for number in 30..60 {
            push(&runtime, 0, number..number + 1).await;
            runtime.sleep_until(runtime.now().after(Duration::from_millis(100))).await;
        }
    }));
    assert!(world.stop(2));
    world.run_for(seconds(20));
    tail.has_shown(&pushed(0..60));
}

/// What became of the pushes of a client.
#[derive(Default)]
struct Pushed {
    sent: BTreeSet<(String, u64)>,
    acknowledged: BTreeSet<(String, u64)>,
}

/// Pushes a line to some streams, with new times at each attempt, until a node has stored it.
async fn insist(
    runtime: &SimRuntime,
    addresses: &Pushable,
    number: u64,
    pushed: &RefCell<Pushed>,
    stop: &Cell<bool>,
) {
    let names = || (0..6).map(|stream: u64| (stream.to_string(), number));
    pushed.borrow_mut().sent.extend(names());
    while !stop.get() {
        let time_ns = runtime.unix_nanos().to_string();
        let stream = |(name, _)| {
            let values = [json!([time_ns, number.to_string()])];
            json!({"stream": {"app": "a", "n": name}, "values": values})
        };
        let body = json!({"streams": names().map(stream).collect::<Vec<_>>()}).to_string();
        let node = {
            let nodes = addresses.borrow();
            nodes[runtime.random_u64() as usize % nodes.len()]
        };
        let address = SocketAddr::new(ip(node), HTTP_PORT);
        let answer = std::pin::pin!(http(runtime, address, "POST", "/loki/api/v1/push", &body));
        let late = std::pin::pin!(runtime.sleep_until(runtime.now().after(seconds(15))));
        if let Either::Left((Ok((204, _)), _)) = select(answer, late).await {
            pushed.borrow_mut().acknowledged.extend(names());
            return;
        }
        runtime.sleep_until(runtime.now().after(Duration::from_millis(100))).await;
    }
}

/// The node of the tail lives. Others start, are stopped in order, die with their disks, stand still and
/// go on. Every line that was acknowledged is shown, and no entry is shown twice.
#[test]
fn a_tail_misses_nothing_whatever_becomes_of_other_nodes() {
    let (mut starts, mut stops, mut kills, mut pauses, mut lines) = (0, 0, 0, 0, 0);
    let all = seeds(6);
    let count = all.end - all.start;
    for seed in all {
        let _guard = SeedGuard(seed);
        let mut world = World::new(seed);
        let mut rng = Rng::new(seed);
        world.start(0, 2);
        let addresses: Pushable = Rc::new(RefCell::new(vec![0]));
        let (pushed, stop) = (Rc::new(RefCell::new(Pushed::default())), Rc::new(Cell::new(false)));
        let tail = Tail::open(&world, 0, "");
        world.run_for(seconds(1));
        for client in 0..2 {
            let runtime = world.clients.runtime(CoreId(0)).clone();
            let (addresses, stop) = (Rc::clone(&addresses), Rc::clone(&stop));
            let pushed = Rc::clone(&pushed);
            drop(runtime.clone().spawn(async move {
                let mut number = client * 100_000;
                while !stop.get() {
                    insist(&runtime, &addresses, number, &pushed, &stop).await;
                    number += 1;
                    runtime.sleep_until(runtime.now().after(Duration::from_millis(50))).await;
                }
            }));
        }
        let mut asleep = None;
        for _ in 0..rng.between(8, 16) {
            world.run_for(Duration::from_millis(rng.between(200, 8_000)));
            let ended = world.nodes.iter().filter(|(_, node)| node.state.failure().is_some());
            for node in ended.map(|(node, _)| *node).collect::<Vec<_>>() {
                assert_ne!(node, 0, "nobody has a reason to take the first one over");
                world.kill(node);
                addresses.borrow_mut().retain(|one| *one != node);
                asleep = asleep.filter(|one| *one != node);
            }
            let others: Vec<usize> = world
                .nodes
                .keys()
                .filter(|node| **node > 0 && asleep != Some(**node))
                .copied()
                .collect();
            let chosen = (!others.is_empty()).then(|| *rng.pick(&others));
            match (rng.below(10), chosen) {
                (0..=4, _) | (_, None) if world.nodes.len() < 4 => {
                    let free = (1..8).find(|node| !world.nodes.contains_key(node)).expect("one");
                    world.start_at_last(free, rng.between(1, 3) as u16);
                    addresses.borrow_mut().push(free);
                    starts += 1;
                }
                (5 | 6, Some(node)) => {
                    addresses.borrow_mut().retain(|one| *one != node);
                    world.kill(node);
                    kills += 1;
                }
                (7, Some(node)) if asleep.is_none() => {
                    addresses.borrow_mut().retain(|one| *one != node);
                    stops += usize::from(world.stop(node));
                }
                (8, Some(node)) if asleep.is_none() => {
                    world.nodes[&node].process.stop();
                    asleep = Some(node);
                    pauses += 1;
                }
                _ => {
                    if let Some(node) = asleep.take() {
                        world.nodes[&node].process.go_on();
                    }
                }
            }
        }
        if let Some(node) = asleep {
            world.nodes[&node].process.go_on();
        }
        world.run_for(seconds(30));
        stop.set(true);
        world.run_for(seconds(40));
        let (pushed, shown) = (pushed.borrow(), tail.lines());
        let missing: Vec<_> = pushed.acknowledged.difference(&shown).take(5).collect();
        assert!(missing.is_empty(), "{missing:?} are missing of {}", pushed.acknowledged.len());
        assert!(shown.is_subset(&pushed.sent), "something was never sent");
        tail.has_none_twice();
        lines += shown.len();
    }
    println!("{starts} starts, {stops} stops, {kills} kills, {pauses} pauses, {lines} lines");
    if count >= 6 {
        assert!(starts > 10 && kills > 3 && stops > 0 && pauses > 2 && lines > 1_000);
    }
}
