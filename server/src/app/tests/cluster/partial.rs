//! Answers without the partitions of a node that does not answer.

use logsvc_proto::{LabelsBuilder, StreamId};

use super::*;

/// The streams of [`push`] whose partitions a node owns.
fn streams_of(world: &World, node: usize) -> BTreeSet<String> {
    let cluster = world.nodes[&node].state.cluster.as_ref().expect("one of many");
    let routes = cluster.routes().expect("it has joined").get();
    let tenant = TenantId::new("t").expect("a tenant");
    let names = (0..20).map(|stream: u32| stream.to_string()).filter(|name| {
        let mut labels = LabelsBuilder::default();
        labels.set("app", "a").set("n", name).set("service_name", "a");
        let stream = StreamId::new(&tenant, &labels.build().expect("labels"));
        routes.map.owner(stream.shard(PARTITIONS)) == Some(routes.me)
    });
    names.collect()
}

async fn ask(runtime: &SimRuntime, node: usize, target: &str) -> (u16, Value, Duration) {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    let begun = runtime.now();
    let (status, text) = http(runtime, address, "GET", target, "").await.expect("an answer");
    let answer = match status {
        200 => serde_json::from_str(&text).expect("JSON"),
        _ => Value::String(text),
    };
    (status, answer, runtime.now().since(begun))
}

const LINES: &str = "/loki/api/v1/query_range?query=%7Bapp%3D%22a%22%7D&limit=5000";
const COUNT: &str = "/loki/api/v1/query?query=sum(count_over_time(%7Bapp%3D%22a%22%7D%5B1h%5D))";
const WARNING: &str =
    "this answer is partial: 8 of 16 partitions are missing (no answer from node-1)";

/// Two nodes with some lines, and a third one without partitions that does not reach the second one.
fn world_of_a_reader(seed: u64, limits: fn(&mut Limits)) -> World {
    let mut world = World::new(seed);
    world.limits = limits;
    world.start(0, 2);
    world.start(1, 1);
    world.parts = roles::READ;
    world.start_at_last(2, 2);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.shares(), [8, 8, 0]);
    world.client(async |runtime| {
        push(&runtime, 0, 0..10).await;
        all_are_there(runtime, vec![2], 10).await;
    });
    let (reader, owner) = (&world.nodes[&2].process, &world.nodes[&1].process);
    world.simulation.cut(reader, owner);
    world.simulation.cut(owner, reader);
    world
}

#[test]
fn a_part_is_an_answer_for_who_takes_it() {
    let _guard = SeedGuard(31);
    let world = world_of_a_reader(31, |_| ());
    let here = streams_of(&world, 0);
    assert!((1..20).contains(&here.len()), "{here:?}");
    world.client(async move |runtime| {
        let (status, text, took) = ask(&runtime, 2, LINES).await;
        let text = text.as_str().expect("a text");
        let begin = "too many unhealthy instances in the ring: ";
        assert!(status == 503 && text.starts_with(begin), "{status} {text}");
        assert!((29..35).contains(&took.as_secs()), "{took:?}");
        let (status, answer, took) = ask(&runtime, 2, &format!("{LINES}&partial=true")).await;
        assert_eq!((status, &answer["warnings"]), (200, &json!([WARNING])), "{answer}");
        assert!((10..15).contains(&took.as_secs()), "{took:?}");
        let found = lines(&answer);
        let expected: BTreeSet<_> = here
            .iter()
            .flat_map(|name| (0..10).map(move |number| (name.clone(), number)))
            .collect();
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        let (status, answer, _) = ask(&runtime, 2, &format!("{COUNT}&partial=true")).await;
        let warning = format!("{WARNING}; values may be too low");
        assert_eq!((status, &answer["warnings"]), (200, &json!([warning])), "{answer}");
        let count = (10 * here.len()).to_string();
        assert_eq!(answer["data"]["result"][0]["value"][1], count);
        let volume =
            "/loki/api/v1/index/volume?query=%7Bapp%3D%22a%22%7D&targetLabels=n&partial=true";
        let (status, answer, _) = ask(&runtime, 2, volume).await;
        let warning = format!("{WARNING}; values may be too low");
        assert_eq!((status, &answer["warnings"]), (200, &json!([warning])), "{answer}");
        assert_eq!(answer["data"]["result"].as_array().map(Vec::len), Some(here.len()));
        let labels = "/loki/api/v1/label/n/values?partial=true";
        let series = "/loki/api/v1/series?match[]=%7Bapp%3D%22a%22%7D&partial=true";
        for target in [labels, series] {
            let (status, answer, _) = ask(&runtime, 2, target).await;
            assert_eq!((status, &answer["warnings"]), (200, &json!([WARNING])), "{answer}");
            assert_eq!(answer["data"].as_array().map(Vec::len), Some(here.len()));
        }
        let (status, text, _) = ask(&runtime, 2, &format!("{LINES}&partial=maybe")).await;
        assert_eq!((status, text), (400, json!("partial is true or false, and not maybe")));
    });
    // A part is not kept, and is not given to who may have all.
    world.simulation.heal();
    world.client(async |runtime| {
        for target in [LINES.to_owned(), format!("{LINES}&partial=true")] {
            let (status, answer, _) = ask(&runtime, 2, &target).await;
            assert_eq!((status, &answer["warnings"]), (200, &Value::Null));
            assert_eq!(lines(&answer).len(), 200);
        }
    });
}

#[test]
fn a_request_has_its_way_whatever_the_limit_of_its_tenant_says() {
    let _guard = SeedGuard(32);
    let world = world_of_a_reader(32, |limits| limits.allow_partial_answers = true);
    world.client(async |runtime| {
        let (status, answer, _) = ask(&runtime, 2, LINES).await;
        assert_eq!((status, &answer["warnings"]), (200, &json!([WARNING])), "{answer}");
        let (status, _, took) = ask(&runtime, 2, &format!("{LINES}&partial=false")).await;
        assert_eq!(status, 503);
        assert!(took.as_secs() >= 29, "{took:?}");
    });
}
