// The frame: navigation, tenant, theme, keys, and the view that the address names.

import { render, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { VIEWS, type View } from './address';
import { FOCUS_QUERY } from './parts/editor';
import { Button } from './parts/button';
import { Help } from './parts/help';
import { TenantForm } from './parts/notice';
import { Popover } from './parts/popover';
import { Toast } from './parts/toast';
import { prefer, preferences } from './preferences';
import { go, state, view, viewLink } from './route';
import { again } from './search';
import { visible } from './text/pieces';
import { AlertsView } from './views/alerts';
import { DeletionsView } from './views/deletions';
import { ExploreView } from './views/explore';
import { NodeView } from './views/node';
import { SearchView } from './views/search';
import { TailView } from './views/tail';

const NAMES: Record<View, string> = { search: 'Search', explore: 'Explore', tail: 'Tail', alerts: 'Alerts', deletions: 'Deletions', node: 'Node' };
const SHOWN: Record<View, () => JSX.Element> = { search: SearchView, explore: ExploreView, tail: TailView, alerts: AlertsView, deletions: DeletionsView, node: NodeView };

function ThemeButton(): JSX.Element {
  const { theme } = preferences.value;
  const next = theme === 'system' ? 'light' : theme === 'light' ? 'dark' : 'system';
  return <Button bare kind="quiet" icon={theme === 'system' ? 'auto' : theme === 'light' ? 'sun' : 'moon'} label={`Theme: ${theme}. Change to ${next}`} onClick={() => prefer({ theme: next })} />;
}

function Header({ onHelp }: { onHelp: () => void }): JSX.Element {
  const s = state.value;
  return (
    <header class="top">
      <span class="brand" aria-hidden="true">logsvc</span>
      <nav aria-label="Views"><ul>{VIEWS.map((v) => (
        <li key={v}><a href={viewLink(v)} {...(s.view === v ? { 'aria-current': 'page' as const } : {})}>{NAMES[v]}</a></li>))}</ul></nav>
      <span class="grow" />
      <Popover label="Tenant" text={s.tenant ? visible(s.tenant) : 'Tenant'} align="end" class="tenant">
        {(close) => <><TenantForm done={close} /><p class="muted">For servers that keep tenants apart. Sent as X-Scope-OrgID, and part of the address.</p></>}
      </Popover>
      <ThemeButton />
      <Button bare kind="quiet" icon="help" label="Keys (?)" onClick={onHelp} />
    </header>
  );
}

/** True if a key is being typed into something. */
const typing = (e: KeyboardEvent): boolean => {
  const t = e.composedPath()[0];
  return t instanceof HTMLElement && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName)) || document.querySelector('dialog[open]') !== null;
};

function App(): JSX.Element {
  const [help, setHelp] = useState(false);
  const v = view.value;
  useEffect(() => { document.title = `${NAMES[v]} · logsvc`; }, [v]);
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
      const s = state.value;
      if (e.key === '?') setHelp(true);
      else if (e.key === '/') dispatchEvent(new Event(FOCUS_QUERY));
      else if (e.key >= '1' && e.key <= '6') go({ view: VIEWS[Number(e.key) - 1]!, line: '', context: false, mode: 'lines', cols: [] });
      else if (e.key === 'w') go({ wrap: !s.wrap }, true);
      else if (e.key === 'r') again.value++;
      else if (e.key === 'c' && s.line) go({ context: !s.context }, true);
      else if (e.key === 'Escape' && s.line) go({ line: '', context: false }, true);
      else if (['j', 'k', 'ArrowDown', 'ArrowUp'].includes(e.key)) {
        const list = document.querySelector<HTMLElement>('[role=listbox]');
        if (!list || list.contains(document.activeElement) || (e.key.startsWith('Arrow') && document.activeElement !== document.body)) return;
        list.focus({ preventScroll: true });
        list.dispatchEvent(new KeyboardEvent('keydown', { key: e.key, bubbles: true }));
      } else return;
      e.preventDefault();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  const Shown = SHOWN[v];
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus(); }}>To the content</a>
      <Header onHelp={() => setHelp(true)} />
      <main id="main" tabIndex={-1}><Shown key={v} /></main>
      {help && <Help onClose={() => setHelp(false)} />}
      <Toast />
    </>
  );
}

render(<App />, document.getElementById('app')!);
