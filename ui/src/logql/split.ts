// Takes a log query apart: its selector with matchers, and its stages with their places in the text.
// It knows only as much grammar as edits of a query need; the server is the one who judges queries.

import { unquote } from './quote';

export interface Token { type: 'string' | 'word' | 'op' | 'comment'; text: string; from: number; to: number }
export interface Matcher { name: string; op: string; value: string; from: number; to: number }
export type StageKind = 'line' | 'parser' | 'line_format' | 'label_format' | 'decolorize' | 'keep' | 'drop' | 'unwrap' | 'filter';
export interface Stage { kind: StageKind; from: number; to: number; tokens: Token[] }
export interface LogQuery { selector: { from: number; to: number; matchers: Matcher[] }; stages: Stage[]; end: number }

const TOKEN = /("(?:[^"\\\n]|\\.)*"|`[^`]*`)|(#[^\n]*)|([a-zA-Z_][a-zA-Z0-9_.]*|-?\d[\w.]*)|(\|[=~>]|![=~>]|=~|==|>=|<=|[{}()[\],|=<>*/%^+-])|\s+/y;

/** The tokens of a query, or null where none begins (a string without its end, for instance). */
export function tokens(query: string): Token[] | null {
  const out: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < query.length) {
    const from = TOKEN.lastIndex;
    const m = TOKEN.exec(query);
    if (!m) return null;
    const type = m[1] !== undefined ? 'string' : m[2] !== undefined ? 'comment' : m[3] !== undefined ? 'word' : m[4] !== undefined ? 'op' : null;
    if (type) out.push({ type, text: m[0], from, to: from + m[0].length });
  }
  return out;
}

/** True if the query gives lines: it begins with a selector. */
export function isLogQuery(query: string): boolean {
  const first = tokens(query)?.find((t) => t.type !== 'comment');
  return first ? first.text === '{' : /^\s*\{/.test(query);
}

const KINDS: Record<string, StageKind> = {
  json: 'parser', logfmt: 'parser', regexp: 'parser', pattern: 'parser', unpack: 'parser',
  line_format: 'line_format', label_format: 'label_format', decolorize: 'decolorize',
  keep: 'keep', drop: 'drop', unwrap: 'unwrap',
};

export function split(query: string): LogQuery | null {
  const list = tokens(query)?.filter((t) => t.type !== 'comment');
  if (!list || list[0]?.text !== '{') return null;
  const matchers: Matcher[] = [];
  let i = 1;
  while (list[i] && list[i]!.text !== '}') {
    const [name, op, value] = [list[i]!, list[i + 1], list[i + 2]];
    const text = value?.type === 'string' ? unquote(value.text) : null;
    if (name.type !== 'word' || !op || !['=', '!=', '=~', '!~'].includes(op.text) || text === null) return null;
    matchers.push({ name: name.text, op: op.text, value: text, from: name.from, to: value!.to });
    i += 3;
    if (list[i]?.text === ',') i++;
  }
  const close = list[i];
  if (!close) return null;
  const stages = stagesOf(list.slice(i + 1));
  return stages && { selector: { from: list[0]!.from, to: close.to, matchers }, stages, end: list[list.length - 1]!.to };
}

function stagesOf(list: Token[]): Stage[] | null {
  const stages: Stage[] = [];
  let stage: Stage | null = null;
  for (let i = 0; i < list.length; i++) {
    const t = list[i]!;
    const before = list[i - 1];
    // `!=` compares inside a label filter, after a name; anywhere else it begins a line filter.
    const compares = before?.type === 'word' && (stage?.kind === 'filter' || stage?.kind === 'keep' || stage?.kind === 'drop');
    if (t.type === 'op' && (['|=', '|~', '|>'].includes(t.text) || (['!=', '!~', '!>'].includes(t.text) && !compares))) {
      stage = { kind: 'line', from: t.from, to: t.to, tokens: [t] };
      stages.push(stage);
    } else if (t.type === 'op' && t.text === '|') {
      const next = list[i + 1];
      if (!next) return null;
      stage = { kind: (next.type === 'word' && KINDS[next.text]) || 'filter', from: t.from, to: t.to, tokens: [] };
      stages.push(stage);
    } else {
      if (!stage) return null;
      stage.tokens.push(t);
      stage.to = t.to;
    }
  }
  return stages;
}
