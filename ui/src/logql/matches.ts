// What the line filters of a query matched, to highlight it.

import { escapeRegex, unquote } from './quote';
import { split } from './split';
import type { Match } from '../text/pieces';

/** How far a regular expression may look into a line: the browser's engine can take exponential time. */
const REGEX_REACH = 10_000;
const MAX_MATCHES = 200;

export interface Finder { texts: string[]; regexes: RegExp[] }

export function finderOf(query: string): Finder {
  const finder: Finder = { texts: [], regexes: [] };
  for (const stage of split(query)?.stages ?? []) {
    if (stage.kind !== 'line') continue;
    const op = stage.tokens[0]!.text;
    for (let i = 1; i < stage.tokens.length; i++) {
      const t = stage.tokens[i]!;
      const text = t.type === 'string' && stage.tokens[i - 1]!.text !== '(' ? unquote(t.text) : null;
      if (!text) continue;
      if (op === '|=') finder.texts.push(text);
      else if (op === '|~') {
        const re = toJs(text);
        if (re) finder.regexes.push(re);
      } else if (op === '|>') {
        for (const part of text.split('<_>')) if (part.trim().length > 2) finder.texts.push(part);
      }
    }
  }
  return finder;
}

/** Go's regular expression as one of the browser, or null. */
export function toJs(source: string): RegExp | null {
  let flags = 'gu';
  const head = source.match(/^\(\?([imsU]+)\)/);
  if (head) for (const f of head[1]!) if ('ims'.includes(f)) flags += f;
  const body = source.slice(head?.[0].length ?? 0).replace(/\(\?P</g, '(?<');
  for (const f of [flags, flags.replace('u', '')]) {
    try {
      return new RegExp(body, f);
    } catch {
      // The next try is without the strictness of `u`.
    }
  }
  return null;
}

/** Matches in order, without overlaps. */
export function findMatches(line: string, finder: Finder): Match[] {
  const found: Match[] = [];
  for (const text of finder.texts) {
    for (let at = line.indexOf(text); at >= 0 && found.length < MAX_MATCHES; at = line.indexOf(text, at + text.length)) {
      found.push({ start: at, end: at + text.length });
    }
  }
  const near = line.length > REGEX_REACH ? line.slice(0, REGEX_REACH) : line;
  for (const re of finder.regexes) {
    for (const m of near.matchAll(re)) {
      if (found.length >= MAX_MATCHES) break;
      if (m[0] !== '') found.push({ start: m.index, end: m.index + m[0].length });
    }
  }
  found.sort((a, b) => a.start - b.start || b.end - a.end);
  const out: Match[] = [];
  for (const m of found) {
    const last = out[out.length - 1];
    if (last && m.start <= last.end) last.end = Math.max(last.end, m.end);
    else out.push({ ...m });
  }
  return out;
}

/** A line filter for a text, in any case of its letters if wanted. */
export const caseless = (text: string): string => `(?i)${escapeRegex(text)}`;
