// Pictures of every view in both themes at three widths, for people to look at.
//
//   node test/shots.mjs http://127.0.0.1:3200/ui/ folder [only-this-view]

import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [, , url, folder, only] = process.argv;
mkdirSync(folder, { recursive: true });
const q = (text) => encodeURIComponent(text);
const VIEWS = {
  search: { hash: `#/search?q=${q('{service_name=~".+"}')}&tz=UTC` },
  line: { hash: `#/search?q=${q('{service_name="shop"} |= "error"')}&tz=UTC`, act: async (p) => { await p.locator('.row').nth(3).click(); } },
  context: { hash: `#/search?q=${q('{service_name="nova"} |= "WARNING"')}&tz=UTC`, act: async (p) => { await p.locator('.row').nth(1).click(); await p.getByRole('button', { name: 'Surrounding lines' }).click(); await p.waitForSelector('.context .here'); } },
  table: { hash: `#/search?q=${q('{service_name="shop"} | json')}&mode=table&cols=status,path,took_ms,msg&tz=UTC` },
  chart: { hash: `#/search?q=${q('sum by (service_name) (count_over_time({service_name=~".+"}[$__auto]))')}&tz=UTC`, wait: '.u-over' },
  mistake: { hash: `#/search?q=${q('{service_name="shop" |= "x"')}&tz=UTC`, wait: '.notice' },
  nothing: { hash: `#/search?q=${q('{service_name="shop"} |= "no such text"')}&tz=UTC`, wait: '.notice' },
  time: { hash: `#/search?q=${q('{service_name=~".+"}')}&tz=UTC`, act: async (p) => { await p.locator('.time-picker button').first().click(); } },
  explore: { hash: '#/explore?tz=UTC', wait: '.card-row .sparkline rect' },
  labels: { hash: '#/explore?sel=shop&tab=labels&tz=UTC', wait: '.value-name' },
  fields: { hash: '#/explore?sel=shop&tab=fields&tz=UTC', wait: '.value-name' },
  patterns: { hash: '#/explore?sel=nova&tab=patterns&tz=UTC', wait: '.pattern-text' },
  tail: { hash: `#/tail?q=${q('{service_name=~".+"}')}&tz=UTC`, wait: '.row' },
  alerts: { hash: '#/alerts?tz=UTC', wait: '.group,.notice' },
  deletions: { hash: '#/deletions?tz=UTC', wait: '.delete-form' },
  node: { hash: '#/node?tz=UTC', wait: '.node-grid' },
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
