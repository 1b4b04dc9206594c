// Surrounding lines: exact, of one stream only, and without a request that is not needed.

import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { serve } from '../serve.mjs';
import { nowNs, open, push, rows, search, setup, startServer, until } from './helpers.mjs';

let env;
let holding = null;
const at = nowNs(60_000);
const HOUR = 3_600_000_000_000n;
const name = (i, digits = 3) => 'l' + String(i).padStart(digits, '0');
const count = (n) => Array.from({ length: n }, (_, i) => i);

before(async () => {
  env = await setup({ proxy: { hold: (url) => holding !== null && url.includes(holding) } });
  await push(env.server.url, [
    { stream: { app: 'x' }, values: count(250).map((i) => [String(at), name(i)]) },
    { stream: { app: 'x', pod: 'other' }, values: [[String(at), 'of another stream']] },
    { stream: { app: 'many' }, values: count(2450).map((i) => [String(at), name(i, 4)]) },
    { stream: { app: 'two' }, values: count(8).map((i) => [String(at + BigInt(i) * 10n), `own=${i}`]) },
    // Around each of those, at the time of each, and an hour earlier.
    { stream: { app: 'two', pod: 'p' }, values: [
      ...count(30).map((i) => [String(at - HOUR + BigInt(i)), `early=${i}`]),
      ...count(90).map((i) => [String(at + BigInt(i)), `pod=${i}`]),
    ] },
    { stream: { app: 'meta' }, values: ['a', 'b', 'c'].map((id) => [String(at), 'same words', { trace: id }]) },
  ]);
});
after(() => env.end());

/** The paths of requests from now on, without the folder they are in. */
function requests(page) {
  const paths = [];
  page.on('request', (r) => { if (/\/loki\/api\//.test(r.url())) paths.push(new URL(r.url()).pathname.split('/v1/')[1]); });
  return paths;
}

async function surroundings(page) {
  await page.getByRole('button', { name: 'Surrounding lines' }).click();
  await page.waitForSelector('.context .here');
}

const texts = (page) => page.locator('.context li .row-text').allTextContents();
const here = (page) => page.locator('.context .here .row-text').textContent();
const more = (page, side) => page.getByRole('button', { name: 'More ' + side }).click();

test('context is exact at equal times, whatever the query does to the line', async () => {
  for (const query of ['{app="x"} |= "l120"', '{app="x"} |= "l120" | json | line_format "y"', '{app="x"} |= "l120" | line_format "y" | keep app | drop service_name',
    '{app="x"} |= "l120" | label_format app="renamed", new="{{.app}}" | line_format "y" | decolorize']) {
    const page = await open(env, search(query));
    await rows(page).first().click();
    const sent = requests(page);
    await surroundings(page);
    const shown = query.includes('line_format') ? 'y' : 'l120';
    assert.deepEqual(await texts(page), count(11).map((i) => (i === 5 ? shown : name(115 + i))), query);
    assert.match(page.url(), /context=1/);
    assert.deepEqual(sent, ['query_range', 'context'], query);
    await more(page, 'before');
    await until('more', async () => (await page.locator('.context li').count()) === 21);
    assert.equal((await texts(page))[0], 'l105');
    await more(page, 'after');
    await until('more', async () => (await page.locator('.context li').count()) === 31);
    assert.deepEqual(await texts(page), count(31).map((i) => (i === 15 ? shown : name(105 + i))), query);
    assert.deepEqual(sent, ['query_range', 'context', 'context', 'context'], query);
    await page.done();
  }
});

test('a stream with more labels is not mixed in, nor one with fewer', async () => {
  const page = await open(env, search('{app="two"} | logfmt | own="3"'));
  await rows(page).first().click();
  const sent = requests(page);
  await surroundings(page);
  assert.deepEqual(await texts(page), count(8).map((i) => `own=${i}`));
  assert.equal(await here(page), 'own=3');
  for (const side of ['before', 'after']) assert.ok(await page.getByRole('button', { name: 'Nothing ' + side }).isDisabled());
  assert.deepEqual(sent, ['query_range', 'context']);
  await page.done();
  // The same without the label that tells the streams apart.
  for (const query of ['{app="two"} |= "pod=2" !~ "2[0-9]" | keep app', '{app="two", pod="p"} | logfmt | pod_extracted="2"']) {
    const pods = await open(env, search(query));
    await rows(pods).first().click();
    await surroundings(pods);
    assert.deepEqual(await texts(pods), ['early=27', 'early=28', 'early=29', ...count(8).map((i) => `pod=${i}`)]);
    await more(pods, 'before');
    await until('an hour earlier', async () => (await texts(pods))[0] === 'early=17');
    await pods.done();
  }
});

test('lines that differ in their metadata alone are told apart', async () => {
  const page = await open(env, search('{app="meta"} | trace="b"'));
  await rows(page).first().click();
  await surroundings(page);
  assert.deepEqual(await texts(page), ['same words', 'same words', 'same words']);
  assert.deepEqual(await page.locator('.context li').evaluateAll((all) => all.map((l) => l.className)), ['', 'here', '']);
  await page.done();
});

test('a line is found behind pages of lines of its time', async () => {
  const page = await open(env, search('{app="many"}'));
  await page.locator('.row', { hasText: 'l2449' }).click();
  const sent = requests(page);
  await surroundings(page);
  assert.deepEqual(await texts(page), count(6).map((i) => name(2444 + i, 4)));
  assert.ok(await page.getByRole('button', { name: 'Nothing after' }).isDisabled());
  assert.deepEqual(sent, ['query_range', 'query_range', 'query_range', 'context']);
  await page.done();
});

test('context of a line that the address names, also where the list does not have it', async () => {
  const page = await open(env, search('{app="many"}', '&dir=oldest'));
  await page.locator('.row', { hasText: 'l0007' }).click();
  await surroundings(page);
  const shared = new URL(page.url()).hash;
  await page.done();
  for (const dir of ['oldest', 'newest']) {
    const again = await open(env, '#/node');
    await again.locator('.node-grid').waitFor();
    const sent = requests(again);
    await again.goto(env.front.url + shared.replace('dir=oldest', 'dir=' + dir));
    await again.waitForSelector('.context .here');
    assert.deepEqual(await texts(again), count(11).map((i) => name(2 + i, 4)));
    // The list and the histogram, then the line with its place, then its surroundings.
    assert.deepEqual(sent.filter((p) => /query_range|context/.test(p)), ['query_range', 'query_range', 'query_range', 'context'], dir);
    await again.done();
  }
});

test('context of a line of a tail, also of one that shows the lines of a metric query', async () => {
  for (const [query, shown] of [['{app="two"} | logfmt | own="3" | line_format "y {{.own}}"', 'y 3'], ['sum(rate({app="two", pod=""}[1m]))', 'own=3']]) {
    const page = await open(env, `#/tail?q=${encodeURIComponent(query)}`);
    await page.locator('.row', { hasText: shown }).click();
    const sent = requests(page);
    await surroundings(page);
    assert.deepEqual(await texts(page), count(8).map((i) => (i === 3 ? shown : `own=${i}`)));
    assert.deepEqual(sent, ['query_range', 'context']);
    await page.done();
  }
});

test('a tenant with a very low limit gets fewer lines at a time, and all of them', async () => {
  const other = await startServer('--limits.max-entries-limit-per-query=5');
  const front = await serve({ target: other.url });
  await push(other.url, [{ stream: { app: 'x' }, values: count(12).map((i) => [String(at), name(i)]) }]);
  const page = await open({ ...env, front }, search('{app="x"} |= "l006"'), { allow: [/400/] });
  await rows(page).first().click();
  await surroundings(page);
  assert.deepEqual(await texts(page), count(5).map((i) => name(4 + i)));
  await more(page, 'after');
  await page.getByRole('button', { name: 'Nothing after' }).waitFor();
  await more(page, 'before');
  await until('all', async () => (await page.locator('.context li').count()) === 12);
  assert.deepEqual(await texts(page), count(12).map((i) => name(i)));
  await page.done();
  await front.close();
  await other.stop();
});

test('an entry that is gone has words', async () => {
  const page = await open(env, search('{app="x"} |= "l120"'), { allow: [/404/] });
  await page.route('**/loki/api/v1/context', (route) => route.fulfill({ status: 404, body: 'no stream that query selects has the entry' }));
  await rows(page).first().click();
  await page.getByRole('button', { name: 'Surrounding lines' }).click();
  await page.locator('.context [role=alert]', { hasText: 'The stored entry of this line was not found. It may have been deleted since.' }).waitFor();
  await page.done();
});

test('requests end when the view goes, and a side is read once at a time', async () => {
  const page = await open(env, search('{app="x"} |= "l120"'));
  await rows(page).first().click();
  await surroundings(page);
  const [sent, ended] = [requests(page), []];
  page.on('requestfailed', (r) => ended.push(new URL(r.url()).pathname.split('/v1/')[1]));
  holding = 'v1/context';
  for (const _ of count(2)) await more(page, 'before');
  await more(page, 'after');
  await until('both sides', () => sent.length >= 2);
  await page.getByRole('button', { name: 'Close (Escape)' }).click();
  await until('cancelled', () => ended.length >= 2);
  assert.deepEqual([sent, ended], [['context', 'context'], ['context', 'context']]);
  holding = null;
  await page.done();
});
