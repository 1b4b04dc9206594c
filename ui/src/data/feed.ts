// The lines of a search, in the order of the view, growing at both ends by pages. A page ends at a
// place (a cursor of the server), never at a time, so lines of one nanosecond neither repeat nor vanish.

import { signal } from '@preact/signals';
import { isAbort, ServerError } from '../http';
import { queryRange } from '../api';
import type { Ns } from '../time/ns';
import type { Range } from '../time/range';
import type { Line, Stats } from './types';

export type End = 'older' | 'newer';
export interface EdgeState { busy: boolean; error: Error | null; /** The window has lines that are not loaded. */ more: boolean; /** How far the window reaches. */ bound: Ns }

/** Lines that the page keeps at most: more than anyone reads, less than a browser can hold. */
export const MAX_LINES = 500_000;
const SIZES = [200, 1000, 2000, 5000];

interface Edge { start: Ns; end: Ns; cursor: string | null; pages: number }

let feeds = 0;

export class Feed {
  /** Another number for each feed: its list begins at its start. */
  readonly id = ++feeds;
  readonly lines = signal<readonly Line[]>([]);
  /** How many lines were put in front since the start. The list keeps its place by it. */
  readonly prepended = signal(0);
  readonly edges: Record<End, ReturnType<typeof signal<EdgeState>>>;
  readonly stats = signal<Stats>({ bytes: 0, lines: 0, seconds: 0 });
  readonly warnings = signal<string[]>([]);
  readonly first = signal<'loading' | 'done' | Error>('loading');
  private readonly windows: Record<End, Edge>;
  private readonly abort = new AbortController();

  constructor(readonly query: string, readonly range: Range, readonly newestFirst: boolean) {
    const anchor = newestFirst ? range.to : range.from;
    const make = (end: End): EdgeState => ({ busy: false, error: null, more: (end === 'older') === newestFirst, bound: end === 'older' ? range.from : range.to });
    this.edges = { older: signal<EdgeState>(make('older')), newer: signal<EdgeState>(make('newer')) };
    this.windows = {
      older: { start: range.from, end: anchor, cursor: null, pages: 0 },
      newer: { start: anchor, end: range.to, cursor: null, pages: 0 },
    };
  }

  /** The end where reading goes on. */
  get ahead(): End { return this.newestFirst ? 'older' : 'newer'; }
  get behind(): End { return this.newestFirst ? 'newer' : 'older'; }

  async begin(): Promise<void> {
    await this.load(this.ahead);
    const error = this.edges[this.ahead].value!.error;
    if (!this.abort.signal.aborted) this.first.value = error ?? 'done';
  }

  close(): void { this.abort.abort(); }

  private patch(end: End, p: Partial<EdgeState>): void {
    this.edges[end].value = { ...this.edges[end].value!, ...p };
  }

  /** Loads the next page at an end, if the window has one. */
  async load(end: End): Promise<void> {
    const edge = this.edges[end].value!;
    if (edge.busy || !edge.more || this.lines.value.length >= MAX_LINES) return;
    this.patch(end, { busy: true, error: null });
    const w = this.windows[end];
    try {
      const limit = SIZES[Math.min(w.pages, SIZES.length - 1)]!;
      const a = await queryRange({ query: this.query, start: w.start, end: w.end, limit, newestFirst: end === 'older', cursor: w.cursor }, this.abort.signal);
      if (a.kind !== 'lines') throw new ServerError(400, 'This query gives numbers, not lines.');
      w.cursor = a.cursor;
      w.pages++;
      this.take(end, a.lines);
      this.stats.value = {
        bytes: this.stats.value.bytes + a.stats.bytes, lines: this.stats.value.lines + a.stats.lines, seconds: this.stats.value.seconds + a.stats.seconds,
      };
      if (a.warnings.length) this.warnings.value = [...new Set([...this.warnings.value, ...a.warnings])];
      this.patch(end, { busy: false, more: a.cursor !== null });
    } catch (e) {
      if (isAbort(e)) return;
      this.patch(end, { busy: false, error: e instanceof Error ? e : new Error(String(e)) });
    }
  }

  private take(end: End, page: Line[]): void {
    if (page.length === 0) return;
    if (end === this.ahead) {
      this.lines.value = this.lines.value.concat(page);
    } else {
      this.prepended.value += page.length;
      this.lines.value = page.reverse().concat(this.lines.value as Line[]);
    }
  }

  /** Goes on beyond the range, by as much as the range is long. */
  async extend(end: End, now: Ns): Promise<void> {
    const edge = this.edges[end].value!;
    if (edge.busy || edge.more) return;
    const span = BigInt(this.range.to) - BigInt(this.range.from);
    const bound = BigInt(edge.bound);
    const w = this.windows[end];
    w.cursor = null;
    if (end === 'older') {
      w.end = edge.bound;
      w.start = String(bound - span);
      this.patch(end, { more: true, bound: w.start });
    } else {
      const next = bound + span < BigInt(now) ? bound + span : BigInt(now);
      if (next <= bound) return;
      w.start = edge.bound;
      w.end = String(next);
      this.patch(end, { more: true, bound: w.end });
    }
    await this.load(end);
  }
}
