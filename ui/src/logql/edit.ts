// Changes of a log query that clicks make. Each returns the new query, or null if the query is not
// one that can be changed safely.

import { quote } from './quote';
import { split, tokens, type LogQuery } from './split';

const ensureLine = (query: string, end: number): string => {
  // A comment behind the last stage would swallow what is added.
  const after = query.slice(end);
  return after.includes('#') ? query.slice(0, end) : query.trimEnd();
};

export function addStage(query: string, stage: string): string | null {
  const q = split(query);
  if (!q) return null;
  if (q.stages.some((s) => query.slice(s.from, s.to).replace(/\s+/g, ' ') === stage)) return query;
  return `${ensureLine(query, q.end)} ${stage}`;
}

/** Adds a matcher to the selector. `=` takes the place of an `=` on the same label. */
export function addMatcher(query: string, name: string, op: string, value: string): string | null {
  const q = split(query);
  if (!q) return null;
  const text = `${name}${op}${quote(value)}`;
  const same = q.selector.matchers.find((m) => m.name === name && m.op === op && m.value === value);
  if (same) return query;
  const rival = q.selector.matchers.find((m) => m.name === name && op === '=' && (m.op === '=' || m.op === '=~'));
  if (rival) return query.slice(0, rival.from) + text + query.slice(rival.to);
  const last = q.selector.matchers[q.selector.matchers.length - 1];
  if (!last) return `${query.slice(0, q.selector.from)}{${text}}${query.slice(q.selector.to)}`;
  return `${query.slice(0, last.to)}, ${text}${query.slice(last.to)}`;
}

const hasParser = (query: string, q: LogQuery, parser: string): boolean =>
  q.stages.some((s) => s.kind === 'parser' && query.slice(s.from).replace(/^\|\s*/, '').startsWith(parser));

/** A filter on a field: `parser` is where it comes from, null for metadata and labels. */
export function addFieldFilter(query: string, parser: string | null, name: string, op: '=' | '!=', value: string): string | null {
  const q = split(query);
  if (!q) return null;
  let out = query;
  if (parser && !hasParser(query, q, parser)) {
    const with_ = addStage(out, `| ${parser}`);
    if (with_ === null) return null;
    out = with_;
  }
  return addStage(out, `| ${name}${op}${quote(value)}`);
}

/** How many lines there are by a field, over the last step. */
export function countBy(query: string, parser: string | null, name: string): string | null {
  const q = split(query);
  if (!q) return null;
  const parsed = parser && !hasParser(query, q, parser) ? addStage(query, `| ${parser}`) : query;
  const body = parsed && addStage(parsed, '| drop __error__, __error_details__');
  return body && `topk(10, sum by (${name}) (count_over_time(${body} [$__auto])))`;
}

/** `$__auto`, and Grafana's names for it, are the width of a step. */
export const fillAuto = (query: string, seconds: number): string =>
  query.replace(/\$__(auto|interval|range)\b/g, `${seconds}s`);

/** Counts of lines by level, for the histogram. Null if the query is no log query. */
export function levelCounts(query: string, seconds: number): string | null {
  const q = split(query);
  if (!q) return null;
  // A line that a parser cannot read is a line all the same, and is counted.
  const errors = q.stages.some((s) => s.kind !== 'line') ? ' | drop __error__, __error_details__' : '';
  return `sum by (detected_level) (count_over_time(${query.slice(0, q.end)}${errors} [${seconds}s]))`;
}

/** The selector alone, as endpoints about streams take it. */
export function selectorOf(query: string): string | null {
  const q = split(query);
  if (q) return query.slice(q.selector.from, q.selector.to);
  const list = tokens(query);
  const open = list?.find((t) => t.text === '{');
  const close = open && list!.find((t) => t.text === '}' && t.from > open.from);
  return close ? query.slice(open.from, close.to) : null;
}
