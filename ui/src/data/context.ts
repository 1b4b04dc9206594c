// The lines around a line in its own stream, exact where many share one time. The server has no
// endpoint for it yet (README.md, "Needs of the server"), so this finds the stored entry first, and
// then pages to both sides of its place.

import { series, streamLines } from '../api';
import { changesLines, exactSelector, keepOriginal, ORIGINAL, selectorOf } from '../logql/edit';
import { addNs } from '../time/ns';
import { sameLabels, sameMeta } from './identity';
import type { Labels, Line } from './types';

const WEEK = 7n * 86_400n * 1_000_000_000n;
const PAGE = 1000;

export class Surroundings {
  before: Line[] = [];
  after: Line[] = [];
  moreBefore = true;
  moreAfter = true;
  private beforeCursor: string | null = null;
  private afterCursor: string | null = null;
  private pendingBefore: Line[] = [];
  private pendingAfter: Line[] = [];

  private constructor(readonly selector: string, readonly line: Line) {}

  /** Finds the place of a line of `query`, and `n` lines on each side. */
  static async find(query: string, line: Line, n: number, signal: AbortSignal): Promise<Surroundings> {
    const original = changesLines(query) ? await storedLine(query, line, signal) : line.line;
    for (const selector of await streamsOf(query, line, signal)) {
      const s = new Surroundings(selector, line);
      if (await s.locate(original, signal)) {
        await s.extend('before', n, signal);
        await s.extend('after', n, signal);
        return s;
      }
    }
    throw new Error('The stored entry of this line was not found. It may have been deleted since.');
  }

  /** Reads the entries of the line's own time, and divides them at the line. */
  private async locate(original: string, signal: AbortSignal): Promise<boolean> {
    const { ts } = this.line;
    const same: Line[] = [];
    let cursor: string | null = null;
    do {
      const page: { lines: Line[]; cursor: string | null } =
        await streamLines(this.selector, ts, addNs(ts, 1n), PAGE, false, cursor, signal);
      same.push(...page.lines);
      cursor = page.cursor;
    } while (cursor);
    const exact = same.findIndex((l) => l.line === original && sameMeta(l.meta, this.line.meta));
    // `keep` and `drop` take metadata away from what the query shows.
    const at = exact >= 0 ? exact : same.findIndex((l) => l.line === original && contains(l.meta, this.line.meta));
    if (at < 0) return false;
    this.pendingBefore = same.slice(0, at).reverse();
    this.pendingAfter = same.slice(at + 1);
    return true;
  }

  async extend(side: 'before' | 'after', n: number, signal: AbortSignal): Promise<void> {
    const pending = side === 'before' ? this.pendingBefore : this.pendingAfter;
    const { ts } = this.line;
    const more = () => (side === 'before' ? this.moreBefore : this.moreAfter);
    while (pending.length < n && more()) {
      const older = side === 'before';
      const page = await streamLines(this.selector, older ? String(BigInt(ts) - WEEK) : addNs(ts, 1n),
        older ? ts : addNs(ts, WEEK), Math.max(10, n), older, older ? this.beforeCursor : this.afterCursor, signal);
      pending.push(...page.lines);
      if (older) { this.beforeCursor = page.cursor; this.moreBefore = page.cursor !== null; }
      else { this.afterCursor = page.cursor; this.moreAfter = page.cursor !== null; }
    }
    const taken = pending.splice(0, n);
    if (side === 'before') this.before = [...taken.reverse(), ...this.before];
    else this.after = [...this.after, ...taken];
  }

  get canBefore(): boolean { return this.moreBefore || this.pendingBefore.length > 0; }
  get canAfter(): boolean { return this.moreAfter || this.pendingAfter.length > 0; }
}

/** The text of a line as it is stored, where the query shows another one. */
async function storedLine(query: string, line: Line, signal: AbortSignal): Promise<string> {
  const capture = keepOriginal(query);
  if (!capture) return line.line;
  let cursor: string | null = null;
  do {
    const page: { lines: Line[]; cursor: string | null } =
      await streamLines(capture, line.ts, addNs(line.ts, 1n), PAGE, false, cursor, signal);
    const found = page.lines.find((l) => l.line === line.line && contains(l.meta, line.meta) && contains(l.stream, line.stream));
    if (found) return found.parsed[ORIGINAL] ?? found.stream[ORIGINAL] ?? found.line;
    cursor = page.cursor;
  } while (cursor);
  return line.line;
}

const contains = (all: Labels, some: Labels): boolean => Object.entries(some).every(([k, v]) => all[k] === v);

/** Selectors of the streams that the line may be of: one, unless the query has taken labels away. */
async function streamsOf(query: string, line: Line, signal: AbortSignal): Promise<string[]> {
  const match = Object.keys(line.stream).length ? exactSelector(line.stream) : (selectorOf(query) ?? '{}');
  const around = { from: addNs(line.ts, -1n), to: addNs(line.ts, 1n) };
  let known = await series(match, around, signal).catch(() => [] as Labels[]);
  // Labels that `label_format` made name no stream.
  if (known.length === 0) known = await series(selectorOf(query) ?? match, around, signal);
  // A selector also matches streams with more labels. Those labels are asked for as absent.
  const names = new Set(known.flatMap((l) => Object.keys(l)));
  const exact = known.filter((l) => sameLabels(l, line.stream));
  return (exact.length ? exact : known).slice(0, 50).map((l) => exactSelector(l, [...names].filter((n) => !(n in l))));
}
