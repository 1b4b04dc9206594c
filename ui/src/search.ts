// The search that the address asks for: its feed, its histogram, or its series. One search is at work
// at a time; the one before is cancelled.

import { signal } from '@preact/signals';
import { queryRange } from './api';
import { Feed } from './data/feed';
import { emptyHistogram, loadHistogram, type Histogram } from './data/histogram';
import type { Series, Stats } from './data/types';
import { isAbort } from './http';
import { fillAuto } from './logql/edit';
import { isLogQuery } from './logql/split';
import { remember } from './preferences';
import { bucketSeconds, parseRange, type Range } from './time/range';

export interface Chart { series: Series[]; step: number; stats: Stats; warnings: string[] }

export const feed = signal<Feed | null>(null);
export const chart = signal<Chart | null>(null);
export const histogram = signal<{ data: Histogram; busy: boolean; error: Error | null } | null>(null);
export const range = signal<Range | null>(null);
export const problem = signal<Error | null>(null);
export const busy = signal(false);
/** Counts up when the same search is to run again. */
export const again = signal(0);

/** What is wrong with a field of the page, before the server is asked. */
export class InputError extends Error {}

let controller: AbortController | null = null;
let own = 0;

export function stop(): void {
  controller?.abort();
  controller = null;
  feed.peek()?.close();
}

export interface Wanted { q: string; from: string; to: string; newestFirst: boolean; zone: string; buckets: number }

export function start(w: Wanted): void {
  stop();
  const run = ++own;
  problem.value = null;
  const parsed = parseRange(w.from, w.to, Date.now(), w.zone);
  if (!parsed.ok) {
    problem.value = new InputError(parsed.text);
    feed.value = chart.value = histogram.value = null;
    busy.value = false;
    return;
  }
  range.value = parsed.range;
  controller = new AbortController();
  busy.value = true;
  if (isLogQuery(w.q)) startLines(w, parsed.range, controller.signal, run);
  else void startChart(w, parsed.range, controller.signal, run);
}

function startLines(w: Wanted, r: Range, signal: AbortSignal, run: number): void {
  chart.value = null;
  const f = new Feed(w.q, r, w.newestFirst);
  // The view keeps what it shows until the first page is there, so that nothing jumps.
  void f.begin().then(() => {
    if (signal.aborted || run !== own) return;
    busy.value = false;
    if (f.first.value instanceof Error) {
      problem.value = f.first.value;
      feed.value = histogram.value = null;
      return;
    }
    feed.value = f;
    remember(w.q);
  });
  const before = histogram.value;
  histogram.value = { data: before?.data ?? emptyHistogram(r, w.buckets), busy: true, error: null };
  loadHistogram(w.q, r, w.buckets, signal).then(
    (data) => { if (run === own && !problem.value) histogram.value = { data, busy: false, error: null }; },
    (e) => { if (run === own && !isAbort(e) && !problem.value) histogram.value = { data: emptyHistogram(r, w.buckets), busy: false, error: e }; });
  signal.addEventListener('abort', () => f.close());
}

async function startChart(w: Wanted, r: Range, signal: AbortSignal, run: number): Promise<void> {
  histogram.value = null;
  const step = bucketSeconds(r, 250);
  try {
    const a = await queryRange({ query: fillAuto(w.q, step), start: r.from, end: r.to, step, limit: 100, newestFirst: true }, signal);
    if (run !== own) return;
    feed.value = null;
    chart.value = a.kind === 'series' ? { series: a.series, step, stats: a.stats, warnings: a.warnings } : null;
    remember(w.q);
  } catch (e) {
    if (isAbort(e) || run !== own) return;
    feed.value = chart.value = null;
    problem.value = e instanceof Error ? e : new Error(String(e));
  }
  busy.value = false;
}
