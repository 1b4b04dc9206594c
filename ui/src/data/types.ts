import type { Ns } from '../time/ns';

export type Labels = Record<string, string>;

export interface Line {
  ts: Ns;
  line: string;
  /** Labels of the stream; shared by the lines of one stream in one answer. */
  stream: Labels;
  meta: Labels;
  parsed: Labels;
  /** The server's name for the stored entry among those of its time, in answers that were asked for it. */
  place?: string;
  /** A number that no other line of the page has: keys of rows. */
  id: number;
}

export interface Sample { t: number; v: string }
export interface Series { labels: Labels; samples: Sample[] }

export interface Stats { bytes: number; lines: number; seconds: number }

export type Answer =
  | { kind: 'lines'; lines: Line[]; cursor: string | null; stats: Stats; warnings: string[] }
  | { kind: 'series'; series: Series[]; stats: Stats; warnings: string[] };

export type Level = 'critical' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'unknown';
export const LEVELS: readonly Level[] = ['critical', 'error', 'warn', 'info', 'debug', 'trace', 'unknown'];

const SAME: Record<string, Level> = {
  fatal: 'critical', panic: 'critical', critical: 'critical', emerg: 'critical', alert: 'critical', crit: 'critical',
  error: 'error', err: 'error', eror: 'error', warn: 'warn', warning: 'warn', info: 'info', information: 'info', notice: 'info',
  debug: 'debug', dbug: 'debug', trace: 'trace',
};

export const levelOf = (text: string | undefined): Level => SAME[(text ?? '').toLowerCase()] ?? 'unknown';

export const lineLevel = (l: Line): Level =>
  levelOf(l.meta.detected_level ?? l.stream.detected_level ?? l.parsed.detected_level ?? l.stream.level ?? l.parsed.level);

let ids = 0;
export const nextId = (): number => ++ids;
