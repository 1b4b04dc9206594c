// Times of entries are nanoseconds since 1970 as decimal text, the way the server writes them.
// A double cannot hold them, so they stay text, and become BigInt only to calculate.

export type Ns = string;

export const NS_PER_MS = 1_000_000n;
export const NS_PER_SECOND = 1_000_000_000n;

/** Orders two times. Equal lengths compare as text, which is the usual and the fast case. */
export function compareNs(a: Ns, b: Ns): number {
  if (a === b) return 0;
  if (a.length === b.length && a[0] !== '-' && b[0] !== '-') return a < b ? -1 : 1;
  const x = BigInt(a);
  const y = BigInt(b);
  return x < y ? -1 : 1;
}

export const addNs = (a: Ns, by: bigint): Ns => String(BigInt(a) + by);

export const msToNs = (ms: number): Ns => String(BigInt(Math.round(ms)) * NS_PER_MS);

/** Milliseconds, rounded down also before 1970. */
export function nsToMs(ns: Ns): number {
  const n = BigInt(ns);
  const q = n / NS_PER_MS;
  return Number(n % NS_PER_MS < 0n ? q - 1n : q);
}

/** The nine digits after the second. */
export function fraction(ns: Ns): string {
  const rest = BigInt(ns) % NS_PER_SECOND;
  return String(rest < 0n ? rest + NS_PER_SECOND : rest).padStart(9, '0');
}
