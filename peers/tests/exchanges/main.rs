//! Messages over HTTP in the simulation: from the client of one node to the service of another.

mod support;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use logsvc_http::client::Fault;
use logsvc_logql::engine::{LeafPlan, Plan, QueryParams};
use logsvc_logql::syntax;
use logsvc_peers::client::Unanswered;
use logsvc_peers::forward::{Forwarded, for_request};
use logsvc_peers::frame::{Addressee, Damaged};
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Asked, Question, Reply};
use logsvc_proto::TenantId;
use logsvc_runtime::sim::{SimRuntime, for_each_seed};
use logsvc_runtime::{Account, Budget, Denied, Runtime};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::AppendRequest;
use support::{FOUND, NEWER, NodeUnderTest, PATIENCE, SILENT, Sender, Step, text_of_found};

/// Seeds that each case runs with.
const SEED_COUNT: u64 = 12;

/// More memory than any answer needs.
const AMPLE_BYTES: u64 = 64 << 20;

fn push(batch: &[u8]) -> Bytes {
    let append = AppendRequest {
        batch: batch.to_vec(),
        definitions: Vec::new(),
        out_of_order_window_ns: None,
        is_replayed: false,
    };
    Push { to: Addressee { writer: 1, number: 1 }, append }.encode().into()
}

fn asked() -> Asked {
    let expr = syntax::parse(r#"{app="m"}"#).expect("a query");
    let plan = Plan::new(&expr, &QueryParams::range(0, 10, 1)).expect("a plan");
    Asked::Leaves(plan.leaves().iter().cloned().map(std::sync::Arc::<LeafPlan>::new).collect())
}

/// A question that [`NodeUnderTest`] answers as its number says.
fn question(number: u64) -> Bytes {
    let tenants = TenantId::new("acme").expect("a tenant").into();
    let question =
        Question { tenants, asked: asked(), deletions: DeletionVersion::NONE, entries_each: None };
    question.encode(Addressee { writer: 1, number }, PATIENCE).into()
}

async fn messages_are_answered(runtime: SimRuntime) {
    let node = NodeUnderTest::start(&runtime);
    let sender = Sender::new(&runtime);
    let (batch, large) = (push(b"a batch"), push(&vec![7; 3 << 20]));
    let mut sent_bytes = 0;
    for _ in 0..5 {
        for (message, accepted) in [(&batch, 7), (&large, 3 << 20)] {
            let reply = sender.peers.push(&node.address, message.clone(), PATIENCE).await;
            match reply {
                Ok(PushReply::Stored(outcome)) => assert_eq!(outcome.accepted, accepted),
                other => panic!("{other:?}"),
            }
            sent_bytes += message.len() as u64;
        }
        let mut memory = Account::alone(AMPLE_BYTES).grant();
        let bytes = sender.peers.ask(&node.address, question(NEWER), PATIENCE, &mut memory).await;
        let bytes = bytes.expect("an answer");
        assert_eq!(memory.bytes(), bytes.len() as u64);
        assert!(matches!(Reply::decode(&bytes, &asked()), Ok(Reply::Newer(77))));
        sent_bytes += question(NEWER).len() as u64;
    }
    // One connection served all of them.
    assert_eq!(sender.dialed.get(), 1);
    let [messages, failures, sent, received] = sender.counters();
    assert_eq!((messages, failures, sent), (15, 0, sent_bytes));
    assert!(received > 0);
    drop(sender);
    node.finish().await;
}

async fn what_is_no_message_is_refused(runtime: SimRuntime) {
    let node = NodeUnderTest::start(&runtime);
    let sender = Sender::new(&runtime);
    let mut damaged = push(b"a batch").to_vec();
    damaged[0] ^= 1;
    for (message, expected) in [
        (b"nothing of the kind".to_vec(), "the bytes are no frame"),
        (damaged, "the checksum of the frame is wrong"),
        (question(NEWER).to_vec(), "the frame has kind 3, which does not belong here"),
    ] {
        match sender.peers.push(&node.address, message.into(), PATIENCE).await {
            Err(Unanswered::Status { status, text, address }) => {
                assert_eq!((status.as_u16(), &*text, &address), (400, expected, &node.address));
            }
            other => panic!("{other:?}"),
        }
    }
    let mut memory = Account::alone(AMPLE_BYTES).grant();
    let answered = sender.peers.ask(&node.address, push(b""), PATIENCE, &mut memory).await;
    assert!(matches!(answered, Err(Unanswered::Status { .. })), "{answered:?}");
    assert_eq!((memory.bytes(), sender.dialed.get()), (0, 1));
    assert_eq!(sender.counters()[..2], [4, 4]);
    for path in ["/", "/v1/pushes", "/loki/api/v1/push"] {
        assert_eq!(sender.status_of(&node.address, path).await, 404, "{path}");
    }
    drop(sender);
    node.finish().await;
}

async fn requests_of_clients_are_sent_on(runtime: SimRuntime) {
    let node = NodeUnderTest::start(&runtime);
    let sender = Sender::new(&runtime);
    let mut headers = HeaderMap::new();
    for (name, value) in [("x-scope-orgid", "acme"), ("cookie", "secret")] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let request = Forwarded {
        method: Method::DELETE,
        target: "/loki/api/v1/rules/a%2Fb?force=true".to_owned(),
        headers: for_request(&headers),
        body: Bytes::from_static(b"body"),
    };
    let mut memory = Account::alone(AMPLE_BYTES).grant();
    let answered = sender.peers.forward(&node.address, 7, request, PATIENCE, &mut memory).await;
    let answer = answered.expect("an answer");
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let text = "7 DELETE /loki/api/v1/rules/a/b force=true body";
    assert_eq!(String::from_utf8_lossy(&answer.body), text);
    assert_eq!(memory.bytes(), text.len() as u64);
    assert_eq!(answer.headers["x-delete-request-id"], "0000002a");
    // What came with the request goes no further than it has to.
    assert!(
        !answer.headers.contains_key("cookie") && !answer.headers.contains_key("x-scope-orgid")
    );
    assert_eq!(sender.status_of(&node.address, "/v1/common/loki/api/v1/rules").await, 400);
    drop(sender);
    node.finish().await;
}

async fn a_node_that_is_away_does_not_answer(runtime: SimRuntime) {
    let sender = Sender::new(&runtime);
    let away = support::free_address(&runtime);
    let begun = runtime.now();
    let answered = sender.peers.push(&away, push(b"x"), PATIENCE).await;
    match answered {
        Err(Unanswered::Client(error)) => assert!(matches!(error.fault, Fault::Connect(_))),
        other => panic!("{other:?}"),
    }
    assert!(runtime.now().since(begun) < Duration::from_secs(3));
    for none in ["", "a b", "node:port:1", "node:99999"] {
        let answered = sender.peers.push(none, push(b"x"), PATIENCE).await;
        assert!(matches!(answered, Err(Unanswered::Address(_))), "{none:?}: {answered:?}");
    }
    assert_eq!(sender.counters()[..2], [5, 5]);
}

async fn a_node_that_says_nothing_is_given_up(runtime: SimRuntime) {
    let node = NodeUnderTest::start(&runtime);
    let sender = Sender::new(&runtime);
    let timeout = Duration::from_millis(700);
    let begun = runtime.now();
    let mut memory = Account::alone(AMPLE_BYTES).grant();
    let answered = sender.peers.ask(&node.address, question(SILENT), timeout, &mut memory).await;
    match answered {
        Err(Unanswered::Client(error)) => assert!(error.fault.is_timeout(), "{error}"),
        other => panic!("{other:?}"),
    }
    let took = runtime.now().since(begun);
    assert!(took >= timeout && took < 2 * timeout, "{took:?}");
    // The node hears that nobody waits.
    support::until(&runtime, || node.answerer.gone.get() == 1).await;
    // The connection is not used again.
    let answered = sender.peers.ask(&node.address, question(NEWER), PATIENCE, &mut memory).await;
    assert!(answered.is_ok(), "{answered:?}");
    assert_eq!(sender.dialed.get(), 2);
    assert_eq!(sender.counters()[..2], [2, 1]);
    drop(sender);
    node.finish().await;
}

async fn a_long_question_outlasts_the_time_without_progress(runtime: SimRuntime) {
    let node = NodeUnderTest::start(&runtime);
    let sender = Sender::new(&runtime);
    let timeout = Duration::from_secs(100);
    let begun = runtime.now();
    let mut memory = Account::alone(AMPLE_BYTES).grant();
    let answered = sender.peers.ask(&node.address, question(SILENT), timeout, &mut memory).await;
    assert!(answered.is_err());
    assert!(runtime.now().since(begun) >= timeout);
    drop(sender);
    node.finish().await;
}

async fn an_answer_needs_memory(runtime: SimRuntime) {
    let node = NodeUnderTest::start(&runtime);
    let sender = Sender::new(&runtime);
    let account = Account::alone(1 << 20);
    let mut memory = account.grant();
    let answered = sender.peers.ask(&node.address, question(FOUND), PATIENCE, &mut memory).await;
    match answered {
        Err(Unanswered::Memory(Denied::TooLarge { max_bytes })) => assert_eq!(max_bytes, 1 << 20),
        other => panic!("{other:?}"),
    }
    assert_eq!(memory.bytes(), 0);
    let mut memory = Account::alone(AMPLE_BYTES).grant();
    let answered = sender.peers.ask(&node.address, question(FOUND), PATIENCE, &mut memory).await;
    let bytes = answered.expect("there is memory");
    match Reply::decode(&bytes, &asked()) {
        Ok(Reply::Found(found)) => assert_eq!(found.texts, [text_of_found()]),
        other => panic!("{other:?}"),
    }
    assert_eq!(memory.bytes(), bytes.len() as u64);
    assert_eq!(sender.counters(), [2, 1, 2 * question(FOUND).len() as u64, bytes.len() as u64]);
    drop(sender);
    node.finish().await;
}

async fn odd_answers_are_refused(runtime: SimRuntime) {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    let sender = Sender::new(&runtime);
    let mut memory = Account::alone(AMPLE_BYTES).grant();
    let long_text = "x".repeat(5_000);
    for (answer, expected) in [
        (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"), "how long it is"),
        (format!("{HEAD}\r\nuntil the end"), "how long it is"),
        (format!("{HEAD}Content-Length: 0\r\n\r\n"), "no frame"),
        (format!("{HEAD}Content-Length: 9\r\n\r\nno frame!"), "no frame"),
        (format!("{HEAD}Content-Length: 99\r\n\r\nshort"), "cut off"),
        (format!("{HEAD}Content-Length: 134217729\r\n\r\n"), "longer than 134217728 bytes"),
        (format!("HTTP/1.1 503 No\r\nContent-Length: 5000\r\n\r\n{long_text}"), "says 503"),
    ] {
        let steps = vec![Step::Request, Step::Send(answer.clone().into_bytes())];
        let address = support::script(&runtime, steps);
        let answered = sender.peers.push(&address, push(b"x"), PATIENCE).await;
        let text = answered.expect_err("it is no answer").to_string();
        assert!(text.contains(expected) && text.len() < 1_200, "{text}");
    }
    // What claims to be larger than all memory takes none.
    let huge = format!("{HEAD}Content-Length: 9223372036854775806\r\n\r\n").into_bytes();
    let address = support::script(&runtime, vec![Step::Request, Step::Send(huge)]);
    let answered = sender.peers.ask(&address, question(1), PATIENCE, &mut memory).await;
    assert!(matches!(answered, Err(Unanswered::Memory(_))), "{answered:?}");
    assert_eq!(memory.bytes(), 0);
    let none = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").into_bytes();
    let address = support::script(&runtime, vec![Step::Request, Step::Send(none)]);
    let answered = sender.peers.ask(&address, question(1), PATIENCE, &mut memory).await;
    let is_damaged =
        matches!(&answered, Err(Unanswered::Damaged { damaged: Damaged::Message(_), .. }));
    assert!(is_damaged, "{answered:?}");
}

/// A node that starts again closes the connections that others keep.
async fn a_kept_connection_that_was_closed_is_replaced(runtime: SimRuntime) {
    let sender = Sender::new(&runtime);
    let node = NodeUnderTest::start(&runtime);
    let address = node.address.clone();
    assert!(sender.peers.push(&address, push(b"x"), PATIENCE).await.is_ok());
    node.finish().await;
    let node = NodeUnderTest::start_at(&runtime, address.parse().expect("an address"));
    assert!(sender.peers.push(&address, push(b"x"), PATIENCE).await.is_ok());
    assert_eq!(sender.dialed.get(), 2);
    assert_eq!(Rc::clone(&node.answerer).pushes.get(), 1);
    drop(sender);
    node.finish().await;
}

/// The first words come although they are short and the answer has no end.
async fn words_come_at_once_and_end_with_their_reader(runtime: SimRuntime) {
    let node = NodeUnderTest::start(&runtime);
    let sender = Sender::new(&runtime);
    let memory = Budget::new("tails", 1 << 20);
    let mut following =
        sender.peers.follow(&node.address, question(0), &memory).await.expect("an answer");
    let mut numbers = Vec::new();
    while numbers.len() < 2 {
        let words = following.next().await.expect("words").expect("more words");
        numbers.extend(words.iter().map(|word| word.number));
    }
    assert_eq!(numbers, [1, 2]);
    assert_eq!(node.answerer.tails_gone.get(), 0);
    drop(following);
    support::until(&runtime, || node.answerer.tails_gone.get() == 1).await;
    drop(sender);
    node.finish().await;
}

macro_rules! cases {
    ($($case:ident $name:ident;)*) => {
        mod on_sim {
            $(#[test]
            fn $name() {
                super::for_each_seed(0..super::SEED_COUNT, |simulation| {
                    simulation.block_on(super::$case);
                });
            })*
        }
    };
}

cases! {
    messages_are_answered answers;
    requests_of_clients_are_sent_on forwarded;
    what_is_no_message_is_refused refusals;
    a_node_that_is_away_does_not_answer away;
    a_node_that_says_nothing_is_given_up silent;
    a_long_question_outlasts_the_time_without_progress long;
    an_answer_needs_memory memory;
    odd_answers_are_refused odd_answers;
    a_kept_connection_that_was_closed_is_replaced restarted;
    words_come_at_once_and_end_with_their_reader words;
}
