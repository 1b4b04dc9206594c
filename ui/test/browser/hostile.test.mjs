// Log data is hostile. Every corner of the page shows it as text.

import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { nowNs, open, push, queryText, rows, search, setup, until } from './helpers.mjs';

const EVIL = '<img src=x onerror=alert(1)> \u001b[31m&lt;b&gt;\u001b[0m';
const BIDI = 'user \u202etxt.exe\u202c end\u0000nul \u200bzero \u2066iso';
const MEGABYTE = 'start ' + 'x'.repeat(1_000_000) + ' needle end';
const LONG = 'y'.repeat(150_000) + 'needle' + 'z'.repeat(49_994);
const FIELDS = JSON.stringify(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`field_${i}`, `value ${i}`])));
let env;
const at = nowNs(5000);

before(async () => {
  env = await setup({ flags: ['--limits.max-line-size=4MB'] });
  await push(env.server.url, [
    { stream: { app: 'evil', note: EVIL }, values: [[String(at), EVIL, { meta: EVIL }], [String(at + 1n), BIDI], [String(at + 2n), JSON.stringify({ '<img src=x onerror=alert(2)>': EVIL, url: 'javascript:alert(3)' })]] },
    { stream: { app: 'big' }, values: [...Array.from({ length: 99 }, (_, i) => [String(at + BigInt(i)), `short ${i}`]), [String(at + 200n), LONG], [String(at + 201n), FIELDS], [String(at + 202n), MEGABYTE]] },
    { stream: { app: 'js', service_name: '<script>alert(4)</script>' }, values: [[String(at), 'x <b>1</b>'], [String(at + 1n), 'x <b>2</b>'], [String(at + 2n), 'x <b>3</b>']] },
    // A series with more labels than fit on a screen, and very many values of one.
    { stream: { app: 'labels', ...Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`l${i}`, 'v'.repeat(1500)])) }, values: [[String(at), 'many labels']] },
    ...Array.from({ length: 10_000 }, (_, i) => ({ stream: { app: 'wide', pod: `pod-${i}` }, values: [[String(at), `p ${i}`]] })),
  ]);
});
after(() => env.end());

async function harmless(page) {
  assert.equal(await page.evaluate(() => window.alerted), undefined);
  assert.equal(await page.locator('img, script:not([type=module]), iframe, b:has-text("1"), #app a[href^="javascript"]').count(), 0);
}

test('markup, colours, and characters that are not shown', async () => {
  const page = await open(env, search('{app="evil"}', '&dir=oldest'));
  await rows(page).nth(2).waitFor();
  const [first, second] = await page.locator('.row-text').allTextContents();
  assert.equal(first, '<img src=x onerror=alert(1)> &lt;b&gt;');
  assert.equal(await page.locator('.row .ansi-1').first().textContent(), '&lt;b&gt;');
  assert.equal(second, 'user U+202Etxt.exeU+202C end\u2400nul U+200Bzero U+2066iso');
  assert.ok(!/[\u202e\u2066]/.test(await page.locator('main').innerText()));
  for (let i = 0; i < 3; i++) {
    await rows(page).nth(i).click();
    await page.locator('.details .whole').waitFor();
    await harmless(page);
  }
  await page.getByRole('button', { name: /^Only _img_src_x_onerror_alert_2__ = / }).click();
  await until('filter', async () => /_img_src_x_onerror_alert_2__="<img src=x onerror=alert\(1\)> \\u001b/.test(await queryText(page)));
  await rows(page).first().waitFor();
  await harmless(page);
  await page.done();
});

test('the same in the other corners: service, pattern, chart, table, query error, address', async () => {
  const svc = encodeURIComponent('<script>alert(4)</script>');
  const page = await open(env, '#/explore', { allow: [/400/] });
  const here = (hash) => page.goto(env.front.url + hash);
  await page.locator('.card-name', { hasText: '<script>' }).waitFor();
  for (const tab of ['labels', 'fields', 'patterns']) {
    await here(`#/explore?sel=${svc}&tab=${tab}`);
    await page.locator('h1', { hasText: '<script>alert(4)</script>' }).waitFor();
    await page.waitForTimeout(300);
    await harmless(page);
  }
  await here(search('sum by (note) (count_over_time({app="evil"}[1m]))'));
  await page.locator('.metrics td', { hasText: '<img src=x' }).waitFor();
  await here(search('{app="evil"}', '&mode=table&cols=note,meta,' + encodeURIComponent('<img src=x onerror=alert(5)>')));
  await page.locator('.cell', { hasText: '<img src=x' }).first().waitFor();
  await harmless(page);
  await here(search(EVIL));
  await page.locator('.notice.error').waitFor();
  await here(`#/tail?q=${encodeURIComponent('{app="evil"}')}`);
  await page.locator('.row', { hasText: '<img' }).first().waitFor();
  await harmless(page);
  await page.done();
});

test('the same as tenant, in every part of the address, in rules and in what is copied', async () => {
  // A `b` with a 1 in it is what another line would have made.
  const rule = JSON.stringify(EVIL.replaceAll('1', '9'));
  const rules = `name: ${rule}\ninterval: 1s\nrules:\n  - alert: ${rule}\n    expr: vector(3) > 2\n    annotations: {summary: ${rule}, link: "javascript:alert(6)"}\n`;
  assert.equal((await fetch(env.server.url + '/loki/api/v1/rules/evil', { method: 'POST', body: rules, headers: { 'Content-Type': 'application/yaml' } })).status, 202);
  const evil = encodeURIComponent(EVIL);
  const page = await open(env, '#/alerts', { allow: [/40[0-9]/] });
  await page.locator('.alert-row', { hasText: '<img src=x' }).waitFor({ timeout: 20_000 });
  await harmless(page);
  for (const view of ['search', 'explore', 'tail', 'alerts', 'deletions', 'node', evil]) {
    await page.goto(env.front.url + `#/${view}?q=${evil}&from=${evil}&to=${evil}&tz=${evil}&dir=${evil}&mode=${evil}&cols=${evil}&line=${evil}&sel=${evil}&tab=${evil}&tenant=${evil}&wrap=${evil}&context=1`);
    await page.reload();
    await page.locator('main h1').first().waitFor({ state: 'attached' });
    await page.locator('.tenant', { hasText: '<img src=x' }).waitFor();
    await page.waitForTimeout(200);
    await harmless(page);
  }
  for (const q of ['{app="evil"} | json', '{app="evil"}']) {
    await page.goto(env.front.url + search(q, '&dir=oldest&line=javascript:alert(7)&cols=' + encodeURIComponent('javascript:alert(8)')));
    await rows(page).nth(2).click();
    await page.locator('.details', { hasText: 'javascript:alert(3)' }).waitFor();
    await harmless(page);
    assert.deepEqual(await page.locator('a').evaluateAll((all) => all.map((a) => a.protocol).filter((p) => p !== 'http:')), []);
  }
  // A zone that is none: times are shown in the browser's.
  await page.goto(env.front.url + search('{app="evil"}', `&tz=${evil}`));
  await page.reload();
  await rows(page).first().waitFor();
  await page.locator('.u-over, .histogram-plot rect').first().waitFor();
  // A tenant that would end its word in a shell does not.
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(env.front.url + search('{app="evil"}', '&tenant=' + encodeURIComponent("a'; touch /tmp/x; '")));
  await rows(page).first().waitFor();
  await page.getByRole('button', { name: 'Download' }).click();
  await page.getByRole('button', { name: 'Copy as curl' }).click();
  await page.locator('.toast').waitFor();
  assert.ok((await page.evaluate(() => navigator.clipboard.readText())).includes("-H 'X-Scope-OrgID: a'\\''; touch /tmp/x; '\\'''"));
  await page.done();
});

test('one long line and hundreds of fields among short ones: painted at once, whole on demand', async () => {
  // A label of 10,000 values cannot be ranked, which is a 400.
  const page = await open(env, search('{app="big"} |~ "short|needle|field"'), { allow: [/400/] });
  await rows(page).first().waitFor();
  // From the click to the frame with the lines, the answer of the server included.
  const painted = () => page.evaluate(async () => {
    const old = document.querySelector('.list');
    const begun = performance.now();
    document.querySelector('.run').click();
    for (;;) {
      await new Promise((r) => requestAnimationFrame(r));
      const list = document.querySelector('.list');
      if (list && list !== old && list.querySelector('.row')) break;
    }
    await new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
    return performance.now() - begun;
  });
  const scrolled = () => page.evaluate(async () => {
    const list = document.querySelector('.list');
    const times = [];
    let last = await new Promise((r) => requestAnimationFrame(r));
    for (let i = 0; i < 60; i++) {
      list.scrollTop = (i % 30) * 80;
      const now = await new Promise((r) => requestAnimationFrame(r));
      times.push(now - last);
      last = now;
    }
    return times.sort((a, b) => a - b)[56];
  });
  // A machine that does something else meanwhile gets another try.
  for (const [what, measure, most] of [['painted', painted, 1000], ['frames of scrolling, 95 % under', scrolled, 60]]) {
    let ms = Infinity;
    for (let tries = 0; tries < 4 && ms >= most; tries++) ms = Math.min(ms, await measure());
    console.log(`# long lines: ${what} ${ms.toFixed(0)} ms`);
    assert.ok(ms < most, `${what} ${ms} ms`);
  }
  await page.evaluate(() => { document.querySelector('.list').scrollTop = 0; });
  const long = page.locator('.row', { hasText: '200 kB' });
  assert.match(await long.textContent(), /200 kB, cut · open to show all/);
  await page.goto(env.front.url + search('{app="big"} |= "needle"'));
  await page.locator('.row', { hasText: '200 kB, cut · match at 150,000' }).click();
  await page.locator('.whole.long').waitFor();
  assert.equal((await page.locator('.whole').textContent()).length, 200_000);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy', exact: true }).click();
  await page.getByRole('button', { name: 'Line', exact: true }).click();
  await page.locator('.toast').waitFor();
  assert.ok(await page.evaluate(async (all) => (await navigator.clipboard.readText()) === all, LONG));
  await page.locator('.row', { hasText: '1.0 MB' }).click();
  await until('all of it', async () => (await page.locator('.whole').textContent()).length === MEGABYTE.length);
  await page.goto(env.front.url + search('{app="big"} |= "field_499"'));
  await rows(page).first().click();
  await page.locator('.fields tr', { hasText: 'field_499' }).waitFor();
  assert.equal(await page.locator('.fields tr', { hasText: /^field_/ }).count(), 500);
  await page.goto(env.front.url + search('{app="wide"}', '&wrap=1'));
  await rows(page).first().waitFor();
  await page.goto(env.front.url + '#/explore?sel=wide');
  const card = page.locator('.card', { hasText: /(9|10),\d{3} values/ });
  await card.waitFor();
  await card.locator('.field-error', { hasText: 'too many values to rank' }).waitFor();
  await page.goto(env.front.url + search('{app="labels"}'));
  await rows(page).first().click();
  await page.locator('.fields tr', { hasText: 'l12' }).waitFor();
  await page.done();
});

test('100,000 lines scroll at the speed of the screen', { timeout: 120_000 }, async () => {
  for (let k = 0; k < 10; k++) {
    await push(env.server.url, [{ stream: { app: 'scroll' }, values: Array.from({ length: 10_000 }, (_, i) => [String(at - 1_000_000_000n + BigInt(k * 10_000 + i)), `level=info line=${k * 10_000 + i} some text of usual length that a line may have`]) }]);
  }
  const page = await open(env, search('{app="scroll"}', '&from=now-2h'));
  await rows(page).first().waitFor();
  await until('all loaded', () => page.evaluate(async () => {
    const list = document.querySelector('.list');
    list.scrollTop = list.scrollHeight;
    await new Promise((r) => requestAnimationFrame(r));
    return /^100,000/.test(document.querySelector('.status').textContent);
  }), 90_000);
  const scroll = () => page.evaluate(async () => {
    const list = document.querySelector('.list');
    list.scrollTop = 1_200_000;
    await new Promise((r) => setTimeout(r, 300));
    const times = [];
    let last = await new Promise((r) => requestAnimationFrame(r));
    for (let i = 0; i < 180; i++) {
      list.scrollTop += 180;
      const now = await new Promise((r) => requestAnimationFrame(r));
      times.push(now - last);
      last = now;
    }
    times.sort((a, b) => a - b);
    return { median: times[90], p95: times[171] };
  });
  // A machine that does something else meanwhile gets another try; a list that draws too much fails all of them.
  let frames;
  for (let tries = 0; tries < 5 && !(frames?.median < 18 && frames.p95 < 60); tries++) {
    frames = await scroll();
    console.log(`# frames while scrolling: median ${frames.median.toFixed(1)} ms, 95 % under ${frames.p95.toFixed(1)} ms`);
  }
  assert.ok(frames.median < 18 && frames.p95 < 60, `${frames.median} ${frames.p95}`);
  assert.ok(await rows(page).count() < 100);
  await page.done();
});
