// Real Node clients against a running server: what they send is found again, exactly.
//
// Run by `cargo run -p logsvc-ci -- clients`, which starts the server and installs the
// clients. Every test has streams of its own, so the order of the tests does not matter.
import assert from "node:assert/strict";
import { on, once } from "node:events";
import { test } from "node:test";
import { Client as ElasticClient } from "@elastic/elasticsearch";
import { GrafanaApi } from "@myunisoft/loki";
import { ROOT_CONTEXT, TraceFlags, trace } from "@opentelemetry/api";
import { SeverityNumber } from "@opentelemetry/api-logs";
import { OTLPLogExporter as JsonExporter } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as ProtobufExporter } from "@opentelemetry/exporter-logs-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import pino from "pino";
import winston from "winston";
import LokiTransport from "winston-loki";
import WebSocket from "ws";
import { URL_BASE, msToNs, push, stored } from "./server_under_test.mjs";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const SPAN_ID = "b7ad6b7169203331";
const SNOWMAN = "\u2603";

/** Only what the caller compares, so that a difference is easy to read. */
const linesAndTimes = (entries) => entries.map(({ line, ns }) => [line, ns]);

for (const [name, Exporter, compression] of [
  ["otlp-json", JsonExporter, "gzip"],
  ["otlp-json-plain", JsonExporter, "none"],
  ["otlp-protobuf", ProtobufExporter, "gzip"],
]) {
  test(`OpenTelemetry: ${name}`, async () => {
    const exporter = new Exporter({ url: `${URL_BASE}/otlp/v1/logs`, compression });
    const provider = new LoggerProvider({
      resource: resourceFromAttributes({
        "service.name": name,
        "k8s.pod.name": "cart-1",
        "host.name": "h1",
      }),
      processors: [new BatchLogRecordProcessor({ exporter })],
    });
    const ms = Date.now();
    const span = { traceId: TRACE_ID, spanId: SPAN_ID, traceFlags: TraceFlags.SAMPLED };
    provider.getLogger("checkout", "1.2.3").emit({
      timestamp: ms,
      observedTimestamp: ms + 5,
      severityNumber: SeverityNumber.FATAL,
      severityText: "FATAL",
      body: `lost <everything> & ${SNOWMAN}`,
      attributes: { "http.method": "GET", count: 7, ratio: 1.5, ok: false, tags: ["x", "y"] },
      context: trace.setSpanContext(ROOT_CONTEXT, span),
    });
    provider.getLogger("checkout", "1.2.3").emit({
      timestamp: ms + 1,
      observedTimestamp: ms + 1,
      body: { b: { c: 1 }, a: [true, "x"] },
    });
    await provider.forceFlush();
    await provider.shutdown();
    const labels = { service_name: name, k8s_pod_name: "cart-1" };
    const common = { host_name: "h1", scope_name: "checkout", scope_version: "1.2.3" };
    assert.deepEqual(await stored(`{service_name="${name}"}`), [
      {
        labels,
        ns: msToNs(ms),
        line: `lost <everything> & ${SNOWMAN}`,
        metadata: {
          ...common,
          http_method: "GET",
          count: "7",
          ratio: "1.5",
          ok: "false",
          tags: '["x","y"]',
          flags: "1",
          trace_id: TRACE_ID,
          span_id: SPAN_ID,
          severity_number: "21",
          severity_text: "FATAL",
          observed_timestamp: String(msToNs(ms + 5)),
          detected_level: "fatal",
        },
      },
      {
        labels,
        ns: msToNs(ms + 1),
        line: '{"a":[true,"x"],"b":{"c":1}}',
        metadata: {
          ...common,
          observed_timestamp: String(msToNs(ms + 1)),
          detected_level: "unknown",
        },
      },
    ]);
  });
}

test("pino-loki: labels, properties as labels, metadata, levels", async () => {
  const transport = pino.transport({
    target: "pino-loki",
    options: {
      host: URL_BASE,
      labels: { app: "pino" },
      propsToLabels: ["part"],
      structuredMetaKey: "meta",
      batching: { interval: 60 },
    },
  });
  const begin = Date.now();
  const logger = pino({ base: { hostname: "h1" } }, transport);
  logger.warn({ part: "disk", meta: { trace_id: TRACE_ID, try: 2 } }, `low "space" ${SNOWMAN}`);
  logger.error({ part: "net", err: new Error("boom") }, "lost");
  const end = Date.now();
  // The end of the transport sends what it holds. Its thread alone keeps no process up.
  const alive = setInterval(() => {}, 1000);
  transport.end();
  await once(transport, "close");
  clearInterval(alive);
  // The two may have the same millisecond, so each is asked for by its labels.
  const only = async (selector) => {
    const entries = await stored(selector);
    assert.equal(entries.length, 1);
    return { ...entries[0], fields: JSON.parse(entries[0].line) };
  };
  const warned = await only('{app="pino", level="warning"}');
  const failed = await only('{app="pino", part="net"}');
  const labels = { app: "pino", hostname: "h1", service_name: "pino" };
  assert.deepEqual(warned.labels, { ...labels, level: "warning", part: "disk" });
  assert.deepEqual(warned.metadata, { trace_id: TRACE_ID, try: "2", detected_level: "warn" });
  assert.equal(warned.fields.msg, `low "space" ${SNOWMAN}`);
  assert.deepEqual(failed.labels, { ...labels, level: "error", part: "net" });
  assert.deepEqual(failed.metadata, { detected_level: "error" });
  assert.equal(failed.fields.err.message, "boom");
  for (const { fields, ns } of [warned, failed]) {
    assert.ok(begin <= fields.time && fields.time <= end);
    assert.equal(ns, msToNs(fields.time));
  }
  const found = await stored('{app="pino"} | json | err_message="boom"');
  assert.deepEqual(linesAndTimes(found), linesAndTimes([failed]));
});

for (const json of [true, false]) {
  const app = json ? "winston-json" : "winston-protobuf";
  test(`winston-loki: ${app}`, async () => {
    const errors = [];
    const transport = new LokiTransport({
      host: URL_BASE,
      labels: { app },
      json,
      interval: 60,
      replaceTimestamp: false,
      gracefulShutdown: false,
      format: winston.format.printf(({ message }) => message),
      onConnectionError: (error) => errors.push(error),
    });
    const logger = winston.createLogger({ level: "debug", transports: [transport] });
    const ms = Date.now();
    const timestamp = (offset) => new Date(ms + offset).toISOString();
    logger.error({ message: `failed ${SNOWMAN} <b>`, timestamp: timestamp(0) });
    logger.info({ message: "two\nlines", timestamp: timestamp(1), labels: { part: "net" } });
    logger.error({ message: "failed again", timestamp: timestamp(2) });
    // The logger hands its messages over in the next turn of the loop.
    await new Promise((resolve) => setImmediate(resolve));
    await transport.close();
    assert.deepEqual(errors, []);
    const entries = await stored(`{app="${app}"}`);
    const labels = { app, service_name: app };
    assert.deepEqual(
      entries.map(({ labels: found, ns, line }) => ({ labels: found, ns, line })),
      [
        { labels: { ...labels, level: "error" }, ns: msToNs(ms), line: `failed ${SNOWMAN} <b>` },
        {
          labels: { ...labels, level: "info", part: "net" },
          ns: msToNs(ms + 1),
          line: "two\nlines",
        },
        { labels: { ...labels, level: "error" }, ns: msToNs(ms + 2), line: "failed again" },
      ],
    );
    const levels = entries.map(({ metadata }) => metadata.detected_level);
    assert.deepEqual(levels, ["error", "info", "error"]);
  });
}

test("@myunisoft/loki: pushes, queries, labels, series", async () => {
  const client = new GrafanaApi({ remoteApiURL: URL_BASE }).Loki;
  const ms = Date.now();
  const times = [0, 1, 2].map((n) => msToNs(ms + n));
  const values = times.map((time, n) => [String(time), `level=info n=${n}`]);
  await client.push([{ stream: { app: "sdk", env: "sdk-test" }, values }]);
  const logs = await client.queryRange('{app="sdk"}', { limit: 2 });
  assert.deepEqual(logs.logs, ["level=info n=2", "level=info n=1"]);
  const { metrics } = await client.queryRangeMatrix('sum(count_over_time({app="sdk"}[1h]))', {
    start: String(msToNs(ms - 1000)),
    end: String(msToNs(ms + 1000)),
  });
  assert.equal(metrics.length, 1);
  assert.deepEqual(metrics[0].labels, {});
  assert.equal(metrics[0].values.at(-1)[1], "3");
  assert.ok((await client.labels()).includes("app"));
  assert.deepEqual(await client.labelValues("app", { query: '{env="sdk-test"}' }), ["sdk"]);
  const series = await client.series('{app="sdk"}');
  assert.deepEqual(series, [{ app: "sdk", env: "sdk-test", service_name: "sdk" }]);
});

test("@elastic/elasticsearch: documents of a bulk", async () => {
  const client = new ElasticClient({ node: `${URL_BASE}/elasticsearch` });
  assert.ok(await client.indices.exists({ index: "node-logs" }));
  const ms = Date.now() - 10_000;
  const old = { "@timestamp": new Date(ms - 30 * 86_400_000).toISOString(), message: "old" };
  const datasource = Array.from({ length: 1000 }, (_, n) => ({
    "@timestamp": new Date(ms + n).toISOString(),
    message: `n=${n} ${SNOWMAN}`,
    http: { status: n },
  }));
  datasource.splice(500, 0, old);
  const dropped = [];
  const sent = await client.helpers.bulk({
    datasource,
    flushBytes: 20_000,
    onDocument: () => ({ create: { _index: "node-logs" } }),
    onDrop: ({ status, document }) => dropped.push([status, document.message]),
  });
  await client.close();
  assert.deepEqual([sent.successful, sent.failed, sent.retry], [1000, 1, 0]);
  assert.deepEqual(dropped, [[400, "old"]]);
  const found = await stored('{index="node-logs"}');
  const expected = Array.from({ length: 1000 }, (_, n) => [`n=${n} ${SNOWMAN}`, msToNs(ms + n)]);
  assert.deepEqual(linesAndTimes(found), expected);
  assert.equal(found[7].metadata.http_status, "7");
});

test("ws: a tail shows history and what comes", { timeout: 20_000 }, async () => {
  const ns = msToNs(Date.now());
  await push({ app: "ws" }, [String(ns), "old"]);
  const params = new URLSearchParams({ query: '{app="ws"}' });
  const tail = new WebSocket(`${URL_BASE.replace("http", "ws")}/loki/api/v1/tail?${params}`);
  // Listened to all the time: an entry may come before the answer to its push.
  const frames = on(tail, "message");
  const pinged = once(tail, "ping");
  const next = async () => {
    const { value } = await frames.next();
    return JSON.parse(value[0]).streams.flatMap(({ stream, values }) => {
      assert.equal(stream.app, "ws");
      return values;
    });
  };
  try {
    assert.deepEqual(await next(), [[String(ns), "old"]]);
    await push({ app: "ws" }, [String(ns + 1n), `new ${SNOWMAN}`]);
    assert.deepEqual(await next(), [[String(ns + 1n), `new ${SNOWMAN}`]]);
    await pinged;
    const closed = once(tail, "close");
    tail.close(1000);
    assert.equal((await closed)[0], 1000);
  } finally {
    // An open connection would keep the process up after a failure.
    tail.terminate();
  }
});
