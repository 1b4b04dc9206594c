// The fields of a line, named as the server's parsers name them, so that a filter on a field finds
// the line it was taken from.

import { parseJson, plain, type Json } from './json';
import { looksLikeLogfmt, parseLogfmt } from './logfmt';

export type Parser = 'json' | 'logfmt';
export interface Field { name: string; value: string; parser: Parser; filter: boolean }

export const MAX_FIELDS = 2000;

/** A name of a label: other characters become `_`, and a digit in front gets one before it. */
export function labelName(name: string): string {
  const clean = name.replace(/[^a-zA-Z0-9_]/g, '_');
  return /^\d/.test(clean) ? '_' + clean : clean;
}

export function fieldsOf(line: string): Field[] {
  const trimmed = line.trimStart();
  if (trimmed.startsWith('{')) {
    const v = parseJson(trimmed.trimEnd());
    if (v?.t === 'object') {
      const out: Field[] = [];
      flatten(v, '', out);
      return out;
    }
  }
  if (line.length > 1_000_000) return [];
  const pairs = parseLogfmt(line);
  if (!looksLikeLogfmt(line, pairs)) return [];
  return pairs.slice(0, MAX_FIELDS).map((p) => ({ name: labelName(p.name), value: p.value, parser: 'logfmt', filter: true }));
}

function flatten(v: Json & { t: 'object' }, prefix: string, out: Field[]): void {
  for (const [key, value] of v.members) {
    if (out.length >= MAX_FIELDS) return;
    const name = prefix + labelName(key);
    if (value.t === 'object') flatten(value, name + '_', out);
    // The server's parser skips arrays, so no filter finds them; they are shown all the same.
    else out.push({ name, value: plain(value), parser: 'json', filter: value.t !== 'array' && value.t !== 'null' });
  }
}
