// The search: query, time, histogram, and lines, a table or a chart.

import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { labels } from '../api';
import { addStage } from '../logql/edit';
import { caseless } from '../logql/matches';
import { quote } from '../logql/quote';
import { isLogQuery } from '../logql/split';
import type { Range } from '../time/range';
import { isAbort } from '../http';
import { Button } from '../parts/button';
import { QueryEditor } from '../parts/editor';
import { HistogramView } from '../parts/histogram';
import { Problem } from '../parts/notice';
import { RecentQueries } from '../parts/recent';
import { TimePicker } from '../parts/time-picker';
import { say } from '../parts/toast';
import { go, state } from '../route';
import { again, busy, chart, feed, histogram, problem, start, stop } from '../search';
import { msToNs } from '../time/ns';
import { Download } from './download';
import { EmptyStore } from './empty-store';
import { Lines } from './lines';
import { Metrics } from './metrics-lazy';
import { signal } from '@preact/signals';

export const ALL = '{service_name=~".+"}';
export const storeEmpty = signal(false);

/** A first query for a page without one: everything, unless there is nothing. */
async function firstQuery(abort: AbortSignal): Promise<void> {
  const now = Date.now();
  const week = { from: msToNs(now - 29 * 86_400_000), to: msToNs(now + 600_000) };
  busy.value = true;
  try {
    const names = await labels('', week, abort);
    if (names.length === 0) { storeEmpty.value = true; busy.value = false; return; }
    storeEmpty.value = false;
    go({ q: names.includes('service_name') ? ALL : `{${names[0]}=~".+"}` }, true);
  } catch (e) {
    if (isAbort(e)) return;
    problem.value = e as Error;
    busy.value = false;
  }
}

export function SearchView(): JSX.Element {
  const s = state.value;
  const draft = useRef(s.q);
  const run = (q: string) => {
    if (q === state.value.q) again.value++;
    else go({ q, line: '', context: false, cols: isLogQuery(q) ? state.value.cols : [], mode: isLogQuery(q) && state.value.mode !== 'chart' ? state.value.mode : 'lines' });
  };
  useEffect(() => {
    draft.current = s.q;
    if (!s.q.trim()) {
      stop();
      feed.value = chart.value = histogram.value = problem.value = null;
      const gone = new AbortController();
      void firstQuery(gone.signal);
      return () => gone.abort();
    }
    const buckets = Math.max(30, Math.min(120, Math.floor(innerWidth / 12)));
    start({ q: s.q, from: s.from, to: s.to, newestFirst: s.dir === 'newest', zone: s.tz, buckets });
    return undefined;
  }, [s.q, s.from, s.to, s.dir, s.tz, s.tenant, again.value]);
  useEffect(() => stop, []);

  const error = problem.value;
  const select = (r: Range) => go({ from: r.from, to: r.to, line: '', context: false });
  return (
    <div class="view search">
      <h1 class="offscreen">Search</h1>
      <div class="query-row">
        <QueryEditor value={s.q} label="Query in LogQL" error={error?.message ?? null} onRun={run} onChange={(q) => { draft.current = q; }} />
        <Button kind="primary" icon="play" label="Run" class="run" onClick={() => run(draft.current)} />
      </div>
      <Toolbar />
      {histogram.value && !error && (
        <HistogramView data={histogram.value.data} busy={histogram.value.busy} zone={s.tz} onSelect={select}
          onLevel={(l) => { const q = addStage(s.q, `| detected_level=${quote(l)}`); if (q) go({ q }); }} />
      )}
      {histogram.value?.error && !error && <p class="field-error strip">The histogram could not be made: {histogram.value.error.message}</p>}
      {error ? <Problem error={error} query={s.q} retry={() => { again.value++; }} />
        : storeEmpty.value && !s.q ? <EmptyStore onLine={() => { storeEmpty.value = false; go({ q: ALL }, true); }} />
        : chart.value ? <Metrics chart={chart.value} />
        : <Lines />}
    </div>
  );
}

function Toolbar(): JSX.Element {
  const s = state.value;
  const lines = !s.q.trim() || isLogQuery(s.q);
  const find = (e: Event) => {
    e.preventDefault();
    const form = e.currentTarget as HTMLFormElement;
    const text = String(new FormData(form).get('text') ?? '');
    if (!text) return;
    const q = addStage(s.q, `|~ ${quote(caseless(text))}`);
    if (q) { go({ q, line: '', context: false }); form.reset(); } else say('This query cannot be changed here');
  };
  return (
    <div class="toolbar" role="group" aria-label="Tools">
      <TimePicker />
      {lines && (
        <form class="find" role="search" onSubmit={find}>
          <input type="search" name="text" placeholder="Filter, any case" aria-label="Filter lines by a text, in any case" autocomplete="off" spellcheck={false} />
        </form>
      )}
      <span class="grow" />
      <span class={`progress ${busy.value ? 'on' : ''}`} role="status" aria-label={busy.value ? 'Searching' : ''} />
      {lines && <Button bare icon="sort" label={s.dir === 'newest' ? 'Newest first: show oldest first' : 'Oldest first: show newest first'} pressed={s.dir === 'oldest'} onClick={() => go({ dir: s.dir === 'newest' ? 'oldest' : 'newest' })} />}
      {lines && s.mode !== 'table' && <Button bare icon="wrap" label="Wrap long lines" pressed={s.wrap} onClick={() => go({ wrap: !s.wrap }, true)} />}
      {lines
        ? <div class="segmented" role="group" aria-label="Shown as">
            <Button bare icon="lines" label="Lines" pressed={s.mode !== 'table'} onClick={() => go({ mode: 'lines' }, true)} />
            <Button bare icon="table" label="Table" pressed={s.mode === 'table'} onClick={() => go({ mode: 'table', cols: s.cols.length ? s.cols : ['service_name', 'line'] }, true)} />
          </div>
        : <div class="segmented" role="group" aria-label="Shown as">
            <Button bare icon="chart" label="Chart" pressed={s.mode !== 'table'} onClick={() => go({ mode: 'chart' }, true)} />
            <Button bare icon="table" label="Table" pressed={s.mode === 'table'} onClick={() => go({ mode: 'table' }, true)} />
          </div>}
      <RecentQueries />
      <Download />
    </div>
  );
}
