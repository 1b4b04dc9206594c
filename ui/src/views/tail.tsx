// Lines as they come. The list follows the newest ones until the reader scrolls up; then it holds still.

import type { JSX } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { KEPT, Tail, type TailRow } from '../data/tail';
import { lineName } from '../data/identity';
import { LogRow } from '../list/log-row';
import { VirtualList } from '../list/virtual';
import { finderOf } from '../logql/matches';
import { addStage, selectorOf } from '../logql/edit';
import { caseless } from '../logql/matches';
import { quote } from '../logql/quote';
import { isLogQuery } from '../logql/split';
import { Button } from '../parts/button';
import { QueryEditor } from '../parts/editor';
import { Notice, Problem } from '../parts/notice';
import { go, state, viewLink } from '../route';
import { count, short } from '../text/size';
import { Details } from './details';
import { narrow } from './lines';
import { ALL } from './search';

export function TailView(): JSX.Element {
  const s = state.value;
  const [tail, setTail] = useState<Tail | null>(null);
  const [held, setHeld] = useState(false);
  const [active, setActive] = useState<TailRow | null>(null);
  const draft = useRef(s.q);
  const query = isLogQuery(s.q) ? s.q : selectorOf(s.q) ?? '';
  useEffect(() => {
    draft.current = s.q;
    if (!query) { go({ q: ALL }, true); return; }
    const t = new Tail(query);
    setTail(t);
    setHeld(false);
    return () => t.close();
  }, [query, s.tenant]);

  const run = (q: string) => go({ q, line: '', context: false });
  const hold = (on: boolean) => { if (tail && tail.holding !== on) { tail.hold(on); setHeld(on); } };
  const status = tail?.status.value;
  const error = status?.kind === 'ended' ? status.error ?? new Error(status.text) : null;
  return (
    <div class="view tail">
      <h1 class="offscreen">Tail</h1>
      <div class="query-row">
        <QueryEditor value={s.q || query} label="Query in LogQL" error={error?.message ?? null} onRun={run} onChange={(q) => { draft.current = q; }} />
        <Button kind="primary" icon="play" label="Tail" class="run" onClick={() => run(draft.current)} />
      </div>
      <div class="toolbar" role="group" aria-label="Tools">
        <span class={`live ${status?.kind ?? ''}`} role="status"><span class="live-dot" aria-hidden="true" />{status?.text}</span>
        <span class="muted rate">{tail && status?.kind === 'open' ? `${short(Math.round(tail.rate.value))} lines/s` : ''}</span>
        <form class="find" role="search" onSubmit={(e) => {
          e.preventDefault();
          const form = e.currentTarget as HTMLFormElement;
          const q = addStage(query, `|~ ${quote(caseless(String(new FormData(form).get('text') ?? '')))}`);
          if (q) { form.reset(); run(q); }
        }}>
          <input type="search" name="text" placeholder="Filter, any case" aria-label="Filter lines by a text, in any case" autocomplete="off" spellcheck={false} />
        </form>
        <span class="grow" />
        <Button bare icon="wrap" label="Wrap long lines" pressed={s.wrap} onClick={() => go({ wrap: !s.wrap }, true)} />
        <Button icon={held ? 'play' : 'pause'} label={held ? 'Follow' : 'Hold'} onClick={() => hold(!held)} />
      </div>
      {tail && (tail.missed.value > 0 || tail.overflow.value > 0) && (
        <p class="warning strip" role="status">
          {tail.missed.value > 0 && `${count(tail.missed.value)} lines came faster than this page could take them, and the server left them out. `}
          {tail.overflow.value > 0 && `${count(tail.overflow.value)} lines that waited were replaced by newer ones. `}
          Filter the query, or look at them in <a href={viewLink('search')}>search</a>.
        </p>)}
      {error ? <Problem error={error} query={s.q} retry={() => tail?.again()} />
        : tail && <TailList key={tail.query} tail={tail} held={held} hold={hold} active={active} setActive={setActive} />}
    </div>
  );
}

const NO_COLS: readonly string[] = [];

interface ListProps { tail: Tail; held: boolean; hold: (on: boolean) => void; active: TailRow | null; setActive: (r: TailRow | null) => void }

function TailList({ tail, held, hold, active, setActive }: ListProps): JSX.Element {
  const s = state.value;
  const rows = tail.rows.value;
  const finder = useMemo(() => finderOf(tail.query), [tail]);
  const open = s.line && active && lineName(active) === s.line ? active : null;
  const height = narrow.value ? 46 : 24;
  const openAt = (i: number) => { const r = rows[i]; if (r && !r.mark) { hold(true); setActive(r); go({ line: lineName(r) }, true); } };
  const row = useCallback((r: TailRow) => (r.mark ? <span class="mark-text">{r.mark}</span> : <LogRow l={r} finder={finder} zone={s.tz} cols={NO_COLS} day={false} />), [finder, s.tz]);
  if (rows.length === 0) {
    return <Notice title="Waiting for lines"><p>Lines that match the query appear here as they are stored.</p></Notice>;
  }
  return (
    <div class={`lines ${open ? 'with-details' : ''}`}>
      <div class="lines-main">
        <VirtualList items={rows} keyOf={(r) => r.id} height={height} measured={s.wrap} prepended={0} dropped={tail.dropped.value} follow={!held}
          layout={`${s.wrap}${height}`} active={active ? rows.indexOf(active) : -1} onActive={(i) => { hold(true); setActive(rows[i]!); }} onOpen={openAt}
          onScroll={(_, fromEnd) => { if (fromEnd > height * 2) hold(true); else if (fromEnd < 4 && held && !open) hold(false); }}
          rowClass={(r) => (r.mark ? 'mark-row' : open === r ? 'open' : '')}
          label={`Tail, the newest ${count(KEPT)} lines are kept, oldest first`}
          row={row} />
        {held && <div class="waiting"><Button kind="primary" icon="down" label={tail.waiting.value > 0 ? `${count(tail.waiting.value)} new lines` : 'Held. Follow'} onClick={() => { go({ line: '', context: false }, true); hold(false); }} /></div>}
      </div>
      {open && <Details l={open} query={tail.query} onClose={() => go({ line: '', context: false }, true)} />}
    </div>
  );
}
