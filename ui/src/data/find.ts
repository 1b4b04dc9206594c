// Finds a line again by what it shows. The lines of its time are read in pages, so that it is found
// among any number of them.

import { linesAt } from '../api';
import type { Ns } from '../time/ns';
import type { Line } from './types';

/** The first line of `query` at a time that is the wanted one, with its place; null if there is none. */
export async function findLine(query: string, ts: Ns, isWanted: (l: Line) => boolean, signal: AbortSignal): Promise<Line | null> {
  let cursor: string | null = null;
  do {
    const page: { lines: Line[]; cursor: string | null } = await linesAt(query, ts, cursor, signal);
    const found = page.lines.find(isWanted);
    if (found) return found;
    cursor = page.cursor;
  } while (cursor);
  return null;
}
