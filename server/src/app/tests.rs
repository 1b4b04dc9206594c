//! A whole node on the simulation: queries of rules beside those of clients.

mod cluster;
mod cluster_rules;
mod records;
mod syslog;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use futures_util::future::join_all;
use logsvc_http::ConnectionLimit;
use logsvc_logql::engine::VectorSample;
use logsvc_logql::syntax;
use logsvc_proto::TenantId;
use logsvc_rules::evaluator::{Evaluator, RuleAnswer, RuleLine, RuleQuery, RuleQueryError, Wanted};
use logsvc_runtime::sim::{Disk, DiskOperation, SimRuntime, Simulation};
use logsvc_runtime::{Budget, Monotonic, Reader, Reservation, Writer};
use logsvc_testkit::{Rng, SeedGuard, seeds};
use serde_json::{Value, json};

use super::*;
use crate::config::{self, Limits, Machine};
use crate::node::Certificates;

const SECOND_NS: i64 = 1_000_000_000;

/// What a test does with a node that runs.
struct TestNode {
    runtime: SimRuntime,
    evaluator: LaneEvaluator<SimRuntime>,
    state: Arc<NodeState>,
    disk: Disk,
}

/// Runs a node of two cores while `script` runs on the first one.
fn with_node<F: Future<Output = ()> + 'static>(
    seed: u64,
    change: impl FnOnce(&mut Config, &mut Limits),
    script: impl FnOnce(Rc<TestNode>) -> F + 'static,
) {
    let _guard = SeedGuard(seed);
    let machine = Machine { cores: 2, memory_bytes: Ok(1 << 30), limited_by: None };
    let loaded = config::load(None, false, &[], &machine).expect("defaults");
    let (mut config, mut limits) = (loaded.config, Limits::clone(loaded.limits.others()));
    config.http_address = SocketAddr::from(([127, 0, 0, 1], 3100));
    config.auth_enabled = true;
    change(&mut config, &mut limits);
    let limits = LimitsOfTenants::same_for_all(limits);
    let doors = Doors {
        tls: Certificates::default(),
        users: None,
        connections: ConnectionLimit::new(10_000),
    };
    let boot = Boot::new(Arc::new(config), limits, doors, Latch::new(), Surroundings::default());
    let script = Rc::new(RefCell::new(Some(script)));
    let ended = Rc::new(RefCell::new(false));
    let (simulation, node) = (Simulation::new(seed), Arc::clone(&boot.node));
    let (has_ended, disk) = (Rc::clone(&ended), simulation.disk().clone());
    simulation.run(2, move |runtime| {
        let (script, has_ended) = (Rc::clone(&script), Rc::clone(&has_ended));
        let disk = disk.clone();
        run_core_with(runtime.clone(), boot.clone(), {
            let state = Arc::clone(&boot.node);
            move |evaluator| {
                let first = if runtime.core().0 == 0 { script.take() } else { None };
                let Some(script) = first else { return };
                let node = Rc::new(TestNode {
                    runtime: runtime.clone(),
                    evaluator,
                    state: state.clone(),
                    disk,
                });
                drop(runtime.spawn(async move {
                    state.recovered.wait().await;
                    script(node).await;
                    has_ended.replace(true);
                    state.stop.trigger();
                }));
            }
        })
    });
    assert_eq!(node.failure(), None);
    assert!(ended.take(), "the script came to its end");
}

/// A request on a connection of its own; an error if there is no answer.
async fn http(
    runtime: &SimRuntime,
    address: SocketAddr,
    method: &str,
    target: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    http_with(runtime, address, method, target, ("Content-Type: application/json", body)).await
}

/// The same with a header of choice.
async fn http_with(
    runtime: &SimRuntime,
    address: SocketAddr,
    method: &str,
    target: &str,
    (header, body): (&str, &str),
) -> std::io::Result<(u16, String)> {
    let (mut reader, mut writer) = runtime.connect(address, Monotonic::NEVER).await?;
    let request = format!(
        "{method} {target} HTTP/1.0\r\nHost: test\r\nX-Scope-OrgID: t\r\n\
         {header}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (sent, _) = writer.write_all(request.into_bytes(), Monotonic::NEVER).await;
    sent?;
    let mut answer = Vec::new();
    loop {
        answer.reserve(64 << 10);
        let (read, filled) = reader.read(answer, Monotonic::NEVER).await;
        answer = filled;
        if read? == 0 {
            break;
        }
    }
    let text = String::from_utf8(answer).expect("text");
    let cut = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.expect("a status"), body.to_owned()))
}

impl TestNode {
    async fn http(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let address = self.state.config.http_address;
        http(&self.runtime, address, method, target, body).await.expect("an answer")
    }

    /// Pushes lines of streams `app`, `pod`.
    async fn push(&self, lines: &[(&str, &str, i64, String)]) {
        let streams: Vec<Value> = lines
            .iter()
            .map(|(app, pod, time_ns, line)| {
                json!({"stream": {"app": app, "pod": pod}, "values": [[time_ns.to_string(), line]]})
            })
            .collect();
        let body = json!({ "streams": streams }).to_string();
        let (status, text) = self.http("POST", "/loki/api/v1/push", &body).await;
        assert_eq!(status, 204, "{text}");
    }

    /// An instant query of a client.
    async fn ask(&self, query: &str, time_ns: i64) -> (u16, String) {
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let target = format!("/loki/api/v1/query?query={query}&time={time_ns}");
        self.http("GET", &target, "").await
    }

    /// A query of a rule that comes every ten seconds.
    async fn rule(
        &self,
        text: &str,
        time_ns: i64,
        wanted: Wanted,
    ) -> Result<RuleAnswer, RuleQueryError> {
        let query = RuleQuery {
            tenant: TenantId::new("t").expect("a tenant"),
            text: text.into(),
            expr: Arc::new(syntax::parse(text).expect("a query")),
            time_ns,
            interval_ns: 10 * SECOND_NS,
            wanted,
            spread: text.len() as u64,
        };
        self.evaluator.evaluate(query).await
    }

    async fn vector(&self, text: &str, time_ns: i64) -> Result<Vec<VectorSample>, String> {
        match self.rule(text, time_ns, Wanted::Vector).await {
            Ok(RuleAnswer::Vector(samples)) => Ok(samples),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn sleep(&self, duration: Duration) {
        self.runtime.sleep_until(self.runtime.now().after(duration)).await;
    }

    async fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.http("GET", "/metrics", "").await;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.expect("the metric").trim().parse().expect("a number")
    }
}

/// All memory of a budget but what planning takes.
fn nearly_all_of(budget: &Budget) -> Reservation {
    budget.try_reserve(budget.max_bytes() - (256 << 10)).expect("unused")
}

type Samples = Vec<(BTreeMap<String, String>, f64)>;

/// A rule's vector, comparable with a client's answer.
fn samples(vector: Vec<VectorSample>) -> Samples {
    let sample = |one: VectorSample| {
        let pairs = one.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        (pairs.collect(), one.point.value)
    };
    vector.into_iter().map(sample).collect()
}

/// The samples of a client's answer.
fn read_samples(text: &str) -> Samples {
    let answer: Value = serde_json::from_str(text).expect("JSON");
    let data = &answer["data"];
    if data["resultType"] == "scalar" {
        let value = data["result"][1].as_str().expect("a value");
        return vec![(BTreeMap::new(), value.parse().expect("a number"))];
    }
    let sample = |one: &Value| {
        let labels = serde_json::from_value(one["metric"].clone()).expect("labels");
        let value = one["value"][1].as_str().expect("a value");
        (labels, value.parse().expect("a number"))
    };
    data["result"].as_array().expect("a vector").iter().map(sample).collect()
}

const QUERIES: [&str; 9] = [
    r#"sum by (app) (count_over_time({app=~"a|b"} |= "x" [5m]))"#,
    r#"rate({app=~".+"}[1m])"#,
    r#"max(bytes_over_time({app="a"} | logfmt | n > 3 [2m] offset 30s)) by (pod)"#,
    r#"sum(count_over_time({app="a"}[5m])) / sum(count_over_time({app=~".+"}[5m]))"#,
    r#"absent_over_time({app="none"}[2m])"#,
    r#"absent_over_time({app="b"} |= "n=7" [30s])"#,
    r#"sum by (app) (sum_over_time({app=~".+"} | logfmt | unwrap n [1m]))"#,
    r#"topk(2, count_over_time({app=~".+"} | logfmt [90s])) > 1"#,
    "1 + 1",
];

#[test]
fn rules_get_the_answers_of_clients_from_windows_that_serve_again() {
    for seed in seeds(3) {
        with_node(
            seed,
            |config, limits| {
                config.retention_enabled = true;
                limits.deletion_mode = DeletionMode::FilterOnly;
            },
            move |node| async move {
                let mut rng = Rng::new(seed);
                let (begun_ns, mut not_empty) = (node.runtime.unix_nanos(), 0);
                for round in 0..30 {
                    // As rules are evaluated: at times that are whole intervals apart.
                    let now_ns = begun_ns + round * 10 * SECOND_NS;
                    let early_ns = now_ns - node.runtime.unix_nanos();
                    node.sleep(Duration::from_nanos(early_ns.max(0) as u64)).await;
                    let mut lines = Vec::new();
                    for number in 0..rng.below(12) {
                        // Some are late, so that a part in the middle changes.
                        let back_s = *rng.pick(&[0, 1, 2, 3, 8]);
                        let back_s = if rng.below(20) == 0 { 100 } else { back_s };
                        let (app, pod) = (*rng.pick(&["a", "b"]), *rng.pick(&["p", "q", "r"]));
                        let line = format!("n={} {}", rng.below(9), rng.pick(&["x", "y"]));
                        lines.push((app, pod, now_ns - back_s * SECOND_NS + number as i64, line));
                    }
                    if !lines.is_empty() {
                        node.push(&lines).await;
                    }
                    if round == 17 {
                        let target = format!(
                            "/loki/api/v1/delete?query=%7Bapp%3D%22a%22%7D&start={}&end={}",
                            now_ns / SECOND_NS - 90,
                            now_ns / SECOND_NS - 40,
                        );
                        let (status, text) = node.http("POST", &target, "").await;
                        assert_eq!(status, 204, "{text}");
                    }
                    if round % 9 == 8 {
                        let (status, text) = node.http("POST", "/flush", "").await;
                        assert_eq!(status, 204, "{text}");
                    }
                    for query in QUERIES {
                        let found = node.vector(query, now_ns).await.map(samples);
                        let (status, text) = node.ask(query, now_ns).await;
                        assert_eq!(status, 200, "{text}");
                        let expected = read_samples(&text);
                        not_empty += usize::from(!expected.is_empty());
                        assert_eq!(found, Ok(expected), "{query} in round {round}");
                    }
                }
                assert!(not_empty > 150, "{not_empty} answers are not empty");
                let kept = node.metric("logsvc_rule_window_parts_kept_total").await;
                let read = node.metric("logsvc_rule_window_parts_read_total").await;
                assert!(kept > 2.0 * read, "{kept} parts served again, {read} were read");
            },
        );
    }
}

#[test]
fn neither_queries_nor_their_memory_hold_up_rules_nor_rules_queries() {
    let change = |config: &mut Config, _: &mut Limits| {
        config.max_concurrent_queries = 1;
        config.ruler.evaluation.max_concurrent = 1;
    };
    with_node(11, change, |node| async move {
        let now_ns = node.runtime.unix_nanos();
        node.push(&[("a", "p", now_ns, "n=1 x".to_owned())]).await;
        // In a segment, whose columns take memory while they are read.
        assert_eq!(node.http("POST", "/flush", "").await.0, 204);
        let query = r#"count_over_time({app="a"} |= "x" [5m])"#;
        // All memory of queries is held, so each of them keeps the one place while it waits.
        let budgets = &node.state.budgets;
        let held = nearly_all_of(&budgets.queries);
        let asked = (0..20).map(|number| {
            let node = Rc::clone(&node);
            let text = format!(r#"count_over_time({{app="a"}} |= "{number}" [5m])"#);
            node.runtime.clone().spawn(async move { node.ask(&text, now_ns).await.0 })
        });
        let flood: Vec<_> = asked.collect();
        node.sleep(Duration::from_millis(100)).await;
        assert_eq!(node.metric("logsvc_queries_running{work=\"query\"}").await, 1.0);
        let begun = node.runtime.now();
        let rules = join_all((0..50).map(|_| node.vector(query, now_ns))).await;
        assert!(rules.iter().all(|found| found.as_ref().is_ok_and(|v| v.len() == 1)), "{rules:?}");
        // A scan that found no memory would wait for ten seconds.
        assert!(node.runtime.now().since(begun) < Duration::from_secs(5));
        assert_eq!(node.metric("logsvc_queries_running{work=\"query\"}").await, 1.0);
        assert_eq!(join_all(flood).await, [429; 20]);
        drop(held);
        // And the other way round.
        let held = nearly_all_of(&budgets.rules);
        let asked = (0..20).map(|_| {
            let node = Rc::clone(&node);
            node.runtime.clone().spawn(async move { node.vector(query, now_ns).await })
        });
        let flood: Vec<_> = asked.collect();
        node.sleep(Duration::from_millis(100)).await;
        assert_eq!(node.metric("logsvc_queries_running{work=\"rule\"}").await, 1.0);
        assert_eq!(node.metric("logsvc_queries_waiting{work=\"rule\"}").await, 19.0);
        assert_eq!(node.ask(query, now_ns).await.0, 200);
        node.push(&[("a", "p", now_ns + 1, "n=2 x".to_owned())]).await;
        assert_eq!(node.metric("logsvc_queries_running{work=\"rule\"}").await, 1.0);
        let failed = vec![Err("too many outstanding requests".to_owned()); 20];
        assert_eq!(join_all(flood).await, failed);
        drop(held);
        assert_eq!(node.vector(query, now_ns).await.map(|vector| vector.len()), Ok(1));
    });
}

#[test]
fn what_is_no_vector_or_fails_is_an_error_and_lines_come_newest_first() {
    let change = |_: &mut Config, limits: &mut Limits| {
        limits.max_query_series = 2;
        limits.max_query_lookback_ns = SECOND_NS;
        limits.max_query_range_ns = 600 * SECOND_NS;
    };
    with_node(12, change, |node| async move {
        let now_ns = node.runtime.unix_nanos();
        let at = |app, pod, back_s: i64, line: &str| {
            (app, pod, now_ns - back_s * SECOND_NS, line.to_owned())
        };
        node.push(&[
            at("a", "p", 50, "oldest"),
            at("a", "q", 0, "newest"),
            at("a", "p", 10, r#"{"n":1}"#),
            at("b", "r", 5, r#"{"n":1}"#),
        ])
        .await;
        let lines = Wanted::Lines { start_ns: now_ns - 60 * SECOND_NS, limit: 2 };
        let found = node.rule(r#"{app="a"}"#, now_ns, lines).await;
        let Ok(RuleAnswer::Lines(found)) = found else { panic!("{found:?}") };
        let line = |one: &RuleLine| {
            let text = String::from_utf8_lossy(&one.line).into_owned();
            (now_ns - one.time_ns, one.labels.get("pod").map(str::to_owned), text)
        };
        let found: Vec<_> = found.iter().map(line).collect();
        let expected = [(0, "q", "newest"), (10 * SECOND_NS, "p", r#"{"n":1}"#)];
        assert_eq!(found, expected.map(|(ns, pod, s)| (ns, Some(pod.to_owned()), s.to_owned())));
        let no_vector = Err(RuleQueryError::NoVector);
        assert_eq!(node.rule(r#"{app="a"}"#, now_ns, Wanted::Vector).await, no_vector);
        assert_eq!(node.rule("vector(1)", now_ns, lines).await, no_vector);
        let scalar = node.vector("1 + 2", now_ns).await.map(samples);
        assert_eq!(scalar, Ok(vec![(BTreeMap::new(), 3.0)]));
        // The texts that clients read: a line that is no JSON, series, and windows.
        let bad_line = r#"sum by (n) (count_over_time({app="a"} | json [1m]))"#;
        for query in [bad_line, r#"count_over_time({app=~".+"}[1m])"#, r#"rate({app="a"}[1h])"#] {
            let error = node.vector(query, now_ns).await.expect_err(query);
            let (status, text) = node.ask(query, now_ns).await;
            assert_eq!((status, text), (400, error), "{query}");
        }
        // Once the lines have left the window, the same rule answers again.
        node.sleep(Duration::from_secs(100)).await;
        let now_ns = node.runtime.unix_nanos();
        node.push(&[("a", "p", now_ns, r#"{"n":1}"#.to_owned())]).await;
        assert_eq!(node.vector(bad_line, now_ns).await.map(|vector| vector.len()), Ok(1));
        // How far back clients may look is no limit of rules.
        let earlier = node.vector(bad_line, now_ns - 60 * SECOND_NS).await;
        assert!(earlier.is_err_and(|error| error.contains("JSONParserErr")));
    });
}

#[test]
fn blocked_and_disabled_queries_fail_and_a_node_that_stops_says_so() {
    let change = |_: &mut Config, limits: &mut Limits| limits.tsdb_max_query_parallelism = 0;
    with_node(13, change, |node| async move {
        let error =
            node.vector("vector(1)", node.runtime.unix_nanos()).await.expect_err("disabled");
        assert_eq!(error, "querying is disabled, please contact your operator");
    });
    with_node(
        14,
        |_, _| (),
        |node| async move {
            let budgets = &node.state.budgets;
            let held = nearly_all_of(&budgets.rules);
            let now_ns = node.runtime.unix_nanos();
            let (asking, stopping) = (Rc::clone(&node), Rc::clone(&node));
            let query = r#"count_over_time({app="a"}[1m])"#;
            let asked =
                node.runtime.spawn(async move { asking.rule(query, now_ns, Wanted::Vector).await });
            stopping.sleep(Duration::from_millis(100)).await;
            stopping.state.stop.trigger();
            assert_eq!(asked.await, Err(RuleQueryError::Stopping));
            let later = node.rule(query, now_ns, Wanted::Vector).await;
            assert_eq!(later, Err(RuleQueryError::Stopping));
            drop(held);
        },
    );
}

#[test]
fn a_query_that_is_blocked_by_policy_is_an_error() {
    let change = |_: &mut Config, limits: &mut Limits| {
        let setting = config::table::by_path("limits_config.blocked_queries").expect("the setting");
        let flag = (setting, r#"[{"pattern": "vector(2)"}]"#.to_owned());
        let machine = Machine { cores: 2, memory_bytes: Ok(1 << 30), limited_by: None };
        let loaded = config::load(None, false, &[flag], &machine).expect("settings");
        *limits = loaded.limits.others().clone();
    };
    with_node(15, change, |node| async move {
        let now_ns = node.runtime.unix_nanos();
        let error = node.vector("vector(2)", now_ns).await.expect_err("blocked");
        assert_eq!(error, "query blocked by policy");
        assert_eq!(node.vector("vector(3)", now_ns).await.map(|vector| vector.len()), Ok(1));
    });
}

#[test]
fn a_part_that_cannot_be_read_is_an_error_and_no_empty_answer() {
    with_node(
        16,
        |_, _| (),
        |node| async move {
            let now_ns = node.runtime.unix_nanos();
            let lines: Vec<_> = (0..50)
                .map(|n| ("a", "p", now_ns - n * SECOND_NS / 10, format!("line {n}")))
                .collect();
            node.push(&lines).await;
            let (status, text) = node.http("POST", "/flush", "").await;
            assert_eq!(status, 204, "{text}");
            let segments = node.disk.files(node.state.config.data_dir.join("segments"));
            assert!(!segments.is_empty());
            for segment in &segments {
                node.disk.fail_next(DiskOperation::Read, segment, 1000);
            }
            let query = r#"sum(count_over_time({app="a"} |= "line 4" [1m]))"#;
            let error = node.vector(query, now_ns).await.expect_err("unreadable");
            assert!(error.contains("could not be read"), "{error}");
            node.disk.clear_faults();
            let vector = node.vector(query, now_ns).await.expect("readable again");
            assert_eq!(samples(vector), [(BTreeMap::new(), 11.0)]);
        },
    );
}
