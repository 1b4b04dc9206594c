//! Rules of several whole nodes on the simulation, with an Alertmanager that is played.

use std::net::Ipv4Addr;

use logsvc_runtime::{CoreId, Listener};

use super::cluster::{HTTP_PORT, World, get, ip, keeper, push};
use super::*;

const ALERTMANAGER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 200)), 9093);
const MS_NS: i64 = 1_000_000;
const INTERVAL_NS: i64 = 20 * SECOND_NS;
const FOR_NS: i64 = 120 * SECOND_NS;

/// An alert that the Alertmanager was told of.
#[derive(Clone, Debug)]
struct Heard {
    at_ns: i64,
    name: String,
    starts_at_ns: i64,
    ends_at_ns: i64,
}

impl Heard {
    fn is_firing(&self) -> bool {
        self.ends_at_ns > self.at_ns
    }
}

type Alerts = Rc<RefCell<Vec<Heard>>>;

fn time_ns(alert: &Value, field: &str) -> i64 {
    let text = alert[field].as_str().expect("a time");
    let time: jiff::Timestamp = text.parse().expect("a time");
    time.as_nanosecond() as i64
}

/// Takes alerts for ever.
async fn serve(runtime: SimRuntime, alerts: Alerts) {
    let listener = runtime.listen(ALERTMANAGER).expect("the address is free");
    loop {
        let (mut reader, mut writer, _) = listener.accept().await.expect("a connection");
        let (alerts, clock) = (Rc::clone(&alerts), runtime.clone());
        drop(runtime.spawn(async move {
            let mut request = Vec::new();
            let body = loop {
                if let Some(body) = body_of(&request) {
                    break body;
                }
                request.reserve(64 << 10);
                let (read, filled) = reader.read(request, Monotonic::NEVER).await;
                request = filled;
                if !matches!(read, Ok(1..)) {
                    return;
                }
            };
            let at_ns = clock.unix_nanos();
            for alert in body.as_array().expect("alerts") {
                alerts.borrow_mut().push(Heard {
                    at_ns,
                    name: alert["labels"]["alertname"].as_str().expect("a name").to_owned(),
                    starts_at_ns: time_ns(alert, "startsAt"),
                    ends_at_ns: time_ns(alert, "endsAt"),
                });
            }
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            drop(writer.write_all(answer.as_bytes().to_vec(), Monotonic::NEVER).await);
        }));
    }
}

/// The body of a whole request.
fn body_of(request: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(request).expect("text");
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lengths = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let len_bytes = lengths.next_back().expect("a length").expect("a number");
    (body.len() >= len_bytes).then(|| serde_json::from_str(body).expect("JSON"))
}

/// Three nodes which have some lines, and the Alertmanager.
fn world(seed: u64) -> (World, Alerts) {
    world_with(seed, |config| {
        config.ruler.alertmanager.urls.set("http://10.0.0.200:9093").expect("an address");
    })
}

fn world_with(seed: u64, settings: fn(&mut Config)) -> (World, Alerts) {
    let mut world = World::new(seed);
    world.settings = settings;
    let (alerts, runtime) = (Alerts::default(), world.clients.runtime(CoreId(0)).clone());
    drop(runtime.clone().spawn(serve(runtime, Rc::clone(&alerts))));
    world.start(0, 2);
    world.client(async |runtime| push(&runtime, 0, 0..10).await);
    world.start(1, 1);
    world.start(2, 2);
    world.run_for(Duration::from_secs(10));
    (world, alerts)
}

/// Asks a node, again and again while there is no keeper; a status and a text.
async fn ask(
    runtime: &SimRuntime,
    node: usize,
    method: &str,
    target: &str,
    body: &str,
) -> (u16, String) {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    http(runtime, address, method, target, body).await.expect("an answer")
}

fn group(name: &str, above: u64) -> String {
    group_of(name, &format!(r#"sum(count_over_time({{app="a"}}[6h])) > {above}"#))
}

fn group_of(name: &str, query: &str) -> String {
    format!(
        "name: {name}\ninterval: 20s\nrules:\n- alert: {name}\n  expr: '{query}'\n  for: 2m\n  \
         labels: {{severity: page}}\n"
    )
}

async fn set(runtime: &SimRuntime, node: usize, name: &str, above: u64) {
    store(runtime, node, &group(name, above)).await;
}

async fn store(runtime: &SimRuntime, node: usize, group: &str) {
    let answer = ask(runtime, node, "POST", "/loki/api/v1/rules/ns", group).await;
    assert_eq!(answer.0, 202, "{}", answer.1);
}

/// All nodes list these groups.
async fn all_list(runtime: &SimRuntime, nodes: &[usize], names: &[&str]) {
    for node in nodes {
        let (status, text) = ask(runtime, *node, "GET", "/loki/api/v1/rules", "").await;
        assert_eq!(status, if names.is_empty() { 404 } else { 200 }, "{text}");
        let listed = text.lines().filter_map(|line| line.trim().strip_prefix("- name: "));
        assert_eq!(listed.collect::<Vec<_>>(), names, "node {node}: {text}");
        let evaluated = get(runtime, *node, "/prometheus/api/v1/rules").await;
        let evaluated = evaluated["data"]["groups"].as_array().expect("groups");
        let evaluated: Vec<_> = evaluated.iter().map(|group| group["name"].clone()).collect();
        assert_eq!(evaluated, names, "node {node}");
    }
}

/// The state of the only alert, and when it became active, by a node's list.
async fn alert(runtime: &SimRuntime, node: usize) -> Option<(String, i64)> {
    let listed = get(runtime, node, "/prometheus/api/v1/alerts").await;
    let alerts = listed["data"]["alerts"].as_array().expect("alerts");
    assert!(alerts.len() < 2, "{alerts:?}");
    let alert = alerts.first()?;
    Some((alert["state"].as_str()?.to_owned(), time_ns(alert, "activeAt")))
}

fn others(world: &World) -> Vec<usize> {
    world.nodes.keys().copied().collect()
}

impl World {
    /// Runs until the only alert is in a state; since when it is active.
    fn until_alert(&self, state: &'static str) -> i64 {
        let node = others(self)[0];
        self.client(async move |runtime| {
            for _ in 0..1000 {
                match alert(&runtime, node).await {
                    Some((now, active_at_ns)) if now == state => return active_at_ns,
                    _ => runtime.sleep_until(runtime.now().after(Duration::from_secs(1))).await,
                }
            }
            panic!("the alert does not become {state}");
        })
    }

    /// Runs until the Alertmanager has heard so much more of an alert; the last of it.
    fn until_heard(&self, alerts: &Alerts, count: usize) -> Heard {
        let until = alerts.borrow().len() + count;
        let end = self.simulation.now().after(Duration::from_secs(400));
        let done = || alerts.borrow().len() >= until || self.simulation.now() >= end;
        self.simulation.run_until(done).unwrap_or_else(|stuck| panic!("{stuck}"));
        assert!(alerts.borrow().len() >= until, "nothing comes");
        alerts.borrow().last().cloned().expect("it has heard something")
    }
}

#[test]
fn groups_that_are_stored_at_any_node_are_listed_at_all_of_them() {
    let _guard = SeedGuard(11);
    let (mut world, _) = world(11);
    let many = others(&world);
    world.client(async move |runtime| {
        all_list(&runtime, &many, &[]).await;
        set(&runtime, 1, "one", 0).await;
        all_list(&runtime, &many, &["one"]).await;
        set(&runtime, 2, "two", 0).await;
        set(&runtime, 0, "one", 5).await;
        all_list(&runtime, &many, &["one", "two"]).await;
        let one = ask(&runtime, 1, "GET", "/loki/api/v1/rules/ns/one", "").await;
        assert!(one.1.contains("> 5"), "{}", one.1);
        for node in many {
            // Nodes that are not the keeper are as ready as it, and have its metrics, without groups.
            assert_eq!(ask(&runtime, node, "GET", "/ready", "").await.0, 200);
            let services = ask(&runtime, node, "GET", "/services", "").await;
            assert!(services.1.contains("ruler => Running"), "{}", services.1);
            assert_eq!(ask(&runtime, node, "GET", "/metrics", "").await.0, 200);
        }
    });
    let first = keeper(&world);
    world.kill(first);
    let many = others(&world);
    world.client(async move |runtime| {
        all_list(&runtime, &many, &["one", "two"]).await;
        set(&runtime, many[1], "three", 0).await;
        let deleted = ask(&runtime, many[0], "DELETE", "/loki/api/v1/rules/ns/one", "").await;
        assert_eq!(deleted.0, 202, "{}", deleted.1);
        all_list(&runtime, &many, &["three", "two"]).await;
    });
    let second = keeper(&world);
    assert!(world.stop(second));
    world.start(3, 1);
    let many = others(&world);
    world.client(async move |runtime| {
        all_list(&runtime, &many, &["three", "two"]).await;
        let deleted = ask(&runtime, 3, "DELETE", "/loki/api/v1/rules/ns", "").await;
        assert_eq!(deleted.0, 202, "{}", deleted.1);
        all_list(&runtime, &many, &[]).await;
    });
}

#[test]
fn an_alert_that_is_pending_when_the_keeper_dies_fires_in_time() {
    for (seed, dies) in [(12, true), (13, false)] {
        let _guard = SeedGuard(seed);
        let (mut world, alerts) = world(seed);
        world.client(async |runtime| set(&runtime, 2, "a", 0).await);
        let active_at_ns = world.until_alert("pending");
        world.run_for(Duration::from_secs(45));
        let first = keeper(&world);
        if dies {
            world.kill(first);
        } else {
            assert!(world.stop(first));
        }
        assert!(alerts.borrow().is_empty(), "{alerts:?}");
        let heard = world.until_heard(&alerts, 1);
        let due_ns = active_at_ns + FOR_NS;
        assert!(heard.is_firing() && heard.name == "a", "{heard:?}");
        let late_ns = heard.starts_at_ns - due_ns;
        // Alertmanagers get whole milliseconds.
        assert!((-MS_NS..=INTERVAL_NS).contains(&late_ns), "{late_ns}");
        assert!(heard.at_ns - heard.starts_at_ns < 5 * SECOND_NS, "{heard:?}");
    }
}

#[test]
fn an_alert_that_fires_goes_on_with_the_next_keeper() {
    let _guard = SeedGuard(14);
    let (mut world, alerts) = world(14);
    world.client(async |runtime| set(&runtime, 1, "a", 0).await);
    let first_heard = world.until_heard(&alerts, 1);
    // It dies, the next one leaves in order, and each of their followers sends the alert on.
    for is_orderly in [false, true] {
        world.run_for(Duration::from_secs(30));
        let node = keeper(&world);
        let ended_ns = alerts.borrow().last().map(|heard| heard.at_ns);
        if is_orderly {
            assert!(world.stop(node));
        } else {
            world.kill(node);
        }
        let heard = world.until_heard(&alerts, 1);
        assert!(Some(heard.at_ns) > ended_ns);
        assert!(world.until_heard(&alerts, 2).is_firing());
        // Nobody is told that it has ended, and it is the same alert.
        for heard in &*alerts.borrow() {
            assert!(heard.is_firing(), "{heard:?}");
            assert_eq!(heard.starts_at_ns, first_heard.starts_at_ns);
        }
    }
    // No gap was so long that an Alertmanager takes the alert for resolved.
    for pair in alerts.borrow().windows(2) {
        assert!(pair[1].at_ns < pair[0].ends_at_ns, "{pair:?}");
    }
    let node = others(&world)[0];
    alerts.borrow_mut().clear();
    // A group that has changed goes on with its alerts, and ends them when the time has come.
    world.client(async move |runtime| {
        set(&runtime, node, "a", 1_000_000).await;
        all_list(&runtime, &[node], &["a"]).await;
    });
    let heard = world.until_heard(&alerts, 1);
    assert!(!heard.is_firing(), "{heard:?}");
    assert_eq!(heard.starts_at_ns, first_heard.starts_at_ns);
}

/// What Alertmanagers were told is not in the bucket yet.
#[test]
fn an_alert_whose_keeper_dies_in_the_moment_in_which_it_fires_stays_one_alert() {
    let _guard = SeedGuard(17);
    let (mut world, alerts) = world(17);
    world.client(async |runtime| set(&runtime, 1, "a", 0).await);
    let first = world.until_heard(&alerts, 1);
    let node = keeper(&world);
    world.kill(node);
    world.until_heard(&alerts, 3);
    for heard in &*alerts.borrow() {
        assert!(heard.is_firing(), "{heard:?}");
        // Times that overlap are one alert for an Alertmanager, which begins when the first has begun.
        let later_ns = heard.starts_at_ns - first.starts_at_ns;
        assert!((0..=2 * INTERVAL_NS).contains(&later_ns), "{later_ns}");
        assert!(heard.starts_at_ns < first.ends_at_ns, "{heard:?} {first:?}");
    }
}

#[test]
fn a_keeper_that_stands_still_says_nothing_when_it_goes_on() {
    let _guard = SeedGuard(15);
    let (mut world, alerts) = world(15);
    // A query that asks nobody: whoever evaluates it has an answer.
    world.client(async |runtime| store(&runtime, 1, &group_of("a", "vector(1) > 0")).await);
    let first_heard = world.until_heard(&alerts, 1);
    world.run_for(Duration::from_secs(8));
    let still = keeper(&world);
    world.nodes[&still].process.stop();
    let asleep = world.nodes.remove(&still).expect("it is there");
    world.until_heard(&alerts, 2);
    // The alert ends while the first one sleeps.
    let node = others(&world)[0];
    world.client(async move |runtime| {
        store(&runtime, node, &group_of("a", "vector(1) > 1")).await;
    });
    assert!(!world.until_heard(&alerts, 1).is_firing());
    let before = alerts.borrow().len();
    asleep.process.go_on();
    world.run_for(Duration::from_secs(200));
    assert!(asleep.state.failure().is_some(), "it was taken over");
    for heard in &alerts.borrow()[before..] {
        assert!(!heard.is_firing(), "{heard:?}");
        assert_eq!(heard.starts_at_ns, first_heard.starts_at_ns);
    }
}

#[test]
fn rule_files_are_evaluated_once_for_all_nodes() {
    let _guard = SeedGuard(16);
    let (mut world, alerts) = world_with(16, |config| {
        config.ruler.alertmanager.urls.set("http://10.0.0.200:9093").expect("an address");
        config.ruler.storage.backend = "local".to_owned();
        config.ruler.storage.local_directory = "/rules".to_owned();
    });
    let file = format!("groups:\n- {}", group("a", 0).trim_end().replace('\n', "\n  "));
    world.disk.write("/rules/t/file.yaml", file.as_bytes());
    world.until_alert("pending");
    let first = world.until_heard(&alerts, 1);
    world.run_for(Duration::from_secs(600));
    // It is sent again after a minute, by one of them.
    let count = alerts.borrow().len();
    assert!((8..=12).contains(&count), "{count}");
    let node = keeper(&world);
    world.kill(node);
    let heard = world.until_heard(&alerts, 2);
    assert!(heard.is_firing() && heard.starts_at_ns == first.starts_at_ns, "{heard:?}");
    let node = others(&world)[1];
    world.client(async move |runtime| {
        let listed = get(&runtime, node, "/prometheus/api/v1/rules").await;
        assert_eq!(listed["data"]["groups"][0]["file"], "file.yaml");
    });
}

/// What becomes of a change: certainly one of these, where 0 stands for no group.
type Promises = BTreeMap<&'static str, Vec<u64>>;

/// A request to some node that runs, and its answer, if it comes.
async fn request(
    runtime: &SimRuntime,
    node: usize,
    method: &str,
    target: &str,
    body: &str,
) -> Option<(u16, String)> {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    let answer = pin!(http(runtime, address, method, target, body));
    let late = pin!(runtime.sleep_until(runtime.now().after(Duration::from_secs(40))));
    match select(answer, late).await {
        Either::Left((answer, _)) => answer.ok(),
        Either::Right(_) => None,
    }
}

/// Nodes start, leave, die and stand still. Groups that somebody was told of stay, the alert goes on
/// firing, and nobody is told that it has ended.
#[test]
fn rules_and_alerts_hold_whatever_becomes_of_nodes() {
    for seed in seeds(6) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (mut world, alerts) = world(seed);
        world.client(async |runtime| set(&runtime, 0, "a", 0).await);
        let first = world.until_heard(&alerts, 1);
        world.run_for(Duration::from_secs(10));
        let promises: Rc<RefCell<Promises>> = Rc::default();
        for _ in 0..rng.between(5, 9) {
            disturb(&mut world, &mut rng);
            world.run_for(Duration::from_millis(rng.between(0, 40_000)));
            let (node, seed, changed) =
                (*rng.pick(&others(&world)), rng.next_u64(), Rc::clone(&promises));
            world.client(async move |runtime| {
                let mut rng = Rng::new(seed);
                for _ in 0..3 {
                    change(&runtime, node, &mut rng, &changed).await;
                }
            });
        }
        let node = others(&world)[0];
        world.run_for(Duration::from_secs(60));
        let text = world.client(async move |runtime| {
            ask(&runtime, node, "GET", "/loki/api/v1/rules/others", "").await.1
        });
        for (name, allowed) in &*promises.borrow() {
            let found = text.split("- name: ").find(|group| group.starts_with(name));
            let limit = found.map_or(0, |group| {
                let line = group.lines().find_map(|line| line.trim().strip_prefix("limit: "));
                line.expect("a limit").parse().expect("a number")
            });
            assert!(allowed.contains(&limit), "{name}: {limit}, not one of {allowed:?}: {text}");
        }
        world.until_heard(&alerts, 2);
        let alerts = alerts.borrow();
        for pair in alerts.windows(2) {
            assert!(pair[1].is_firing(), "{pair:?}");
            assert_eq!(pair[1].starts_at_ns, first.starts_at_ns);
            assert!(pair[1].at_ns < pair[0].ends_at_ns, "{pair:?}");
        }
    }
}

/// Something happens to a node. Two are left that run.
fn disturb(world: &mut World, rng: &mut Rng) {
    let nodes = others(world);
    let is_keeper = rng.one_in(2);
    let node = if is_keeper { keeper(world) } else { *rng.pick(&nodes) };
    match rng.below(4) {
        0 if nodes.len() > 2 => drop(world.stop(node)),
        1 if nodes.len() > 2 => world.kill(node),
        2 if nodes.len() > 2 => {
            // It ends when it goes on.
            world.nodes[&node].process.stop();
            let asleep = world.nodes.remove(&node).expect("it is there");
            world.run_for(Duration::from_secs(rng.between(20, 60)));
            asleep.process.go_on();
        }
        _ if nodes.len() < 4 => {
            let free = (0..8).find(|node| !world.nodes.contains_key(node)).expect("a free one");
            world.start(free, rng.between(1, 3) as u16);
        }
        _ => {}
    }
    // Until there is a keeper.
    world.run_for(Duration::from_secs(20));
}

async fn change(runtime: &SimRuntime, node: usize, rng: &mut Rng, promises: &RefCell<Promises>) {
    let (name, limit) = (*rng.pick(&["p", "q", "r"]), rng.between(1, 1_000_000));
    let is_put = !rng.one_in(3);
    let target = match is_put {
        true => "/loki/api/v1/rules/others".to_owned(),
        false => format!("/loki/api/v1/rules/others/{name}"),
    };
    let (method, after) = if is_put { ("POST", limit) } else { ("DELETE", 0) };
    let body = format!("name: {name}\nlimit: {limit}\nrules: [{{record: x, expr: vector(1)}}]\n");
    let answer = request(runtime, node, method, &target, &body).await;
    let mut promises = promises.borrow_mut();
    let allowed = promises.entry(name).or_insert_with(|| vec![0]);
    match answer {
        Some((202, _)) => *allowed = vec![after],
        Some((503, _)) | None => allowed.push(after),
        Some((status, text)) => panic!("{status}: {text}"),
    }
}
