import type { JSX } from 'preact';
import { prefer, preferences } from '../preferences';
import { go } from '../route';
import { visible } from '../text/pieces';
import { Popover } from './popover';

export function RecentQueries(): JSX.Element {
  return (
    <Popover label="Recent queries" icon="history" align="end" class="recent">
      {(close) => preferences.value.recent.length === 0
        ? <p class="muted">Queries that you run are listed here, in this browser only.</p>
        : <>
            <ul class="menu wide">{preferences.value.recent.map((q, i) => (
              <li key={q}><button type="button" class="menu-item mono" {...(i === 0 ? { 'data-first': true } : {})}
                onClick={() => { go({ q, line: '', context: false, mode: 'lines', cols: [] }); close(); }}>{visible(q).slice(0, 300)}</button></li>))}</ul>
            <button type="button" class="menu-item" onClick={() => { prefer({ recent: [] }); close(); }}>Forget them</button>
          </>}
    </Popover>
  );
}
