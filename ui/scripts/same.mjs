// Builds again beside dist, and fails if one byte differs.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';

execFileSync(process.execPath, ['scripts/build.mjs'], { env: { ...process.env, UI_OUT: 'build/again' }, stdio: 'inherit' });
const [a, b] = ['dist', 'build/again'].map((d) => readdirSync(d).sort());
const differ = a.join() !== b.join() ? ['the list of files'] : a.filter((f) => !readFileSync(`dist/${f}`).equals(readFileSync(`build/again/${f}`)));
if (differ.length) {
  console.error('dist is not what the sources give: ' + differ.join(', '));
  process.exit(1);
}
console.log(`${a.length} files are the same`);
