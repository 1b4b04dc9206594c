// Pictures of every view in both themes at three widths, for people to look at.
//
//   node test/shots.mjs http://127.0.0.1:3200/ui/ folder [only-this-view]

import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [, , url, folder, only] = process.argv;
mkdirSync(folder, { recursive: true });
const q = (text) => encodeURIComponent(text);
/** States that a server with lines does not have: answers are put in its place. */
const answer = (status, body) => (page) => page.route(/\/loki\/api\//, (r) => r.fulfill({ status, contentType: typeof body === 'string' ? 'text/plain' : 'application/json', body: typeof body === 'string' ? body : JSON.stringify(body) }));
const none = { status: 'success', data: { resultType: 'streams', result: [] } };
const VIEWS = {
  search: { hash: `#/search?q=${q('{service_name=~".+"}')}&tz=UTC` },
  line: { hash: `#/search?q=${q('{service_name="shop"} |= "error"')}&tz=UTC`, act: async (p) => { await p.locator('.row').nth(3).click(); } },
  context: { hash: `#/search?q=${q('{service_name="nova"} |= "WARNING"')}&tz=UTC`, act: async (p) => { await p.locator('.row').nth(1).click(); await p.getByRole('button', { name: 'Surrounding lines' }).click(); await p.waitForSelector('.context .here'); } },
  table: { hash: `#/search?q=${q('{service_name="shop"} | json')}&mode=table&cols=status,path,took_ms,msg&tz=UTC` },
  chart: { hash: `#/search?q=${q('sum by (service_name) (count_over_time({service_name=~".+"}[$__auto]))')}&tz=UTC`, wait: '.u-over' },
  metadata: { hash: `#/search?q=${q('{service_name="shop"}')}&tz=UTC&wrap=1` },
  many: { hash: `#/search?q=${q('sum by (host, service_name, cluster, env) (rate({service_name=~".+"}[$__auto]))')}&tz=UTC`, wait: '.u-over' },
  number: { hash: `#/search?q=${q('sum by (service_name) (count_over_time({service_name=~".+"}[5m]))')}&mode=table&tz=UTC`, wait: '.metrics td' },
  mistake: { hash: `#/search?q=${q('{service_name="shop" |= "x"')}&tz=UTC`, wait: '.notice' },
  unreachable: { hash: `#/search?q=${q('{service_name="shop"}')}&tz=UTC`, before: (p) => p.route(/\/loki\/api\//, (r) => r.abort()), wait: '.notice' },
  tenant: { hash: `#/search?q=${q('{service_name="shop"}')}&tz=UTC`, before: answer(401, 'no org id'), wait: '.notice' },
  busy: { hash: `#/search?q=${q('{service_name="shop"}')}&tz=UTC`, before: answer(429, 'too many outstanding requests'), wait: '.notice' },
  empty: { hash: '#/search?tz=UTC', before: (p) => p.route(/\/loki\/api\//, (r) => r.fulfill({ json: /labels/.test(r.request().url()) ? { status: 'success', data: [] } : none })), wait: '.notice' },
  nothing: { hash: `#/search?q=${q('{service_name="shop"} |= "no such text"')}&tz=UTC`, wait: '.notice' },
  time: { hash: `#/search?q=${q('{service_name=~".+"}')}&tz=UTC`, act: async (p) => { await p.locator('.time-picker button').first().click(); } },
  explore: { hash: '#/explore?tz=UTC', wait: '.card-row .sparkline rect' },
  labels: { hash: '#/explore?sel=shop&tab=labels&tz=UTC', wait: '.value-name' },
  fields: { hash: '#/explore?sel=shop&tab=fields&tz=UTC', wait: '.value-name' },
  patterns: { hash: '#/explore?sel=nova&tab=patterns&tz=UTC', wait: '.pattern-text' },
  tail: { hash: `#/tail?q=${q('{service_name=~".+"}')}&tz=UTC`, wait: '.row' },
  paused: { hash: `#/tail?q=${q('{service_name=~".+"}')}&tz=UTC`, wait: '.row', act: async (p) => {
    await p.locator('.live.open').waitFor();
    await p.locator('.list').hover();
    await p.mouse.wheel(0, -600);
    await p.getByRole('button', { name: 'Follow', exact: true }).waitFor();
    const now = BigInt(Date.now()) * 1_000_000n;
    const values = Array.from({ length: 12 }, (_, i) => [String(now + BigInt(i)), `level=info component=ledger order=${1000 + i} msg="order booked"`]);
    await p.request.post(new URL('../loki/api/v1/push', url).href, { data: { streams: [{ stream: { service_name: 'billing', env: 'prod', cluster: 'eu-1', host: 'billing-1' }, values }] } });
    await p.getByRole('button', { name: /new lines/ }).waitFor();
  } },
  alerts: { hash: '#/alerts?tz=UTC', wait: '.group,.notice' },
  deletions: { hash: '#/deletions?tz=UTC', wait: '.delete-form' },
  dialog: { hash: '#/deletions?tz=UTC', wait: '.delete-form', act: async (p) => {
    await p.getByLabel('Lines to delete').fill('{service_name="shop"} |= "upstream closed"');
    await p.getByRole('button', { name: /Count/ }).click();
    await p.getByRole('dialog').waitFor();
  } },
  node: { hash: '#/node?tz=UTC', wait: '.node-grid' },
  help: { hash: `#/search?q=${q('{service_name="shop"}')}&tz=UTC`, act: async (p) => { await p.getByRole('button', { name: 'Keys (?)' }).click(); } },
  download: { hash: `#/search?q=${q('{service_name="shop"}')}&tz=UTC`, act: async (p) => { await p.getByRole('button', { name: 'Download' }).click(); } },
};
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
for (const width of [1440, 1024, 360]) {
  for (const theme of ['light', 'dark']) {
    const context = await browser.newContext({ viewport: { width, height: width === 360 ? 740 : 900 }, colorScheme: theme });
    for (const [name, v] of Object.entries(VIEWS)) {
      if (only && !only.split(',').includes(name)) continue;
      const page = await context.newPage();
      page.on('console', (m) => { if (m.type() === 'error') console.log(name, m.text()); });
      page.on('pageerror', (e) => console.log(name, 'page error', e.message));
      try {
        await v.before?.(page);
        await page.goto(url + v.hash);
        await page.waitForSelector(v.wait ?? '.row', { timeout: 10_000 });
        await v.act?.(page);
        await page.waitForTimeout(600);
      } catch (e) {
        console.log(name, width, theme, e.message.split('\n')[0]);
      }
      await page.screenshot({ path: `${folder}/${name}-${width}-${theme}.png` });
      await page.close();
    }
    await context.close();
  }
}
await browser.close();
