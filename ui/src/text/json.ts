// Reads JSON without turning numbers into doubles: whole numbers above 2^53, `1.10` and `1e400` keep
// the characters that were sent. Depth is bounded, so that no line can exhaust the stack.

export type Json =
  | { t: 'object'; raw: string; members: [string, Json][] }
  | { t: 'array'; raw: string; items: Json[] }
  | { t: 'string'; raw: string; value: string }
  | { t: 'number' | 'true' | 'false' | 'null'; raw: string };

const MAX_DEPTH = 64;

class Reader {
  at = 0;
  constructor(readonly s: string) {}

  blank(): void {
    while (this.at < this.s.length && ' \t\r\n'.includes(this.s[this.at]!)) this.at++;
  }

  take(c: string): boolean {
    this.blank();
    if (this.s[this.at] !== c) return false;
    this.at++;
    return true;
  }

  expect(c: string): void {
    if (!this.take(c)) throw new SyntaxError(`expected ${c} at ${this.at}`);
  }

  value(depth: number): Json {
    if (depth > MAX_DEPTH) throw new SyntaxError('too deep');
    this.blank();
    const start = this.at;
    const c = this.s[start];
    if (c === '{') return this.object(start, depth);
    if (c === '[') return this.array(start, depth);
    if (c === '"') {
      const value = this.string();
      return { t: 'string', raw: this.s.slice(start, this.at), value };
    }
    const word = /-?\d[\d.eE+-]*|true|false|null/y;
    word.lastIndex = start;
    const raw = word.exec(this.s)?.[0];
    if (raw === undefined) throw new SyntaxError(`no value at ${start}`);
    this.at += raw.length;
    if (raw === 'true' || raw === 'false' || raw === 'null') return { t: raw, raw };
    if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(raw)) throw new SyntaxError(`no number at ${start}`);
    return { t: 'number', raw };
  }

  object(start: number, depth: number): Json {
    this.at++;
    const members: [string, Json][] = [];
    if (!this.take('}')) {
      do {
        this.blank();
        const name = this.string();
        this.expect(':');
        members.push([name, this.value(depth + 1)]);
      } while (this.take(','));
      this.expect('}');
    }
    return { t: 'object', raw: this.s.slice(start, this.at), members };
  }

  array(start: number, depth: number): Json {
    this.at++;
    const items: Json[] = [];
    if (!this.take(']')) {
      do items.push(this.value(depth + 1)); while (this.take(','));
      this.expect(']');
    }
    return { t: 'array', raw: this.s.slice(start, this.at), items };
  }

  string(): string {
    const re = /"(?:[^"\\]|\\.)*"/ys;
    re.lastIndex = this.at;
    const raw = re.exec(this.s)?.[0];
    if (raw === undefined) throw new SyntaxError(`no string at ${this.at}`);
    this.at += raw.length;
    // Control characters inside strings are no JSON, but loggers write them.
    return JSON.parse(raw.replace(/[\u0000-\u001f]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')));
  }
}

/** The value of a text that is JSON and nothing else, or null. */
export function parseJson(text: string): Json | null {
  const r = new Reader(text);
  try {
    const v = r.value(0);
    r.blank();
    return r.at === text.length ? v : null;
  } catch {
    return null;
  }
}

/** What a value is as a field: strings without quotes, everything else as it was written. */
export const plain = (v: Json): string => (v.t === 'string' ? v.value : v.raw);
