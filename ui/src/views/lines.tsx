// The lines of a search, as lines or as a table, and the details of the one that is open.

import type { JSX } from 'preact';
import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import type { EdgeState, End, Feed } from '../data/feed';
import { MAX_LINES } from '../data/feed';
import { findLine } from '../data/find';
import { lineName, lineTime } from '../data/identity';
import type { Line } from '../data/types';
import { columnValue, LogRow } from '../list/log-row';
import { VirtualList } from '../list/virtual';
import { finderOf } from '../logql/matches';
import { Button } from '../parts/button';
import { Notice } from '../parts/notice';
import { go, state } from '../route';
import { busy, feed } from '../search';
import { bytes, count, plural } from '../text/size';
import { msToNs } from '../time/ns';
import { formatDuration } from '../time/range';
import { seconds, wall } from '../time/zone';
import { ColumnHead, columnShares, sortBy } from './columns';
import { Details } from './details';

const narrowQuery = matchMedia('(max-width: 640px)');
export const narrow = signal(narrowQuery.matches);
narrowQuery.addEventListener('change', () => { narrow.value = narrowQuery.matches; });

const NONE: readonly Line[] = [];

export function Lines(): JSX.Element | null {
  const s = state.value;
  const f = feed.value;
  const all = f?.lines.value ?? NONE;
  const [active, setActive] = useState<Line | null>(null);
  const [elsewhere, setElsewhere] = useState<Line | null>(null);
  const finder = useMemo(() => finderOf(f?.query ?? ''), [f]);
  const cols = s.mode === 'table' ? s.cols : NONE_COLS;
  const sort = sortBy.value;
  const items = useMemo(() => {
    if (s.mode !== 'table' || !sort) return all;
    const keyed = all.map((l) => ({ l, v: sort.column === 'time' ? l.ts : sort.column === 'line' ? l.line : columnValue(l, sort.column) }));
    const numeric = new Intl.Collator('en', { numeric: true });
    keyed.sort((a, b) => numeric.compare(a.v, b.v) * (sort.down ? -1 : 1));
    return keyed.map((k) => k.l);
  }, [all, s.mode, sort]);

  // Of the first page only, so that columns do not move while more is loaded.
  const shares = useMemo(() => columnShares(all, cols), [f, cols.join('\n'), all.length > 0]);
  const days = useMemo(() => spansDays(items, s.tz), [items, s.tz]);
  const row = useCallback((l: Line) => <LogRow l={l} finder={finder} zone={s.tz} cols={cols} day={days} />, [finder, s.tz, cols, days]);

  const open = useMemo(() => {
    if (!s.line) return null;
    if (active && lineName(active) === s.line) return active;
    const ts = lineTime(s.line);
    return items.find((l) => l.ts === ts && lineName(l) === s.line) ?? elsewhere;
  }, [s.line, items, active, elsewhere]);

  // A shared address may name a line that is not on the pages loaded so far.
  useEffect(() => {
    const ts = lineTime(s.line);
    if (!f || !ts || open || busy.value) return;
    const gone = new AbortController();
    findLine(f.query, ts, (l) => lineName(l) === s.line, gone.signal)
      .then((found) => { if (found) setElsewhere(found); }, () => { /* the list is there all the same */ });
    return () => gone.abort();
  }, [s.line, f, open === null]);

  if (!f) return busy.value ? <Skeleton /> : null;
  const index = active ? items.indexOf(active) : -1;
  const openAt = (i: number) => { const l = items[i]; if (l) { setActive(l); go({ line: lineName(l) }, s.line !== ''); } };
  const close = () => { go({ line: '', context: false }, true); document.querySelector<HTMLElement>('[role=listbox]')?.focus({ preventScroll: true }); };
  const step = (by: number) => { const i = items.indexOf(open!) + by; if (i >= 0 && i < items.length) openAt(i); };
  if (items.length === 0 && f.first.value === 'done') return <NothingFound f={f} />;
  const height = narrow.value ? 46 : 24;
  const edge = (end: End) => <EdgeBar f={f} end={end} edge={f.edges[end].value!} />;
  const sorted = s.mode === 'table' && sort !== null;
  return (
    <div class={`lines ${open ? 'with-details' : ''} ${s.mode}`} {...(cols.length ? { style: { '--shares': shares } } : {})}>
      <div class="lines-main">
        {s.mode === 'table' && <ColumnHead cols={cols} day={days} />}
        <VirtualList key={f.id} items={items} keyOf={(l) => l.id} height={height} measured={s.mode !== 'table' && s.wrap} prepended={sorted ? 0 : f.prepended.value}
          layout={`${f.query}${s.mode}${s.wrap}${height}${sorted}`} active={index} onActive={(i) => { setActive(items[i]!); if (open) go({ line: lineName(items[i]!) }, true); }} onOpen={openAt}
          onNearEnd={() => { const e = f.edges[f.ahead].value!; if (e.more && !e.busy && !e.error) void f.load(f.ahead); }}
          onScroll={(fromTop) => { const e = f.edges[f.behind].value!; if (fromTop < 800 && e.more && !e.busy && !e.error) void f.load(f.behind); }}
          rowClass={(l) => (open === l ? 'open' : '')}
          label={`${count(items.length)} lines, ${s.dir === 'newest' ? 'newest' : 'oldest'} first`}
          row={row}
          top={sorted ? null : edge(f.behind)} bottom={edge(f.ahead)} />
        <Status f={f} n={items.length} />
      </div>
      {open && <Details l={open} query={f.query} onClose={close} onStep={step} />}
    </div>
  );
}

const NONE_COLS: string[] = [];

/** Rows tell the day where it is not today for all of them. */
function spansDays(items: readonly Line[], tz: string): boolean {
  const [first, last] = [items[0], items[items.length - 1]];
  if (!first || !last) return false;
  const today = wall(msToNs(Date.now()), tz).date;
  return wall(first.ts, tz).date !== today || wall(last.ts, tz).date !== today;
}

function EdgeBar({ f, end, edge }: { f: Feed; end: End; edge: EdgeState }): JSX.Element {
  const now = msToNs(Date.now());
  const name = end === 'older' ? 'older' : 'newer';
  const atNow = end === 'newer' && BigInt(now) - BigInt(edge.bound) < 1_000_000_000n;
  const span = formatDuration(Number((BigInt(f.range.to) - BigInt(f.range.from)) / 1_000_000n));
  return (
    <div class="edge">
      {edge.error ? <><span class="field-error">{edge.error.message}</span><Button kind="quiet" icon="refresh" label="Try again" onClick={() => void f.load(end)} /></>
        : f.lines.value.length >= MAX_LINES ? <span>{count(MAX_LINES)} lines are loaded, which is all this page keeps. Choose a shorter time, or filter.</span>
        : edge.busy || edge.more ? <span>Loading {name} lines…</span>
        : <><span>{end === 'older' ? 'From' : 'Up to'} {seconds(edge.bound, state.value.tz)}</span>
            <Button kind="quiet" icon={end === f.ahead ? 'chevron' : 'up'} label={atNow ? 'Look for newer' : `${name === 'older' ? 'Older' : 'Newer'}: ${span} more`} onClick={() => void f.extend(end, now)} /></>}
    </div>
  );
}

function Status({ f, n }: { f: Feed; n: number }): JSX.Element {
  const st = f.stats.value;
  return (
    <footer class="status">
      <span>{plural(n, 'line')} loaded</span>
      <span class="muted">{bytes(st.bytes)} read in {formatDuration(Math.max(1, st.seconds * 1000))}</span>
      {f.warnings.value.map((w) => <span key={w} class="field-error">{w}</span>)}
    </footer>
  );
}

function NothingFound({ f }: { f: Feed }): JSX.Element {
  const s = state.value;
  const r = f.range;
  const span = BigInt(r.to) - BigInt(r.from);
  return (
    <Notice title="No lines in this range">
      <p>From {seconds(r.from, s.tz)} to {seconds(r.to, s.tz)} no line matches the query.</p>
      <div class="bar">
        <Button icon="clock" label={`Look ${formatDuration(Number(span / 1_000_000n) * 4)} back`} onClick={() => go({ from: String(BigInt(r.to) - 4n * span), to: r.to })} />
        <Button icon="clock" label="Last week" onClick={() => go({ from: 'now-1w', to: 'now' })} />
      </div>
    </Notice>
  );
}

function Skeleton(): JSX.Element {
  return <div class="lines"><div class="lines-main skeleton" aria-hidden="true">{Array.from({ length: 20 }, (_, i) => <div key={i} class="skeleton-row" style={{ width: `${40 + ((i * 37) % 55)}%` }} />)}</div></div>;
}
