// Splits a text at its ANSI escape sequences. Colours become properties of runs of text and never
// markup; all other sequences are taken out of sight, and the raw line keeps them.

export interface Style { fg?: string; bg?: string; bold?: true; dim?: true; italic?: true; underline?: true; inverse?: true }
export interface Run { start: number; end: number; style: Style | null }

// CSI sequences, OSC sequences with their end, and two-character escapes.
const ESCAPE = /\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\^_])/g;

export const hasEscapes = (text: string): boolean => text.includes('\x1b');

/** Runs of visible text by their places in `text`, in order. */
export function ansiRuns(text: string): Run[] {
  if (!hasEscapes(text)) return [{ start: 0, end: text.length, style: null }];
  const runs: Run[] = [];
  let style: Style = {};
  let at = 0;
  const push = (end: number) => {
    if (end > at) runs.push({ start: at, end, style: Object.keys(style).length ? { ...style } : null });
  };
  for (const m of text.matchAll(ESCAPE)) {
    push(m.index);
    at = m.index + m[0].length;
    if (m[0].startsWith('\x1b[') && m[0].endsWith('m')) style = apply(style, m[0].slice(2, -1));
  }
  push(text.length);
  return runs;
}

function apply(before: Style, codes: string): Style {
  const s = { ...before };
  const list = codes.split(/[;:]/).map((c) => Number(c || 0));
  for (let i = 0; i < list.length; i++) {
    const c = list[i]!;
    if (c === 0) for (const k of Object.keys(s)) delete s[k as keyof Style];
    else if (c === 1) s.bold = true;
    else if (c === 2) s.dim = true;
    else if (c === 3) s.italic = true;
    else if (c === 4) s.underline = true;
    else if (c === 7) s.inverse = true;
    else if (c === 22) { delete s.bold; delete s.dim; }
    else if (c === 23) delete s.italic;
    else if (c === 24) delete s.underline;
    else if (c === 27) delete s.inverse;
    else if (c >= 30 && c <= 37) s.fg = String(c - 30);
    else if (c >= 90 && c <= 97) s.fg = String(c - 82);
    else if (c === 39) delete s.fg;
    else if (c >= 40 && c <= 47) s.bg = String(c - 40);
    else if (c >= 100 && c <= 107) s.bg = String(c - 92);
    else if (c === 49) delete s.bg;
    else if (c === 38 || c === 48) {
      const [colour, used] = extended(list, i);
      i += used;
      if (colour !== null) s[c === 38 ? 'fg' : 'bg'] = colour;
    }
  }
  return s;
}

const byte = (n: number | undefined): n is number => n !== undefined && n >= 0 && n <= 255;

/** Colours of 256 and of 24 bits as `rgb(…)`; the first 16 as their number, which the theme colours. */
function extended(list: number[], i: number): [string | null, number] {
  if (list[i + 1] === 5) {
    const n = list[i + 2];
    if (!byte(n)) return [null, 2];
    if (n < 16) return [String(n), 2];
    if (n >= 232) { const g = 8 + (n - 232) * 10; return [`rgb(${g},${g},${g})`, 2]; }
    const level = (v: number) => (v === 0 ? 0 : 55 + 40 * v);
    const k = n - 16;
    return [`rgb(${level(Math.floor(k / 36))},${level(Math.floor(k / 6) % 6)},${level(k % 6)})`, 2];
  }
  if (list[i + 1] === 2) {
    const [r, g, b] = list.slice(i + 2, i + 5);
    return [byte(r) && byte(g) && byte(b) ? `rgb(${r},${g},${b})` : null, 4];
  }
  return [null, 0];
}

/** The text as it reads without escape sequences. */
export const stripAnsi = (text: string): string => (hasEscapes(text) ? text.replace(ESCAPE, '') : text);
