//! Nodes find each other.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use logsvc_membership::engine::Change;
use logsvc_membership::members::Standing;
use logsvc_membership::vitals::State;
use logsvc_runtime::sim::SimRuntime;
use logsvc_runtime::{Listener, Monotonic, Reader, Runtime, Writer};
use logsvc_testkit::{SeedGuard, seeds};
use simple_dns::rdata::{RData, SRV};
use simple_dns::{CLASS, Name, Packet, ResourceRecord};

use crate::nodes::{Cluster, Figures, SEED_HOST, ip, joining, settings};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn all_find_each_other_through_one() {
    let mut figures = Figures::default();
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let count = 5 + seed as usize % 3;
        let mut cluster = Cluster::new(seed, count);
        (0..count).for_each(|place| cluster.start(place));
        figures.add(cluster.await_agreement(SECOND * 5));
        assert_eq!(cluster.members(0).writers(), (0..count as u32).map(|n| n * 10).collect());
        let last = cluster.members(count - 1);
        assert_eq!(last.named("node-0").count(), 1);
        assert!(last.list.is_sorted_by_key(|member| member.identity.address));
    }
    figures.print("5 to 7 nodes start at once, all agree");
}

#[test]
fn the_one_may_come_last() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::new(seed, 5);
        (1..5).for_each(|place| cluster.start(place));
        cluster.run_for(20);
        assert!(cluster.sees(1, &[1]), "there is nobody to ask");
        cluster.start(0);
        // The longest pause is a minute.
        cluster.await_agreement(SECOND * 63);
    }
}

/// What the first attempts of a node to join have come to.
fn outcome(cluster: &Cluster, place: usize) -> Rc<Cell<Option<bool>>> {
    let outcome = Rc::new(Cell::new(None));
    let told = Rc::clone(&outcome);
    cluster.on(place, |membership| async move {
        told.set(Some(membership.joined().await.is_ok()));
    });
    outcome
}

#[test]
fn a_start_may_fail_and_attempts_go_on() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::new(seed, 2);
        let mut few = settings(1);
        few.join.max_join_retries = 3;
        cluster.start_with(1, few);
        let joined = outcome(&cluster, 1);
        // Pauses of one and two seconds.
        cluster.simulation.run_for(SECOND * 2);
        assert_eq!(joined.get(), None);
        cluster.simulation.run_for(SECOND * 2);
        assert_eq!(joined.get(), Some(false));
        cluster.start(0);
        cluster.await_agreement(SECOND * 61);
        assert_eq!(
            outcome_now(&cluster, 0),
            Some(true),
            "a node that finds itself alone has joined"
        );
    }
}

fn outcome_now(cluster: &Cluster, place: usize) -> Option<bool> {
    let outcome = outcome(cluster, place);
    cluster.simulation.run_for(SECOND);
    outcome.get()
}

#[test]
fn names_are_looked_up_again_and_a_slow_answer_is_given_up() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::new(seed, 3);
        let nobody: IpAddr = [10, 0, 0, 99].into();
        cluster.simulation.set_host(SEED_HOST, Ok(vec![nobody]), Duration::ZERO);
        let names = ["dns+slow.example:7946", "dns+seed.example:7946"];
        cluster.simulation.set_host("slow.example", Ok(vec![ip(0)]), SECOND * 100);
        for place in 0..3 {
            let join_members = names.map(str::to_owned).to_vec();
            cluster.start_with(place, joining(place, join_members));
        }
        cluster.run_for(10);
        assert!(cluster.sees(1, &[1]));
        cluster.simulation.set_host(SEED_HOST, Ok(vec![nobody, ip(2)]), Duration::ZERO);
        cluster.await_agreement(SECOND * 40);
    }
}

/// A name server that knows one service: the first two places.
async fn serve_names(runtime: SimRuntime) {
    let listener = runtime.listen(SocketAddr::from(([10, 0, 0, 53], 53))).expect("listens");
    while let Ok((mut reader, mut writer, _)) = listener.accept().await {
        let mut query = Vec::new();
        while query.len() < 2
            || query.len() < 2 + usize::from(query[0]) * 256 + usize::from(query[1])
        {
            let (result, piece) = reader.read(Vec::with_capacity(512), Monotonic::NEVER).await;
            assert!(result.expect("a query") > 0);
            query.extend(piece);
        }
        let query = Packet::parse(&query[2..]).expect("a query");
        let mut reply = Packet::new_reply(query.id());
        reply.questions = query.questions.clone();
        for host in ["a.example", "b.example"] {
            let target = Name::new(host).expect("a name");
            let srv = SRV { priority: 1, weight: 1, port: 7946, target };
            let name = query.questions[0].qname.clone();
            reply.answers.push(ResourceRecord::new(name, CLASS::IN, 30, RData::SRV(srv)));
        }
        let message = reply.build_bytes_vec().expect("it fits");
        let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        writer.write_all(framed, Monotonic::NEVER).await.0.expect("it is taken");
    }
}

#[test]
fn a_service_names_members_too() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::new(seed, 4);
        cluster.simulation.disk().write("/etc/resolv.conf", b"nameserver 10.0.0.53\n");
        cluster.simulation.set_host("a.example", Ok(vec![ip(0)]), Duration::ZERO);
        cluster.simulation.set_host("b.example", Ok(vec![ip(1)]), Duration::ZERO);
        cluster.simulation.start_node(1, serve_names);
        cluster.run_for(1);
        for place in 0..4 {
            let join_members = vec!["dnssrv+_gossip._tcp.logs.example".to_owned()];
            cluster.start_with(place, joining(place, join_members));
        }
        cluster.await_agreement(SECOND * 5);
    }
}

#[test]
fn what_a_member_tells_comes_to_all() {
    let mut figures = Figures::default();
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 6);
        let seen = cluster.members(5).version;
        let woken = Rc::new(Cell::new(false));
        let wakes = Rc::clone(&woken);
        cluster.on(5, |membership| async move {
            let mut members = membership.changed(seen).await;
            while members.named("node-2").all(|member| member.vitals.map_number != 7) {
                members = membership.changed(members.version).await;
            }
            wakes.set(true);
        });
        cluster.on(2, |membership| async move {
            membership.change(Change::State(State::Active)).await;
            membership.change(Change::MapNumber(7)).await;
            membership.change(Change::WriterEpoch(Some(99))).await;
        });
        let knows = |cluster: &Cluster| {
            (0..6).all(|place| {
                let members = cluster.members(place);
                let writers = members.writers();
                let all = members.named("node-2").all(|member| {
                    (member.vitals.state, member.vitals.map_number) == (State::Active, 7)
                });
                all && writers.contains(&99) && !writers.contains(&20)
            })
        };
        figures.add(cluster.await_that(SECOND * 5, "the news are everywhere", knows));
        assert!(woken.get(), "who waits for a change is woken");
    }
    figures.print("a change is known to 6 nodes");
}

#[test]
fn two_clusters_become_one() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::new(seed, 6);
        for place in 0..6 {
            let first = if place < 3 { 0 } else { 3 };
            let join_members = vec![ip(first).to_string()];
            cluster.start_with(place, joining(place, join_members));
        }
        cluster.run_for(10);
        assert!(cluster.sees(1, &[0, 1, 2]) && cluster.sees(5, &[3, 4, 5]));
        let join_members = vec![format!("{}:7946", ip(0)), format!("{}:7946", ip(5))];
        cluster.kill(4);
        cluster.start_with(4, joining(4, join_members));
        cluster.await_agreement(SECOND * 10);
        let none_is_dead = |place: usize| {
            cluster.members(place).list.iter().all(|member| member.standing != Standing::Dead)
        };
        assert!((0..6).all(none_is_dead));
    }
}
