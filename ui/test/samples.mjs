// Pushes samples of logs for trying the page by hand and for pictures: a folder with files named
// `Name_2k.log`, spread over the last hours, some lines of JSON and logfmt that it makes itself, and rules.
//
//   node test/samples.mjs http://127.0.0.1:3100 [folder with logs]

import { existsSync, readdirSync, readFileSync } from 'node:fs';

let seed = 7;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const pick = (list) => list[Math.floor(random() * list.length)];
const LABELS = {
  OpenStack: { service_name: 'nova', env: 'prod', cluster: 'eu-1' }, Apache: { service_name: 'apache', env: 'prod', cluster: 'eu-1' },
  Spark: { service_name: 'spark', env: 'batch', cluster: 'eu-2' }, Zookeeper: { service_name: 'zookeeper', env: 'prod', cluster: 'eu-2' },
  OpenSSH: { service_name: 'sshd', env: 'prod', cluster: 'eu-1' }, Hadoop: { service_name: 'hadoop', env: 'batch', cluster: 'eu-2' },
  HDFS: { service_name: 'hdfs', env: 'batch', cluster: 'eu-2' }, Linux: { service_name: 'syslog', env: 'prod', cluster: 'eu-1' },
};

const RULES = `name: checkout
interval: 5s
rules:
  - alert: UpstreamClosesConnections
    expr: sum by (service_name) (count_over_time({service_name="shop"} |= "upstream closed" [30m])) > 10
    labels: {severity: page, team: checkout}
    annotations: {summary: "{{ $value }} connections of {{ $labels.service_name }} were closed within half an hour"}
  - alert: InvoicesAreLate
    expr: sum(count_over_time({service_name="billing"} |= "retrying" [30m])) > 10
    for: 2h
    labels: {severity: ticket}
  - alert: LedgerIsSilent
    expr: absent_over_time({service_name="billing"}[1h])
  - record: shop:requests:rate5m
    expr: sum by (service_name) (rate({service_name="shop"}[5m]))
`;

async function push(base, streams, tenant) {
  const r = await fetch(base + '/loki/api/v1/push', { method: 'POST', headers: { 'Content-Type': 'application/json', ...(tenant ? { 'X-Scope-OrgID': tenant } : {}) }, body: JSON.stringify({ streams }) });
  if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
}

export async function samples(base, folder) {
  const now = Date.now();
  const span = 55 * 60_000;
  const ns = (ms) => String(BigInt(Math.floor(ms)) * 1_000_000n + BigInt(Math.floor(random() * 1e6)));
  const at = () => { const wave = random(); return now - span * (wave < 0.2 ? 0.35 + random() * 0.06 : random()); };
  for (const [name, labels] of Object.entries(LABELS)) {
    const file = `${folder}/${name}_2k.log`;
    if (!folder || !existsSync(file)) continue;
    const lines = readFileSync(file, 'utf8').split(/\r?\n/).filter(Boolean);
    const times = lines.map(at).sort((a, b) => a - b);
    for (let host = 0; host < 3; host++) {
      const values = lines.flatMap((l, i) => (i % 3 === host ? [[ns(times[i]), l]] : []));
      await push(base, [{ stream: { ...labels, host: `${labels.service_name}-${host + 1}` }, values }]);
    }
  }
  const paths = ['/cart', '/pay', '/items/18', '/items/77', '/login', '/'];
  const json = Array.from({ length: 3000 }, at).sort((a, b) => a - b).map((t) => {
    const bad = random() < 0.04;
    const level = bad ? 'error' : random() < 0.08 ? 'warn' : random() < 0.2 ? 'debug' : 'info';
    return [ns(t), JSON.stringify({ level, method: pick(['GET', 'GET', 'POST']), path: pick(paths), status: bad ? 502 : level === 'warn' ? 429 : 200, took_ms: Math.round(random() * 900) / 10, user: { id: Math.floor(random() * 500), country: pick(['NO', 'DE', 'JP', 'BR']) }, msg: bad ? 'upstream closed the connection' : 'request served' }), { trace_id: Math.floor(random() * 2 ** 40).toString(16).padStart(16, '0') }];
  });
  const logfmt = Array.from({ length: 2000 }, at).sort((a, b) => a - b).map((t) => [ns(t), `level=${random() < 0.03 ? 'error' : random() < 0.1 ? 'warn' : 'info'} component=${pick(['ledger', 'invoice', 'mail'])} order=${Math.floor(random() * 1e6)} took=${Math.floor(random() * 400)}ms msg="${pick(['order booked', 'invoice sent', 'retrying in 2s', 'balance checked'])}"`]);
  await push(base, [{ stream: { service_name: 'shop', env: 'prod', cluster: 'eu-1', host: 'shop-1' }, values: json }, { stream: { service_name: 'billing', env: 'prod', cluster: 'eu-1', host: 'billing-1' }, values: logfmt }]);
  const rules = await fetch(base + '/loki/api/v1/rules/shop', { method: 'POST', headers: { 'Content-Type': 'application/yaml' }, body: RULES });
  if (!rules.ok) throw new Error(`${rules.status} ${await rules.text()}`);
}

if (process.argv[1]?.endsWith('samples.mjs')) await samples(process.argv[2], process.argv[3]);
