// Requests to the server this page came from. Every address is derived from where this script was
// served, so the page works under any path prefix.

import { tenant } from './route';

/** The folder above `ui/`: `https://host/logs/`. */
export const BASE = new URL('../', import.meta.url);

export const address = (path: string): string => new URL(path, BASE).href;

/** The server answered, and the answer is an error. */
export class ServerError extends Error {
  constructor(readonly status: number, text: string) { super(text); }
}

/** No answer came. */
export class Unreachable extends Error {
  constructor() { super('The server cannot be reached.'); }
}

export const isAbort = (e: unknown): boolean => e instanceof DOMException && e.name === 'AbortError';

export interface Options {
  signal?: AbortSignal | undefined;
  /** Queries go as POST: no cache on the way may keep a tenant's answers. */
  method?: 'GET' | 'POST' | 'DELETE';
  accept?: string;
  /** Metadata apart from labels; with `places`, also the place of each entry. */
  flags?: 'categorize-labels' | 'categorize-labels,places';
  /** Parameters into the address also with POST. */
  inUrl?: boolean;
}

export type Params = Record<string, string | number | undefined>;

export function encode(params: Params): URLSearchParams {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== '') p.set(k, String(v));
  return p;
}

export function headers(o: Options): Record<string, string> {
  const h: Record<string, string> = {};
  if (tenant.value) h['X-Scope-OrgID'] = tenant.value;
  if (o.flags) h['X-Loki-Response-Encoding-Flags'] = o.flags;
  if (o.accept) h.Accept = o.accept;
  return h;
}

export async function request(path: string, params: Params = {}, o: Options = {}): Promise<Response> {
  // Such a header cannot be sent at all, and the server would refuse such an id.
  if (/[^ -~]/.test(tenant.value)) throw new ServerError(400, 'The tenant has characters that no id may have.');
  const method = o.method ?? 'GET';
  const body = encode(params);
  const inBody = method === 'POST' && !o.inUrl;
  const query = !inBody && body.size > 0 ? '?' + body : '';
  const init: RequestInit = { method, headers: headers(o), credentials: 'same-origin' };
  if (o.signal) init.signal = o.signal;
  if (inBody) init.body = body;
  else if (method === 'GET') init.cache = 'no-store';
  let response: Response;
  try {
    response = await fetch(address(path) + query, init);
  } catch (e) {
    if (isAbort(e)) throw e;
    throw new Unreachable();
  }
  if (!response.ok) throw new ServerError(response.status, await errorText(response));
  return response;
}

async function errorText(r: Response): Promise<string> {
  const text = (await r.text()).trim().slice(0, 5000);
  if (/html/.test(r.headers.get('Content-Type') ?? '')) return `A proxy answered ${r.status} ${r.statusText}.`;
  try {
    const j = JSON.parse(text);
    return String(j.error ?? j.message ?? text);
  } catch {
    return text || `${r.status} ${r.statusText}`;
  }
}

export async function json<T>(path: string, params: Params = {}, o: Options = {}): Promise<T> {
  const r = await request(path, params, o);
  try {
    return (await r.json()) as T;
  } catch (e) {
    if (isAbort(e)) throw e;
    throw new ServerError(r.status, 'The answer could not be read. It may have been cut off on its way.');
  }
}

export const text = async (path: string, params: Params = {}, o: Options = {}): Promise<string> =>
  (await request(path, params, o)).text();
