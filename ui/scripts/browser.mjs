// Runs the browser tests against a real server. Without Chromium or a server they are skipped with a
// word, except where CI is set.
//
//   LOGSVC=path/to/logsvc npm run browser [-- part-of-a-file-name]

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';

const chromium = process.env.CHROMIUM ?? '/usr/bin/chromium';
const logsvc = process.env.LOGSVC ?? '../target/debug/logsvc';
const missing = [[chromium, 'Chromium (apt-get install chromium, or CHROMIUM=path)'], [logsvc, 'a server (cargo build, or LOGSVC=path)']].filter(([p]) => !existsSync(p));
if (missing.length) {
  console.log('browser tests are skipped: ' + missing.map(([, what]) => what).join(' and ') + ' is missing');
  process.exit(process.env.CI ? 1 : 0);
}
const part = process.argv[2] ?? '';
const files = readdirSync('test/browser').filter((f) => f.endsWith('.test.mjs') && f.includes(part)).map((f) => 'test/browser/' + f);
const env = { ...process.env, CHROMIUM: chromium, LOGSVC: logsvc };
process.exit(spawnSync(process.execPath, ['--test', '--test-concurrency=1', ...files], { stdio: 'inherit', env }).status ?? 1);
