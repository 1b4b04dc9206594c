//! Requests for deletion on several nodes: what is hidden, and what leaves the bucket.

use logsvc_shards::check::find_in_bucket;
use logsvc_store::Store;
use logsvc_store::folder::FolderBucket;

use super::*;

const DELETE: &str =
    "/loki/api/v1/delete?query=%7Bapp%3D%22a%22%2C%20n%3D%223%22%7D&start=1600000000";

/// All nodes show so many lines, and list one request for deletion.
async fn all_show(runtime: SimRuntime, nodes: Vec<usize>, count: usize) -> Value {
    let mut listed = Value::Null;
    for node in nodes {
        assert_eq!(found(&runtime, node).await.len(), count, "node {node}");
        let list = get(&runtime, node, "/loki/api/v1/delete").await;
        assert!(listed.is_null() || listed == list, "{listed} {list}");
        listed = list;
    }
    listed
}

async fn told(runtime: &SimRuntime, node: usize, method: &str, target: &str) -> u16 {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    let (status, text) = http(runtime, address, method, target, "").await.expect("an answer");
    assert!((200..300).contains(&status) || status == 404, "{status}: {text}");
    status
}

#[test]
fn requests_for_deletion_hide_entries_on_all_nodes() {
    let _guard = SeedGuard(5);
    let mut world = World::new(5);
    world.start(0, 2);
    world.client(async |runtime| push(&runtime, 0, 0..10).await);
    world.start(1, 1);
    world.start(2, 2);
    world.run_for(Duration::from_secs(10));
    world.client(async |runtime| {
        // Whichever node is asked, all hide the same from the answer on.
        assert_eq!(told(&runtime, 1, "POST", DELETE).await, 204);
        let listed = all_show(runtime.clone(), vec![0, 1, 2], 190).await;
        assert_eq!(listed[0]["status"], "received");
        let id = listed[0]["request_id"].as_str().expect("an id").to_owned();
        let cancel = format!("/loki/api/v1/delete?request_id={id}");
        assert_eq!(told(&runtime, 2, "DELETE", &cancel).await, 204);
        let listed = all_show(runtime.clone(), vec![0, 1, 2], 200).await;
        assert_eq!(listed, json!([]));
        assert_eq!(told(&runtime, 0, "DELETE", &cancel).await, 404);
        assert_eq!(told(&runtime, 0, "POST", DELETE).await, 204);
        all_show(runtime, vec![2, 1, 0], 190).await;
    });
    let mut others: Vec<usize> = vec![0, 1, 2];
    // The keeper dies with its disk, and the next one is stopped in order.
    let first = keeper(&world);
    world.kill(first);
    others.retain(|node| *node != first);
    let nodes = others.clone();
    let listed = world.client(async move |runtime| all_show(runtime, nodes, 190).await);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let second = keeper(&world);
    assert!(world.stop(second));
    others.retain(|node| *node != second);
    let last = others[0];
    world.start(3, 1);
    world.run_for(Duration::from_secs(10));
    world.client(async move |runtime| {
        assert_eq!(all_show(runtime.clone(), vec![last, 3], 190).await, listed);
        // What comes later shows, and other requests are added to what others have made.
        push(&runtime, 3, 10..12).await;
        let other = DELETE.replace("%223%22", "%227%22");
        assert_eq!(told(&runtime, 3, "PUT", &other).await, 204);
        let listed = all_show(runtime, vec![last, 3], 190 + 40 - 12).await;
        assert_eq!(listed.as_array().map(Vec::len), Some(2));
    });
}

const SECRET: &str = "topsecret-4711";

/// Pushes lines of a stream, every third of which has the secret.
async fn push_secrets(runtime: &SimRuntime, node: usize, name: &str) {
    let now_ns = runtime.unix_nanos();
    let values: Vec<Value> = (0..60)
        .map(|number| {
            let line = if number % 3 == 0 { SECRET } else { "nothing" };
            json!([(now_ns + number).to_string(), format!("{line} {number}")])
        })
        .collect();
    let body = json!({"streams": [{"stream": {"app": "s", "n": name}, "values": values}]});
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    for _ in 0..100 {
        let pushed = http(runtime, address, "POST", "/loki/api/v1/push", &body.to_string()).await;
        if matches!(pushed, Ok((204, _))) {
            return;
        }
        runtime.sleep_until(runtime.now().after(Duration::from_millis(200))).await;
    }
    panic!("node {node} takes nothing");
}

async fn count_of(runtime: &SimRuntime, node: usize) -> u64 {
    let query = "sum(count_over_time(%7Bapp%3D%22s%22%7D%5B6h%5D))";
    let answer = get(runtime, node, &format!("/loki/api/v1/query?query={query}")).await;
    let value = answer["data"]["result"][0]["value"][1].as_str().map(str::parse);
    value.map_or(0, |count| count.expect("a number"))
}

/// How many objects of the bucket have the secret, but for the one with the text of the request.
fn places(world: &World) -> Vec<String> {
    let found = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&found);
    let process = world.simulation.start_node_on(&world.disk, 1, move |runtime| {
        let slot = Rc::clone(&slot);
        async move {
            let bucket = FolderBucket::open(runtime.clone(), "/bucket".as_ref()).await;
            let store = Store::new(runtime.clone(), Box::new(bucket.expect("the folder")));
            let mut told = Vec::new();
            let report =
                find_in_bucket(&runtime, &store, SECRET.as_bytes(), |line| told.push(line));
            report.await.expect("a healthy bucket");
            *slot.borrow_mut() = Some(told);
        }
    });
    let run = world.simulation.run_until(|| found.borrow().is_some());
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    drop(process);
    let mut told = found.take().expect("it has ended");
    told.retain(|line| !line.contains("/files/"));
    told
}

/// Lines that a request deletes are in no object of the bucket once it is processed: not in segments that
/// several nodes have had, nor in write-ahead logs of nodes that have died. Others are there.
#[test]
fn deleted_lines_leave_the_bucket() {
    let _guard = SeedGuard(6);
    let mut world = World::new(6);
    world.removal = Duration::from_secs(40);
    world.start(0, 2);
    world.client(async |runtime| {
        for stream in 0..16 {
            push_secrets(&runtime, 0, &format!("a{stream}")).await;
        }
    });
    world.start(1, 1);
    world.start(2, 2);
    world.run_for(Duration::from_secs(10));
    world.client(async |runtime| {
        for stream in 0..16 {
            push_secrets(&runtime, 1, &format!("b{stream}")).await;
        }
    });
    world.kill(2);
    world.client(async |runtime| assert_eq!(count_of(&runtime, 1).await, 32 * 60));
    assert!(!places(&world).is_empty());
    let target = format!(
        "/loki/api/v1/delete?query=%7Bapp%3D%22s%22%7D%20%7C%3D%20%22{SECRET}%22&start=1600000000"
    );
    world.client(async move |runtime| {
        assert_eq!(told(&runtime, 0, "POST", &target).await, 204);
        assert_eq!(count_of(&runtime, 1).await, 32 * 40);
    });
    // Partitions go to another node while entries are removed.
    world.run_for(Duration::from_secs(45));
    world.start(3, 1);
    let mut status = String::new();
    for _ in 0..60 {
        world.run_for(Duration::from_secs(20));
        status = world.client(async |runtime| {
            let listed = get(&runtime, 3, "/loki/api/v1/delete").await;
            assert_eq!(count_of(&runtime, 0).await, 32 * 40);
            listed[0]["status"].as_str().expect("a status").to_owned()
        });
        if status == "processed" {
            break;
        }
    }
    assert_eq!(status, "processed");
    assert_eq!(places(&world), Vec::<String>::new());
    world.client(async |runtime| {
        for node in [0, 1, 3] {
            assert_eq!(count_of(&runtime, node).await, 32 * 40);
        }
        // What was deleted may be loaded anew.
        push_secrets(&runtime, 1, "c").await;
        assert_eq!(count_of(&runtime, 0).await, 32 * 40 + 60);
    });
}

/// Old entries of the log of common files go, and whoever comes later finds the newest one.
#[test]
fn the_log_of_common_files_stays_short() {
    let _guard = SeedGuard(7);
    let mut world = World::new(7);
    world.removal = Duration::from_secs(3600);
    world.start(0, 1);
    world.start(1, 1);
    world.run_for(Duration::from_secs(10));
    let create = async |runtime: &SimRuntime, node: usize, range: std::ops::Range<u64>| {
        for number in range {
            let target = DELETE.replace("%223%22", &format!("%22x{number}%22"));
            assert_eq!(told(runtime, node, "POST", &target).await, 204);
        }
    };
    world.client(async move |runtime| create(&runtime, 1, 0..100).await);
    let entries = |world: &World| world.disk.files("/bucket/common").len();
    assert_eq!(entries(&world), 100);
    // A node that stands still meanwhile knows an entry behind which there is a hole.
    world.nodes[&1].process.stop();
    world.run_for(Duration::from_secs(3));
    world.client(async move |runtime| create(&runtime, 0, 100..200).await);
    world.run_for(Duration::from_secs(2 * 3600));
    // By the clock of the store nothing is old before something is new.
    world.client(async move |runtime| create(&runtime, 0, 200..201).await);
    world.run_for(Duration::from_secs(2 * 3600));
    assert!((60..=70).contains(&entries(&world)), "{}", entries(&world));
    world.kill(1);
    world.start(2, 1);
    world.run_for(Duration::from_secs(10));
    let listed = async |runtime: SimRuntime| {
        let list = get(&runtime, 2, "/loki/api/v1/delete").await;
        list.as_array().map(Vec::len)
    };
    assert_eq!(world.client(listed), Some(201));
    world.kill(0);
    assert_eq!(world.client(listed), Some(201));
}
