// Forms of a line and of a search for the clipboard.

import { address } from '../http';
import type { Line } from '../data/types';
import { quote } from '../logql/quote';
import { tenant } from '../route';

/** A line as JSON, written so that the stored characters are in it. */
export const asJson = (l: Line): string =>
  JSON.stringify({ timestamp: l.ts, line: l.line, labels: l.stream, metadata: l.meta, ...(Object.keys(l.parsed).length ? { parsed: l.parsed } : {}) });

/** A word of a shell, whatever is in it: a shared address may name a hostile tenant. */
export const shell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(query: string, from: string, to: string, newestFirst: boolean): string {
  return [
    `curl -G ${shell(address('loki/api/v1/query_range'))}`,
    ...(tenant.value ? [`  -H ${shell('X-Scope-OrgID: ' + tenant.value)}`] : []),
    `  --data-urlencode ${shell('query=' + query)}`,
    `  -d start=${from} -d end=${to} -d direction=${newestFirst ? 'backward' : 'forward'}`,
  ].join(' \\\n');
}

export function asLogcli(query: string, from: string, to: string, newestFirst: boolean): string {
  const rfc = (ns: string) => {
    const n = BigInt(ns);
    return new Date(Number(n / 1_000_000n)).toISOString().replace(/\.\d+Z$/, `.${String(n % 1_000_000_000n).padStart(9, '0')}Z`);
  };
  return `logcli --addr=${shell(address('').replace(/\/$/, ''))}${tenant.value ? ` --org-id=${shell(tenant.value)}` : ''} query ${shell(query)} --from=${rfc(from)} --to=${rfc(to)}${newestFirst ? '' : ' --forward'}`;
}

/** A query for one line: its stream, and its text. */
export function asQuery(l: Line): string {
  const labels = Object.entries(l.stream).map(([k, v]) => `${k}=${quote(v)}`).join(', ');
  return `{${labels}} |= ${quote(l.line.slice(0, 5000))}`;
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain HTTP from another machine has no clipboard API; a selected field works there.
    const field = document.createElement('textarea');
    field.value = text;
    field.className = 'offscreen';
    document.body.append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    return done;
  }
}
