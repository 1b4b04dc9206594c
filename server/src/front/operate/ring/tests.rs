use std::sync::Arc;

use logsvc_cluster::map::{MemberInfo as Writer, State as Takes};
use logsvc_membership::identity::Identity;
use logsvc_membership::members::Traffic;
use logsvc_membership::vitals::Vitals;

use super::*;
use crate::config::targets;

const SECOND_NS: u64 = 1_000_000_000;
const NOW_NS: i64 = 1_795_226_511_992_463_561;

#[test]
fn rings_of_shards_are_told_to_programs_and_shown_to_people() {
    let member = |id: &str, state| Member {
        id: id.to_owned(),
        state,
        address: "[::1]:3100".to_owned(),
        heartbeat_ns: Some(NOW_NS),
        registered_ns: Some(1_795_225_999_000_000_000),
        share: Some(0.5),
        can_be_forgotten: true,
        ..Member::default()
    };
    let members = vec![member("shard-0", "ACTIVE"), member("shard-1", "JOINING")];
    let mut ring = Ring { members, text: String::new(), now_ns: NOW_NS, shows_tokens: false };
    let expected = concat!(
        r#"{"shards":[{"id":"shard-0","state":"ACTIVE","address":"[::1]:3100","#,
        r#""timestamp":"2026-11-21T02:01:51Z","registered_timestamp":"2026-11-21T01:53:19Z","#,
        r#""read_only_updated_timestamp":"0001-01-01T00:00:00Z","zone":"","read_only":false,"#,
        r#""tokens":[]},{"id":"shard-1","state":"JOINING","address":"[::1]:3100","#,
        r#""timestamp":"2026-11-21T02:01:51Z","registered_timestamp":"2026-11-21T01:53:19Z","#,
        r#""read_only_updated_timestamp":"0001-01-01T00:00:00Z","zone":"","read_only":false,"#,
        r#""tokens":[]}],"now":"2026-11-21T02:01:51.992463561Z"}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(ring.json()).expect("UTF-8"), expected);
    let page = ring.html();
    for part in
        ["<title>Ring Status</title>", "<td>shard-1</td><td></td><td>JOINING</td>", "50.00%"]
    {
        assert!(page.contains(part), "{part}\n{page}");
    }
    ring.members.clear();
    assert!(ring.json().starts_with(b"{\"shards\":null,"));
}

/// Three nodes that gossip knows, of which the last one is dead, and a writer that it does not know.
fn seen<T>(show: impl FnOnce(&Seen<'_>) -> T) -> T {
    let of = |number: u8, standing| {
        let address = ([10, 0, 0, number], 7946).into();
        MemberInfo {
            identity: Identity { address, generation: 1, chance: 1 },
            incarnation: 0,
            standing,
            since: Monotonic(SECOND_NS),
            last_news: Monotonic(3 * SECOND_NS),
            vitals: Vitals {
                zone: "z<1".to_owned(),
                state: Vital::Active,
                roles: targets::of("write", false),
                transport: Some(([10, 0, 0, number], 9095).into()),
                writer_epoch: Some(u32::from(number)),
                started_unix_ms: 1_795_225_999_000,
                ..Vitals::joining(format!("node-{number}"), 1..=1)
            },
        }
    };
    let mut list = vec![of(1, Standing::Alive), of(2, Standing::Alive), of(3, Standing::Dead)];
    list[1].vitals.roles = targets::of("backend", false);
    let me = list[0].identity;
    let members = Members { version: 1, me, list, traffic: Traffic::default() };
    let writer = |name: &str, state| Writer {
        name: name.to_owned(),
        address: "10.0.0.9:9095".to_owned(),
        zone: String::new(),
        state,
        position: 0,
    };
    let mut map = Map::empty(10);
    map.members.insert(Epoch(1), writer("node-1", Takes::Active));
    map.members.insert(Epoch(2), writer("node-2", Takes::Guest));
    map.members.insert(Epoch(9), writer("node-0", Takes::Active));
    for (slot, owner) in map.slots.iter_mut().zip([1, 1, 1, 1, 9, 9, 9, 3, 3, 8]) {
        slot.owner = Some(Epoch(owner));
    }
    let routes = Routes {
        me: Epoch(1),
        number: 4,
        map: Arc::new(map),
        here: BTreeMap::new(),
        keeper_since: None,
        stopped: None,
    };
    let now = Monotonic(5 * SECOND_NS);
    show(&Seen { members: &members, routes: &routes, now, now_ns: NOW_NS })
}

fn shown(path: &str) -> (serde_json::Value, String) {
    let (part, owned) = ring_of(path);
    let mut ring = seen(|seen| seen.ring(part, owned));
    ring.shows_tokens = true;
    (serde_json::from_slice(&ring.json()).expect("JSON"), ring.html())
}

#[test]
fn nodes_have_their_partitions() {
    for path in ["/ring", "/pattern/ring"] {
        let (json, html) = shown(path);
        let shards = json["shards"].as_array().expect("a list");
        let of = |key: &str| -> Vec<_> { shards.iter().map(|shard| &shard[key]).collect() };
        assert_eq!(of("id"), ["node-0", "node-1", "node-3"]);
        assert_eq!(of("state"), ["UNHEALTHY", "ACTIVE", "UNHEALTHY"]);
        assert_eq!(of("address"), ["10.0.0.9:9095", "10.0.0.1:9095", "10.0.0.3:9095"]);
        let own = "2026-11-21T02:01:51Z";
        assert_eq!(of("timestamp"), [NEVER, own, "2026-11-21T02:01:49Z"]);
        let started = "2026-11-21T01:53:19Z";
        assert_eq!(of("registered_timestamp"), [NEVER, started, started]);
        assert_eq!(of("zone"), ["", "z<1", "z<1"]);
        let tokens = serde_json::json!([[4, 5, 6], [0, 1, 2, 3], [7, 8]]);
        assert_eq!(serde_json::json!(of("tokens")), tokens);
        for part in [
            "3 of 10 partitions have no owner that lives.",
            "<td>node-1 (this node)</td><td>z&lt;1</td><td>ACTIVE</td>",
            "<td>4: 0, 1, 2, 3</td><td>40.00%</td><td></td>",
            "<td>2: 7, 8</td><td>20.00%</td><td><form method=\"POST\"><button name=\"forget\" \
             value=\"node-3\">",
        ] {
            assert!(html.contains(part), "{part}\n{html}");
        }
        assert_eq!(html.matches("<button").count(), 1, "only the dead are forgotten");
    }
}

#[test]
fn the_keeper_does_the_work_of_compactors_and_rulers() {
    for path in ["/compactor/ring", "/ruler/ring"] {
        let (json, html) = shown(path);
        let shards = json["shards"].as_array().expect("a list");
        assert_eq!(shards.len(), 2, "the keeper has another part: {json}");
        assert_eq!((&shards[0]["id"], &shards[1]["id"]), (&"node-1".into(), &"node-2".into()));
        assert_eq!(shards[0]["tokens"], serde_json::json!([0]));
        assert!(html.contains("<td>node-1 (this node, keeper)</td>"), "{html}");
        assert!(html.contains("100.00%") && html.contains("<td>0.00%</td>"), "{html}");
    }
}

#[test]
fn other_rings_have_the_nodes_with_their_part() {
    for (path, ids) in [
        ("/distributor/ring", &["node-1", "node-3"][..]),
        ("/scheduler/ring", &["node-2"]),
        ("/indexgateway/ring", &["node-2"]),
    ] {
        let (json, html) = shown(path);
        let shards = json["shards"].as_array().expect("a list");
        assert_eq!(shards.iter().map(|shard| &shard["id"]).collect::<Vec<_>>(), ids);
        assert!(shards.iter().all(|shard| shard["tokens"] == serde_json::json!([])));
        assert!(!html.contains('%') && html.contains("takes any request"), "{html}");
    }
}

#[test]
fn who_cannot_be_forgotten_is_told_so() {
    let fault = |instance, error| {
        let fault = seen(|seen| ring_fault(instance, error, Some(seen.routes)));
        (fault.status.as_u16(), fault.message.to_string())
    };
    let told = |status, text: &str| (status, text.to_owned());
    let unknown = ForgetError::Unknown;
    assert_eq!(fault("x", unknown), told(503, "instance x not found in the ring"));
    let text = "cannot forget node-0: other nodes are about to take over from it";
    assert_eq!(fault("node-0", ForgetError::Unknown), told(409, text));
    let text = "cannot forget node-1: the member is alive";
    assert_eq!(fault("node-1", ForgetError::Alive), told(409, text));
}

#[test]
fn who_has_left_is_not_taken_for_dead() {
    seen(|seen| {
        let mut info = seen.members.list[2].clone();
        let state = |info: &MemberInfo| seen.member(info, Owned::Nothing).state;
        assert_eq!(state(&info), "UNHEALTHY");
        info.vitals.state = Vital::Left;
        assert_eq!(state(&info), "LEFT");
        info.standing = Standing::Suspected;
        info.vitals.state = Vital::Leaving;
        assert_eq!(state(&info), "LEAVING");
    });
}
