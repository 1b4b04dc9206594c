import test from 'node:test';
import assert from 'node:assert/strict';
import { Heights } from '../../src/list/heights';
import { DEFAULTS, formatAddress, parseAddress } from '../../src/address';

test('heights agree with plain sums', () => {
  const h = new Heights(20, 4);
  h.resize(1000);
  const own = new Array(1000).fill(20);
  let seed = 1;
  for (let k = 0; k < 500; k++) {
    seed = (seed * 48271) % 2147483647;
    const i = seed % 1000;
    own[i] = 10 + (seed % 90);
    h.set(i, own[i]);
  }
  let sum = 0;
  for (let i = 0; i < 1000; i++) {
    assert.equal(h.top(i), sum);
    assert.equal(h.at(sum), i);
    assert.equal(h.at(sum + own[i] - 0.5), i);
    sum += own[i];
  }
  assert.equal(h.total, sum);
  assert.equal(h.at(-5), 0);
  assert.equal(h.at(sum + 100), 999);
});

test('rows come and go at both ends', () => {
  const h = new Heights(10, 2);
  h.resize(3);
  h.set(0, 50);
  h.prepend(2);
  assert.deepEqual([h.length, h.top(2), h.top(3), h.total], [5, 20, 70, 90]);
  h.drop(2);
  assert.deepEqual([h.length, h.height(0), h.total], [3, 50, 70]);
  h.reset(7);
  assert.equal(h.total, 21);
  assert.deepEqual(new Heights(10).window(0, 100, 5), [0, 0]);
});

test('100,000 rows are quick', () => {
  const h = new Heights(22);
  h.resize(100_000);
  const t = performance.now();
  for (let i = 0; i < 100_000; i++) { h.set(i, 22 + (i % 7)); h.at(i * 20); }
  assert.ok(performance.now() - t < 500);
});

test('the address holds everything and survives nonsense', () => {
  const s = { ...DEFAULTS, view: 'search' as const, q: '{a="<b>&?#%"} |= "ü\u202e"', from: '2026-11-25 03:00', dir: 'oldest' as const, wrap: true, cols: ['a', 'b'], tz: 'Asia/Almaty', tenant: 't|u', line: '1.x', context: true };
  assert.deepEqual(parseAddress(formatAddress(s)), s);
  assert.deepEqual(parseAddress(''), DEFAULTS);
  assert.equal(formatAddress(DEFAULTS), '#/search');
  assert.equal(parseAddress('#/nowhere?mode=<img>&dir=up').mode, 'lines');
  assert.equal(parseAddress('#/node?q=%').view, 'node');
});
