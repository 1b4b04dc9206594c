// LONG=1 makes the run at 5,000 lines a second ten minutes long instead of half a minute.

import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { serve } from '../serve.mjs';
import { nowNs, open, push, rows, setup, until } from './helpers.mjs';

const LONG = process.env.LONG === '1';
let env;
before(async () => {
  env = await setup();
  await push(env.server.url, [{ stream: { app: 't' }, values: [[String(nowNs(1000)), 'before']] }]);
});
after(() => env.end());

const tail = (query) => `#/tail?q=${encodeURIComponent(query)}`;
const live = (page) => page.locator('.live.open').waitFor();
const lines = (from, n, ts, word = 'n') => Array.from({ length: n }, (_, i) => [String(ts()), `${word}=${from + i}`]);
const shown = (page) => page.locator('.row').evaluateAll((all) => all.sort((a, b) => a.dataset.index - b.dataset.index).map((r) => r.textContent.replace(/^.*?(n=\d+)?$/, '$1') || r.textContent));

test('lines come, the list holds still while the reader looks back, and says what waits', async () => {
  const page = await open(env, tail('{app="t"}'));
  await live(page);
  await push(env.server.url, [{ stream: { app: 't' }, values: lines(0, 200, () => nowNs()) }]);
  await page.locator('.row', { hasText: 'n=199' }).waitFor();
  await page.locator('.list').hover();
  await page.mouse.wheel(0, -2000);
  await page.getByRole('button', { name: 'Follow', exact: true }).waitFor();
  await page.waitForTimeout(200);
  const before = [await shown(page), await page.locator('.list').evaluate((l) => l.scrollTop)];
  await push(env.server.url, [{ stream: { app: 't' }, values: lines(200, 300, () => nowNs()) }]);
  await page.getByRole('button', { name: '300 new lines' }).waitFor();
  assert.deepEqual([await shown(page), await page.locator('.list').evaluate((l) => l.scrollTop)], before);
  await page.getByRole('button', { name: '300 new lines' }).click();
  await page.locator('.row', { hasText: 'n=499' }).waitFor();
  await page.done();
});

test('a tail that is cut goes on from its place: each line once, in order', async () => {
  const page = await open(env, tail('{app="cut"}'), { allow: [/WebSocket/] });
  await live(page);
  const at = nowNs();
  await push(env.server.url, [{ stream: { app: 'cut' }, values: lines(0, 5, () => at) }]);
  await page.locator('.row', { hasText: 'n=4' }).waitFor();
  env.front.cutTails();
  await push(env.server.url, [{ stream: { app: 'cut' }, values: lines(5, 5, () => at) }]);
  await page.locator('.mark-text', { hasText: 'Interrupted, resumed. No line is missing.' }).waitFor();
  await live(page);
  await push(env.server.url, [{ stream: { app: 'cut' }, values: lines(10, 3, () => nowNs()) }]);
  await page.locator('.row', { hasText: 'n=12' }).waitFor();
  const texts = (await shown(page)).filter((t) => /^n=/.test(t));
  assert.deepEqual(texts, Array.from({ length: 13 }, (_, i) => 'n=' + i));
  await page.done();
});

test('an idle tail lives through a proxy that ends quiet connections', async () => {
  // The server says something every second. A proxy with less patience than that shows that this one would cut.
  for (const [quiet, lives] of [[3000, true], [300, false]]) {
    const front = await serve({ target: env.server.url, quiet });
    const app = `idle${quiet}`;
    const page = await open({ ...env, front }, tail(`{app="${app}"}`), { allow: lives ? [] : [/WebSocket/, /400/] });
    await live(page);
    await page.waitForTimeout(200);
    let again = 0;
    page.on('websocket', () => { again++; });
    if (!lives) { await page.locator('.live.interrupted', { hasText: 'Trying again' }).waitFor(); } else {
      await page.waitForTimeout(10_000);
      await push(env.server.url, [{ stream: { app }, values: lines(0, 1, () => nowNs()) }]);
      await page.locator('.row', { hasText: 'n=0' }).waitFor();
      assert.equal(again, 0);
      assert.equal(await page.locator('.mark-row').count(), 0);
    }
    await page.done();
    await front.close();
  }
});

test('a gap that is too long is said with a number', async () => {
  const page = await open(env, tail('{app="gap"}'), { allow: [/WebSocket/] });
  await live(page);
  await push(env.server.url, [{ stream: { app: 'gap' }, values: lines(0, 5, () => nowNs()) }]);
  await page.locator('.row', { hasText: 'n=4' }).waitFor();
  await page.waitForTimeout(2500);
  env.front.cutTails();
  const t = nowNs();
  await push(env.server.url, [{ stream: { app: 'gap' }, values: Array.from({ length: 12_500 }, (_, i) => [String(t + BigInt(i)), 'n=' + (i + 5)]) }]);
  await page.locator('.row', { hasText: 'n=12504' }).waitFor();
  await page.evaluate(() => document.querySelector('.list').dispatchEvent(new WheelEvent('wheel')));
  await until('words', () => page.evaluate(() => { document.querySelector('.list').scrollTop = 0; return /2,50\d lines of the gap are not shown/.test(document.querySelector('.list').textContent) || null; }), 5000).catch(async () => {
    // The mark itself may have left with the oldest lines: then the list is full of what came after it.
    assert.equal(await page.locator('[role=listbox]').evaluate((l) => l.querySelector('.row').getAttribute('aria-setsize')), '10000');
  });
  await page.done();
});

test('one tail too many, and a query that has no lines, have words', async () => {
  const context = await env.browser.newContext();
  const holder = await context.newPage();
  await holder.goto(env.front.url + '#/node');
  await holder.evaluate((url) => Promise.all(Array.from({ length: 10 }, () => new Promise((r, no) => { const s = new WebSocket(url); s.onopen = r; s.onerror = no; (window.open_ ??= []).push(s); }))),
    env.front.base.replace('http', 'ws') + '/loki/api/v1/tail?query=' + encodeURIComponent('{app="t"}'));
  const page = await open(env, tail('{app="t"}'), { allow: [/WebSocket/, /40\d|429/] });
  await page.locator('.notice.error .message').waitFor();
  assert.match(await page.locator('.notice .message').textContent(), /max concurrent tail requests/i);
  await context.close();
  await until('a place', async () => { await page.getByRole('button', { name: 'Try again' }).click({ timeout: 1000 }).catch(() => {}); return (await page.locator('.live.open').count()) > 0; });
  await page.goto(env.front.url + tail('{app="t"'));
  await page.locator('.notice.error', { hasText: 'parse error' }).waitFor();
  await page.done();
});

test(`5,000 lines a second for ${LONG ? '10 minutes' : '30 seconds'} without a growing heap`, { timeout: 720_000 }, async () => {
  const page = await open(env, tail('{app="fast"}'));
  await live(page);
  const seconds = LONG ? 600 : 30;
  const heap = async () => page.evaluate(async () => { window.gc(); await new Promise((r) => setTimeout(r, 50)); window.gc(); return performance.memory.usedJSHeapSize / 1e6; });
  const heaps = [];
  let n = 0;
  const begun = Date.now();
  for (let tick = 0; tick < seconds * 5; tick++) {
    await push(env.server.url, [{ stream: { app: 'fast' }, values: lines(n, 1000, () => nowNs()).map(([t, l], i) => [String(BigInt(t) + BigInt(i)), l + ' level=info some words that make the line as long as lines are']) }]);
    n += 1000;
    if (tick % 25 === 24) heaps.push(await heap());
    await new Promise((r) => setTimeout(r, Math.max(0, begun + (tick + 1) * 200 - Date.now())));
  }
  await page.locator('.row', { hasText: `n=${n - 1} ` }).waitFor();
  assert.equal(await page.locator('[role=listbox] .row').first().getAttribute('aria-setsize'), '10000');
  // A machine that has no time for the browser makes it miss lines; then the page must say so, and few they are.
  const missed = Number(((await page.locator('.view').textContent()).match(/([\d,]+) lines came faster/)?.[1] ?? '0').replace(/,/g, ''));
  const settled = heaps.slice(1);
  console.log(`# heap in MB: ${heaps.map((h) => h.toFixed(1)).join(' ')}; ${n} lines in ${((Date.now() - begun) / 1000).toFixed(1)} s, ${missed} left out`);
  assert.ok(missed < n / 100, `${missed} of ${n}`);
  assert.ok(Math.max(...settled) < Math.min(...settled) * 1.3 + 3, heaps.join(' '));
  assert.ok(await rows(page).count() < 100);
  await page.done();
});
