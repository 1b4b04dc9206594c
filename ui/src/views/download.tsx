// Downloads all lines of the search, page by page, or the series of a chart.

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { parquet, queryRange } from '../api';
import type { Line } from '../data/types';
import { isAbort } from '../http';
import { asJson, asCurl, asLogcli } from '../parts/copy';
import { Popover } from '../parts/popover';
import { copyAndSay, say } from '../parts/toast';
import { state } from '../route';
import { chart, feed, range } from '../search';
import { csvRow } from '../text/csv';
import { count } from '../text/size';

const MOST = 200_000;
type Kind = 'jsonl' | 'csv' | 'parquet';

function save(parts: BlobPart[], name: string, type: string): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Columns of CSV: time, line, and every label and field name that some line has. */
function csvOf(lines: Line[]): string[] {
  const names = new Set<string>();
  for (const l of lines) for (const part of [l.stream, l.meta, l.parsed]) for (const k of Object.keys(part)) names.add(k);
  const cols = [...names].sort();
  return [csvRow(['timestamp', 'line', ...cols]), ...lines.map((l) => csvRow([l.ts, l.line, ...cols.map((c) => l.parsed[c] ?? l.meta[c] ?? l.stream[c] ?? '')]))];
}

function seriesRows(): string[] {
  const series = chart.value!.series;
  const names = [...new Set(series.flatMap((s) => Object.keys(s.labels)))].sort();
  return [csvRow(['time', ...names, 'value']), ...series.flatMap((s) => s.samples.map((p) => csvRow([String(p.t), ...names.map((n) => s.labels[n] ?? ''), p.v])))];
}

export function Download(): JSX.Element {
  const [done, setDone] = useState<number | null>(null);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const run = async (kind: Kind) => {
    const r = range.value;
    if (!r) return;
    const s = state.value;
    const newest = s.dir === 'newest';
    if (chart.value) {
      if (kind === 'csv') save(seriesRows(), 'logsvc.csv', 'text/csv');
      else if (kind === 'jsonl') save(chart.value.series.map((x) => JSON.stringify({ labels: x.labels, values: x.samples.map((p) => [p.t, p.v]) }) + '\n'), 'logsvc.jsonl', 'application/x-ndjson');
      else await direct(kind, r, newest);
      return;
    }
    if (kind === 'parquet') return direct(kind, r, newest);
    abort.current = new AbortController();
    const lines: Line[] = [];
    setDone(0);
    try {
      let cursor: string | null = null;
      do {
        const a = await queryRange({ query: s.q, start: r.from, end: r.to, limit: 5000, newestFirst: newest, cursor }, abort.current.signal);
        if (a.kind !== 'lines') break;
        lines.push(...a.lines);
        cursor = a.cursor;
        setDone(lines.length);
      } while (cursor && lines.length < MOST);
      save(kind === 'csv' ? csvOf(lines) : lines.map((l) => asJson(l) + '\n'), `logsvc.${kind}`, kind === 'csv' ? 'text/csv' : 'application/x-ndjson');
      say(cursor ? `The file has the first ${count(lines.length)} lines; there are more` : `${count(lines.length)} lines downloaded`);
    } catch (e) {
      if (!isAbort(e)) say(`Download failed: ${(e as Error).message}`);
    }
    setDone(null);
  };

  const direct = async (kind: Kind, r: { from: string; to: string }, newest: boolean) => {
    abort.current = new AbortController();
    try {
      const blob = await parquet(state.value.q, r, 5000, newest, abort.current.signal);
      save([blob], `logsvc.${kind}`, 'application/vnd.apache.parquet');
    } catch (e) {
      if (!isAbort(e)) say(`Download failed: ${(e as Error).message}`);
    }
  };

  const r = range.value;
  return (
    <Popover label="Download" icon="down" align="end" class="download">
      {(close) => (
        <div class="menu">
          {done !== null
            ? <><p>{count(done)} lines…</p><button type="button" class="menu-item" data-first onClick={() => { abort.current?.abort(); setDone(null); }}>Cancel</button></>
            : <>
                <button type="button" class="menu-item" data-first disabled={!feed.value && !chart.value} onClick={() => void run('jsonl')}>JSON lines</button>
                <button type="button" class="menu-item" disabled={!feed.value && !chart.value} onClick={() => void run('csv')}>CSV</button>
                <button type="button" class="menu-item" disabled={!feed.value && !chart.value} onClick={() => void run('parquet')}>Parquet {chart.value ? '' : '(first 5,000 lines)'}</button>
                {r && <button type="button" class="menu-item" onClick={() => { void copyAndSay(asCurl(state.value.q, r.from, r.to, state.value.dir === 'newest'), 'curl'); close(); }}>Copy as curl</button>}
                {r && <button type="button" class="menu-item" onClick={() => { void copyAndSay(asLogcli(state.value.q, r.from, r.to, state.value.dir === 'newest'), 'logcli'); close(); }}>Copy as logcli</button>}
              </>}
        </div>
      )}
    </Popover>
  );
}
