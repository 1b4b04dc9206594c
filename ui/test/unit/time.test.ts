import test from 'node:test';
import assert from 'node:assert/strict';
import { addNs, compareNs, fraction, nsToMs } from '../../src/time/ns';
import { bucketSeconds, formatDuration, parseDuration, parseRange, parseTime } from '../../src/time/range';
import { fromWall, full, isZone } from '../../src/time/zone';

const NOW = Date.UTC(2026, 10, 25, 3, 0, 0);

test('times in ns keep every digit', () => {
  assert.equal(addNs('1700000000000000001', -2n), '1699999999999999999');
  assert.equal(compareNs('999', '1000'), -1);
  assert.equal(compareNs('-5', '-4'), -1);
  assert.equal(compareNs('1700000000000000002', '1700000000000000001'), 1);
  assert.equal(nsToMs('-1'), -1);
  assert.equal(fraction('1700000000000000001'), '000000001');
  assert.equal(full('1700000000000000001', 'UTC'), '2023-11-14 22:13:20.000000001');
  assert.equal(full('1700000000120000000', 'UTC'), '2023-11-14 22:13:20.120');
});

test('durations', () => {
  assert.equal(parseDuration('1h30m'), 5_400_000);
  assert.equal(parseDuration('1.5s'), 1500);
  assert.equal(parseDuration('90'), null);
  assert.equal(parseDuration('1h x'), null);
  assert.equal(formatDuration(5_400_000), '1h 30m');
  assert.equal(formatDuration(20), '20ms');
});

test('times as people write them', () => {
  assert.equal(parseTime('now-1h', NOW, 'UTC'), '1795572000000000000');
  assert.equal(parseTime('2026-11-25', NOW, 'UTC'), '1795564800000000000');
  assert.equal(parseTime('2026-11-25 03:00:00.000000001', NOW, 'UTC'), '1795575600000000001');
  assert.equal(parseTime('2026-11-25T03:00:00+01:00', NOW, 'UTC'), '1795572000000000000');
  assert.equal(parseTime('1700000000', NOW, 'UTC'), '1700000000000000000');
  assert.equal(parseTime('1700000000000', NOW, 'UTC'), '1700000000000000000');
  assert.equal(parseTime('1700000000000000001', NOW, 'UTC'), '1700000000000000001');
  for (const bad of ['2026', '2026-02-30', '2026-11-25 25:00', 'yesterday', 'now-', 'now-1x', '']) {
    assert.equal(parseTime(bad, NOW, 'UTC'), null, bad);
  }
});

test('dates are those of the zone, also around a change of clocks', () => {
  assert.equal(parseTime('2026-11-25 08:00', NOW, 'Asia/Almaty'), '1795575600000000000');
  const wall = Date.UTC(2026, 2, 29, 3, 30);
  assert.equal(new Date(fromWall(wall, 'Europe/Berlin')).toISOString(), '2026-03-29T01:30:00.000Z');
  assert.equal(full('1795575600000000000', 'Asia/Kolkata'), '2026-11-25 08:30:00.000');
  assert.ok(isZone('Europe/Berlin') && !isZone('Nowhere/Town'));
});

test('ranges say which field is wrong', () => {
  assert.deepEqual(parseRange('now-1h', 'now', NOW, 'UTC').ok, true);
  const bad = parseRange('now', 'now-1h', NOW, 'UTC');
  assert.ok(!bad.ok && bad.field === 'to');
  const worse = parseRange('soon', 'now', NOW, 'UTC');
  assert.ok(!worse.ok && worse.field === 'from' && worse.text.includes('soon'));
});

test('buckets are round and not too many', () => {
  assert.equal(bucketSeconds({ from: '0', to: '3600000000000' }, 80), 60);
  assert.equal(bucketSeconds({ from: '0', to: '1000000000' }, 80), 1);
});
