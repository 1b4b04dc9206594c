// Lines by level over the range, by a metric query: the server counts by detected_level without
// reading lines, unless the query itself looks at them.

import { metricRange } from '../api';
import { levelCounts } from '../logql/edit';
import { bucketSeconds, type Range } from '../time/range';
import { NS_PER_SECOND, type Ns } from '../time/ns';
import { LEVELS, levelOf, type Level, type Series } from './types';

export interface Histogram { start: Ns; step: number; buckets: number; levels: Level[]; counts: Map<Level, Float64Array>; total: number; max: number }

export function emptyHistogram(range: Range, wanted: number): Histogram {
  const step = bucketSeconds(range, wanted);
  const width = BigInt(step) * NS_PER_SECOND;
  const start = (BigInt(range.from) / width) * width;
  const buckets = Number((BigInt(range.to) - start + width - 1n) / width);
  return { start: String(start), step, buckets, levels: [], counts: new Map(), total: 0, max: 0 };
}

export async function loadHistogram(query: string, range: Range, wanted: number, signal: AbortSignal): Promise<Histogram> {
  const h = emptyHistogram(range, wanted);
  const metric = levelCounts(query, h.step);
  if (!metric) return h;
  // A window of a metric query excludes its start and includes its end; a bucket does the opposite.
  // Windows that end one nanosecond early are buckets.
  const width = BigInt(h.step) * NS_PER_SECOND;
  const first = BigInt(h.start) + width - 1n;
  const last = first + width * BigInt(h.buckets - 1);
  return fill(h, await metricRange(metric, String(first), String(last), h.step, signal), Number(first) / 1e9);
}

export function fill(h: Histogram, series: Series[], first: number): Histogram {
  const sums = new Float64Array(h.buckets);
  for (const s of series) {
    const level = levelOf(s.labels.detected_level);
    const row = h.counts.get(level) ?? new Float64Array(h.buckets);
    h.counts.set(level, row);
    for (const { t, v } of s.samples) {
      const i = Math.round((t - first) / h.step);
      if (i < 0 || i >= h.buckets) continue;
      row[i]! += Number(v);
      sums[i]! += Number(v);
      h.total += Number(v);
    }
  }
  h.levels = LEVELS.filter((l) => h.counts.has(l));
  h.max = sums.reduce((a, b) => Math.max(a, b), 0);
  return h;
}

/** The times at which a bucket begins and ends. */
export function bucketRange(h: Histogram, first: number, last: number): Range {
  const width = BigInt(h.step) * NS_PER_SECOND;
  return { from: String(BigInt(h.start) + width * BigInt(first)), to: String(BigInt(h.start) + width * BigInt(last + 1)) };
}
