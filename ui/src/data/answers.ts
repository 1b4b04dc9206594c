// Answers of the server as the page keeps them.

import { compareNs } from '../time/ns';
import { nextId, type Answer, type Labels, type Line, type Series, type Stats } from './types';

export interface RawStream { stream: Labels; values: [string, string, { structuredMetadata?: Labels; parsed?: Labels; place?: string }?][] }
interface RawSeries { metric: Labels; values?: [number, string][]; value?: [number, string] }

export interface RawAnswer {
  data: {
    resultType: 'streams' | 'matrix' | 'vector' | 'scalar';
    result: unknown;
    stats?: { summary?: { totalBytesProcessed?: number; totalLinesProcessed?: number; execTime?: number } };
  };
  warnings?: string[];
}

const NONE: Labels = Object.freeze({});

export function linesOf(streams: RawStream[]): Line[] {
  const out: Line[] = [];
  for (const s of streams) {
    for (const [ts, line, more] of s.values) {
      const l: Line = { ts, line, stream: s.stream, meta: more?.structuredMetadata ?? NONE, parsed: more?.parsed ?? NONE, id: nextId() };
      if (more?.place) l.place = more.place;
      out.push(l);
    }
  }
  return out;
}

/** Lines of all streams in the order of the query. Sorting is stable: equal times keep the server's order. */
export function ordered(streams: RawStream[], newestFirst: boolean): Line[] {
  const lines = linesOf(streams);
  return streams.length < 2 ? lines : lines.sort((a, b) => (newestFirst ? compareNs(b.ts, a.ts) : compareNs(a.ts, b.ts)));
}

export function seriesOf(answer: RawAnswer): Series[] {
  const { resultType, result } = answer.data;
  if (resultType === 'scalar') {
    const [t, v] = result as [number, string];
    return [{ labels: {}, samples: [{ t, v }] }];
  }
  return (result as RawSeries[]).map((r) => ({
    labels: r.metric,
    samples: (r.values ?? (r.value ? [r.value] : [])).map(([t, v]) => ({ t, v })),
  }));
}

export function toAnswer(raw: RawAnswer, newestFirst: boolean, cursor: string | null): Answer {
  const s = raw.data.stats?.summary;
  const stats: Stats = { bytes: s?.totalBytesProcessed ?? 0, lines: s?.totalLinesProcessed ?? 0, seconds: s?.execTime ?? 0 };
  const warnings = raw.warnings ?? [];
  if (raw.data.resultType === 'streams') {
    return { kind: 'lines', lines: ordered((raw.data.result ?? []) as RawStream[], newestFirst), cursor, stats, warnings };
  }
  return { kind: 'series', series: seriesOf(raw), stats, warnings };
}
