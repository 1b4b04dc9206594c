// What the page asks the server for. Views know no paths.

import { address, encode, json, request, ServerError, text, type Options, type Params } from './http';
import { tenant } from './route';
import { ordered, seriesOf, toAnswer, type RawAnswer, type RawStream } from './data/answers';
import type { Answer, Labels, Line, Series } from './data/types';
import { addNs, type Ns } from './time/ns';
import type { Range } from './time/range';

const L = 'loki/api/v1/';
type Signal = AbortSignal | undefined;
const post = (signal: Signal, more: Options = {}): Options => ({ method: 'POST', signal, ...more });
const within = (r: Range) => ({ start: r.from, end: r.to });

/** The most lines that a tenant may ask for at once, where the server has said so. */
const most = new Map<string, number>();

/** Asks for at most `wanted` lines. Where the limit of the tenant is lower, it is kept to. */
async function limited(wanted: number, ask: (limit: number) => Promise<Response>): Promise<Response> {
  const limit = Math.min(wanted, most.get(tenant.value) ?? Infinity);
  try {
    return await ask(limit);
  } catch (e) {
    const said = e instanceof ServerError ? e.message.match(/max entries limit per query exceeded.*\((\d+) > (\d+)\)/) : null;
    const allowed = Number(said?.[2] ?? 0);
    if (allowed < 1 || allowed >= limit) throw e;
    most.set(tenant.value, allowed);
    return limited(wanted, ask);
  }
}

/** One page of a query. */
const page = (params: Params & { limit: number }, o: Options): Promise<Response> =>
  limited(params.limit, (limit) => request(L + 'query_range', { ...params, limit }, o));

const nextCursor = (r: Response): string | null => r.headers.get('X-Logsvc-Next-Cursor');
const linesIn = (a: RawAnswer): Line[] => ordered((a.data.result ?? []) as RawStream[], false);

export interface Page { query: string; start: Ns; end: Ns; limit: number; newestFirst: boolean; cursor?: string | null; step?: number }

/** One page of a log query, or all series of a metric query. */
export async function queryRange(p: Page, signal: Signal): Promise<Answer> {
  const r = await page({
    query: p.query, start: p.start, end: p.end, limit: p.limit, step: p.step,
    direction: p.newestFirst ? 'backward' : 'forward', cursor: p.cursor ?? undefined,
  }, post(signal, { flags: 'categorize-labels' }));
  return toAnswer((await r.json()) as RawAnswer, p.newestFirst, nextCursor(r));
}

/** One page of the lines of a time, each with its place. */
export async function linesAt(query: string, ts: Ns, cursor: string | null, signal: Signal): Promise<{ lines: Line[]; cursor: string | null }> {
  const r = await page({ query, start: ts, end: addNs(ts, 1n), limit: 1000, direction: 'forward', cursor: cursor ?? undefined },
    post(signal, { flags: 'categorize-labels,places' }));
  return { lines: linesIn((await r.json()) as RawAnswer), cursor: nextCursor(r) };
}

export interface Sides { before: number; after: number }

/**
 * Lines of one stream as they are stored, oldest first: at most `n` on each side of a line that has
 * its place, and that line. A side with fewer than were `asked` for has no more.
 */
export async function linesAround(query: string, here: Line, n: Sides, signal: Signal): Promise<{ lines: Line[]; asked: Sides }> {
  let asked = n;
  const r = await limited(n.before + n.after + 1, (limit) => {
    const share = (side: number) => Math.min(side, Math.floor(((limit - 1) * side) / (n.before + n.after)));
    asked = { before: share(n.before), after: share(n.after) };
    return request(L + 'context', { query, time: here.ts, place: here.place, ...asked }, post(signal));
  });
  return { lines: linesIn((await r.json()) as RawAnswer), asked };
}

/** The address of a tail. A page cannot set headers of a WebSocket, so parameters say the same. */
export function tailAddress(query: string, limit: number, start: Ns | null): string {
  const url = new URL(address(L + 'tail'));
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.search = encode({ query, limit, start: start ?? undefined, tenant: tenant.value, categorize: 'true' }).toString();
  return url.href;
}

/** Why a tail was refused: a browser does not tell, so the same request is made without the upgrade. */
export async function tailRefusal(query: string, signal: Signal): Promise<Error | null> {
  try {
    await request(L + 'tail', { query, limit: 1 }, { signal });
    return null;
  } catch (e) {
    // This is the answer to a good request that is no WebSocket.
    if (e instanceof ServerError && e.status === 400 && e.message === 'Bad Request') return null;
    return e as Error;
  }
}

export async function metricRange(query: string, start: Ns, end: Ns, step: number, signal: Signal): Promise<Series[]> {
  return seriesOf(await json<RawAnswer>(L + 'query_range', { query, start, end, step }, post(signal)));
}

export async function metricNow(query: string, time: Ns, signal: Signal): Promise<Series[]> {
  return seriesOf(await json<RawAnswer>(L + 'query', { query, time }, post(signal)));
}

export async function parquet(query: string, r: Range, limit: number, newestFirst: boolean, signal: Signal): Promise<Blob> {
  const answer = await page({ query, ...within(r), limit, direction: newestFirst ? 'backward' : 'forward' },
    post(signal, { accept: 'application/vnd.apache.parquet' }));
  return answer.blob();
}

export async function labels(query: string, r: Range, signal: Signal): Promise<string[]> {
  return (await json<{ data?: string[] }>(L + 'labels', { query, ...within(r) }, post(signal))).data ?? [];
}

export async function labelValues(name: string, query: string, r: Range, signal: Signal): Promise<string[]> {
  return (await json<{ data?: string[] }>(`${L}label/${encodeURIComponent(name)}/values`, { query, ...within(r) }, post(signal))).data ?? [];
}

export interface Detected { label: string; cardinality: number; type?: string; parsers?: string[] | null }

export async function detectedFields(query: string, r: Range, signal: Signal): Promise<Detected[]> {
  const a = await json<{ fields?: Detected[] }>(L + 'detected_fields', { query, ...within(r), line_limit: 1000 }, post(signal));
  return a.fields ?? [];
}

export async function detectedLabels(query: string, r: Range, signal: Signal): Promise<Detected[]> {
  return (await json<{ detectedLabels?: Detected[] }>(L + 'detected_labels', { query, ...within(r) }, post(signal))).detectedLabels ?? [];
}

export interface Volume { labels: Labels; bytes: number }

export async function volume(query: string, by: string, r: Range, limit: number, signal: Signal): Promise<Volume[]> {
  const a = await json<RawAnswer>(L + 'index/volume', { query, targetLabels: by, ...within(r), limit }, post(signal));
  return seriesOf(a).map((s) => ({ labels: s.labels, bytes: Number(s.samples[0]?.v ?? 0) }));
}

export async function volumeRange(query: string, by: string, r: Range, step: number, signal: Signal): Promise<Series[]> {
  return seriesOf(await json<RawAnswer>(L + 'index/volume_range', { query, targetLabels: by, ...within(r), step, limit: 100 }, post(signal)));
}

export interface Pattern { pattern: string; level?: string; samples: [number, number][] }

export async function patterns(query: string, r: Range, step: number, signal: Signal): Promise<Pattern[]> {
  return (await json<{ data?: Pattern[] }>(L + 'patterns', { query, ...within(r), step }, post(signal))).data ?? [];
}

// Alerts and deletions.

export interface Alert { labels: Labels; annotations: Labels; state: string; activeAt?: string; value: string }
export interface Rule { name: string; query: string; type: string; state?: string; health?: string; lastError?: string; duration?: number; labels?: Labels; alerts?: Alert[]; lastEvaluation?: string; evaluationTime?: number }
export interface Group { name: string; file: string; interval: number; rules: Rule[]; lastEvaluation?: string; evaluationTime?: number }

export async function ruleGroups(signal: Signal): Promise<Group[]> {
  return (await json<{ data: { groups: Group[] } }>('prometheus/api/v1/rules', {}, { signal })).data.groups ?? [];
}

export interface Deletion { request_id: string; start_time: number; end_time: number; query: string; status: string; created_at: number }

export const deletions = async (signal: Signal): Promise<Deletion[]> =>
  (await json<Deletion[] | null>(L + 'delete', {}, { signal })) ?? [];

export async function createDeletion(query: string, start: string, end: string): Promise<void> {
  await request(L + 'delete', { query, start, end }, { method: 'POST', inUrl: true });
}

export async function cancelDeletion(id: string, force: boolean): Promise<void> {
  await request(L + 'delete', { request_id: id, force: force ? 'true' : undefined }, { method: 'DELETE' });
}

// The node.

export interface Refusal {
  first: string; last: string; reason: string; route?: string; peer?: string; user_agent?: string; stream?: string;
  entry_time?: string; limit_time?: string; error?: string; status?: number; pushes: number; entries: number; bytes: number;
}

export const refusals = async (signal: Signal): Promise<Refusal[]> =>
  (await json<{ data?: Refusal[] }>(L + 'refusals', {}, { signal })).data ?? [];

export const metricsText = (signal: Signal): Promise<string> => text('metrics', {}, { signal });
export const settingsDiff = (signal: Signal): Promise<string> => text('config', { mode: 'diff' }, { signal });
export const servicesText = (signal: Signal): Promise<string> => text('services', {}, { signal });

export interface Build { version: string; revision: string; branch: string; buildDate: string }
export const buildInfo = (signal: Signal): Promise<Build> => json<Build>(L + 'status/buildinfo', {}, { signal });

/** Empty if the server is ready, else its reason. */
export async function readiness(signal: Signal): Promise<string> {
  try {
    await text('ready', {}, { signal });
    return '';
  } catch (e) {
    if (e instanceof Error && 'status' in e) return e.message;
    throw e;
  }
}
