import test from 'node:test';
import assert from 'node:assert/strict';
import { findings, Metrics } from '../../src/data/metrics';
import { shown } from '../../src/text/size';

const text = (more: string) => `# HELP x y
loki_ingester_wal_disk_usage_percent 0.5
logsvc_memory_refused_total{budget="bodies"} 0
logsvc_segments{shard="0"} 2
logsvc_segments{shard="1"} 3
x_bucket{le="1"} 9
weird{a="q\\"u\\\\o",b="}"} 1e3
${more}`;

test('metrics are read and added up', () => {
  const m = new Metrics(text(''), 0);
  assert.equal(m.sum('logsvc_segments'), 5);
  assert.deepEqual(m.all('weird')[0], { name: 'weird', labels: { a: 'q"u\\o', b: '}' }, value: 1000 });
  assert.equal(m.has('x_bucket'), false);
  assert.deepEqual(findings(m, ''), []);
});

test('what is wrong is said in words', () => {
  const say = (more: string, ready = '') => findings(new Metrics(text(more), 0), ready).map((f) => f.text).join(' ');
  assert.match(say('', 'starting'), /not ready: starting/);
  assert.match(say('logsvc_wal_failures_total{shard="0"} 2'), /log could not be written 2 times/);
  assert.match(say('logsvc_memory_refused_total{budget="queries"} 4'), /Memory for queries ran out 4 times/);
  assert.match(say('logsvc_reload_last_successful 0\nlogsvc_reloads_total 1'), /last reload found a mistake/);
});

test('values of metrics keep whole numbers', () => {
  assert.deepEqual(['1234567', '0.123456789', '+Inf', 'NaN', '1.5e+02', undefined].map(shown), ['1,234,567', '0.12346', '+Inf', 'NaN', '150', '–']);
});
