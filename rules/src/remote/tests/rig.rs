//! A tenant's samples, its receivers, and processes that come and go.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Runtime;
use logsvc_runtime::sim::SimRuntime;

use super::receiver::{FakeTransport, Mode, Receiver, Receivers, Seen};
use crate::config::{RemoteClientConfig, RemoteQueueConfig, RemoteWriteConfig, SampleLogConfig};
use crate::remote::RemoteWrite;
use crate::remote_numbers::ReceiverNumbers;
use crate::sink::{AppendError, RecordedSample, SampleSink};

pub(super) const A: &str = "http://a/api/v1/write";
pub(super) const B: &str = "http://b/api/v1/write";

pub(super) type Remote = RemoteWrite<SimRuntime, FakeTransport>;

/// What outlives a process. Clones share it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) receivers: Receivers,
    pub(super) settings: Rc<RefCell<Arc<RemoteWriteConfig>>>,
    pub(super) log: Rc<Cell<(u64, Duration)>>,
    /// Samples whose append has succeeded.
    pub(super) accepted: Rc<RefCell<Vec<Seen>>>,
}

pub(super) fn client(id: &str, url: &str) -> RemoteClientConfig {
    RemoteClientConfig {
        id: id.to_owned(),
        url: url.to_owned(),
        queue: RemoteQueueConfig {
            batch_send_deadline: Duration::from_secs(1),
            ..RemoteQueueConfig::default()
        },
        ..RemoteClientConfig::default()
    }
}

impl World {
    /// Receivers that take all.
    pub(super) fn new(seed: u64, urls: &[&str]) -> World {
        let clients = urls.iter().enumerate().map(|(index, url)| client(&format!("c{index}"), url));
        let settings = RemoteWriteConfig {
            enabled: true,
            add_org_id_header: true,
            clients: clients.collect(),
        };
        let receivers = [A, B].map(|url| (url.to_owned(), Receiver::new(seed)));
        World {
            receivers: Rc::new(RefCell::new(BTreeMap::from(receivers))),
            settings: Rc::new(RefCell::new(Arc::new(settings))),
            log: Rc::new(Cell::new((1 << 30, Duration::from_secs(4 * 3600)))),
            accepted: Rc::default(),
        }
    }

    pub(super) fn change_settings(&self, change: impl FnOnce(&mut RemoteWriteConfig)) {
        let mut settings = (**self.settings.borrow()).clone();
        change(&mut settings);
        self.settings.replace(Arc::new(settings));
    }

    pub(super) fn set_mode(&self, url: &str, mode: Mode) {
        self.with(url, |receiver| receiver.mode = mode);
    }

    pub(super) fn with<T>(&self, url: &str, change: impl FnOnce(&mut Receiver) -> T) -> T {
        change(self.receivers.borrow_mut().get_mut(url).unwrap())
    }

    /// Remote write of a process.
    pub(super) async fn start(&self, runtime: &SimRuntime) -> Remote {
        let transport =
            FakeTransport { runtime: runtime.clone(), receivers: self.receivers.clone() };
        let settings = self.settings.clone();
        let (max_bytes, max_age) = self.log.get();
        let remote = RemoteWrite::new(
            runtime.clone(),
            transport,
            "/samples".into(),
            SampleLogConfig { max_bytes, max_age },
            Box::new(move |_| settings.borrow().clone()),
        );
        while let Err(error) = remote.start().await {
            assert!(error.raw_os_error().is_some(), "{error}");
            sleep(runtime, 1.0).await;
        }
        remote
    }

    /// Appends one sample of each of some series.
    pub(super) async fn append(
        &self,
        remote: &Remote,
        timestamp_ms: i64,
        series: std::ops::Range<u64>,
    ) -> Result<(), AppendError> {
        let samples: Vec<RecordedSample> =
            series.map(|number| sample(number, timestamp_ms, number as f64)).collect();
        self.append_samples(remote, samples).await
    }

    pub(super) async fn append_samples(
        &self,
        remote: &Remote,
        samples: Vec<RecordedSample>,
    ) -> Result<(), AppendError> {
        let seen: Vec<Seen> = samples.iter().map(seen).collect();
        remote.append(&tenant(), samples).await?;
        self.accepted.borrow_mut().extend(seen);
        Ok(())
    }

    /// The receiver has all samples whose append has succeeded.
    pub(super) fn assert_complete(&self, url: &str) {
        let there = self.with(url, |receiver| receiver.samples());
        for sample in &*self.accepted.borrow() {
            assert!(there.binary_search(sample).is_ok(), "{sample:?} is missing at {url}");
        }
    }
}

pub(super) fn tenant() -> TenantId {
    TenantId::new("t1").unwrap()
}

pub(super) fn sample(series: u64, timestamp_ms: i64, value: f64) -> RecordedSample {
    let pairs = [("__name__", "m".to_owned()), ("pod", format!("p{series}"))];
    let labels = Labels::from_result_pairs(pairs.iter().map(|(n, v)| (*n, v.as_str()))).unwrap();
    RecordedSample { labels, timestamp_ms, value }
}

fn seen(sample: &RecordedSample) -> Seen {
    let pairs: Vec<String> =
        sample.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    (pairs.join(","), sample.timestamp_ms, sample.value.to_bits())
}

pub(super) async fn sleep(runtime: &SimRuntime, seconds: f64) {
    runtime.sleep_until(runtime.now().after(Duration::from_secs_f64(seconds))).await;
}

/// The wall clock in ms.
pub(super) fn unix_ms(runtime: &SimRuntime) -> i64 {
    runtime.unix_nanos() / 1_000_000
}

pub(super) fn numbers(remote: &Remote, index: usize) -> ReceiverNumbers {
    remote.numbers().receivers[index].clone()
}

/// Every sample that was appended is pending or counted once.
pub(super) fn assert_balanced(remote: &Remote) {
    let all = remote.numbers();
    for receiver in &all.receivers {
        let counted = receiver.samples_taken
            + receiver.samples_failed
            + receiver.dropped_by_relabelling
            + receiver.dropped_for_room
            + receiver.dropped_for_age
            + receiver.dropped_as_damaged
            + receiver.samples_pending;
        assert_eq!(counted, all.logs[0].samples_appended, "{receiver:?}");
    }
}
