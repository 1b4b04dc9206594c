//! A node that answers, nodes that follow a script, and a node that sends.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use http::header::HeaderValue;
use http::{Method, StatusCode};
use logsvc_http::client::{Client, ClientConfig, ClientRequest, Target};
use logsvc_http::{ChunkError, ChunkSource, Disconnect, Request, Response, ServerConfig, serve};
use logsvc_peers::client::{Peers, Traffic};
use logsvc_peers::frame::Damaged;
use logsvc_peers::push::{Push, PushReply};
use logsvc_peers::question::{Found, Reply, Sent};
use logsvc_peers::removal;
use logsvc_peers::service::{Answerer, PeerService};
use logsvc_peers::tail::WordWriter;
use logsvc_runtime::sim::SimRuntime;
use logsvc_runtime::{
    Budget, Dial, Latch, Listener, Monotonic, PlainDialer, Reader, Reservation, Runtime, Writer,
};
use logsvc_shards::messages::AppendOutcome;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers of questions: the node knows a newer map, it has found [`text_of_found`], it says nothing
/// until nobody waits.
pub(crate) const NEWER: u64 = 1;
pub(crate) const FOUND: u64 = 2;
pub(crate) const SILENT: u64 = 3;

pub(crate) fn text_of_found() -> Box<str> {
    "found ".repeat(500_000).into()
}

#[derive(Default)]
pub(crate) struct TestAnswerer {
    pub(crate) pushes: Cell<usize>,
    /// Questions for whose answer nobody waited.
    pub(crate) gone: Cell<usize>,
    /// Tails that have ended.
    pub(crate) tails_gone: Rc<Cell<usize>>,
}

impl Answerer for TestAnswerer {
    async fn removed(&self, message: &[u8]) -> Result<Vec<u8>, Damaged> {
        let question = removal::decode_question(message)?;
        Ok(removal::encode_report((question.writer == 1).then(Default::default).as_ref()))
    }

    /// Says what has come.
    async fn forwarded(&self, request: Request, writer: u32) -> Response {
        let Request { head, body, .. } = request;
        let query = head.query.as_deref().unwrap_or("-");
        let body = String::from_utf8_lossy(&body);
        let text = format!("{writer} {} {} {query} {body}", head.method, head.path);
        let mut response = Response::text(StatusCode::ACCEPTED, text);
        response.headers.extend(head.headers);
        response.headers.insert("x-delete-request-id", HeaderValue::from_static("0000002a"));
        response
    }

    async fn push(
        &self,
        message: Vec<u8>,
        memory: Option<Reservation>,
    ) -> Result<Vec<u8>, Damaged> {
        let push = Push::decode(message)?;
        self.pushes.set(self.pushes.get() + 1);
        drop(memory);
        let accepted = push.append.batch.len() as u64;
        let outcome = AppendOutcome {
            accepted,
            too_far_behind: Vec::new(),
            refused_streams: Vec::new(),
            over_limit: Vec::new(),
        };
        Ok(PushReply::Stored(outcome).encode())
    }

    async fn question(&self, message: &[u8], disconnect: &Disconnect) -> Result<Vec<u8>, Damaged> {
        let Sent { to, question, .. } = Sent::decode(message)?;
        let reply = match to.number {
            NEWER => Reply::Newer(77),
            FOUND => Reply::Found(Found { texts: vec![text_of_found()], ..Found::default() }),
            _ => {
                disconnect.wait().await;
                self.gone.set(self.gone.get() + 1);
                Reply::Wait
            }
        };
        Ok(reply.encode(&question.asked))
    }

    async fn tail(
        &self,
        message: &[u8],
        disconnect: &Disconnect,
    ) -> Result<Box<dyn ChunkSource>, Damaged> {
        let Sent { to, .. } = Sent::decode(message)?;
        Ok(Box::new(TestWords {
            number: to.number,
            disconnect: disconnect.clone(),
            gone: Rc::clone(&self.tails_gone),
        }))
    }
}

/// Two words at once, and then none until nobody reads them any more.
struct TestWords {
    number: u64,
    disconnect: Disconnect,
    gone: Rc<Cell<usize>>,
}

impl ChunkSource for TestWords {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        Box::pin(async {
            if self.number > 1 {
                self.disconnect.wait().await;
                return None;
            }
            self.number += 1;
            Some(Ok(WordWriter::new(self.number).finish()))
        })
    }

    fn is_live(&self) -> bool {
        true
    }
}

impl Drop for TestWords {
    fn drop(&mut self) {
        self.gone.set(self.gone.get() + 1);
    }
}

pub(crate) struct NodeUnderTest {
    pub(crate) answerer: Rc<TestAnswerer>,
    pub(crate) address: String,
    budget: Budget,
    stop: Latch,
    task: <SimRuntime as Runtime>::Task<()>,
}

impl NodeUnderTest {
    pub(crate) fn start(runtime: &SimRuntime) -> NodeUnderTest {
        NodeUnderTest::start_at(runtime, any_port())
    }

    pub(crate) fn start_at(runtime: &SimRuntime, address: SocketAddr) -> NodeUnderTest {
        let budget = Budget::new("test bodies", 64 << 20);
        let config = ServerConfig::new(budget.clone());
        let answerer = Rc::new(TestAnswerer::default());
        let service = Rc::new(PeerService::new(Rc::clone(&answerer)));
        let listener = runtime.listen(address).expect("a listener");
        let address = listener.local_address().expect("its address").to_string();
        let stop = Latch::new();
        let task =
            runtime.spawn(serve(runtime.clone(), listener, service, Rc::new(config), stop.clone()));
        NodeUnderTest { answerer, address, budget, stop, task }
    }

    /// Stops and checks that no memory is left reserved.
    pub(crate) async fn finish(self) {
        self.stop.trigger();
        self.task.await;
        assert_eq!(self.budget.used_bytes(), 0, "memory is left reserved");
    }
}

/// Counts the connections that it opens.
pub(crate) struct CountingDialer {
    inner: PlainDialer<SimRuntime>,
    dialed: Rc<Cell<usize>>,
}

type SimReader = <PlainDialer<SimRuntime> as Dial>::Reader;
type SimWriter = <PlainDialer<SimRuntime> as Dial>::Writer;

impl Dial for CountingDialer {
    type Reader = SimReader;
    type Writer = SimWriter;

    async fn dial(
        &self,
        host: &str,
        port: u16,
        is_secure: bool,
        deadline: Monotonic,
    ) -> io::Result<(SimReader, SimWriter)> {
        self.dialed.set(self.dialed.get() + 1);
        self.inner.dial(host, port, is_secure, deadline).await
    }

    async fn secure(
        &self,
        reader: SimReader,
        writer: SimWriter,
        host: &str,
        deadline: Monotonic,
    ) -> io::Result<(SimReader, SimWriter)> {
        self.inner.secure(reader, writer, host, deadline).await
    }
}

pub(crate) struct Sender {
    runtime: SimRuntime,
    pub(crate) peers: Peers<SimRuntime, CountingDialer>,
    /// Connections that were opened.
    pub(crate) dialed: Rc<Cell<usize>>,
    traffic: Arc<Traffic>,
}

impl Sender {
    pub(crate) fn new(runtime: &SimRuntime) -> Sender {
        let (dialed, traffic) = (Rc::new(Cell::new(0)), Arc::new(Traffic::default()));
        let inner = PlainDialer::new(runtime.clone());
        let dialer = CountingDialer { inner, dialed: Rc::clone(&dialed) };
        let peers = Peers::new(runtime.clone(), dialer, false, Arc::clone(&traffic));
        Sender { runtime: runtime.clone(), peers, dialed, traffic }
    }

    /// Messages, failures, bytes that were sent, bytes that came.
    pub(crate) fn counters(&self) -> [u64; 4] {
        let Traffic { messages, failures, sent_bytes, received_bytes } = &*self.traffic;
        [messages, failures, sent_bytes, received_bytes].map(|one| one.load(Ordering::Relaxed))
    }

    /// The status of a request to another path.
    pub(crate) async fn status_of(&self, address: &str, path: &str) -> u16 {
        let dialer = PlainDialer::new(self.runtime.clone());
        let client = Client::new(self.runtime.clone(), dialer, ClientConfig::default());
        let target = Target::parse(&format!("http://{address}{path}")).expect("an address");
        let request = ClientRequest::new(Method::POST, target).with_timeout(PATIENCE);
        client.send(request).await.expect("an answer").status.as_u16()
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// An address that nobody listens at.
pub(crate) fn free_address(runtime: &SimRuntime) -> String {
    let listener = runtime.listen(any_port()).expect("a listener");
    listener.local_address().expect("its address").to_string()
}

/// What a node does that follows a script.
pub(crate) enum Step {
    /// Reads up to the end of a head.
    Request,
    /// Sends bytes.
    Send(Vec<u8>),
}

/// The address of a node that follows a script on one connection, and closes it then.
pub(crate) fn script(runtime: &SimRuntime, steps: Vec<Step>) -> String {
    let listener = runtime.listen(any_port()).expect("a listener");
    let address = listener.local_address().expect("its address").to_string();
    drop(runtime.spawn(async move {
        let Ok((mut reader, mut writer, _)) = listener.accept().await else { return };
        for step in steps {
            match step {
                Step::Request => {
                    let mut unread: Vec<u8> = Vec::new();
                    while !unread.windows(4).any(|four| four == b"\r\n\r\n") {
                        if !more(&mut reader, &mut unread).await {
                            return;
                        }
                    }
                }
                Step::Send(bytes) => {
                    if writer.write_all(bytes, Monotonic::NEVER).await.0.is_err() {
                        return;
                    }
                }
            }
        }
        let _ = writer.shutdown().await;
        // What else comes is not looked at.
        while more(&mut reader, &mut Vec::new()).await {}
    }));
    address
}

pub(crate) async fn until(runtime: &SimRuntime, condition: impl Fn() -> bool) {
    let deadline = runtime.now().after(PATIENCE);
    while !condition() {
        assert!(runtime.now() < deadline, "it never gets there");
        runtime.sleep_until(runtime.now().after(Duration::from_millis(1))).await;
    }
}

async fn more(reader: &mut impl Reader, unread: &mut Vec<u8>) -> bool {
    let (result, buffer) = reader.read(Vec::with_capacity(4096), Monotonic::NEVER).await;
    unread.extend_from_slice(&buffer);
    result.is_ok_and(|count| count > 0)
}
