//! Alertmanagers in memory, and alerts to send to them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Runtime;
use logsvc_runtime::sim::SimRuntime;
use logsvc_testkit::Rng;
use serde_json::Value;

use crate::config::{AlertmanagerConfig, HttpConfig};
use crate::messages::{AlertmanagerNumbers, NotificationNumbers};
use crate::notify::sender::{BATCH_MAX_ALERTS, BATCH_MAX_BYTES};
use crate::notify::{Connect, Discover, Notifier, NotifierConfig};
use crate::sink::{AlertSink, Notification};
use crate::transport::{OutgoingAnswer, OutgoingRequest, Transport, TransportError};

pub(super) const AM: &str = "http://am:9093/api/v2/alerts";
pub(super) const OTHER: &str = "http://other/x/api/v2/alerts";

/// What an Alertmanager does with a request.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// Answers with a status after a delay.
    Answer(u16, Duration),
    /// Like `Answer`, with `Retry-After` in seconds.
    Busy(u64),
    /// Refuses the connection.
    Refuse,
    /// Lets the time pass.
    TimeOut,
    /// Does not even keep the time.
    Hang,
    /// Takes the alerts, then closes without an answer.
    TakeAndClose,
}

impl Manner {
    pub(super) fn ok() -> Manner {
        Manner::Answer(200, Duration::from_millis(5))
    }
}

/// A request that an Alertmanager has read.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at_ms: u64,
    pub(super) tenant: String,
    pub(super) headers: HeaderMap,
    pub(super) alerts: Vec<Value>,
    /// Whether the alerts were taken.
    pub(super) is_taken: bool,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) manners: RefCell<BTreeMap<String, Vec<Manner>>>,
    /// Chooses among the manners of an address; without it they come in their order, and the last
    /// one stays.
    pub(super) rng: RefCell<Option<Rng>>,
    pub(super) seen: RefCell<BTreeMap<String, Vec<Seen>>>,
    pub(super) services: RefCell<BTreeMap<String, Result<Vec<String>, String>>>,
    pub(super) config: RefCell<Arc<AlertmanagerConfig>>,
    pub(super) connects: Cell<u32>,
    pub(super) connect_failures: Cell<u32>,
}

pub(super) struct FakeTransport {
    runtime: SimRuntime,
    world: Rc<World>,
}

impl FakeTransport {
    fn manner(&self, url: &str) -> Manner {
        let mut manners = self.world.manners.borrow_mut();
        let Some(list) = manners.get_mut(url) else { return Manner::ok() };
        if let Some(rng) = &mut *self.world.rng.borrow_mut() {
            return rng.pick(list).clone();
        }
        if list.len() > 1 { list.remove(0) } else { list[0].clone() }
    }

    async fn sleep(&self, duration: Duration) {
        self.runtime.sleep_until(self.runtime.now().after(duration)).await;
    }
}

impl Transport for FakeTransport {
    async fn send(&self, request: OutgoingRequest) -> Result<OutgoingAnswer, TransportError> {
        let manner = self.manner(&request.url);
        let closed = || TransportError("connection closed".to_owned());
        match manner {
            Manner::Refuse => return Err(TransportError("connection refused".to_owned())),
            Manner::TimeOut => {
                self.sleep(request.timeout).await;
                return Err(TransportError("timed out".to_owned()));
            }
            Manner::Hang => pending::<()>().await,
            _ => {}
        }
        let (status, delay, mut headers) = match manner {
            Manner::Answer(status, delay) => (status, delay, HeaderMap::new()),
            Manner::Busy(seconds) => {
                let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, seconds.into())]);
                (429, Duration::ZERO, headers)
            }
            _ => (200, Duration::from_millis(1), HeaderMap::new()),
        };
        self.sleep(delay).await;
        headers.insert("x-lie", "what the body says is not true".parse().expect("a value"));
        assert_eq!(request.method, Method::POST);
        assert_eq!(request.headers["content-type"], "application/json");
        let alerts: Vec<Value> = serde_json::from_slice(&request.body).expect("a JSON array");
        assert!(!alerts.is_empty() && alerts.len() as u64 <= BATCH_MAX_ALERTS);
        assert!(request.body.len() as u64 <= BATCH_MAX_BYTES || alerts.len() == 1);
        for alert in &alerts {
            let time = |name: &str| alert[name].as_str().expect("a time").to_owned();
            assert!(*"2001" <= *time("startsAt") && time("startsAt") < time("endsAt"), "{alert}");
        }
        let seen = Seen {
            at_ms: self.runtime.now().0 / 1_000_000,
            tenant: request.headers["x-scope-orgid"].to_str().expect("text").to_owned(),
            headers: request.headers,
            alerts,
            is_taken: (200..300).contains(&status),
        };
        self.world.seen.borrow_mut().entry(request.url).or_default().push(seen);
        if matches!(manner, Manner::TakeAndClose) {
            return Err(closed());
        }
        let status = StatusCode::from_u16(status).expect("a status");
        Ok(OutgoingAnswer { status, headers, body: b"{\"status\":\"error\"}".to_vec() })
    }
}

pub(super) struct FakeConnect {
    runtime: SimRuntime,
    world: Rc<World>,
}

impl Connect for FakeConnect {
    type Transport = FakeTransport;

    async fn transport(&self, _: &HttpConfig) -> Result<Rc<FakeTransport>, TransportError> {
        self.world.connects.set(self.world.connects.get() + 1);
        let left = self.world.connect_failures.get();
        if left > 0 {
            self.world.connect_failures.set(left - 1);
            return Err(TransportError("open ca.pem: no such file".to_owned()));
        }
        Ok(Rc::new(FakeTransport { runtime: self.runtime.clone(), world: self.world.clone() }))
    }
}

pub(super) struct FakeServices(Rc<World>);

impl Discover for FakeServices {
    async fn instances(&self, service: &str) -> Result<Vec<String>, String> {
        let services = self.0.services.borrow();
        services.get(service).cloned().unwrap_or_else(|| Err("no such host".to_owned()))
    }
}

/// A notifier with its surroundings.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) runtime: SimRuntime,
    pub(super) world: Rc<World>,
    pub(super) notifier: Notifier<SimRuntime, FakeConnect, FakeServices>,
}

pub(super) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a valid name")
}

pub(super) fn to(urls: &[&str]) -> AlertmanagerConfig {
    let urls = urls.iter().map(|url| url.trim_end_matches("/api/v2/alerts").to_owned()).collect();
    AlertmanagerConfig { urls, ..AlertmanagerConfig::default() }
}

impl Rig {
    pub(super) fn new(runtime: SimRuntime, config: AlertmanagerConfig) -> Rig {
        Rig::bounded(runtime, config, 1 << 24)
    }

    pub(super) fn bounded(
        runtime: SimRuntime,
        config: AlertmanagerConfig,
        max_queued_bytes: u64,
    ) -> Rig {
        let world = Rc::new(World::default());
        world.config.replace(Arc::new(config));
        let settings = world.clone();
        let external = [("cluster", "lab"), ("app", "external")];
        let config = NotifierConfig {
            settings: Box::new(move |_| settings.config.borrow().clone()),
            external_labels: external.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            max_queued_bytes,
        };
        let connect = FakeConnect { runtime: runtime.clone(), world: world.clone() };
        let services = FakeServices(world.clone());
        let notifier = Notifier::new(runtime.clone(), config, connect, services);
        Rig { runtime, world, notifier }
    }

    pub(super) fn set(&self, config: AlertmanagerConfig) {
        self.world.config.replace(Arc::new(config));
    }

    pub(super) fn manner(&self, url: &str, manners: &[Manner]) {
        self.world.manners.borrow_mut().insert(url.to_owned(), manners.to_vec());
    }

    /// Sends alerts with these names.
    pub(super) fn send(&self, tenant_name: &str, names: impl IntoIterator<Item = impl ToString>) {
        let alerts = names.into_iter().map(|name| self.alert(&name.to_string())).collect();
        self.notifier.send(&tenant(tenant_name), alerts);
    }

    pub(super) fn alert(&self, name: &str) -> Notification {
        let now_ns = self.runtime.unix_nanos();
        Notification {
            labels: Labels::from_pairs([("alertname", name), ("app", "shop")]).expect("valid"),
            annotations: Labels::empty(),
            starts_at_ns: now_ns,
            ends_at_ns: now_ns + 240_000_000_000,
            generator_url: String::new(),
        }
    }

    pub(super) async fn sleep(&self, seconds: u64) {
        self.sleep_ms(1000 * seconds).await;
    }

    pub(super) async fn sleep_ms(&self, ms: u64) {
        self.runtime.sleep_until(self.runtime.now().after(Duration::from_millis(ms))).await;
    }

    pub(super) fn seen(&self, url: &str) -> Vec<Seen> {
        self.world.seen.borrow().get(url).cloned().unwrap_or_default()
    }

    /// The names of the alerts that an address has taken, in their order.
    pub(super) fn taken(&self, url: &str) -> Vec<String> {
        let seen = self.seen(url);
        let alerts = seen.iter().filter(|seen| seen.is_taken).flat_map(|seen| &seen.alerts);
        alerts.map(|alert| alert["labels"]["alertname"].as_str().unwrap_or("").to_owned()).collect()
    }

    pub(super) fn numbers(&self, name: &str) -> NotificationNumbers {
        let all = self.notifier.numbers();
        all.into_iter().find(|numbers| numbers.tenant.as_str() == name).expect("it has sent")
    }

    /// The numbers of an address, which must add up.
    pub(super) fn of(&self, name: &str, url: &str) -> AlertmanagerNumbers {
        let all = self.numbers(name).alertmanagers;
        let numbers = all.into_iter().find(|numbers| *numbers.address == *url).expect("known");
        let parts = numbers.sent + numbers.errors + numbers.dropped + numbers.queue_length;
        assert_eq!(numbers.given, parts + numbers.in_flight, "{numbers:?}");
        numbers
    }
}

pub(super) fn names(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}
