// What the tests of Node clients share: where the server is, and how to ask it.
//
// The server's address is in LOGSVC_URL, for example http://127.0.0.1:3100. Answers are
// asked for in the form that Grafana uses, with index labels and metadata apart.
import assert from "node:assert/strict";

export const URL_BASE = process.env.LOGSVC_URL;
assert.ok(URL_BASE, "LOGSVC_URL is not set");

/** Pushes entries of one stream without any client library. */
export async function push(stream, ...values) {
  const answer = await fetch(`${URL_BASE}/loki/api/v1/push`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ streams: [{ stream, values }] }),
  });
  assert.equal(answer.status, 204, await answer.text());
}

/** All entries of a selector, oldest first: { labels, ns, line, metadata }. */
export async function stored(selector) {
  const query = new URLSearchParams({ query: selector, direction: "forward", limit: "1000" });
  const answer = await fetch(`${URL_BASE}/loki/api/v1/query_range?${query}`, {
    headers: { "X-Loki-Response-Encoding-Flags": "categorize-labels" },
  });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  const { data } = JSON.parse(text);
  assert.equal(data.resultType, "streams");
  const entries = data.result.flatMap(({ stream, values }) =>
    values.map(([time, line, parts]) => ({
      labels: stream,
      ns: BigInt(time),
      line,
      metadata: parts.structuredMetadata ?? {},
    })),
  );
  return entries.sort((a, b) => (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0));
}

/** Milliseconds since the epoch as nanoseconds. */
export const msToNs = (ms) => BigInt(ms) * 1_000_000n;
