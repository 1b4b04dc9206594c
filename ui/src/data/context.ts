// The lines around a line in its own stream, as they are stored. The server finds them by the place of
// the entry, so they are exact where many share one time, and whatever the query makes of its lines.

import { linesAround, type Sides } from '../api';
import { ServerError } from '../http';
import { findLine } from './find';
import { sameLine } from './identity';
import type { Line } from './types';

export type Side = keyof Sides;
type Around = { lines: Record<Side, Line[]>; more: Record<Side, boolean> };

const GONE = 'The stored entry of this line was not found. It may have been deleted since.';

export class Surroundings {
  readonly lines: Record<Side, Line[]>;
  /** Whether there are lines beyond those that are here. */
  readonly more: Record<Side, boolean>;
  private readonly reading = new Set<Side>();

  private constructor(private readonly query: string, private readonly here: Line, first: Around) {
    this.lines = first.lines;
    this.more = first.more;
  }

  /** Finds the place of a line of `query`, and `n` lines on each side. */
  static async find(query: string, line: Line, n: number, signal: AbortSignal): Promise<Surroundings> {
    // Lists and tails are asked for without places, which would be many and are rarely looked at.
    const here = line.place ? line : await findLine(query, line.ts, (l) => sameLine(l, line), signal);
    if (!here) throw new Error(GONE);
    return new Surroundings(query, here, await around(query, here, { before: n, after: n }, signal));
  }

  /** Goes on from the outermost line of a side. While that side is read, another call for it does nothing. */
  async extend(side: Side, n: number, signal: AbortSignal): Promise<void> {
    if (this.reading.has(side)) return;
    this.reading.add(side);
    try {
      const { before, after } = this.lines;
      const outermost = (side === 'before' ? before[0] : after.at(-1)) ?? this.here;
      const next = await around(this.query, outermost, { before: 0, after: 0, [side]: n }, signal);
      this.lines[side] = side === 'before' ? [...next.lines.before, ...before] : [...after, ...next.lines.after];
      this.more[side] = next.more[side];
    } finally {
      this.reading.delete(side);
    }
  }
}

async function around(query: string, here: Line, n: Sides, signal: AbortSignal): Promise<Around> {
  const { lines, asked } = await linesAround(query, here, n, signal)
    .catch((e) => { throw e instanceof ServerError && e.status === 404 ? new Error(GONE) : e; });
  const at = lines.findIndex((l) => l.ts === here.ts && l.place === here.place);
  if (at < 0) throw new Error(GONE);
  const [before, after] = [lines.slice(0, at), lines.slice(at + 1)];
  return { lines: { before, after }, more: { before: before.length === asked.before, after: after.length === asked.after } };
}
