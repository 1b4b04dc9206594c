// Which line is which. The server stores an entry of the same stream, time, line and metadata once,
// so these four name a line, also among those of one nanosecond.

import { hash } from '../text/hash';
import type { Labels, Line } from './types';

const sorted = (l: Labels): string => JSON.stringify(Object.entries(l).sort(([a], [b]) => (a < b ? -1 : 1)));

/** The name of a line in the address: its time, and a hash of the rest. */
export const lineName = (l: Line): string => `${l.ts}.${hash(sorted(l.stream) + sorted(l.meta) + l.line)}`;

/** The same as a key for comparisons: longer, and made without a hash. */
export const lineKey = (l: Line): string => l.ts + sorted(l.stream) + sorted(l.meta) + l.line;

/** True if two lines of a query show the same, also in what the query parsed. */
export const sameLine = (a: Line, b: Line): boolean =>
  a.line === b.line && lineKey(a) === lineKey(b) && sorted(a.parsed) === sorted(b.parsed);

export const lineTime = (name: string): string | null => name.match(/^(-?\d{1,19})\./)?.[1] ?? null;
