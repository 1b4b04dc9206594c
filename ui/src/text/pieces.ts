// Cuts a line into pieces that a view makes elements of: colours, matches, and characters that
// would be invisible or would reorder the text.

import { ansiRuns, type Style } from './ansi';

export interface Match { start: number; end: number }
export interface Piece { text: string; style: Style | null; hit: boolean; mark: boolean }

/** Characters shown of a line in the list. */
export const CUT = 2000;

// Controls, zero-width characters and everything that changes the direction of text.
const MARKS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function markName(c: string): string {
  const code = c.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return 'U+' + code.toString(16).toUpperCase().padStart(4, '0');
}

/** The first `length` characters as pieces. Matches are places in the whole line, in order. */
export function pieces(line: string, matches: readonly Match[], length = line.length): Piece[] {
  // A pair of surrogates is not torn apart.
  const cut = length < line.length && /[\ud800-\udbff]/.test(line[length - 1] ?? '') ? length - 1 : length;
  const shown = cut < line.length ? line.slice(0, cut) : line;
  const out: Piece[] = [];
  let m = 0;
  for (const run of ansiRuns(shown)) {
    let at = run.start;
    while (at < run.end) {
      while (m < matches.length && matches[m]!.end <= at) m++;
      const next = matches[m];
      const hit = next !== undefined && next.start <= at;
      const end = Math.min(run.end, next === undefined ? run.end : hit ? next.end : next.start);
      mark(shown.slice(at, end), run.style, hit, out);
      at = end;
    }
  }
  return out;
}

function mark(text: string, style: Style | null, hit: boolean, out: Piece[]): void {
  let at = 0;
  for (const m of text.matchAll(MARKS)) {
    if (m.index > at) out.push({ text: text.slice(at, m.index), style, hit, mark: false });
    out.push({ text: markName(m[0]), style, hit, mark: true });
    at = m.index + 1;
  }
  if (at < text.length) out.push({ text: text.slice(at), style, hit, mark: false });
}

/** Names and values on one line: the same marks, line breaks included. */
export const visible = (text: string): string =>
  text.replace(MARKS, markName).replace(/[\n\t]/g, markName);
