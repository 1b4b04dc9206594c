// Reads what people type as a time: relative (`now-1h`), a date, RFC 3339, or a Unix time.

import { msToNs, NS_PER_SECOND, type Ns } from './ns';
import { fromWall } from './zone';

const UNITS: Record<string, number> = {
  ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000,
};

/** Milliseconds of `90s`, `1h30m`, `1d`; null if it is none. */
export function parseDuration(text: string): number | null {
  const parts = text.match(/^(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+$/);
  if (!parts) return null;
  let sum = 0;
  for (const m of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)) sum += Number(m[1]) * UNITS[m[2]!]!;
  return sum;
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  let rest = Math.round(ms / 1000);
  const out: string[] = [];
  for (const [unit, size] of [['d', 86_400], ['h', 3600], ['m', 60], ['s', 1]] as const) {
    const n = Math.floor(rest / size);
    if (n > 0 && out.length < 2) out.push(n + unit);
    rest -= n * size;
  }
  return out.join(' ') || '0s';
}

/** The time that a text stands for, or null. Dates without a zone are those of `zone`. */
export function parseTime(text: string, nowMs: number, zone: string): Ns | null {
  const t = text.trim();
  if (t === 'now') return msToNs(nowMs);
  const relative = t.match(/^now\s*([-+])\s*(\S+)$/);
  if (relative) {
    const by = parseDuration(relative[2]!);
    return by === null ? null : msToNs(nowMs + (relative[1] === '-' ? -by : by));
  }
  if (/^-?\d+$/.test(t)) return parseUnix(t);
  return parseDate(t, zone);
}

function parseUnix(t: string): Ns | null {
  const digits = t.replace('-', '').length;
  if (digits === 4) return null; // a year alone would be taken for a second of 1970
  const n = BigInt(t);
  if (digits <= 10) return String(n * NS_PER_SECOND);
  if (digits <= 13) return String(n * 1_000_000n);
  if (digits <= 16) return String(n * 1000n);
  return digits <= 19 ? String(n) : null;
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;

function parseDate(t: string, zone: string): Ns | null {
  const m = t.match(DATE);
  if (!m) return null;
  const [year, month, day] = [Number(m[1]), Number(m[2]), Number(m[3])];
  const [hour, minute, second] = [Number(m[4] ?? 0), Number(m[5] ?? 0), Number(m[6] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59) return null;
  const ms = Date.UTC(year, month - 1, day, hour, minute, second);
  const back = new Date(ms);
  if (back.getUTCMonth() !== month - 1 || back.getUTCDate() !== day) return null;
  let at: number;
  if (!m[8]) at = fromWall(ms, zone);
  else if (/z/i.test(m[8])) at = ms;
  else {
    const [h, min] = [Number(m[8].slice(1, 3)), Number(m[8].slice(-2))];
    at = ms - (m[8][0] === '-' ? -1 : 1) * (h * 60 + min) * 60_000;
  }
  return String(BigInt(at / 1000) * NS_PER_SECOND + BigInt((m[7] ?? '').padEnd(9, '0')));
}

export const isRelative = (text: string): boolean => text.trim().startsWith('now');

export interface Range { from: Ns; to: Ns }

export type RangeResult = { ok: true; range: Range } | { ok: false; field: 'from' | 'to'; text: string };

export const TIME_HELP = 'Write now-1h, 2026-11-25, 2026-11-25 03:00:00.5, or a Unix time';

export function parseRange(from: string, to: string, nowMs: number, zone: string): RangeResult {
  const a = parseTime(from, nowMs, zone);
  if (a === null) return { ok: false, field: 'from', text: `“${from}” is no time. ${TIME_HELP}.` };
  const b = parseTime(to, nowMs, zone);
  if (b === null) return { ok: false, field: 'to', text: `“${to}” is no time. ${TIME_HELP}.` };
  if (BigInt(a) >= BigInt(b)) return { ok: false, field: 'to', text: 'The end must be after the start.' };
  return { ok: true, range: { from: a, to: b } };
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Seconds of a bucket, a round number, so that a range has at most `buckets` of them. */
export function bucketSeconds(range: Range, buckets: number): number {
  const span = Number((BigInt(range.to) - BigInt(range.from)) / 1_000_000n) / 1000;
  return STEPS.find((s) => span / s <= buckets) ?? Math.ceil(span / buckets);
}
