import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { serve } from '../serve.mjs';
import { allLines, nowNs, open, push, queryText, rows, search, setup, startServer, until } from './helpers.mjs';

let env;
let holding = null;
before(async () => {
  env = await setup({ proxy: { hold: (url) => holding !== null && url.includes(holding) } });
});
after(() => env.end());

test('an empty store shows the command, and turns into search at the first line', async () => {
  const page = await open(env, '');
  const command = await page.locator('pre.source').textContent();
  assert.match(command, /^curl --data-binary 'hello from curl' 'http:\/\/127\.0\.0\.1:\d+\/loki\/api\/v1\/lines\?app=hello'$/);
  const [, body, url] = command.match(/--data-binary '([^']*)' '([^']*)'/);
  assert.equal((await fetch(url, { method: 'POST', body })).status, 204);
  await rows(page).first().waitFor();
  assert.match(await rows(page).first().textContent(), /hello from curl/);
  assert.equal(await queryText(page), '{service_name=~".+"}');
  await page.done();
});

test('a query with a mistake is marked at its column', async () => {
  const page = await open(env, search('{app="hello"} |= "x" | level=='), { allow: [/400/] });
  await page.waitForSelector('.notice.error');
  assert.match(await page.locator('.notice').textContent(), /The query has a mistake.*parse error at line 1, col \d+/s);
  const [line, caret] = (await page.locator('.notice .source').textContent()).split('\n');
  assert.equal(line.startsWith('{app="hello"}'), true);
  assert.ok(caret.indexOf('^') > 20);
  await page.goto(env.front.url + search('{app="hello"} |= | json'));
  await page.locator('.cm-mistake').waitFor();
  await page.done();
});

test('words for a wrong time, a range without lines, and a limit', async () => {
  const page = await open(env, search('{app="hello"}', '&from=yesterday'), { allow: [/400/] });
  assert.match(await page.locator('.notice').textContent(), /“yesterday” is no time/);
  await page.goto(env.front.url + search('{app="hello"}', '&from=now-2d&to=now-1d'));
  await page.locator('.notice', { hasText: 'No lines in this range' }).waitFor();
  await page.goto(env.front.url + search('{app="hello"}', '&from=now-50d'));
  await until('limit', async () => /query time range exceeds the limit/.test(await page.locator('.notice').textContent()));
  await page.done();
});

test('a request ends when its view goes', async () => {
  holding = 'query_range';
  const page = await open(env, search('{app="hello"}'));
  const ended = [];
  page.on('requestfailed', (r) => ended.push(r.url()));
  await page.waitForTimeout(500);
  await page.getByRole('link', { name: 'Node' }).click();
  await until('cancelled', () => ended.filter((u) => u.includes('query_range')).length >= 2);
  holding = null;
  await page.done();
});

test('a server that cannot be reached has words, and comes back', async () => {
  const other = await startServer();
  const front = await serve({ target: other.url });
  await push(other.url, [{ stream: { app: 'a' }, values: [[String(nowNs(1000)), 'here']] }]);
  const page = await open({ ...env, front }, search('{app="a"}'), { allow: [/ERR_|Failed to load/] });
  await rows(page).first().waitFor();
  other.child.kill('SIGSTOP');
  await front.close();
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('.notice.error', { hasText: 'The server cannot be reached' }).waitFor();
  for (const view of ['Explore', 'Alerts', 'Deletions', 'Node']) {
    await page.getByRole('link', { name: view, exact: true }).click();
    await page.locator('.notice.error', { hasText: 'The server cannot be reached' }).waitFor();
  }
  other.child.kill('SIGCONT');
  const back = await serve({ target: other.url, port: Number(new URL(front.base).port) });
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator('.node-grid').waitFor();
  await page.done();
  await back.close();
  await other.stop();
});

test('tenants: asked for, sent, in the address, and kept apart', async () => {
  const other = await startServer('--auth.enabled=true');
  const front = await serve({ target: other.url });
  await push(other.url, [{ stream: { app: 'a' }, values: [[String(nowNs(1000)), 'of team a']] }], 'team-a');
  await push(other.url, [{ stream: { app: 'a' }, values: [[String(nowNs(1000)), 'of team b']] }], 'team-b');
  const page = await open({ ...env, front }, search('{app="a"}'), { allow: [/401/, /400/] });
  await page.locator('.notice', { hasText: 'A tenant is needed' }).waitFor();
  await page.locator('.notice input[name=tenant]').fill('team-a');
  await page.getByRole('button', { name: 'Use tenant' }).click();
  await rows(page).first().waitFor();
  assert.match(await rows(page).first().textContent(), /of team a/);
  assert.match(page.url(), /tenant=team-a/);
  await page.locator('nav').getByRole('link', { name: 'Tail' }).click();
  await page.locator('.row', { hasText: 'of team a' }).waitFor();
  await page.goto(front.url + search('{app="a"}', '&tenant=team-b'));
  await page.locator('.row', { hasText: 'of team b' }).waitFor();
  await page.goto(front.url + search('{app="a"}', '&tenant=' + encodeURIComponent('<img src=x onerror=alert(1)>')));
  await page.locator('.notice.error').waitFor();
  assert.equal(await page.evaluate(() => window.alerted), undefined);
  assert.equal(await page.locator('img').count(), 0);
  await page.done();
  await front.close();
  await other.stop();
});

test('a tenant with a low limit gets smaller pages, and loses nothing', async () => {
  const other = await startServer('--limits.max-entries-limit-per-query=40');
  const front = await serve({ target: other.url });
  const at = nowNs(5000);
  const names = Array.from({ length: 250 }, (_, i) => 'l' + String(i).padStart(3, '0'));
  await push(other.url, [{ stream: { app: 'x' }, values: names.map((n) => [String(at), n]) }]);
  const page = await open({ ...env, front }, search('{app="x"}', '&dir=oldest'), { allow: [/400/] });
  assert.deepEqual(await allLines(page), names);
  await page.locator('.row', { hasText: 'l249' }).click();
  await page.getByRole('button', { name: 'Surrounding lines' }).click();
  await page.waitForSelector('.context .here');
  assert.deepEqual(await page.locator('.context li .row-text').allTextContents(), names.slice(244));
  await page.done();
  await front.close();
  await other.stop();
});

test('deletions: counted, asked about, listed, cancelled; and words where they are off', async () => {
  const page = await open(env, '#/deletions', { allow: [/40\d/] });
  await page.locator('.notice', { hasText: 'Deletion is switched off' }).waitFor();
  await page.done();
  const other = await startServer('--compactor.retention-enabled=true', '--limits.deletion-mode=filter-and-delete');
  const front = await serve({ target: other.url });
  await push(other.url, [{ stream: { app: 'pay' }, values: [[String(nowNs(5000)), 'card 1'], [String(nowNs(5000)), 'paid']] }]);
  const p = await open({ ...env, front }, '#/deletions');
  await p.getByLabel('Lines to delete').fill('{app="pay"} |= "card"');
  await p.getByRole('button', { name: /Count/ }).click();
  await p.getByRole('dialog', { name: 'Delete 1 lines?' }).getByRole('button', { name: 'Delete' }).click();
  await p.locator('table.data tr', { hasText: '|= "card"' }).waitFor();
  const lines = async () => (await (await fetch(`${other.url}/loki/api/v1/query_range?query=${encodeURIComponent('{app="pay"}')}`)).json()).data.result.flatMap((s) => s.values).length;
  assert.equal(await lines(), 1);
  await p.locator('table.data').getByRole('button', { name: 'Cancel' }).click();
  await p.getByRole('button', { name: 'Cancel the deletion' }).click();
  await p.locator('.notice', { hasText: 'No deletions' }).waitFor();
  assert.equal(await lines(), 2);
  await p.done();
  await front.close();
  await other.stop();
});
