// Everything that a view shows is in the fragment of the address: `#/search?q=…&from=now-1h`. The
// fragment, and not the query, since that would be sent to the server and land in access logs.

export type View = 'search' | 'explore' | 'tail' | 'alerts' | 'deletions' | 'node';
export const VIEWS: readonly View[] = ['search', 'explore', 'tail', 'alerts', 'deletions', 'node'];

export interface State {
  view: View;
  /** The query. */
  q: string;
  from: string;
  to: string;
  /** Newest first or oldest first. */
  dir: 'newest' | 'oldest';
  wrap: boolean;
  mode: 'lines' | 'table' | 'chart';
  /** Columns of the table, in order. */
  cols: string[];
  /** `local`, `UTC` or a zone of IANA. */
  tz: string;
  tenant: string;
  /** The line whose details are open: its time and a name made from its content. */
  line: string;
  context: boolean;
  /** Explore: what is looked at. */
  sel: string;
  tab: 'labels' | 'fields' | 'patterns';
}

export const DEFAULTS: Readonly<State> = {
  view: 'search', q: '', from: 'now-1h', to: 'now', dir: 'newest', wrap: false, mode: 'lines', cols: [],
  tz: 'local', tenant: '', line: '', context: false, sel: '', tab: 'labels',
};

const MODES = ['lines', 'table', 'chart'] as const;
const TABS = ['labels', 'fields', 'patterns'] as const;

const pick = <T extends string>(all: readonly T[], value: string | null, other: T): T =>
  all.find((a) => a === value) ?? other;

export function parseAddress(fragment: string): State {
  const text = fragment.replace(/^#?\/?/, '');
  const mark = text.indexOf('?');
  const view = pick(VIEWS, mark < 0 ? text : text.slice(0, mark), 'search');
  let p: URLSearchParams;
  try {
    p = new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1));
  } catch {
    p = new URLSearchParams();
  }
  const d = DEFAULTS;
  return {
    view,
    q: p.get('q') ?? d.q,
    from: p.get('from') || d.from,
    to: p.get('to') || d.to,
    dir: p.get('dir') === 'oldest' ? 'oldest' : 'newest',
    wrap: p.get('wrap') === '1',
    mode: pick(MODES, p.get('mode'), d.mode),
    cols: (p.get('cols') ?? '').split(',').filter(Boolean).slice(0, 50),
    tz: p.get('tz') || d.tz,
    tenant: p.get('tenant') ?? d.tenant,
    line: p.get('line') ?? d.line,
    context: p.get('context') === '1',
    sel: p.get('sel') ?? d.sel,
    tab: pick(TABS, p.get('tab'), d.tab),
  };
}

export function formatAddress(s: State): string {
  const p = new URLSearchParams();
  const put = (name: keyof State, value: string, other = String(DEFAULTS[name])) => { if (value !== other) p.set(name, value); };
  put('q', s.q);
  put('from', s.from);
  put('to', s.to);
  put('dir', s.dir);
  if (s.wrap) p.set('wrap', '1');
  put('mode', s.mode);
  if (s.cols.length) p.set('cols', s.cols.join(','));
  put('tz', s.tz);
  put('tenant', s.tenant);
  put('line', s.line);
  if (s.context) p.set('context', '1');
  put('sel', s.sel);
  put('tab', s.tab);
  const text = p.toString();
  return `#/${s.view}${text ? '?' + text : ''}`;
}
