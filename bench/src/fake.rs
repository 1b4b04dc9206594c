//! A small server for the tests: it decodes pushes with the message definitions,
//! keeps the lines in memory, answers range queries, and fails on demand.

use flate2::read::GzDecoder;
use logsvc_proto::messages::PushRequest;
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One stored line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) unix_nanos: i64,
    pub(crate) line: String,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// The server's reaction to a push.
#[derive(Clone, Copy)]
pub(crate) enum PushFate {
    /// Store it and answer 204.
    Accept,
    /// Answer this status, store nothing.
    Refuse(u16),
    /// Close the connection without an answer, after storing nothing.
    HangUp,
}

/// The stored lines, and the requests so far.
pub(crate) struct State {
    pub(crate) lines: Vec<Stored>,
    /// Values of the tenant header, in the order of requests.
    pub(crate) tenants: Vec<Option<String>>,
    pushes: u64,
    fate: fn(u64) -> PushFate,
}

/// A running server; its threads end with the test process.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// Starts a server. `fate` decides about each push by its number.
    pub(crate) fn start(fate: fn(u64) -> PushFate) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State { lines: Vec::new(), tenants: Vec::new(), pushes: 0, fate };
        let fake = Fake { url, state: Arc::new(Mutex::new(state)) };
        let server = fake.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let server = server.clone();
                // Only the client needs to see how the connection ends.
                std::thread::spawn(move || _ = server.serve(stream));
            }
        });
        fake
    }

    /// Reads or changes the server's state.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        loop {
            let (mut lines, mut headers) = (Vec::new(), BTreeMap::new());
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                match line.trim_end() {
                    "" => break,
                    line => lines.push(line.to_owned()),
                }
            }
            for line in &lines[1..] {
                let (name, value) = line.split_once(": ").unwrap();
                headers.insert(name.to_lowercase(), value.to_owned());
            }
            let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let mut words = lines[0].split(' ');
            let (method, target) = (words.next().unwrap(), words.next().unwrap());
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let Some((status, answer)) = self.answer(method, path, query, &headers, &body) else {
                return Ok(());
            };
            let out = reader.get_mut();
            if path.ends_with("query_range") && status == 200 {
                // Chunked, as servers that stream their answers send it.
                write!(out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for chunk in answer.as_bytes().chunks(1000) {
                    write!(out, "{:x}\r\n", chunk.len())?;
                    out.write_all(chunk)?;
                    out.write_all(b"\r\n")?;
                }
                out.write_all(b"0\r\n\r\n")?;
            } else if status == 204 {
                write!(out, "HTTP/1.1 204 No Content\r\n\r\n")?;
            } else {
                write!(
                    out,
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{answer}",
                    answer.len()
                )?;
            }
        }
    }

    fn answer(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &BTreeMap<String, String>,
        body: &[u8],
    ) -> Option<(u16, String)> {
        let mut state = self.state.lock().unwrap();
        state.tenants.push(headers.get("x-scope-orgid").cloned());
        match (method, path) {
            ("GET", "/ready") => Some((200, "ready".to_owned())),
            ("POST", "/loki/api/v1/push") => {
                state.pushes += 1;
                match (state.fate)(state.pushes - 1) {
                    PushFate::Accept => {
                        state.lines.append(&mut decode(headers, body));
                        Some((204, String::new()))
                    }
                    PushFate::Refuse(status) => Some((status, "refused by the test".to_owned())),
                    PushFate::HangUp => None,
                }
            }
            ("GET", "/loki/api/v1/query_range") => {
                let params: BTreeMap<&str, String> = query
                    .split('&')
                    .filter_map(|pair| pair.split_once('='))
                    .map(|(name, value)| (name, percent_decode(value)))
                    .collect();
                match params["query"].strip_prefix("{").and_then(|q| q.strip_suffix("}")) {
                    Some(matchers) => Some((200, state.query(matchers, &params))),
                    None => Some((400, "parse error".to_owned())),
                }
            }
            _ => Some((404, "not found".to_owned())),
        }
    }
}

impl State {
    fn query(&self, matchers: &str, params: &BTreeMap<&str, String>) -> String {
        let number = |name: &str| params[name].parse::<i64>().unwrap();
        let wanted: Vec<(&str, &str)> = matchers
            .split(", ")
            .map(|m| m.strip_suffix('"').unwrap().split_once("=\"").unwrap())
            .collect();
        let mut found: Vec<&Stored> = self
            .lines
            .iter()
            .filter(|line| (number("start")..number("end")).contains(&line.unix_nanos))
            .filter(|l| wanted.iter().all(|(n, v)| l.labels.get(*n).is_some_and(|have| have == v)))
            .collect();
        found.sort_by_key(|line| line.unix_nanos);
        found.truncate(number("limit") as usize);
        let mut streams: BTreeMap<_, Vec<Value>> = BTreeMap::new();
        for line in found {
            let extra = json!({"structuredMetadata": line.metadata});
            let value = json!([line.unix_nanos.to_string(), line.line, extra]);
            streams.entry(&line.labels).or_default().push(value);
        }
        let result: Vec<Value> = streams
            .into_iter()
            .map(|(labels, values)| json!({"stream": labels, "values": values}))
            .collect();
        json!({"status": "success", "data": {"resultType": "streams", "result": result}})
            .to_string()
    }
}

fn decode(headers: &BTreeMap<String, String>, body: &[u8]) -> Vec<Stored> {
    let mut plain = Vec::new();
    match headers.get("content-encoding").map(String::as_str) {
        Some("gzip") => _ = GzDecoder::new(body).read_to_end(&mut plain).unwrap(),
        None => plain.extend_from_slice(body),
        Some(other) => panic!("unexpected encoding {other}"),
    }
    match headers["content-type"].as_str() {
        "application/json" => decode_json(&serde_json::from_slice(&plain).unwrap()),
        "application/x-protobuf" => {
            let message = snap::raw::Decoder::new().decompress_vec(&plain).unwrap();
            decode_message(PushRequest::decode(message.as_slice()).unwrap())
        }
        other => panic!("unexpected type {other}"),
    }
}

fn decode_message(push: PushRequest) -> Vec<Stored> {
    let mut lines = Vec::new();
    for stream in push.streams {
        let inner = stream.labels.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
        let labels: BTreeMap<String, String> = inner
            .split(", ")
            .map(|pair| pair.strip_suffix('"').unwrap().split_once("=\"").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        for entry in stream.entries {
            let time = entry.timestamp.unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            let pairs = entry
                .structured_metadata
                .into_iter()
                .map(|pair| (text(pair.name), text(pair.value)));
            lines.push(Stored {
                labels: labels.clone(),
                unix_nanos: time.seconds * 1_000_000_000 + i64::from(time.nanos),
                line: text(entry.line),
                metadata: pairs.collect(),
            });
        }
    }
    lines
}

fn decode_json(push: &Value) -> Vec<Stored> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let map = |value: &Value| -> BTreeMap<String, String> {
        value.as_object().unwrap().iter().map(|(name, value)| (name.clone(), text(value))).collect()
    };
    let mut lines = Vec::new();
    for stream in push["streams"].as_array().unwrap() {
        for entry in stream["values"].as_array().unwrap() {
            lines.push(Stored {
                labels: map(&stream["stream"]),
                unix_nanos: text(&entry[0]).parse().unwrap(),
                line: text(&entry[1]),
                metadata: entry.get(2).map(map).unwrap_or_default(),
            });
        }
    }
    lines
}

fn percent_decode(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).unwrap();
            out.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &tail[2..];
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(out).unwrap()
}
