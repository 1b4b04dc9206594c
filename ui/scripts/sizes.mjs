// Fails if the page is heavier than it may be.
import { readFileSync } from 'node:fs';

const FIRST = 70_000;
const ALL = 250_000;
const { files } = JSON.parse(readFileSync('dist/manifest.json', 'utf8'));
const sum = (list) => list.reduce((n, f) => n + f.br, 0);
for (const f of files) console.log(`${String(f.br).padStart(8)} ${f.first ? 'first' : '     '} ${f.name}`);
const [first, all] = [sum(files.filter((f) => f.first)), sum(files)];
console.log(`first paint ${first} of ${FIRST}, all ${all} of ${ALL} bytes of brotli`);
if (first > FIRST || all > ALL) process.exit(1);
