// A tail: lines as they come, held still while the reader looks at older ones, and resumed when the
// connection has ended (README.md, "Rules"). Memory is bounded: only the newest lines are kept.

import { signal } from '@preact/signals';
import { metricNow, queryRange, tailAddress, tailRefusal } from '../api';
import { Unreachable } from '../http';
import { addNs, compareNs, msToNs, type Ns } from '../time/ns';
import { count } from '../text/size';
import { linesOf, type RawStream } from './answers';
import { lineKey } from './identity';
import { nextId, type Answer, type Labels, type Line } from './types';

export interface TailRow extends Line { mark?: string }
export type TailStatus = { kind: 'connecting' | 'open' | 'interrupted' | 'ended'; text: string; error?: Error };

/** Lines that are shown, and lines that may wait while the list is held. */
export const KEPT = 10_000;
const FLUSH_MS = 100;
const PAGE = 5000;
/** A tail sends lines in the order of arrival: some that are older may have come after the last one. */
const OVERLAP = 2_000_000_000n;
const NONE: Labels = Object.freeze({});

interface Frame { streams?: RawStream[] | null; dropped_entries?: unknown[] | null }

export class Tail {
  readonly rows = signal<readonly TailRow[]>([]);
  /** Rows taken from the front since the start. */
  readonly dropped = signal(0);
  readonly waiting = signal(0);
  /** Lines that the server left out because this page was too slow. */
  readonly missed = signal(0);
  /** Lines that waited so long that newer ones took their place. */
  readonly overflow = signal(0);
  readonly status = signal<TailStatus>({ kind: 'connecting', text: 'Connecting…' });
  readonly rate = signal(0);
  holding = false;

  private socket: WebSocket | null = null;
  private pending: TailRow[] = [];
  private filling: TailRow[] | null = null;
  private last: Ns | null = null;
  private timer = 0;
  private retry = 0;
  private tries = 0;
  private opened = 0;
  private received = 0;
  private readonly abort = new AbortController();

  constructor(readonly query: string) {
    this.timer = window.setInterval(() => this.flush(), FLUSH_MS);
    this.connect();
  }

  close(): void {
    this.abort.abort();
    clearInterval(this.timer);
    clearTimeout(this.retry);
    this.detach();
    this.rows.value = [];
    this.pending = [];
  }

  private detach(): void {
    const s = this.socket;
    this.socket = null;
    if (s) { s.onopen = s.onclose = s.onmessage = s.onerror = null; s.close(); }
  }

  /** Holds the list still, or lets what waits in. */
  hold(on: boolean): void {
    this.holding = on;
    if (!on) this.flush();
  }

  again(): void { this.tries = 0; clearTimeout(this.retry); this.detach(); this.connect(); }

  private connect(): void {
    if (this.abort.signal.aborted) return;
    const resumes = this.last !== null;
    // A new tail begins with some history; a resumed one fetches what it missed by itself.
    const socket = new WebSocket(tailAddress(this.query, resumes ? 1 : 100, resumes ? msToNs(Date.now()) : null));
    this.socket = socket;
    this.opened = 0;
    socket.onopen = () => {
      this.opened = Date.now();
      this.status.value = { kind: 'open', text: 'Live' };
      if (resumes) { this.filling = []; void this.fill(this.last!); }
    };
    socket.onmessage = (m) => this.frame(m.data);
    socket.onclose = (e) => void this.closed(e);
  }

  private frame(data: unknown): void {
    let f: Frame;
    try { f = JSON.parse(String(data)) as Frame; } catch { return; }
    const into = this.filling ?? this.pending;
    for (const line of linesOf(f.streams ?? [])) into.push(this.seen(line));
    // What came before the tail began says nothing about its speed.
    if (Date.now() - this.opened > 500) this.received += f.streams?.length ?? 0;
    if (f.dropped_entries?.length) this.missed.value += f.dropped_entries.length;
    // Lines beyond what will ever be shown are not kept, also while a background tab gets no time.
    if (this.pending.length > KEPT * 2) { this.overflow.value += this.pending.length - KEPT; this.pending = this.pending.slice(-KEPT); }
  }

  /** Notes how far the tail has come. */
  private seen(line: Line): Line {
    if (this.last === null || compareNs(line.ts, this.last) > 0) this.last = line.ts;
    return line;
  }

  private flush(): void {
    this.rate.value = this.rate.value * 0.9 + (this.received * 1000 / FLUSH_MS) * 0.1;
    this.received = 0;
    if (this.holding) { if (this.waiting.value !== this.pending.length) this.waiting.value = this.pending.length; return; }
    if (this.pending.length > 0) {
      const all = (this.rows.value as TailRow[]).concat(this.pending);
      this.pending = [];
      const drop = Math.max(0, all.length - KEPT);
      if (drop > 0) this.dropped.value += Math.min(drop, this.rows.value.length);
      this.rows.value = drop > 0 ? all.slice(drop) : all;
    }
    if (this.waiting.value !== 0) this.waiting.value = 0;
  }

  private mark(text: string): TailRow {
    return { ts: this.last ?? '0', line: text, stream: NONE, meta: NONE, parsed: NONE, id: nextId(), mark: text };
  }

  private async closed(e: CloseEvent): Promise<void> {
    this.socket = null;
    if (this.abort.signal.aborted) return;
    const worked = this.opened > 0 && (this.last !== null || Date.now() - this.opened > 3000);
    if (!worked) {
      // It never worked: the reason is in the end of the connection, or in the answer to the request.
      const refusal = e.reason ? new Error(e.reason) : await tailRefusal(this.query, this.abort.signal);
      if (this.abort.signal.aborted) return;
      if (refusal && !(refusal instanceof Unreachable)) {
        this.status.value = { kind: 'ended', text: refusal.message, error: refusal };
        return;
      }
    }
    const wait = Math.min(15_000, 500 * 2 ** this.tries++);
    this.status.value = { kind: 'interrupted', text: `${e.reason || 'The connection ended'}. Trying again in ${Math.ceil(wait / 1000)} s.` };
    this.retry = window.setTimeout(() => { this.status.value = { kind: 'connecting', text: 'Connecting again…' }; this.connect(); }, wait);
  }

  /** What came while the connection was down: the newest lines since the last one that was seen. */
  private async fill(last: Ns): Promise<void> {
    const from = addNs(last, -OVERLAP);
    const seen = new Set<string>();
    for (const list of [this.rows.value, this.pending]) {
      for (const r of list) if (!r.mark && compareNs(r.ts, from) >= 0) seen.add(lineKey(r));
    }
    const end = msToNs(Date.now() + 1000);
    const fetched: TailRow[] = [];
    let cursor: string | null = null;
    let text = 'Interrupted, resumed. No line is missing.';
    try {
      do {
        const page: Answer = await queryRange({ query: this.query, start: from, end, limit: PAGE, newestFirst: true, cursor }, this.abort.signal);
        if (page.kind !== 'lines') break;
        for (const line of page.lines) fetched.push(this.seen(line));
        cursor = page.cursor;
      } while (cursor && fetched.length < KEPT);
      if (cursor) text = `Interrupted, resumed. ${await this.missing(from, end, fetched.length)} lines of the gap are not shown.`;
    } catch (e) {
      if (this.abort.signal.aborted) return;
      text = `Interrupted. What came meanwhile could not be fetched: ${(e as Error).message}`;
    }
    const fresh = fetched.reverse().filter((r) => !seen.has(lineKey(r)));
    for (const r of fresh) seen.add(lineKey(r));
    const live = (this.filling ?? []).filter((r) => !seen.has(lineKey(r)));
    this.filling = null;
    this.tries = 0;
    this.pending.push(this.mark(text), ...fresh, ...live);
  }

  private async missing(from: Ns, to: Ns, got: number): Promise<string> {
    const seconds = Math.max(1, Math.ceil(Number((BigInt(to) - BigInt(from)) / 1_000_000n) / 1000));
    try {
      const s = await metricNow(`sum(count_over_time(${this.query} [${seconds}s]))`, to, this.abort.signal);
      return count(Math.max(0, Number(s[0]?.samples[0]?.v ?? 0) - got));
    } catch {
      return 'Some';
    }
  }
}
