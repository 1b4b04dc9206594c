// Completion: labels and values come from the server, for the streams that the rest of the selector
// selects and the range of time that is shown.

import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete';
import { detectedFields, labels, labelValues } from '../api';
import { placeAt } from '../logql/cursor';
import { quote } from '../logql/quote';
import { visible } from '../text/pieces';
import { state } from '../route';
import { parseRange, type Range } from '../time/range';
import { FUNCTIONS, STAGES } from './words';

const kept = new Map<string, { at: number; value: Promise<string[]> }>();

/** An answer is good for a minute: typing asks the same over and over. */
function keep(key: string, load: () => Promise<string[]>): Promise<string[]> {
  const now = Date.now();
  const old = kept.get(key);
  if (old && now - old.at < 60_000) return old.value;
  if (kept.size > 100) kept.clear();
  const value = load();
  kept.set(key, { at: now, value });
  value.catch(() => kept.delete(key));
  return value;
}

function shownRange(): Range {
  const s = state.value;
  const r = parseRange(s.from, s.to, Date.now(), s.tz);
  if (r.ok) return r.range;
  const now = BigInt(Date.now()) * 1_000_000n;
  return { from: String(now - 3_600_000_000_000n), to: String(now) };
}

const names = (list: string[], detail: string): Completion[] => list.map((label) => ({ label, detail }));

export async function completeLogql(c: CompletionContext): Promise<CompletionResult | null> {
  const query = c.state.doc.toString();
  const place = placeAt(query, c.pos);
  const { tenant, from, to } = state.value;
  const scope = `${tenant}|${from}|${to}|`;
  const gone = new AbortController();
  c.addEventListener('abort', () => gone.abort(), { onDocChange: true });
  try {
    switch (place.kind) {
      case 'label': {
        const list = await keep(`${scope}l${place.selector}`, () => labels(place.selector, shownRange(), undefined));
        return { from: place.from, options: names(list, 'label'), validFor: /^\w*$/ };
      }
      case 'value': {
        const list = await keep(`${scope}v${place.label}|${place.selector}`, () => labelValues(place.label, place.selector, shownRange(), undefined));
        return {
          from: place.open ? place.from + 1 : place.from, to: c.pos,
          options: list.map((v) => ({ label: visible(v), apply: apply(v, place.open, place.from, place.to) })),
          validFor: /^[^"{}`]*$/,
        };
      }
      case 'stage': {
        const fields = await fieldNames(query, scope);
        return { from: place.from, options: [...STAGES, ...names(fields, 'field')], validFor: /^\w*$/ };
      }
      case 'field':
        return { from: place.from, options: names(await fieldNames(place.query, scope), 'field'), validFor: /^\w*$/ };
      case 'start':
        return c.explicit || c.matchBefore(/\w+$/) ? { from: place.from, options: FUNCTIONS, validFor: /^\w*$/ } : null;
      default:
        return null;
    }
  } catch {
    return null; // Typing goes on without help; the search itself tells what is wrong.
  }
}

function apply(value: string, open: boolean, start: number, end: number): Completion['apply'] {
  return (view, _completion, from, to) => {
    const text = quote(value);
    const [a, b] = open ? [start, Math.max(to, end)] : [from, to];
    view.dispatch({ changes: { from: a, to: b, insert: text }, selection: { anchor: a + text.length }, userEvent: 'input.complete' });
  };
}

async function fieldNames(query: string, scope: string): Promise<string[]> {
  const selector = query.match(/\{(?:"(?:[^"\\]|\\.)*"|`[^`]*`|[^}"`])*\}/)?.[0];
  if (!selector) return [];
  return keep(`${scope}f${selector}`, async () => (await detectedFields(selector, shownRange(), undefined)).map((f) => f.label));
}
