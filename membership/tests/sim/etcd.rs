//! Nodes that know each other by keys in etcd: a small one, which keeps leases as the real one does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use logsvc_http::{Admission, Request, RequestHead, Response, ServerConfig, Service, serve};
use logsvc_membership::engine::Change;
use logsvc_membership::etcd::{self, EtcdSettings, GRACE, LEASE};
use logsvc_membership::members::Standing;
use logsvc_membership::vitals::State;
use logsvc_runtime::sim::{Node, SimRuntime};
use logsvc_runtime::{Budget, Latch, Monotonic, PlainDialer, Runtime};
use logsvc_testkit::{SeedGuard, seeds};
use serde_json::{Value, json};

use crate::nodes::{Cluster, ip, settings};

const SECOND: Duration = Duration::from_secs(1);
const USER: (&str, &str) = ("node", "secret");

/// Where etcd listens.
fn address() -> SocketAddr {
    ([10, 0, 8, 8], 2379).into()
}

/// What etcd has on its disk.
#[derive(Default)]
struct Kept {
    keys: BTreeMap<String, (String, i64)>,
    leases: BTreeMap<i64, Monotonic>,
    grants: i64,
    /// The token that is good at the moment.
    token: u64,
    has_users: bool,
    answers_nonsense: bool,
}

/// A process of etcd.
struct Etcd {
    runtime: SimRuntime,
    kept: Rc<RefCell<Kept>>,
}

impl Etcd {
    fn answer(&self, path: &str, token: Option<&str>, asked: &Value) -> Result<Value, u16> {
        let mut kept = self.kept.borrow_mut();
        let now = self.runtime.now();
        if kept.answers_nonsense {
            return Ok(json!(["nonsense"]));
        }
        let Kept { keys, leases, grants, token: good, has_users, .. } = &mut *kept;
        leases.retain(|_, ends| now < *ends);
        keys.retain(|_, (_, lease)| leases.contains_key(lease));
        let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
        let lease: i64 = text("lease").parse().unwrap_or_default();
        if path == "/v3/auth/authenticate" {
            let is_right = (text("name").as_str(), text("password").as_str()) == USER;
            return if is_right { Ok(json!({ "token": format!("t{good}") })) } else { Err(400) };
        }
        if *has_users && token != Some(&format!("t{good}")) {
            return Err(401);
        }
        match path {
            "/v3/lease/grant" => {
                assert_eq!(text("TTL"), "5");
                *grants += 1;
                leases.insert(*grants, now.after(LEASE));
                Ok(json!({ "header": {}, "ID": grants.to_string(), "TTL": "5" }))
            }
            "/v3/lease/keepalive" => {
                let id = text("ID");
                let found = id.parse().ok().and_then(|id: i64| leases.get_mut(&id));
                let is_there = found.map(|ends| *ends = now.after(LEASE)).is_some();
                let result = if is_there { json!({ "ID": id, "TTL": "5" }) } else { json!({}) };
                Ok(json!({ "result": result }))
            }
            "/v3/kv/put" if leases.contains_key(&lease) => {
                keys.insert(text("key"), (text("value"), lease));
                Ok(json!({ "header": {} }))
            }
            "/v3/kv/put" => Err(404),
            "/v3/kv/range" => {
                let pair = |(key, (value, _)): (&String, &(String, i64))| json!({ "key": key, "value": value });
                Ok(json!({ "header": {}, "kvs": keys.iter().map(pair).collect::<Vec<_>>() }))
            }
            _ => Err(404),
        }
    }
}

impl Service for Etcd {
    fn admit(&self, _head: &RequestHead, _peer: SocketAddr) -> Admission {
        Admission::Body { max_bytes: 1 << 20, account: None }
    }

    async fn call(&self, request: Request) -> Response {
        let token = request.head.header("authorization").map(str::to_owned);
        let (body, _) = request.body.into_parts();
        let asked = serde_json::from_slice(&body).expect("JSON");
        match self.answer(&request.head.path, token.as_deref(), &asked) {
            Ok(answer) => Response::new(StatusCode::OK).with_body(answer.to_string().into_bytes()),
            Err(status) => {
                let status = StatusCode::from_u16(status).expect("a status");
                Response::text(status, "{\"error\":\"refused\"}")
            }
        }
    }
}

struct World {
    cluster: Cluster,
    etcd: Option<Node>,
    kept: Rc<RefCell<Kept>>,
}

impl World {
    fn new(seed: u64, count: usize) -> World {
        let cluster = Cluster::new(seed, count);
        let mut world = World { cluster, etcd: None, kept: Rc::default() };
        world.start_etcd();
        world
    }

    /// A cluster whose nodes all agree.
    fn joined(seed: u64, count: usize) -> World {
        let mut world = World::new(seed, count);
        (0..count).for_each(|place| world.start(place, ""));
        world.cluster.await_agreement(SECOND * 5);
        // The first reading of the keys is as one after an outage.
        world.cluster.simulation.run_for(GRACE);
        world
    }

    /// Starts etcd. What had a lease gets a whole one, as in the real one.
    fn start_etcd(&mut self) {
        let (kept, listens) = (Rc::clone(&self.kept), Rc::new(Cell::new(false)));
        let now = self.cluster.simulation.now();
        {
            let mut kept = kept.borrow_mut();
            kept.token += 1;
            kept.leases.values_mut().for_each(|ends| *ends = now.after(LEASE));
        }
        let says_so = Rc::clone(&listens);
        let node = self.cluster.simulation.start_node(1, move |runtime| {
            let (kept, says_so) = (Rc::clone(&kept), Rc::clone(&says_so));
            async move {
                let listener = runtime.listen(address()).expect("it listens");
                says_so.set(true);
                let service = Rc::new(Etcd { runtime: runtime.clone(), kept });
                let config = Rc::new(ServerConfig::new(Budget::new("bodies", 8 << 20)));
                serve(runtime, listener, service, config, Latch::new()).await;
            }
        });
        self.cluster.simulation.run_until(|| listens.get()).expect("etcd listens");
        self.etcd = Some(node);
    }

    fn stop_etcd(&mut self) {
        self.etcd.take().expect("etcd runs").crash();
    }

    /// Starts a node, which shows a password if there is one.
    fn start(&mut self, place: usize, password: &'static str) {
        self.cluster.start_by(place, settings(place), async move |runtime, settings, vitals| {
            let name = if password.is_empty() { "" } else { USER.0 };
            let settings = EtcdSettings {
                // Nobody is at the first one.
                endpoints: vec!["10.0.8.7:2379".to_owned(), address().to_string()],
                prefix: "collectors/".to_owned(),
                dial_timeout: SECOND * 10,
                is_secure: false,
                username: name.to_owned(),
                password: password.to_owned(),
                heartbeat_timeout: settings.heartbeat_timeout,
            };
            let at = SocketAddr::new(ip(place), 9095);
            let dialer = PlainDialer::new(runtime.clone());
            Ok(etcd::start(&runtime, &settings, vitals, at, dialer).expect("good settings"))
        });
    }
}

#[test]
fn nodes_live_and_die_by_their_keys() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut world = World::joined(seed, 5);
        world.cluster.on(1, |membership| async move {
            membership.change(Change::MapNumber(7)).await;
            membership.change(Change::State(State::Active)).await;
        });
        world.cluster.await_that(SECOND * 3, "all know the change", |cluster| {
            let is_new = |place| cluster.members(place).list[1].vitals.map_number == 7;
            (0..5).all(is_new) && cluster.agrees()
        });
        world.cluster.kill(3);
        let know = |cluster: &Cluster| {
            let mut running = cluster.running().into_iter();
            running.all(|place| cluster.standing(place, 3) == Some(Standing::Dead))
        };
        world.cluster.await_that(LEASE + SECOND * 2, "all know", know);
        world.start(3, "");
        world.cluster.await_agreement(SECOND * 3);
        world.cluster.leave(2);
        world.cluster.await_that(SECOND * 2, "it is gone", |cluster| {
            cluster.running().iter().all(|place| cluster.standing(*place, 2).is_none())
        });
        for _ in 0..30 {
            world.cluster.run_for(1);
            assert!(world.cluster.agrees(), "{}", world.cluster.describe());
        }
    }
}

#[test]
fn nobody_is_dead_while_etcd_is_away_nor_when_it_is_back() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut world = World::joined(seed, 4);
        if seed % 2 == 0 {
            world.stop_etcd();
        } else {
            world.kept.borrow_mut().answers_nonsense = true;
        }
        let blind =
            |cluster: &Cluster| [0, 1, 2, 3].map(|place| cluster.membership(place).is_blind());
        assert_eq!(blind(&world.cluster), [false; 4]);
        for _ in 0..60 {
            world.cluster.run_for(1);
            assert!(world.cluster.agrees(), "{}", world.cluster.describe());
        }
        assert_eq!(blind(&world.cluster), [true; 4]);
        if seed % 2 == 0 {
            // Somebody has lost what it had.
            if seed % 4 == 0 {
                *world.kept.borrow_mut() = Kept::default();
            }
            world.start_etcd();
        } else {
            world.kept.borrow_mut().answers_nonsense = false;
        }
        for _ in 0..30 {
            world.cluster.run_for(1);
            assert!(world.cluster.agrees(), "{}", world.cluster.describe());
        }
        assert_eq!(blind(&world.cluster), [false; 4]);
        // It is noticed again who dies.
        world.cluster.kill(1);
        world.cluster.await_that(LEASE + SECOND * 2, "all know", |cluster| {
            let mut running = cluster.running().into_iter();
            running.all(|place| cluster.standing(place, 1) == Some(Standing::Dead))
        });
    }
}

#[test]
fn who_does_not_reach_etcd_keeps_its_list_and_comes_back() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let world = World::joined(seed, 4);
        let (etcd, cluster) = (world.etcd.as_ref().expect("etcd runs"), &world.cluster);
        cluster.simulation.cut(etcd, cluster.node(2));
        cluster.simulation.cut(cluster.node(2), etcd);
        cluster.await_that(LEASE + SECOND * 2, "others know", |cluster| {
            [0, 1, 3].iter().all(|place| cluster.standing(*place, 2) == Some(Standing::Dead))
        });
        cluster.run_for(20);
        assert!(cluster.sees(2, &[0, 1, 2, 3]), "{}", cluster.describe());
        cluster.simulation.heal();
        cluster.await_agreement(SECOND * 10);
    }
}

#[test]
fn a_node_waits_for_etcd_and_shows_who_it_is() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut world = World::new(seed, 3);
        world.kept.borrow_mut().has_users = true;
        world.stop_etcd();
        world.start(0, USER.1);
        world.start(1, USER.1);
        world.start(2, "wrong");
        let joined = [0, 1, 2].map(|_| Rc::new(Cell::new(false)));
        for (place, has_joined) in joined.iter().enumerate() {
            let says_so = Rc::clone(has_joined);
            world.cluster.on(place, |membership| async move {
                says_so.set(membership.joined().await.is_ok());
            });
        }
        world.cluster.run_for(30);
        assert!(joined.iter().all(|has_joined| !has_joined.get()), "nobody has answered");
        world.start_etcd();
        let both = |cluster: &Cluster| [0, 1].iter().all(|place| cluster.sees(*place, &[0, 1]));
        world.cluster.await_that(SECOND * 10, "both see each other", both);
        // Tokens are not good any more.
        world.stop_etcd();
        world.start_etcd();
        for _ in 0..20 {
            world.cluster.run_for(1);
            assert!(both(&world.cluster), "{}", world.cluster.describe());
        }
        let have = joined.map(|has_joined| has_joined.get());
        assert_eq!(have, [true, true, false]);
        assert!(world.cluster.sees(2, &[2]));
    }
}

#[test]
fn a_key_that_somebody_removes_is_written_again() {
    let world = World::joined(1, 3);
    world.kept.borrow_mut().keys.clear();
    world.cluster.run_for(3);
    assert_eq!(world.kept.borrow().keys.len(), 3);
    world.cluster.await_agreement(SECOND * 3);
}

#[test]
fn the_dead_are_forgotten_everywhere_when_somebody_asks() {
    let mut world = World::joined(1, 3);
    world.cluster.kill(2);
    world.cluster.run_for(8);
    assert_eq!(world.cluster.standing(1, 2), Some(Standing::Dead));
    world.cluster.on(0, |membership| async move {
        membership.forget("node-2").await.expect("it is dead");
    });
    world.cluster.await_that(SECOND * 3, "all have forgotten it", |cluster| {
        [0, 1].iter().all(|place| cluster.standing(*place, 2).is_none())
    });
    world.cluster.run_for(30);
    assert_eq!(world.cluster.standing(1, 2), None, "nobody brings it back");
}
