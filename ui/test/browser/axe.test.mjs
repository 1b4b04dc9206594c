// Accessibility: axe finds nothing in any view, in both themes, wide and narrow.

import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { nowNs, open, push, search, setup } from './helpers.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let env;
before(async () => {
  env = await setup({ flags: ['--compactor.retention-enabled=true', '--limits.deletion-mode=filter-and-delete'] });
  const levels = ['critical', 'error', 'warn', 'info', 'debug', 'trace', 'nothing'];
  const at = nowNs(600_000);
  await push(env.server.url, [
    { stream: { service_name: 'shop', env: 'prod' }, values: Array.from({ length: 300 }, (_, i) => [String(at + BigInt(i) * 1_000_000_000n), `level=${levels[i % 7]} n=${i} took=${i}ms \u001b[3${i % 8}mcolour ${i % 8}\u001b[0m needle`]) },
    { stream: { service_name: 'long' }, values: [[String(at), 'x'.repeat(20_000) + ' needle \u0000']] },
  ]);
  await fetch(env.server.url + '/loki/api/v1/rules/team', { method: 'POST', body: 'name: g\ninterval: 1s\nrules:\n  - alert: Always\n    expr: vector(3) > 2\n  - alert: Never\n    expr: vector(1) > 2\n', headers: { 'Content-Type': 'application/yaml' } });
  await fetch(env.server.url + '/loki/api/v1/push', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ streams: [{ stream: { app: 'old' }, values: [['1000000000000000000', 'x']] }] }) });
  await fetch(`${env.server.url}/loki/api/v1/delete?start=1700000000&query=${encodeURIComponent('{app="gone"}')}`, { method: 'POST' });
  await new Promise((r) => setTimeout(r, 1500));
});
after(() => env.end());

const all = '{service_name=~".+"} |= "needle"';
const VIEWS = {
  search: [search(all), '.row'],
  wrapped: [search(all, '&wrap=1&dir=oldest'), '.row'],
  line: [search(all), '.row', async (p) => { await p.locator('.row').nth(1).click(); await p.locator('.details').waitFor(); }],
  context: [search(all), '.row', async (p) => { await p.locator('.row').nth(1).click(); await p.getByRole('button', { name: 'Surrounding lines' }).click(); await p.locator('.context .here').waitFor(); }],
  table: [search(all, '&mode=table&cols=n,took,line'), '.row'],
  chart: [search('sum by (detected_level) (count_over_time({service_name="shop"}[$__auto]))', '&mode=chart'), '.u-over'],
  mistake: [search('{service_name="shop"'), '.notice.error'],
  nothing: [search('{service_name="shop"} |= "none"'), '.notice'],
  time: [search(all), '.row', async (p) => { await p.locator('.time-picker button').first().click(); }],
  download: [search(all), '.row', async (p) => { await p.getByRole('button', { name: 'Download' }).click(); }],
  help: [search(all), '.row', async (p) => { await p.getByRole('button', { name: 'Keys (?)' }).click(); }],
  services: ['#/explore', '.card-row .card-name'],
  labels: ['#/explore?sel=shop', '.value-name'],
  fields: ['#/explore?sel=shop&tab=fields', '.value-name'],
  patterns: ['#/explore?sel=shop&tab=patterns', '.pattern-text'],
  tail: [`#/tail?q=${encodeURIComponent(all)}`, '.row'],
  alerts: ['#/alerts', '.alert-row'],
  deletions: ['#/deletions', 'table.data td'],
  node: ['#/node', '.node-grid'],
};

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1280, 360]) {
    test(`axe, ${colorScheme}, ${width} pixels wide`, { timeout: 180_000 }, async () => {
      const found = [];
      const page = await open(env, '#/node', { context: { colorScheme, viewport: { width, height: 800 } }, allow: [/400/] });
      for (const [name, [hash, wait, act]] of Object.entries(VIEWS)) {
        await page.goto('about:blank');
        await page.goto(env.front.url + hash);
        await page.locator(wait).first().waitFor();
        await act?.(page);
        if (name === 'search') await page.locator('.query-editor').waitFor();
        await page.waitForTimeout(150);
        // By way of the debugger, so that the content policy stays as it is.
        await page.evaluate(axe);
        const result = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
        for (const v of result.violations) found.push(`${name}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) found.push(`${name}: ${wide} pixels too wide`);
      }
      assert.deepEqual(found, []);
      await page.done();
    });
  }
}
