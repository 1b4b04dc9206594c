// The lines of the same stream before and after a line, whatever the query filters.

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Surroundings, type Side } from '../data/context';
import { lineLevel, type Line } from '../data/types';
import { isAbort } from '../http';
import { Button } from '../parts/button';
import { LineText } from '../parts/line-text';
import { state, zone } from '../route';
import { CUT } from '../text/pieces';
import { wall } from '../time/zone';

const N = 5;

function Around({ l, here }: { l: Line; here?: boolean }): JSX.Element {
  const w = wall(l.ts, zone.value);
  return (
    <li class={here ? 'here' : ''} {...(here ? { 'aria-current': true } : {})}>
      <span class={`level-bar level-${lineLevel(l)}`} /><time class="row-time">{w.time}<span class="row-ms">.{w.ms}</span></time>
      <span class="row-text"><LineText line={l.line} matches={[]} length={CUT / 4} /></span>
    </li>
  );
}

export function ContextView({ l, query }: { l: Line; query: string }): JSX.Element {
  const [found, setFound] = useState<Surroundings | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [, redraw] = useState(0);
  const abort = useRef(new AbortController());
  useEffect(() => {
    const gone = new AbortController();
    abort.current = gone;
    Surroundings.find(query, l, N, gone.signal).then(setFound, (e) => { if (!isAbort(e)) setError(e.message); });
    return () => gone.abort();
  }, [l]);
  const list = useRef<HTMLUListElement>(null);
  // Wrapped lines may be taller than the list: the line itself is what the reader looks for.
  useEffect(() => {
    const here = list.current?.querySelector<HTMLElement>('.here');
    if (here) list.current!.scrollTop += here.getBoundingClientRect().top - list.current!.getBoundingClientRect().top - Math.max(0, list.current!.clientHeight - here.clientHeight) / 2;
  }, [found]);
  const more = (side: Side) => () => {
    found?.extend(side, N * 2, abort.current.signal)
      .then(() => { setError(null); redraw((n) => n + 1); }, (e) => { if (!isAbort(e)) setError(e.message); });
  };
  return (
    <section class="context" aria-label="Surrounding lines" aria-busy={!found && !error}>
      <h2 class="minor">Surrounding lines <span class="muted">of this stream, oldest first</span></h2>
      {error && <p class="field-error" role="alert">{error}</p>}
      {!found && !error && <ul class="context-lines skeleton">{Array.from({ length: 11 }, (_, i) => <li key={i}>&nbsp;</li>)}</ul>}
      {found && (
        <>
          <Button kind="quiet" icon="up" disabled={!found.more.before} label={found.more.before ? 'More before' : 'Nothing before'} onClick={more('before')} />
          <ul ref={list} class={`context-lines ${state.value.wrap ? 'wrapped' : ''}`} tabIndex={0} aria-label="Lines">
            {found.lines.before.map((b) => <Around key={b.id} l={b} />)}
            <Around l={l} here />
            {found.lines.after.map((a) => <Around key={a.id} l={a} />)}
          </ul>
          <Button kind="quiet" icon="chevron" disabled={!found.more.after} label={found.more.after ? 'More after' : 'Nothing after'} onClick={more('after')} />
        </>
      )}
    </section>
  );
}
