import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { serve } from '../serve.mjs';
import { nowNs, open, push, queryText, rows, search, setup, until } from './helpers.mjs';

let env;
before(async () => {
  env = await setup();
  const t = nowNs(20 * 60_000);
  const at = (i) => String(t + BigInt(i) * 1_000_000_000n);
  await push(env.server.url, [
    { stream: { service_name: 'shop', env: 'prod' }, values: Array.from({ length: 600 }, (_, i) => [at(i), JSON.stringify({ level: i % 20 ? 'info' : 'error', path: i % 3 ? '/cart' : '/pay', n: i })]) },
    { stream: { service_name: 'login', env: 'test' }, values: Array.from({ length: 300 }, (_, i) => [at(i), i % 5 ? `user ${i} logged in from 10.0.0.${i % 200}` : `session ${i * 7} of the web shop has expired after ${i % 90} minutes`]) },
  ]);
  const rules = 'name: shop\ninterval: 1s\nrules:\n  - alert: Always\n    expr: vector(3) > 2\n    annotations: {summary: "it is {{ $value }}"}\n  - record: a:b\n    expr: sum by (env) (rate({env=~".+"}[5m]))\n';
  assert.equal((await fetch(env.server.url + '/loki/api/v1/rules/team', { method: 'POST', body: rules, headers: { 'Content-Type': 'application/yaml' } })).status, 202);
});
after(() => env.end());

test('explore: services, labels, fields with values, and from there to search', async () => {
  const page = await open(env, '#/explore');
  assert.deepEqual(await until('services', async () => { const n = await page.locator('.card-name').allTextContents(); return n.length === 2 && n; }), ['shop', 'login']);
  await page.locator('.card-row', { hasText: 'shop' }).click();
  await page.locator('.values', { hasText: 'prod' }).waitFor();
  await page.getByRole('tab', { name: 'Fields' }).click();
  const path = page.locator('.card', { has: page.getByText('path', { exact: true }) });
  await path.locator('li', { hasText: '/cart' }).waitFor();
  assert.equal(await path.locator('li', { hasText: '/cart' }).locator('.value-count').textContent(), '400');
  await path.getByRole('button', { name: 'Search lines without /cart' }).click();
  await until('query', async () => (await queryText(page)) === '{service_name="shop"} | json | path!="/cart"');
  await until('200 lines', async () => /^200 lines/.test(await page.locator('.told').textContent()));
  await page.done();
});

test('patterns: found, excluded one after the other', async () => {
  const page = await open(env, '#/explore?sel=login&tab=patterns');
  const pattern = page.locator('.pattern', { hasText: 'logged in from' });
  await pattern.waitFor();
  assert.match(await pattern.locator('.pattern-count').textContent(), /^240/);
  assert.ok(await pattern.locator('.sparkline rect').count() > 1);
  await pattern.getByRole('button', { name: 'Exclude' }).click();
  await until('60 lines', async () => /^60 lines/.test(await page.locator('.told').textContent()));
  assert.match(await queryText(page), /!> "user <_> logged in from <_>"$/);
  await page.getByRole('link', { name: 'Explore' }).click();
  await page.locator('.pattern', { hasText: 'session' }).waitFor();
  assert.equal(await page.locator('.pattern').count(), 1);
  await page.done();
});

test('chart and table of a metric query, hiding a series, and counting by a field', async () => {
  const page = await open(env, search('sum by (service_name) (count_over_time({env=~".+"}[$__auto]))'));
  await page.locator('.u-over').waitFor();
  assert.equal(await page.locator('.metrics tbody tr').count(), 2);
  const [name, other] = await page.locator('.metrics tbody td.mono').allTextContents();
  // The values at the pointer, and none once it has left.
  await page.locator('.u-over').hover();
  const tip = page.locator('.chart-tip');
  await tip.filter({ hasText: /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/ }).waitFor();
  await page.getByRole('button', { name: `Draw ${name}` }).hover();
  await until('no values', async () => (await tip.count()) === 0);
  await page.getByRole('button', { name: `Draw ${name}` }).click();
  const most = await page.locator('.metrics tbody tr', { hasText: other }).locator('td.num').last().textContent();
  for (const at of [0.2, 0.95]) {
    let box;
    let moved = 0;
    // The chart is drawn anew without the series: for a moment it has no size, and the pointer may come before it.
    await until('values at the pointer', async () => {
      box = await page.locator('.u-over').boundingBox();
      if (!box) return false;
      await page.mouse.move(box.x + box.width * at + (moved++ % 2), box.y + box.height / 2);
      return (await tip.count()) === 1 && !(await tip.textContent()).includes(name);
    });
    const [left, right] = await tip.evaluate((el) => { const r = el.getBoundingClientRect(); return [r.left, r.right]; });
    assert.ok(left >= box.x && right <= box.x + box.width, 'it stays within the chart');
    const value = Number((await tip.locator('li', { hasText: other }).locator('.num').textContent()).replaceAll(',', ''));
    assert.ok(value > 0 && value <= Number(most.replaceAll(',', '')), `${value} of at most ${most}`);
  }
  await page.getByRole('group', { name: 'Shown as' }).getByRole('button', { name: 'Table' }).click();
  await until('no chart', async () => (await page.locator('.u-over').count()) === 0);
  const waiting = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download' }).click();
  await page.getByRole('button', { name: 'CSV' }).click();
  let csv = '';
  for await (const chunk of await (await waiting).createReadStream()) csv += chunk;
  assert.match(csv, /^time,service_name,value\r\n\d+(\.\d+)?,login,\d+\r\n/);
  await page.goto(env.front.url + search('{service_name="shop"}'));
  await rows(page).first().click();
  await page.getByRole('button', { name: 'Count by path' }).click();
  await page.locator('.metrics td', { hasText: '/pay' }).waitFor();
  await page.done();
});

test('alerts: what fires, and the query behind it', async () => {
  const page = await open(env, '#/alerts');
  await page.locator('.alert-row.state-firing', { hasText: 'it is 3' }).waitFor({ timeout: 20_000 });
  await page.getByRole('link', { name: 'Run the query of a:b' }).click();
  await page.locator('.metrics td', { hasText: 'prod' }).waitFor();
  await page.done();
});

test('node: well, then a refusal with its reason', async () => {
  const page = await open(env, '#/node');
  await page.locator('.node-card', { hasText: 'Nothing was refused since the start' }).waitFor();
  await page.locator('.source', { hasText: 'http_listen_port' }).waitFor();
  const old = await fetch(env.server.url + '/loki/api/v1/push', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ streams: [{ stream: { app: 'old' }, values: [['1000000000000000000', 'x']] }] }) });
  assert.equal(old.status, 400);
  await page.locator('td', { hasText: 'greater_than_max_sample_age' }).waitFor({ timeout: 15_000 });
  await page.done();
});

test('keys only: query, list, line, context, views, help', async () => {
  // Deletion is switched off here, which is a 403.
  const page = await open(env, search('{service_name="login"}'), { allow: [/403/] });
  await rows(page).first().waitFor();
  await page.waitForSelector('.query-editor');
  await page.keyboard.press('/');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('{service_name="shop"}');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await until('run', async () => (await queryText(page)) === '{service_name="shop"}');
  await page.locator('.row', { hasText: '/cart' }).first().waitFor();
  // Tab leaves the editor; it is no trap.
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Run');
  for (const k of ['j', 'j', 'k', 'j']) await page.keyboard.press(k);
  const active = () => page.locator('.row.active').getAttribute('data-index');
  await until('the second line', async () => (await active()) === '1');
  await page.keyboard.press('e');
  await page.locator('.details').waitFor();
  await page.keyboard.press('j');
  await until('the third line, open', async () => (await active()) === '2' && (await page.locator('.row.open').getAttribute('data-index')) === '2');
  await page.keyboard.press('c');
  await page.locator('.context .here').waitFor();
  await page.keyboard.press('Escape');
  await until('closed', async () => (await page.locator('.details').count()) === 0);
  await page.keyboard.press('End');
  await until('more lines come', async () => Number(await active()) >= 199);
  await page.keyboard.press('w');
  await page.locator('.list.wrapped').waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  for (const [key, title] of [['2', 'Services'], ['4', 'Alerts'], ['5', 'Deletions'], ['6', 'Node'], ['3', 'Tail'], ['1', 'Search']]) {
    await page.keyboard.press(key);
    await page.locator('h1', { hasText: title }).waitFor({ state: 'attached' });
  }
  // Whatever has the focus is visible, and the skip link comes first.
  await page.goto(env.front.url + '#/node');
  await page.reload();
  await page.locator('.node-grid').waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'To the content');
  await page.done();
});

test('under a path prefix, with a password: everything stays under it, tail included', async () => {
  const front = await serve({ target: env.server.url, prefix: '/logs', auth: 'ann:secret' });
  const page = await open({ ...env, front }, '#/alerts', { context: { httpCredentials: { username: 'ann', password: 'secret' } }, allow: [/403/] });
  const outside = [];
  page.on('request', (r) => { if (!new URL(r.url()).pathname.startsWith('/logs/')) outside.push(r.url()); });
  page.on('websocket', (w) => { if (!new URL(w.url()).pathname.startsWith('/logs/')) outside.push(w.url()); });
  await page.goto(front.url + search('{service_name="shop"}'));
  await page.reload();
  await rows(page).first().waitFor();
  for (const view of ['Explore', 'Tail', 'Alerts', 'Deletions', 'Node']) {
    await page.getByRole('link', { name: view, exact: true }).click();
    await page.waitForTimeout(400);
    if (view === 'Tail') await page.locator('.live.open').waitFor();
  }
  assert.ok(page.url().startsWith(front.base + '/ui/#/node'));
  assert.deepEqual(outside, []);
  await page.goto(front.base + '/ui');
  assert.ok(page.url().startsWith(front.base + '/ui/'));
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(front.url + search('{service_name="shop"}'));
  await rows(page).first().waitFor();
  await page.getByRole('button', { name: 'Download' }).click();
  await page.getByRole('button', { name: 'Copy as curl' }).click();
  await page.locator('.toast').waitFor();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl -G 'http:\/\/127\.0\.0\.1:\d+\/logs\/loki\/api\/v1\/query_range'/);
  await rows(page).first().click();
  for (const [form, begins] of [['curl', `curl -G '${front.base}/loki/api/v1/query_range'`], ['logcli', `logcli --addr='${front.base}' query`], ['Link to this line', front.url + '#/search?']]) {
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    await page.getByRole('button', { name: form, exact: true }).click();
    await until(form, async () => (await page.evaluate(() => navigator.clipboard.readText())).startsWith(begins));
  }
  // The command of an empty store.
  await page.route(/labels/, (r) => r.fulfill({ json: { status: 'success', data: [] } }));
  await page.goto(front.base + '/ui/?empty');
  assert.ok((await page.locator('pre.source').textContent()).includes(`'${front.base}/loki/api/v1/lines?app=hello'`));
  assert.ok((await page.locator('.notice').textContent()).includes(front.base + '/loki/api/v1/push'));
  assert.deepEqual(outside, []);
  await page.done();
  await front.close();
});

test('fast at first: one request for lines, one for the histogram, painted soon, nothing stored but preferences', async () => {
  const page = await open(env, search('{service_name="shop"}'));
  await rows(page).first().waitFor();
  await page.waitForTimeout(300);
  const timing = await page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    api: performance.getEntriesByType('resource').map((r) => new URL(r.name).pathname).filter((p) => p.startsWith('/loki')),
    shift: window.shift, cookies: document.cookie, stored: Object.keys(localStorage),
  }));
  console.log(`# first contentful paint after ${timing.paint.toFixed(0)} ms`);
  assert.ok(timing.paint < 600, String(timing.paint));
  assert.deepEqual(timing.api, ['/loki/api/v1/query_range', '/loki/api/v1/query_range']);
  assert.equal(timing.cookies, '');
  assert.deepEqual(timing.stored, ['logsvc.preferences']);
  await page.done();
});

test('no layout shift while the node and a search load, and themes by the system and by the button', async () => {
  const page = await open(env, '#/node', { context: { colorScheme: 'dark' } });
  await page.evaluate(() => {
    window.shift = 0;
    new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) { window.shift += e.value; (window.moved ??= []).push(...e.sources.map((s) => `${s.node?.className ?? s.node?.nodeName} ${s.previousRect.y} ${s.currentRect.y}`)); } }).observe({ type: 'layout-shift', buffered: true });
  });
  await page.locator('.source', { hasText: 'http_listen_port' }).waitFor();
  await page.waitForTimeout(300);
  await page.evaluate((h) => { location.hash = h; }, search('{service_name="shop"}'));
  await rows(page).first().waitFor();
  await page.waitForTimeout(800);
  const shift = await page.evaluate(() => window.shift);
  assert.ok(shift < 0.02, `layout shift ${shift}: ${await page.evaluate(() => window.moved?.join(', '))}`);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await background(), 'rgb(15, 19, 23)');
  await page.getByRole('button', { name: /^Theme/ }).click();
  await until('light', async () => (await background()) === 'rgb(255, 255, 255)');
  await page.reload();
  await until('light still', async () => (await background()) === 'rgb(255, 255, 255)');
  await page.done();
});
