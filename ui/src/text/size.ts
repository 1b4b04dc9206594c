const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Bytes for people, with three digits. */
export function bytes(n: number): string {
  let v = n;
  let u = 0;
  while (v >= 999.5 && u < UNITS.length - 1) { v /= 1000; u++; }
  return `${u === 0 || v >= 99.5 ? Math.round(v) : v.toPrecision(v >= 10 ? 3 : 2)} ${UNITS[u]}`;
}

const GROUPS = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
export const count = (n: number): string => GROUPS.format(n);

const SHORT = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });
export const short = (n: number): string => SHORT.format(n);

export const plural = (n: number, one: string, many = one + 's'): string => `${count(n)} ${n === 1 ? one : many}`;

/** Bytes of a text as UTF-8, without making them for the usual case. */
export function byteLength(text: string): number {
  return text.length < 100 ? text.length : new Blob([text]).size;
}

export const number = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 5 });

/** A value of a metric. Whole numbers keep all digits. */
export function shown(v: string | undefined): string {
  if (v === undefined) return '–';
  if (/^-?\d{1,15}$/.test(v)) return v.replace(/\B(?=(\d{3})+$)/g, ',');
  return v !== '' && Number.isFinite(Number(v)) ? number.format(Number(v)) : v;
}
