//! A naive receiver of both versions of the protocol, which checks what it gets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use logsvc_runtime::Runtime;
use logsvc_runtime::sim::SimRuntime;
use logsvc_testkit::Rng;
use prost::Message;

use crate::config::HttpConfig;
use crate::notify::Connect;
use crate::transport::{OutgoingAnswer, OutgoingRequest, Transport, TransportError};

/// A sample as a receiver sees it: the series in canonical form, the time and the value's bits.
pub(super) type Seen = (String, i64, u64);

/// What a receiver does with requests.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Mode {
    Takes,
    /// Takes version 1; answers 415 to version 2.
    Version1Only,
    /// Answers 204 to version 2 without having understood it.
    Ignorant,
    Status(u16, Vec<(&'static str, String)>),
    /// No connection.
    Dead,
    /// Takes the samples, but the answer is lost.
    Mute,
    /// Never answers.
    Hangs,
    /// One of the others at random for each request, but nothing final.
    Moody,
    /// Refuses a request whole if it has a sample that it has, or an older one of a series; the
    /// answer is lost sometimes.
    Strict,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) mode: Mode,
    pub(super) latency: Duration,
    /// Time and value bits by series.
    pub(super) series: BTreeMap<String, BTreeMap<i64, u64>>,
    /// Requests with their answers.
    pub(super) requests: Vec<Request>,
    rng: Rng,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The virtual clock when it came.
    pub(super) at: Duration,
    pub(super) headers: HeaderMap,
    pub(super) samples: Vec<Seen>,
    /// `None`: no answer.
    pub(super) status: Option<u16>,
}

impl Receiver {
    pub(super) fn new(seed: u64) -> Receiver {
        Receiver {
            mode: Mode::Takes,
            latency: Duration::from_millis(5),
            series: BTreeMap::new(),
            requests: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    /// All samples that it has taken, sorted.
    pub(super) fn samples(&self) -> Vec<Seen> {
        let of_series = |(name, samples): (&String, &BTreeMap<i64, u64>)| {
            let name = name.clone();
            let samples: Vec<Seen> =
                samples.iter().map(|(&at, &bits)| (name.clone(), at, bits)).collect();
            samples
        };
        self.series.iter().flat_map(of_series).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.series.values().map(|samples| samples.len() as u64).sum()
    }

    /// Whether all samples are newer than those that it has.
    fn is_new(&self, samples: &[Seen]) -> bool {
        samples.iter().all(|(series, at, _)| {
            let newest = self.series.get(series).and_then(|times| times.last_key_value());
            newest.is_none_or(|(newest, _)| newest < at)
        })
    }

    /// Takes samples, and checks that times rise and that no time has two values. What it has
    /// already may come again.
    fn take(&mut self, samples: &[Seen]) {
        for (series, at, bits) in samples {
            let known = self.series.entry(series.clone()).or_default();
            if let Some(value) = known.get(at) {
                assert_eq!(value, bits, "{series} has two values at {at}");
                continue;
            }
            if let Some((newest, _)) = known.last_key_value() {
                assert!(newest < at, "{series}: {at} comes after {newest}");
            }
            known.insert(*at, *bits);
        }
    }
}

/// All receivers, by address. They outlive the process.
pub(super) type Receivers = Rc<RefCell<BTreeMap<String, Receiver>>>;

#[derive(Clone)]
pub(super) struct FakeTransport {
    pub(super) runtime: SimRuntime,
    pub(super) receivers: Receivers,
}

impl Connect for FakeTransport {
    type Transport = FakeTransport;

    async fn transport(&self, _: &HttpConfig) -> Result<Rc<FakeTransport>, TransportError> {
        Ok(Rc::new(self.clone()))
    }
}

impl Transport for FakeTransport {
    async fn send(&self, request: OutgoingRequest) -> Result<OutgoingAnswer, TransportError> {
        let began = self.runtime.now();
        let latency = {
            let receivers = self.receivers.borrow();
            let receiver = receivers.get(&request.url);
            receiver.ok_or_else(|| TransportError("no such host".to_owned()))?.latency
        };
        self.runtime.sleep_until(began.after(latency / 2)).await;
        let answer = self.answer(&request);
        self.runtime.sleep_until(began.after(latency)).await;
        match answer {
            Answer::Is(status, headers) => {
                Ok(OutgoingAnswer { status, headers, body: b"because".to_vec() })
            }
            Answer::Broken => Err(TransportError("connection closed".to_owned())),
            Answer::None => {
                self.runtime.sleep_until(began.after(request.timeout)).await;
                Err(TransportError("timed out".to_owned()))
            }
        }
    }
}

enum Answer {
    Is(StatusCode, HeaderMap),
    Broken,
    None,
}

impl FakeTransport {
    fn answer(&self, request: &OutgoingRequest) -> Answer {
        let mut receivers = self.receivers.borrow_mut();
        let Some(receiver) = receivers.get_mut(&request.url) else { return Answer::Broken };
        let samples = decode(request);
        let is_v2 = request.headers["x-prometheus-remote-write-version"] == "2.0.0";
        let mode = match &receiver.mode {
            Mode::Moody => match receiver.rng.below(10) {
                0 => Mode::Dead,
                1 => Mode::Mute,
                2 => Mode::Hangs,
                3 => Mode::Status(500, Vec::new()),
                4 => Mode::Status(503, vec![("retry-after", "1".to_owned())]),
                5 => Mode::Status(429, Vec::new()),
                _ => Mode::Takes,
            },
            mode => mode.clone(),
        };
        let mut headers = HeaderMap::new();
        let mut is_taken = false;
        let status = match &mode {
            Mode::Takes => {
                is_taken = true;
                Some(204)
            }
            Mode::Version1Only if is_v2 => Some(415),
            Mode::Ignorant if is_v2 => Some(204),
            Mode::Version1Only | Mode::Ignorant => {
                is_taken = true;
                Some(204)
            }
            Mode::Status(status, given) => {
                for (name, value) in given {
                    headers.insert(*name, value.parse().unwrap());
                }
                Some(*status)
            }
            Mode::Mute => {
                is_taken = true;
                None
            }
            Mode::Strict => {
                is_taken = receiver.is_new(&samples);
                let status = if is_taken { 204 } else { 400 };
                (!receiver.rng.one_in(5)).then_some(status)
            }
            Mode::Dead | Mode::Hangs | Mode::Moody => None,
        };
        if is_taken {
            receiver.take(&samples);
            if is_v2 {
                let written = samples.len().to_string().parse().unwrap();
                headers.insert("x-prometheus-remote-write-samples-written", written);
            }
        }
        let at = Duration::from_nanos(self.runtime.now().0);
        let request = Request { at, headers: request.headers.clone(), samples, status };
        receiver.requests.push(request);
        match (mode, status) {
            (Mode::Hangs, _) => Answer::None,
            (_, Some(status)) => Answer::Is(StatusCode::from_u16(status).unwrap(), headers),
            (_, None) => Answer::Broken,
        }
    }
}

fn decode(request: &OutgoingRequest) -> Vec<Seen> {
    let headers = &request.headers;
    assert_eq!(request.method, http::Method::POST);
    assert_eq!(headers["content-encoding"], "snappy");
    let body = snap::raw::Decoder::new().decompress_vec(&request.body).unwrap();
    let version = headers["x-prometheus-remote-write-version"].to_str().unwrap();
    let samples = match version {
        "0.1.0" => {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            decode_v1(&body)
        }
        "2.0.0" => {
            let wanted = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
            assert_eq!(headers["content-type"], wanted);
            decode_v2(&body)
        }
        other => panic!("version {other}"),
    };
    assert!(!samples.is_empty(), "an empty request");
    samples
}

fn canonical(pairs: &[(String, String)]) -> String {
    let names: Vec<&String> = pairs.iter().map(|(name, _)| name).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert!(pairs.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()), "{pairs:?}");
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    pairs.join(",")
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Request2 {
    #[prost(string, repeated, tag = "4")]
    symbols: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    timeseries: Vec<TimeSeries2>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries2 {
    #[prost(uint32, repeated, tag = "1")]
    labels_refs: Vec<u32>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

fn decode_v1(body: &[u8]) -> Vec<Seen> {
    let request = WriteRequest::decode(body).unwrap();
    let series = request.timeseries.into_iter().map(|series| {
        let pairs: Vec<(String, String)> =
            series.labels.into_iter().map(|label| (label.name, label.value)).collect();
        (canonical(&pairs), series.samples)
    });
    flat(series)
}

fn decode_v2(body: &[u8]) -> Vec<Seen> {
    let request = Request2::decode(body).unwrap();
    assert_eq!(request.symbols[0], "");
    let text = |index: &u32| request.symbols[*index as usize].clone();
    let series = request.timeseries.iter().map(|series| {
        let pairs: Vec<(String, String)> =
            series.labels_refs.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
        (canonical(&pairs), series.samples.clone())
    });
    flat(series)
}

fn flat(series: impl Iterator<Item = (String, Vec<Sample>)>) -> Vec<Seen> {
    series
        .flat_map(|(name, samples)| {
            samples
                .into_iter()
                .map(move |sample| (name.clone(), sample.timestamp, sample.value.to_bits()))
        })
        .collect()
}
