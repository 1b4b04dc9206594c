// Reads `key=value` pairs. Lines that are prose have some by accident, so a caller asks for a
// share of the line that is pairs.

export interface Pair { name: string; value: string }

const PAIR = /(?:^|\s)([^\s="]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?=\s|$)/g;

export function parseLogfmt(line: string): Pair[] {
  const pairs: Pair[] = [];
  for (const m of line.matchAll(PAIR)) {
    let value = m[2]!;
    if (value.startsWith('"')) {
      try {
        value = JSON.parse(value);
      } catch {
        value = value.slice(1, -1);
      }
    }
    pairs.push({ name: m[1]!, value });
  }
  return pairs;
}

/** True if at least half of the words of the line belong to pairs. */
export function looksLikeLogfmt(line: string, pairs: readonly Pair[]): boolean {
  if (pairs.length < 2) return false;
  const inPairs = [...line.matchAll(PAIR)].reduce((n, m) => n + m[0].trim().length, 0);
  return inPairs * 2 >= line.replace(/\s+/g, '').length;
}
