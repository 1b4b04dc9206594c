//! A client that pushes to streams of its own and keeps a ledger of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use super::ledger::Ledger;
use crate::support::{Client, Entry, SECOND_NS, Stream, body, entry, now_ns, query};
use logsvc_testkit::Rng;

const STREAMS: u64 = 3;

/// How far in the past the first entries lie. Later ones come closer to now by
/// less than a millisecond each.
const START_AGE_NS: i64 = 1800 * SECOND_NS;

struct OwnStream {
    labels: Vec<(String, String)>,
    newest_ns: i64,
    count: u64,
    ledger: Ledger,
}

/// See the module.
pub(super) struct Writer {
    number: u64,
    random: Rng,
    start_ns: i64,
    streams: Vec<OwnStream>,
    /// The last push, by the indexes of its streams, if it was never answered.
    in_doubt: Option<Vec<(usize, Vec<Entry>)>>,
}

impl Writer {
    pub(super) fn new(number: u64, seed: u64) -> Writer {
        let start_ns = now_ns() - START_AGE_NS;
        let own_stream = |stream: u64| OwnStream {
            labels: [
                ("job", "crash"),
                ("writer", &number.to_string()),
                ("stream", &stream.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
            newest_ns: start_ns,
            count: 0,
            ledger: Ledger::default(),
        };
        let streams = (0..STREAMS).map(own_stream).collect();
        Writer { number, random: Rng::new(seed), start_ns, streams, in_doubt: None }
    }

    /// Compares all streams with the server's lines; returns the number of lines.
    pub(super) fn check(&mut self, client: &mut Client, when: &str) -> usize {
        let mut lines = 0;
        for stream in &mut self.streams {
            let selector = body::label_text(&stream.labels);
            let end_ns = stream.newest_ns + 1;
            let found = query::all_lines(client, &selector, self.start_ns, end_ns);
            if let Err(fault) = stream.ledger.check(&found) {
                panic!("{when}, stream {selector}: {fault}");
            }
            lines += stream.ledger.len();
        }
        lines
    }

    /// Pushes until the server does not answer. `ending` says that it may
    /// refuse.
    pub(super) fn push_until_the_end(
        &mut self,
        address: &str,
        acked: &Sender<()>,
        ending: &AtomicBool,
    ) {
        let mut client = Client::new(address);
        let retry = self.in_doubt.take().filter(|_| self.random.one_in(2));
        let mut next = retry.unwrap_or_else(|| self.make_push());
        loop {
            for (index, entries) in &next {
                self.streams[*index].ledger.sending(entries);
            }
            match self.send(&mut client, &next) {
                Ok(reply) if reply.status == 204 => {}
                Ok(reply) => {
                    let text = reply.text();
                    assert!(
                        ending.load(Ordering::SeqCst),
                        "push refused: {}: {text}",
                        reply.status
                    );
                    break;
                }
                Err(_) => break,
            }
            for (index, entries) in &next {
                self.streams[*index].ledger.acknowledged(entries);
            }
            // The test stops counting at some point.
            _ = acked.send(());
            if self.random.one_in(20) && self.visible(&mut client, &next).is_err() {
                // The server went away; nothing is in doubt.
                return;
            }
            next = self.make_push();
        }
        self.in_doubt = Some(next);
    }

    fn send(
        &mut self,
        client: &mut Client,
        push: &[(usize, Vec<Entry>)],
    ) -> std::io::Result<crate::support::Reply> {
        let with_labels = |(index, entries): &(usize, Vec<Entry>)| Stream {
            labels: self.streams[*index].labels.clone(),
            entries: entries.clone(),
        };
        let streams: Vec<Stream> = push.iter().map(with_labels).collect();
        let (media_type, bytes) = if self.random.one_in(2) {
            ("application/json", body::json(&streams).into_bytes())
        } else {
            ("application/x-protobuf", body::protobuf(&streams))
        };
        let headers = [("Content-Type", media_type)];
        client.try_request("POST", "/loki/api/v1/push", &headers, Some(&bytes))
    }

    /// Queries must see acknowledged entries at once.
    fn visible(&self, client: &mut Client, push: &[(usize, Vec<Entry>)]) -> std::io::Result<()> {
        for (index, entries) in push {
            let selector = body::label_text(&self.streams[*index].labels);
            let Some(last) = entries.iter().max_by_key(|entry| entry.timestamp_ns) else {
                continue;
            };
            let (start, end) = (last.timestamp_ns.to_string(), (last.timestamp_ns + 1).to_string());
            let params = [("query", selector.as_str()), ("start", &start), ("end", &end)];
            let target = query::target("/loki/api/v1/query_range", &params);
            let reply = client.try_request("GET", &target, &[], None)?;
            if reply.status != 200 {
                // A server that stops may refuse; then the next push fails, too.
                return Ok(());
            }
            let mut answer = reply.json();
            let lines = query::texts(&answer["data"].take());
            assert!(
                lines.contains(&last.line),
                "acknowledged but not visible: {last:?}: {lines:?}"
            );
        }
        Ok(())
    }

    fn make_push(&mut self) -> Vec<(usize, Vec<Entry>)> {
        let first = self.random.below(STREAMS);
        let count = 1 + self.random.below(STREAMS);
        (first..first + count)
            .map(|index| (index % STREAMS) as usize)
            .map(|index| (index, self.make_entries(index)))
            .collect()
    }

    fn make_entries(&mut self, index: usize) -> Vec<Entry> {
        let count = if self.random.one_in(64) { 1500 } else { 1 + self.random.below(40) };
        let stream = &mut self.streams[index];
        let mut entries = Vec::new();
        for place in 0..count {
            let tie = place > 0 && self.random.one_in(8);
            if !tie {
                stream.newest_ns += 1 + self.random.below(1_000_000) as i64;
            }
            stream.count += 1;
            let padding = "x".repeat(self.random.below(120) as usize);
            let line = format!("w{} s{index} n{} {padding}", self.number, stream.count);
            entries.push(entry(stream.newest_ns, line));
        }
        if self.random.one_in(4) {
            // Not in order of time, as collectors with several threads send.
            for place in (1..entries.len()).rev() {
                let other = self.random.below(place as u64 + 1) as usize;
                entries.swap(place, other);
            }
        }
        entries
    }
}
