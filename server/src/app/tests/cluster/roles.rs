//! Nodes with roles: what each of them owns, shows and answers.

use super::*;

const WRITE: Parts = targets::parts(&[Part::Distributor, Part::Ingester]);
pub(super) const READ: Parts = targets::parts(&[Part::Querier, Part::QueryFrontend]);

impl World {
    fn start_as(&mut self, node: usize, parts: Parts, cores: u16) {
        self.parts = parts;
        if parts.has(Part::Ingester) {
            self.start(node, cores);
        } else {
            self.start_at_last(node, cores);
        }
    }

    fn owns(&self, node: usize) -> usize {
        owned(&self.nodes[&node].state)
    }
}

async fn status_of(runtime: &SimRuntime, node: usize, method: &str, target: &str) -> (u16, String) {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    http(runtime, address, method, target, "").await.expect("an answer")
}

const NO_OWNER: &str = "too many unhealthy instances in the ring: ";
const QUERY: &str = "/loki/api/v1/query_range?query=%7Bapp%3D%22a%22%7D";
const DELETE: &str =
    "/loki/api/v1/delete?query=%7Bapp%3D%22a%22%2C%20n%3D%223%22%7D&start=1600000000";

async fn is_unknown(runtime: &SimRuntime, node: usize, paths: &[(&str, &str)]) {
    for (method, target) in paths {
        let answer = status_of(runtime, node, method, target).await;
        assert_eq!(answer, (404, "404 page not found\n".to_owned()), "{method} {target}");
    }
}

#[test]
fn readers_see_what_writers_take_and_own_nothing() {
    let _guard = SeedGuard(11);
    let mut world = World::new(11);
    world.start_as(0, WRITE, 2);
    world.start_as(1, WRITE, 1);
    world.start_as(2, READ, 2);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.shares(), [8, 8, 0]);
    world.client(async |runtime| {
        push(&runtime, 0, 0..10).await;
        push(&runtime, 1, 10..20).await;
        all_are_there(runtime.clone(), vec![2], 20).await;
        let labels = get(&runtime, 2, "/loki/api/v1/labels").await;
        assert_eq!(labels["data"], json!(["app", "n", "service_name"]));
        // A reader takes no pushes, and a writer answers no queries.
        let push = ("POST", "/loki/api/v1/push");
        is_unknown(&runtime, 2, &[push, ("GET", "/loki/api/v1/push"), ("POST", "/flush")]).await;
        is_unknown(&runtime, 2, &[("GET", "/loki/api/v1/rules"), ("POST", DELETE)]).await;
        let queries = [("GET", QUERY), ("GET", "/loki/api/v1/labels"), ("GET", "/ui/")];
        is_unknown(&runtime, 0, &queries).await;
        is_unknown(&runtime, 0, &[("GET", "/loki/api/v1/tail"), ("GET", DELETE)]).await;
        for (node, services) in [
            (
                0,
                "server => Running\nstore => Running\ningester => Running\ndistributor => Running\n\
                 runtime-config => Running\n",
            ),
            (
                2,
                "server => Running\nstore => Running\nquerier => Running\n\
                 query-frontend => Running\nruntime-config => Running\n",
            ),
        ] {
            let shown = status_of(&runtime, node, "GET", "/services").await;
            assert_eq!(shown, (200, services.to_owned()));
            let ready = status_of(&runtime, node, "GET", "/ready").await;
            assert_eq!(ready, (200, "ready\n".to_owned()));
            for path in ["/metrics", "/config", "/memberlist", "/", "/health", "/log_level"] {
                assert_eq!(status_of(&runtime, node, "GET", path).await.0, 200, "{path}");
            }
        }
    });
    // All writers are gone for a while; the last one leaves in order.
    world.kill(0);
    world.client(async |runtime| all_are_there(runtime, vec![2], 20).await);
    assert!(world.stop(1));
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.owns(2), 0);
    world.client(async |runtime| {
        assert_eq!(status_of(&runtime, 2, "GET", "/ready").await.0, 200);
        let (status, text) = status_of(&runtime, 2, "GET", QUERY).await;
        assert!(status == 503 && text.starts_with(NO_OWNER), "{status} {text}");
    });
    world.start_as(3, WRITE, 1);
    world.client(async |runtime| {
        push(&runtime, 3, 20..30).await;
        all_are_there(runtime, vec![2], 30).await;
    });
    assert_eq!((world.owns(2), world.owns(3)), (0, usize::from(PARTITIONS)));
    assert!(world.stop(2) && world.stop(3));
}

#[test]
fn a_reader_that_is_first_waits_for_a_writer() {
    let _guard = SeedGuard(12);
    let mut world = World::new(12);
    world.start_as(0, READ, 1);
    world.run_for(Duration::from_secs(30));
    world.client(async |runtime| {
        let (status, text) = status_of(&runtime, 0, "GET", "/ready").await;
        assert!(status == 503 && text.starts_with("Query Frontend not ready: "), "{text}");
    });
    assert_eq!(world.owns(0), 0);
    world.start_as(1, WRITE, 1);
    world.run_for(Duration::from_secs(5));
    world.client(async |runtime| {
        assert_eq!(status_of(&runtime, 0, "GET", "/ready").await.0, 200);
        push(&runtime, 1, 0..10).await;
        all_are_there(runtime, vec![0], 10).await;
    });
    assert_eq!((world.owns(0), world.owns(1)), (0, usize::from(PARTITIONS)));
}

/// The owner of partition 0 has no part of a compactor, and does what one does.
#[test]
fn parts_that_own_nothing_pass_requests_on() {
    let _guard = SeedGuard(13);
    let mut world = World::new(13);
    world.start_as(0, targets::parts(&[Part::Ingester]), 1);
    world.start_as(1, targets::parts(&[Part::Distributor]), 1);
    world.start_as(2, targets::parts(&[Part::Compactor, Part::Ruler]), 1);
    world.start_as(3, targets::parts(&[Part::Querier]), 1);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.shares(), [usize::from(PARTITIONS), 0, 0, 0]);
    world.client(async |runtime| {
        push(&runtime, 1, 0..10).await;
        all_are_there(runtime.clone(), vec![3], 10).await;
        is_unknown(&runtime, 0, &[("POST", "/loki/api/v1/push"), ("POST", DELETE)]).await;
        assert_eq!(status_of(&runtime, 2, "POST", DELETE).await.0, 204);
        let listed = get(&runtime, 2, "/loki/api/v1/delete").await;
        assert_eq!(listed.as_array().map(Vec::len), Some(1));
        assert_eq!(found(&runtime, 3).await.len(), 190);
        let (status, text) = status_of(&runtime, 2, "GET", "/services").await;
        assert!(status == 200 && text.contains("compactor => Running\n"), "{text}");
        for node in 0..4 {
            assert_eq!(status_of(&runtime, node, "GET", "/ready").await.0, 200);
        }
    });
    // Nobody takes entries any more.
    world.kill(0);
    world.client(async |runtime| {
        let begun = runtime.now();
        let values = json!([[runtime.unix_nanos().to_string(), "x"]]);
        let body = json!({"streams": [{"stream": {"app": "b"}, "values": values}]});
        let address = SocketAddr::new(ip(1), HTTP_PORT);
        let pushed = http(&runtime, address, "POST", "/loki/api/v1/push", &body.to_string()).await;
        let (status, text) = pushed.expect("an answer");
        assert!(status == 503 && text.starts_with(NO_OWNER), "{status} {text}");
        let took = runtime.now().since(begun).as_secs();
        assert!((10..15).contains(&took), "{took}");
    });
}
