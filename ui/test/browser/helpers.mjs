// A server of its own with an empty store for each file of tests, the page in front of it, and Chromium.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { serve } from '../serve.mjs';

const freePort = () => new Promise((resolve) => { const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => resolve(port)); }); });

export async function startServer(...flags) {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'logsvc-ui-'));
  const child = spawn(process.env.LOGSVC, ['--data-dir', folder, '--server.http-listen-port', String(port), ...flags], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (d) => { log = (log + d).slice(-4000); });
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; ; i++) {
    if (i > 200 || child.exitCode !== null) throw new Error('the server does not start: ' + log);
    if (await fetch(url + '/ready').then((r) => r.ok, () => false)) break;
    await new Promise((r) => setTimeout(r, 50));
  }
  const stop = () => new Promise((resolve) => { child.once('exit', () => { rmSync(folder, { recursive: true, force: true }); resolve(); }); child.kill('SIGKILL'); });
  return { url, stop, child };
}

export async function push(url, streams, tenant) {
  const headers = { 'Content-Type': 'application/json', ...(tenant ? { 'X-Scope-OrgID': tenant } : {}) };
  const r = await fetch(url + '/loki/api/v1/push', { method: 'POST', headers, body: JSON.stringify({ streams }) });
  assert.equal(r.status, 204, await r.text());
}

export const nowNs = (minusMs = 0) => BigInt(Date.now() - minusMs) * 1_000_000n;

/** Everything a file of tests needs; `end` is for `after`. */
export async function setup({ flags = [], proxy = {} } = {}) {
  const server = await startServer(...flags);
  const front = await serve({ target: server.url, ...proxy });
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--js-flags=--expose-gc', '--enable-precise-memory-info'] });
  const end = async () => { await browser.close(); await front.close(); await server.stop(); };
  return { server, front, browser, end };
}

/** Opens a view. The page fails the test if it logs an error or breaks the content policy. */
export async function open(env, hash, { context = {}, allow = [] } = {}) {
  const ctx = await env.browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: 'UTC', ...context });
  ctx.setDefaultTimeout(30_000);
  const page = await ctx.newPage();
  const errors = [];
  page.on('console', (m) => { if (m.type() === 'error' && !allow.some((a) => a.test(m.text()))) errors.push(m.text()); });
  page.on('pageerror', (e) => errors.push(String(e)));
  await page.addInitScript(() => { window.alert = () => { window.alerted = true; }; });
  await page.goto(env.front.url + hash);
  page.done = async () => {
    await ctx.close();
    assert.deepEqual(errors, []);
  };
  return page;
}

export const search = (query, more = '') => `#/search?q=${encodeURIComponent(query)}${more}`;

/** The texts of all lines of the list, by scrolling through it. */
export async function allLines(page) {
  await page.waitForSelector('.row');
  return page.evaluate(async () => {
    const list = document.querySelector('.list');
    const frame = () => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
    const found = new Map();
    list.scrollTop = 0;
    await frame();
    for (let still = 0; still < 12;) {
      for (const row of list.querySelectorAll('.row')) found.set(Number(row.dataset.index), row.querySelector('.row-text')?.textContent);
      const before = list.scrollTop;
      list.scrollTop += list.clientHeight / 2;
      await frame();
      if (list.scrollTop === before) { still++; await new Promise((r) => setTimeout(r, 50)); } else still = 0;
    }
    return [...found].sort(([a], [b]) => a - b).map(([, text]) => text);
  });
}

export const rows = (page) => page.locator('.row');
export const queryText = (page) => page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('q'));
export const until = async (what, check, ms = 30_000) => {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error('in vain: ' + what);
    await new Promise((r) => setTimeout(r, 50));
  }
};
