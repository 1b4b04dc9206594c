// Builds ui/dist: hashed scripts and styles, index.html, and compressed forms of each. Equal sources
// give equal bytes: names come from content, and the compressors write no time.

import { build } from 'esbuild';
import { gzipSync } from 'fflate';
import { brotliCompressSync, constants } from 'node:zlib';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';

// Written beside its place and put there at the end, so that a server of the old files never sees half of the new.
const place = process.env.UI_OUT ?? 'dist';
const out = 'build/new';
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const result = await build({
  entryPoints: { main: 'src/main.tsx', style: 'src/style/main.css' },
  bundle: true, splitting: true, format: 'esm', minify: true, target: 'es2022', charset: 'utf8',
  outdir: out, entryNames: '[name]-[hash]', chunkNames: '[name]-[hash]', assetNames: '[name]-[hash]',
  jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none', metafile: true, logLevel: 'warning',
  define: { 'process.env.NODE_ENV': '"production"' },
});

const built = (entry) => basename(Object.entries(result.metafile.outputs).find(([, o]) => o.entryPoint === entry)[0]);
const [script, style] = [built('src/main.tsx'), built('src/style/main.css')];
// What the entry imports is fetched at once, not after the entry has been read.
const preload = Object.values(result.metafile.outputs).find((o) => o.entryPoint === 'src/main.tsx')
  .imports.filter((i) => i.kind === 'import-statement').map((i) => basename(i.path));
const html = readFileSync('src/index.html', 'utf8')
  .replace('%STYLE%', style).replace('%SCRIPT%', script)
  .replace('%PRELOAD%', preload.map((p) => `<link rel="modulepreload" href="${p}">`).join('\n    '));
writeFileSync(`${out}/index.html`, html);
writeFileSync(`${out}/icon.svg`, readFileSync('src/icon.svg'));

const types = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', html: 'text/html; charset=utf-8', svg: 'image/svg+xml' };
const files = readdirSync(out).sort().map((name) => {
  const bytes = readFileSync(`${out}/${name}`);
  const br = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  writeFileSync(`${out}/${name}.br`, br);
  const gz = gzipSync(bytes, { level: 9, mtime: 0 });
  writeFileSync(`${out}/${name}.gz`, gz);
  const first = name === script || name === style || name === 'index.html' || name === 'icon.svg' || preload.includes(name);
  return {
    name, type: types[name.split('.').pop()], immutable: /-[A-Z0-9]{8}\./.test(name), first,
    etag: createHash('sha256').update(bytes).digest('hex').slice(0, 32), size: bytes.length, br: br.length, gz: gz.length,
  };
});
writeFileSync(`${out}/manifest.json`, JSON.stringify({ files }, null, 1) + '\n');
rmSync(place, { recursive: true, force: true });
renameSync(out, place);
