// What may stand at the cursor of an unfinished query, for completion.

export type Place =
  | { kind: 'label'; from: number; selector: string }
  | { kind: 'value'; from: number; to: number; label: string; selector: string; open: boolean }
  | { kind: 'stage'; from: number }
  | { kind: 'field'; from: number; query: string }
  | { kind: 'start'; from: number }
  | { kind: 'none' };

const inString = (text: string): number => {
  let quote = '';
  let start = -1;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quote) {
      if (c === '\\' && quote === '"') i++;
      else if (c === quote) quote = '';
    } else if (c === '"' || c === '`') { quote = c; start = i; }
    else if (c === '#') { const end = text.indexOf('\n', i); if (end < 0) return -2; i = end; }
  }
  return quote ? start : -1;
};

export function placeAt(query: string, pos: number): Place {
  const before = query.slice(0, pos);
  const string = inString(before);
  if (string === -2) return { kind: 'none' };
  const outside = string >= 0 ? before.slice(0, string) : before;
  const brace = outside.lastIndexOf('{');
  const selecting = brace >= 0 && !outside.slice(brace).replace(/"(?:[^"\\]|\\.)*"|`[^`]*`/g, '').includes('}');
  if (selecting) {
    const head = outside.slice(brace + 1);
    const done = [...head.matchAll(/[a-zA-Z_]\w*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\]|\\.)*"|`[^`]*`)/g)].map((m) => m[0]);
    const selector = done.length ? `{${done.join(',')}}` : '';
    const op = head.match(/([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*$/);
    if (op) {
      const rest = query.slice(pos).match(/^[^"`\n,}]*["`]?/)?.[0] ?? '';
      const closes = string >= 0 && /["`]$/.test(rest);
      return { kind: 'value', from: string >= 0 ? string : pos, to: string >= 0 && closes ? pos + rest.length : pos, label: op[1]!, selector, open: string >= 0 };
    }
    if (string >= 0) return { kind: 'none' };
    const word = head.match(/(?:^|,)\s*([a-zA-Z_]\w*)?$/);
    return word ? { kind: 'label', from: pos - (word[1]?.length ?? 0), selector } : { kind: 'none' };
  }
  if (string >= 0) return { kind: 'none' };
  const by = outside.match(/\b(?:by|without|on|ignoring)\s*\([\w\s,]*?([a-zA-Z_]\w*)?$/);
  if (by) return { kind: 'field', from: pos - (by[1]?.length ?? 0), query: logPart(query) };
  const stage = outside.match(/\|\s*([a-zA-Z_]\w*)?$/);
  if (stage && brace >= 0) return { kind: 'stage', from: pos - (stage[1]?.length ?? 0) };
  const field = outside.match(/\|[^|"`]*\b(?:and|or|keep|drop|unwrap|,)\s+([a-zA-Z_]\w*)?$/);
  if (field && brace >= 0) return { kind: 'field', from: pos - (field[1]?.length ?? 0), query: logPart(query) };
  const start = outside.match(/(?:^|[\s(,+*/%^-])([a-zA-Z_]\w*)?$/);
  if (start && (brace < 0 || start[1])) return { kind: 'start', from: pos - (start[1]?.length ?? 0) };
  return { kind: 'none' };
}

/** The selector inside a query that may be unfinished. */
function logPart(query: string): string {
  return query.match(/\{(?:"(?:[^"\\]|\\.)*"|`[^`]*`|[^}"`])*\}/)?.[0] ?? '';
}
