// Bundles the unit tests and runs them with node's own runner.
import { build } from 'esbuild';
import { readdirSync, rmSync } from 'node:fs';
import { spawnSync } from 'node:child_process';

rmSync('build/unit', { recursive: true, force: true });
const entryPoints = readdirSync('test/unit').filter((f) => f.endsWith('.test.ts')).map((f) => 'test/unit/' + f);
await build({ entryPoints, bundle: true, platform: 'node', format: 'esm', outdir: 'build/unit', outExtension: { '.js': '.mjs' }, logLevel: 'warning' });
const files = entryPoints.map((f) => f.replace('test/unit', 'build/unit').replace(/\.ts$/, '.mjs'));
process.exit(spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' }).status ?? 1);
