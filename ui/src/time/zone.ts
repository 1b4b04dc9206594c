// Wall clock times of a zone, without a library: Intl tells the offset, the rest is arithmetic.

import { fraction, nsToMs, type Ns } from './ns';

const formats = new Map<string, Intl.DateTimeFormat>();

/** The zone that `local` stands for. */
export const localZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

const real = (zone: string): string => (zone === 'local' || zone === '' ? localZone() : zone);

export function isZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: real(zone) });
    return true;
  } catch {
    return false;
  }
}

function format(zone: string): Intl.DateTimeFormat {
  let f = formats.get(zone);
  if (!f) {
    f = new Intl.DateTimeFormat('en-GB', {
      timeZone: zone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit',
      hour: '2-digit', minute: '2-digit', second: '2-digit', era: 'short',
    });
    formats.set(zone, f);
  }
  return f;
}

const offsets = new Map<string, number>();

/** Milliseconds that the clocks of the zone are ahead of UTC at a moment. */
export function offsetAt(ms: number, zone: string): number {
  const z = real(zone);
  if (z === 'UTC') return 0;
  // Offsets change at quarter hours at the finest, so one answer serves all times of a quarter.
  const quarter = Math.floor(ms / 900_000);
  const key = z + quarter;
  const known = offsets.get(key);
  if (known !== undefined) return known;
  const at = quarter * 900_000;
  const part: Record<string, number> = {};
  for (const p of format(z).formatToParts(at)) part[p.type] = Number(p.value);
  const wall = Date.UTC(part.year!, part.month! - 1, part.day!, part.hour!, part.minute!, part.second!);
  const offset = wall - at;
  if (offsets.size > 10_000) offsets.clear();
  offsets.set(key, offset);
  return offset;
}

/** The moment at which the clocks of the zone show this date and time. */
export function fromWall(wall: number, zone: string): number {
  // The first guess may lie on the other side of a change of the clocks, the second does not.
  const guess = wall - offsetAt(wall, zone);
  return wall - offsetAt(guess, zone);
}

const two = (n: number): string => String(n).padStart(2, '0');

export interface Wall { date: string; time: string; ms: string; fraction: string }

export function wall(ns: Ns, zone: string): Wall {
  const ms = nsToMs(ns);
  const d = new Date(ms + offsetAt(ms, zone));
  const f = fraction(ns);
  return {
    date: `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`,
    time: `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`,
    ms: f.slice(0, 3),
    fraction: f,
  };
}

/** Date and time with all digits that are not zero, at least three. */
export function full(ns: Ns, zone: string): string {
  const w = wall(ns, zone);
  return `${w.date} ${w.time}.${w.fraction.replace(/0{1,6}$/, '')}`;
}

export function seconds(ns: Ns, zone: string): string {
  const w = wall(ns, zone);
  return `${w.date} ${w.time}`;
}

export function zoneName(zone: string): string {
  return zone === 'local' || zone === '' ? `local (${localZone()})` : zone;
}
