import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { allLines, nowNs, open, push, queryText, rows, search, setup, until } from './helpers.mjs';

let env;
const at = nowNs(60_000);
const NUMBERS = { id: '9800125870205439', n: '1.10', m: '-9222742375320771188' };
const NUMBERS_LINE = `{"id":${NUMBERS.id},"n":${NUMBERS.n},"m":${NUMBERS.m}}`;
const name = (i, digits = 3) => 'l' + String(i).padStart(digits, '0');

before(async () => {
  env = await setup();
  await push(env.server.url, [
    { stream: { app: 'x' }, values: Array.from({ length: 250 }, (_, i) => [String(at), name(i)]) },
    { stream: { app: 'x', pod: 'other' }, values: [[String(at), 'of another stream']] },
    { stream: { app: 'many' }, values: Array.from({ length: 2450 }, (_, i) => [String(at), name(i, 4)]) },
    { stream: { app: 'web' }, values: Array.from({ length: 3000 }, (_, i) => [String(at - 30n * 60_000_000_000n + BigInt(i) * 500_000_000n), `level=${i % 10 ? 'info' : 'error'} n=${i} path=/p${i % 3}`]) },
    { stream: { app: 'json', service_name: 'numbers' }, values: [[String(at + 1n), NUMBERS_LINE, { trace_id: 'abc' }]] },
  ]);
});
after(() => env.end());

const count = (n) => Array.from({ length: n }, (_, i) => i);

test('all lines of one nanosecond, each once, newest and oldest first', async () => {
  for (const [app, n, digits] of [['x', 250, 3], ['many', 2450, 4]]) {
    for (const dir of ['newest', 'oldest']) {
      const page = await open(env, search(`{app="${app}", pod=""}`, `&dir=${dir}`));
      const expected = count(n).map((i) => name(i, digits));
      assert.deepEqual(await allLines(page), dir === 'oldest' ? expected : expected.reverse());
      await page.done();
    }
  }
});

test('paging goes on beyond the range, to both sides', async () => {
  const from = at - 20n * 60_000_000_000n;
  const to = at - 15n * 60_000_000_000n;
  const page = await open(env, search('{app="web"}', `&from=${from}&to=${to}`));
  const first = await allLines(page);
  assert.equal(first.length, 600);
  await page.getByRole('button', { name: /Older: 5m/ }).click();
  await until('older lines', async () => (await page.locator('.status').textContent()).startsWith('1,200'));
  await page.evaluate(() => { document.querySelector('.list').scrollTop = 0; });
  await page.getByRole('button', { name: /Newer: 5m/ }).click();
  await until('newer lines', async () => {
    await page.evaluate(() => { document.querySelector('.list').scrollTop = 0; });
    return (await page.locator('.status').textContent()).startsWith('1,800');
  });
  const lines = await allLines(page);
  const numbers = lines.map((l) => Number(l.match(/n=(\d+)/)[1]));
  assert.deepEqual(numbers, count(1800).map((i) => numbers[0] - i));
  await page.done();
});

test('wrapped lines of different heights: each once, and the place is kept while heights become known', async () => {
  const words = (i) => `w${i} ` + 'word '.repeat((i * 37) % 120);
  await push(env.server.url, [{ stream: { app: 'wrap' }, values: Array.from({ length: 600 }, (_, i) => [String(at + BigInt(i)), words(i)]) }]);
  const page = await open(env, search('{app="wrap"}', '&wrap=1&dir=oldest'));
  assert.deepEqual((await allLines(page)).map((t) => t.split(' ')[0]), count(600).map((i) => 'w' + i));
  // Upwards, heights above the view are news: what is in view must not move by them.
  const jumps = await page.evaluate(async () => {
    const list = document.querySelector('.list');
    const frame = () => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
    const worst = [];
    for (let i = 0; i < 30; i++) {
      const rows = [...list.querySelectorAll('.row')];
      const inView = rows.find((r) => r.getBoundingClientRect().top > list.getBoundingClientRect().top + 100);
      const [id, top] = [inView.id, inView.getBoundingClientRect().top];
      list.scrollTop -= 60;
      await frame();
      const now = document.getElementById(id)?.getBoundingClientRect().top;
      worst.push(Math.abs(now - top - 60));
    }
    return Math.max(...worst);
  });
  assert.ok(jumps < 2, String(jumps));
  await page.done();
});

test('a shared address opens the line, its context, and the same view', async () => {
  const page = await open(env, search('{app="x", pod=""}', '&dir=oldest&tz=Asia/Almaty'));
  await page.locator('.row', { hasText: 'l017' }).click();
  await page.getByRole('button', { name: 'Surrounding lines' }).click();
  await page.waitForSelector('.context .here');
  const again = await open(env, new URL(page.url()).hash.replace('dir=oldest', 'dir=newest'));
  await again.waitForSelector('.context .here');
  assert.equal(await again.locator('.whole').textContent(), 'l017');
  await again.done();
  await page.done();
});

test('numbers and times are the stored characters, also in filters', async () => {
  const page = await open(env, search('{service_name="numbers"}', '&tz=UTC'));
  await rows(page).first().click();
  const fields = await page.locator('.fields td bdi').allTextContents();
  for (const n of Object.values(NUMBERS)) assert.ok(fields.includes(n), n);
  assert.equal(await page.locator('.facts code').textContent(), String(at + 1n));
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const copied = async (name) => { await page.getByRole('button', { name, exact: true }).click(); await page.locator('.toast').waitFor(); return page.evaluate(() => navigator.clipboard.readText()); };
  for (const [name, value] of Object.entries(NUMBERS)) await until('copy of ' + name, async () => (await copied('Copy ' + name)) === value);
  for (const [form, has] of [['Line', NUMBERS_LINE], ['JSON', `{"timestamp":"${at + 1n}","line":${JSON.stringify(NUMBERS_LINE)}`], ['curl', `-d start=${at + 1n} -d end=${at + 2n}`], ['logcli', `.${String(at + 1n).slice(-9)}Z`]]) {
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    await until('copy of ' + form, async () => { if (!(await page.getByRole('button', { name: form, exact: true }).count())) await page.getByRole('button', { name: 'Copy', exact: true }).click(); return (await copied(form)).includes(has); });
  }
  for (const [name, value] of Object.entries(NUMBERS).slice(1)) {
    await page.getByRole('button', { name: `Only ${name} = this value` }).click();
    await until('filter', async () => (await queryText(page)) === `{service_name="numbers"} | json | ${name}="${value}"`);
    await until('the line', async () => (await rows(page).count()) === 1 && !(await page.locator('.progress.on').count()));
    await page.goto(env.front.url + search('{service_name="numbers"}', '&tz=UTC'));
    await rows(page).first().click();
    await page.locator('.details').waitFor();
  }
  await page.getByRole('button', { name: 'Only id = this value' }).click();
  await until('filter', async () => (await queryText(page)) === '{service_name="numbers"} | json | id="9800125870205439"');
  await until('the line', async () => (await rows(page).count()) === 1);
  await page.done();
});

test('clicks make filters: labels, metadata, without, and the level in the histogram', async () => {
  const page = await open(env, search('{app="web"}'));
  await rows(page).first().click();
  await page.getByRole('button', { name: 'Only service_name = this value' }).click();
  await until('label', async () => (await queryText(page)) === '{app="web", service_name="web"}');
  await page.waitForSelector('.legend-item');
  await page.locator('.legend-item', { hasText: 'error' }).click();
  await until('level', async () => (await queryText(page)).endsWith('| detected_level="error"'));
  await until('all are errors', async () => (await page.locator('.row-level').allTextContents()).every((t) => t === 'error'));
  await rows(page).first().click();
  await page.getByRole('button', { name: /^Without path/ }).click();
  await until('without', async () => /\| logfmt \| path!="\/p\d"$/.test(await queryText(page)));
  await page.done();
});

test('the histogram counts all lines and selects a range', async () => {
  const page = await open(env, search('{app="web"}'));
  await until('count', async () => /^3,000 lines/.test(await page.locator('.told').textContent()));
  const box = await page.locator('.histogram-plot svg').boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await until('range', async () => /from=\d{19}&to=\d{19}/.test(page.url()));
  await page.goBack();
  await until('back', async () => !/from=/.test(page.url()));
  await page.locator('.histogram-plot svg').focus();
  for (const key of ['ArrowLeft', 'Shift+ArrowLeft', 'Shift+ArrowLeft', 'Enter']) await page.keyboard.press(key);
  await until('range by keys', async () => /from=\d{19}&to=\d{19}/.test(page.url()));
  await page.done();
});

test('columns: added by a click, moved, sorted, and in the address', async () => {
  const page = await open(env, search('{app="web"}'));
  await rows(page).first().click();
  await page.getByRole('button', { name: 'Add column n', exact: true }).click();
  await page.getByRole('button', { name: 'Add column path', exact: true }).click();
  await until('columns', async () => /cols=n%2Cpath/.test(page.url()));
  await page.getByRole('button', { name: 'Close (Escape)' }).click();
  await page.getByRole('button', { name: 'Column path' }).click();
  await page.getByRole('button', { name: 'Move left' }).click();
  await until('order', async () => /cols=path%2Cn/.test(page.url()));
  await page.getByRole('button', { name: 'n: sort' }).click();
  const numbers = (await page.locator('.row').evaluateAll((all) => all.sort((a, b) => a.dataset.index - b.dataset.index).slice(0, 5).map((r) => Number(r.querySelectorAll('.cell')[1].textContent))));
  assert.deepEqual(numbers, [...numbers].sort((a, b) => a - b));
  await page.done();
});

test('completion offers labels and values of the server', async () => {
  const page = await open(env, search('{app="web"}'));
  await page.waitForSelector('.query-editor');
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.type('{se');
  await page.locator('.cm-tooltip-autocomplete li', { hasText: 'service_name' }).waitFor();
  await page.waitForTimeout(100);
  await page.keyboard.press('Enter');
  await page.keyboard.type('="num');
  await page.locator('.cm-tooltip-autocomplete li', { hasText: 'numbers' }).waitFor();
  await page.waitForTimeout(100);
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  await until('run', async () => (await queryText(page)) === '{service_name="numbers"}');
  await page.done();
});

test('text in any case, wrap, and downloads with every character', async () => {
  const page = await open(env, search('{app=~"json|web"}'));
  await page.getByRole('searchbox').fill('TRACE?ID(');
  await page.getByRole('searchbox').press('Enter');
  await until('filter', async () => (await queryText(page)).endsWith('|~ "(?i)TRACE\\\\?ID\\\\("'));
  await page.waitForSelector('.notice');
  await page.goto(env.front.url + search('{app="json"}'));
  await rows(page).first().waitFor();
  for (const [kind, has] of [['JSON lines', `{"timestamp":"${at + 1n}","line":${JSON.stringify(NUMBERS_LINE)}`], ['CSV', `${at + 1n},"${NUMBERS_LINE.replaceAll('"', '""')}"`], [/^Parquet/, 'PAR1']]) {
    const waiting = page.waitForEvent('download');
    if (!(await page.locator('.download .panel').count())) await page.getByRole('button', { name: 'Download' }).click();
    await page.getByRole('button', { name: kind }).click();
    const stream = await (await waiting).createReadStream();
    let text = '';
    for await (const chunk of stream) text += chunk.toString('latin1');
    assert.ok(text.includes(has), `${kind}: ${text.slice(0, 200)}`);
  }
  await page.done();
});
