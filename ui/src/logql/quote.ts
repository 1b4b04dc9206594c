/** A string literal of LogQL, whose escapes are Go's. */
export function quote(text: string): string {
  let out = '"';
  for (const c of text) {
    const code = c.codePointAt(0)!;
    if (c === '"' || c === '\\') out += '\\' + c;
    else if (c === '\n') out += '\\n';
    else if (c === '\r') out += '\\r';
    else if (c === '\t') out += '\\t';
    // Controls and what reorders text are written as numbers: a query must read as it runs.
    else if (code < 0x20 || (code >= 0x7f && code <= 0x9f) || /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/.test(c)) {
      out += '\\u' + code.toString(16).padStart(4, '0');
    } else out += c;
  }
  return out + '"';
}

/** The text of a literal, or null. */
export function unquote(literal: string): string | null {
  if (literal.startsWith('`')) return literal.endsWith('`') && literal.length > 1 ? literal.slice(1, -1) : null;
  if (!/^"(?:[^"\\]|\\.)*"$/s.test(literal)) return null;
  return literal.slice(1, -1).replace(
    /\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-7]{3})|(.))/gs,
    (_, u, long, x, oct, c) => {
      if (u ?? long ?? x) return String.fromCodePoint(Math.min(0x10ffff, parseInt(u ?? long ?? x, 16)));
      if (oct) return String.fromCharCode(parseInt(oct, 8));
      return ({ n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b', f: '\f', v: '\v' } as Record<string, string>)[c] ?? c;
    });
}

export const escapeRegex = (text: string): string => text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
