//! Sends a response: head and small body in one write, large bodies without a
//! copy, bodies of unknown length in chunks, compressed where that is wanted.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Method, StatusCode, Version};
use logsvc_runtime::{Listener, Runtime, Writer};

use super::{After, Connection, Exchange};
use crate::encode::{BodyMark, HeadParts, LAST_CHUNK, encode_chunk_size, encode_head};
use crate::gzip::Gzip;
use crate::response::{ChunkSource, Response, ResponseBody};
use crate::service::{Observation, Service};

/// Bodies up to this length are copied behind the head, so that one write sends
/// both.
const MAX_COPIED_BYTES: usize = 64 * 1024;
/// Room for a usual head.
const HEAD_BYTES: usize = 512;
/// Chunked bodies go out in writes of at least this length while the source has
/// more at hand.
const MIN_WRITE_BYTES: usize = 32 * 1024;
/// How much is compressed before other tasks get their turn; about 1 ms.
const COMPRESS_STEP_BYTES: usize = 256 * 1024;

/// The client did not take the response, or it could not be completed.
struct CutOff;

/// A response on its way out.
struct Outgoing<'a> {
    exchange: &'a Exchange,
    status: StatusCode,
    headers: HeaderMap,
    vary: bool,
    keep_alive: bool,
    sent_bytes: u64,
    /// Time in which writes waited for the client.
    waited: Duration,
}

impl<R: Runtime, L: Listener, S: Service> Connection<R, L, S> {
    /// Sends a response and tells the service about it.
    pub(crate) async fn respond(&mut self, exchange: &Exchange, response: Response) -> After {
        let Response { status, headers, body, compressible, close, route } = response;
        let mut outgoing = Outgoing {
            exchange,
            status,
            headers,
            vary: compressible,
            keep_alive: exchange.keep_alive && !close && !self.shared.stopping.is_set(),
            sent_bytes: 0,
            waited: Duration::ZERO,
        };
        let gzip = compressible
            && exchange.accepts_gzip
            && !outgoing.headers.contains_key(CONTENT_ENCODING);
        let mut upgrade = None;
        let sent = match body {
            ResponseBody::Empty => self.send_full(&mut outgoing, Vec::new(), false).await,
            ResponseBody::Full(bytes) => {
                if gzip && bytes.len() >= self.shared.config.compress_min_bytes {
                    Box::pin(self.send_compressed(&mut outgoing, bytes)).await
                } else {
                    self.send_full(&mut outgoing, bytes, false).await
                }
            }
            ResponseBody::Chunks(source) => {
                Box::pin(self.send_chunks(&mut outgoing, source, gzip)).await
            }
            ResponseBody::WebSocket(accepted) => {
                upgrade = Some(accepted);
                let mut out = Vec::with_capacity(HEAD_BYTES);
                self.put_head(&outgoing, &mut out, BodyMark::Upgrade, false);
                self.write(&mut outgoing, out).await
            }
        };
        let shared = &self.shared;
        shared.service.observe(&Observation {
            method: exchange.method.as_ref(),
            route,
            status: outgoing.status,
            duration: shared.runtime.now().since(exchange.started),
            received_bytes: exchange.received_bytes,
            sent_bytes: outgoing.sent_bytes,
            incomplete: sent.is_err(),
        });
        match (sent, upgrade) {
            (Err(CutOff), _) => After::Close,
            (Ok(()), Some(upgrade)) => After::Upgrade(upgrade),
            (Ok(()), None) if outgoing.keep_alive => After::NextRequest,
            (Ok(()), None) => After::Close,
        }
    }

    async fn send_full(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        body: Vec<u8>,
        gzip: bool,
    ) -> Result<(), CutOff> {
        let mark = match outgoing.allows_body() {
            true => BodyMark::Length(body.len()),
            false => BodyMark::None,
        };
        let pool = &self.shared.config.pool;
        let without_body = body.is_empty() || !outgoing.sends_body();
        let copied_bytes =
            if without_body || body.len() > MAX_COPIED_BYTES { 0 } else { body.len() };
        let mut out = pool.take(HEAD_BYTES + copied_bytes);
        self.put_head(outgoing, &mut out, mark, gzip);
        if without_body || copied_bytes > 0 {
            out.extend_from_slice(&body[..copied_bytes]);
            self.shared.config.pool.give(body);
            return self.write(outgoing, out).await;
        }
        self.write(outgoing, out).await?;
        self.write(outgoing, body).await
    }

    /// Compresses in steps, so that a large body does not stall the core.
    async fn send_compressed(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        body: Vec<u8>,
    ) -> Result<(), CutOff> {
        let shared = Rc::clone(&self.shared);
        let mut gzip = shared.compressors.begin();
        let mut compressed = shared.config.pool.take(body.len() / 4);
        for (step, piece) in body.chunks(COMPRESS_STEP_BYTES).enumerate() {
            if step > 0 {
                shared.runtime.yield_now().await;
            }
            gzip.write(piece, &mut compressed);
        }
        gzip.finish(&mut compressed);
        shared.compressors.end(gzip);
        shared.config.pool.give(body);
        self.send_full(outgoing, compressed, true).await
    }

    async fn send_chunks(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        mut source: Box<dyn ChunkSource>,
        gzip: bool,
    ) -> Result<(), CutOff> {
        // A body that turns out to be short is sent like one that was made at
        // once, and one that fails at its start still gets a proper error.
        let mut start = Vec::new();
        while !source.is_live() && start.len() < self.shared.config.compress_min_bytes {
            match self.watching(source.next()).await {
                Some(Ok(piece)) if start.is_empty() => start = piece,
                Some(Ok(piece)) => start.extend_from_slice(&piece),
                None => return self.send_full(outgoing, start, false).await,
                Some(Err(error)) => {
                    tracing::warn!(%error, "a response body could not be made");
                    let failure = Response::text(StatusCode::INTERNAL_SERVER_ERROR, error.0);
                    outgoing.status = failure.status;
                    outgoing.headers = failure.headers;
                    let text = match failure.body {
                        ResponseBody::Full(text) => text,
                        _ => Vec::new(),
                    };
                    return self.send_full(outgoing, text, false).await;
                }
            }
        }

        let chunked = outgoing.exchange.version == Version::HTTP_11;
        let mark = match (outgoing.allows_body(), chunked) {
            (false, _) => BodyMark::None,
            (true, true) => BodyMark::Chunked,
            (true, false) => BodyMark::Close,
        };
        outgoing.keep_alive &= mark != BodyMark::Close;
        let mut stream = Stream {
            out: self.shared.config.pool.take(HEAD_BYTES + 2 * MIN_WRITE_BYTES),
            chunked,
            gzip: gzip.then(|| self.shared.compressors.begin()),
            compressed: Vec::new(),
        };
        self.put_head(outgoing, &mut stream.out, mark, gzip);
        if outgoing.sends_body() {
            stream.push(&start);
            drop(start);
            self.pump(outgoing, &mut stream, &mut *source).await?;
            stream.finish();
        }
        if let Some(gzip) = stream.gzip.take() {
            self.shared.compressors.end(gzip);
        }
        self.write(outgoing, stream.out).await
    }

    /// Sends the pieces of the source, until it ends.
    async fn pump(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        stream: &mut Stream,
        source: &mut dyn ChunkSource,
    ) -> Result<(), CutOff> {
        loop {
            if stream.out.len() >= MIN_WRITE_BYTES {
                stream.out = self.write_back(outgoing, std::mem::take(&mut stream.out)).await?;
            }
            let mut next = source.next();
            let ready = poll_fn(|cx| match next.as_mut().poll(cx) {
                Poll::Ready(item) => Poll::Ready(Some(item)),
                Poll::Pending => Poll::Ready(None),
            });
            let item = match ready.await {
                Some(item) => item,
                None => {
                    // The client gets all written bytes before the source is waited for.
                    stream.flush();
                    if !stream.out.is_empty() {
                        let out = std::mem::take(&mut stream.out);
                        stream.out = self.write_back(outgoing, out).await?;
                    }
                    self.watching(next).await
                }
            };
            match item {
                Some(Ok(piece)) => stream.push(&piece),
                None => return Ok(()),
                Some(Err(error)) => {
                    tracing::warn!(%error, "a response body was cut off");
                    // What was made before may tell the client why.
                    stream.flush();
                    let out = std::mem::take(&mut stream.out);
                    self.write_back(outgoing, out).await?;
                    return Err(CutOff);
                }
            }
        }
    }

    fn put_head(&self, outgoing: &Outgoing<'_>, out: &mut Vec<u8>, mark: BodyMark, gzip: bool) {
        encode_head(
            out,
            &HeadParts {
                status: outgoing.status,
                headers: &outgoing.headers,
                mark,
                date: self.shared.date.at(self.shared.runtime.unix_nanos()),
                keep_alive: outgoing.keep_alive,
                say_keep_alive: outgoing.exchange.version == Version::HTTP_10,
                gzip,
                vary: outgoing.vary,
            },
        );
    }

    async fn write(&mut self, outgoing: &mut Outgoing<'_>, out: Vec<u8>) -> Result<(), CutOff> {
        let buffer = self.write_back(outgoing, out).await?;
        self.shared.config.pool.give(buffer);
        Ok(())
    }

    /// Writes and gives the emptied buffer back.
    async fn write_back(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        out: Vec<u8>,
    ) -> Result<Vec<u8>, CutOff> {
        let config = &self.shared.config;
        let len_bytes = out.len() as u64;
        // An answer holds memory until it is sent, so its writes share one timeout: each of
        // them alone might take nearly as long without an end.
        let timeout = config.with_rate(config.write_timeout, outgoing.sent_bytes + len_bytes);
        let begun = self.shared.runtime.now();
        let deadline = begun.after(timeout.saturating_sub(outgoing.waited));
        let (written, mut buffer) = self.writer.write_all(out, deadline).await;
        outgoing.waited += self.shared.runtime.now().since(begun);
        if written.is_err() {
            self.disconnect.set_gone();
            return Err(CutOff);
        }
        outgoing.sent_bytes += len_bytes;
        buffer.clear();
        Ok(buffer)
    }
}

impl Outgoing<'_> {
    /// Whether the status allows a body, and with it a length.
    fn allows_body(&self) -> bool {
        !self.status.is_informational()
            && self.status != StatusCode::NO_CONTENT
            && self.status != StatusCode::NOT_MODIFIED
    }

    fn sends_body(&self) -> bool {
        self.allows_body() && self.exchange.method != Some(Method::HEAD)
    }
}

/// Turns pieces into chunks, through compression where that is wanted.
struct Stream {
    out: Vec<u8>,
    chunked: bool,
    gzip: Option<Gzip>,
    compressed: Vec<u8>,
}

impl Stream {
    fn push(&mut self, piece: &[u8]) {
        match &mut self.gzip {
            None => put_chunk(&mut self.out, piece, self.chunked),
            Some(gzip) => {
                gzip.write(piece, &mut self.compressed);
                if self.compressed.len() >= MIN_WRITE_BYTES {
                    self.put_compressed();
                }
            }
        }
    }

    fn flush(&mut self) {
        if let Some(gzip) = &mut self.gzip {
            gzip.flush(&mut self.compressed);
            self.put_compressed();
        }
    }

    fn finish(&mut self) {
        if let Some(gzip) = &mut self.gzip {
            gzip.finish(&mut self.compressed);
            self.put_compressed();
        }
        if self.chunked {
            self.out.extend_from_slice(LAST_CHUNK);
        }
    }

    fn put_compressed(&mut self) {
        put_chunk(&mut self.out, &self.compressed, self.chunked);
        self.compressed.clear();
    }
}

fn put_chunk(out: &mut Vec<u8>, piece: &[u8], chunked: bool) {
    if piece.is_empty() {
        return;
    }
    if chunked {
        encode_chunk_size(out, piece.len());
    }
    out.extend_from_slice(piece);
    if chunked {
        out.extend_from_slice(b"\r\n");
    }
}
