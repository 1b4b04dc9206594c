// One line: its text, labels, metadata and fields, what may be done with each, and its surroundings.

import type { JSX } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Line } from '../data/types';
import { lineLevel } from '../data/types';
import { addFieldFilter, addMatcher, addStage, countBy } from '../logql/edit';
import { findMatches, finderOf } from '../logql/matches';
import { quote } from '../logql/quote';
import { Button } from '../parts/button';
import { asCurl, asJson, asLogcli, asQuery } from '../parts/copy';
import { LineText } from '../parts/line-text';
import { Popover } from '../parts/popover';
import { copyAndSay, say } from '../parts/toast';
import { go, state } from '../route';
import { fieldsOf, MAX_FIELDS } from '../text/fields';
import { CUT, visible } from '../text/pieces';
import { byteLength, bytes, plural } from '../text/size';
import { addNs } from '../time/ns';
import { full } from '../time/zone';
import { ContextView } from './context';

export type Source = 'stream' | 'meta' | 'json' | 'logfmt' | 'parsed';
interface Row { name: string; value: string; source: Source; filter: boolean }

/** The line's parts, each once: what the server parsed stands for what the page would. */
function groups(l: Line): [string, Row[]][] {
  const rows = (m: Record<string, string>, source: Source): Row[] =>
    Object.entries(m).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => ({ name, value, source, filter: true }));
  const known = new Set([...Object.keys(l.parsed)]);
  const own: Row[] = fieldsOf(l.line).filter((f) => !known.has(f.name)).map((f) => ({ name: f.name, value: f.value, source: f.parser, filter: f.filter }));
  return ([['Labels', rows(l.stream, 'stream')], ['Metadata', rows(l.meta, 'meta')], ['Parsed by the query', rows(l.parsed, 'parsed')], ['Fields', own]] as [string, Row[]][])
    .filter(([, r]) => r.length > 0);
}

export function filterBy(source: Source, name: string, value: string, op: '=' | '!='): void {
  const { q } = state.value;
  const next = source === 'stream' ? addMatcher(q, name, op, value)
    : addFieldFilter(q, source === 'json' || source === 'logfmt' ? source : null, name, op, value);
  if (next === null) return say('This query cannot be changed by a click');
  go({ q: next, line: '', context: false });
}

function FieldRow({ r }: { r: Row }): JSX.Element {
  const s = state.value;
  const shown = s.cols.includes(r.name);
  const tail = s.view === 'tail';
  const parser = r.source === 'json' || r.source === 'logfmt' ? r.source : null;
  const name = visible(r.name);
  return (
    <tr>
      <th scope="row"><bdi>{name}</bdi></th>
      <td><bdi><LineText line={r.value.slice(0, 5000)} matches={[]} /></bdi>{r.value.length > 5000 && <span class="cut-note">{bytes(byteLength(r.value))}, cut</span>}</td>
      <td class="field-actions">
        {r.filter && <Button bare kind="quiet" icon="plus" label={`Only ${name} = this value`} onClick={() => filterBy(r.source, r.name, r.value, '=')} />}
        {r.filter && <Button bare kind="quiet" icon="minus" label={`Without ${name} = this value`} onClick={() => filterBy(r.source, r.name, r.value, '!=')} />}
        {!tail && <Button bare kind="quiet" icon="column" pressed={shown} label={shown ? `Remove column ${name}` : `Add column ${name}`}
          onClick={() => { const cols = shown ? s.cols.filter((c) => c !== r.name) : [...s.cols, r.name]; go({ cols, mode: cols.length ? 'table' : 'lines' }); }} />}
        {r.filter && <Button bare kind="quiet" icon="count" label={`Count by ${name}`}
          onClick={() => { const q = countBy(s.q, parser, r.name); if (q) go({ view: 'search', q, mode: 'chart', line: '', context: false }); else say('This query cannot be counted by a click'); }} />}
        <Button bare kind="quiet" icon="copy" label={`Copy ${name}`} onClick={() => void copyAndSay(r.value, 'Value')} />
      </td>
    </tr>
  );
}

/** A long text in parts, so that only those in sight are laid out. */
function WholeLine({ line }: { line: string }): JSX.Element {
  const matches = findMatches(line, finderOf(state.value.q));
  if (line.length <= CUT * 2) return <pre class="whole" tabIndex={0} aria-label="The line"><LineText line={line} matches={matches} /></pre>;
  const parts: JSX.Element[] = [];
  for (let at = 0; at < line.length; at += CUT) {
    const own = matches.filter((m) => m.end > at && m.start < at + CUT).map((m) => ({ start: m.start - at, end: m.end - at }));
    parts.push(<span class="whole-part" key={at}><LineText line={line.slice(at, at + CUT)} matches={own} /></span>);
  }
  return <pre class="whole long" tabIndex={0} aria-label="The line">{parts}</pre>;
}

function Actions({ l }: { l: Line }): JSX.Element {
  const s = state.value;
  const newest = s.dir === 'newest';
  const forms: [string, () => string][] = [
    ['Line', () => l.line], ['JSON', () => asJson(l)], ['Query for this line', () => asQuery(l)],
    ['curl', () => asCurl(asQuery(l), l.ts, addNs(l.ts, 1n), newest)], ['logcli', () => asLogcli(asQuery(l), l.ts, addNs(l.ts, 1n), newest)],
    ['Link to this line', () => location.href],
  ];
  return (
    <div class="bar">
      <Button icon="lines" label="Surrounding lines" pressed={s.context} onClick={() => go({ context: !s.context })} />
      <Popover label="Copy" text="Copy" icon="copy">
        {(close) => <ul class="menu">{forms.map(([name, make], i) => (
          <li key={name}><button type="button" class="menu-item" {...(i === 0 ? { 'data-first': true } : {})}
            onClick={() => { void copyAndSay(make(), name); close(); }}>{name}</button></li>))}</ul>}
      </Popover>
      <Popover label="Filter by text" text="Text" icon="plus">
        {(close) => <TextFilter line={l.line} close={close} />}
      </Popover>
    </div>
  );
}

function TextFilter({ line, close }: { line: string; close: () => void }): JSX.Element {
  const selected = useMemo(() => getSelection()?.toString() ?? '', []);
  const apply = (op: '|=' | '!=') => (e: Event) => {
    e.preventDefault();
    const form = (e.currentTarget as HTMLElement).closest('form')!;
    const text = String(new FormData(form).get('text') ?? '');
    const q = text && addStage(state.value.q, `${op} ${quote(text)}`);
    if (q) go({ q, line: '', context: false });
    close();
  };
  return (
    <form class="stack" onSubmit={apply('|=')}>
      <label>Lines with this text <input data-first name="text" type="text" autocomplete="off" spellcheck={false} defaultValue={selected || line.slice(0, 60)} /></label>
      <div class="bar"><button type="submit" class="button primary">Only these</button><button type="button" class="button plain" onClick={apply('!=')}>Without these</button></div>
    </form>
  );
}

/** `query` is the one that gave the line. */
export function Details({ l, query, onClose, onStep }: { l: Line; query: string; onClose: () => void; onStep?: (by: number) => void }): JSX.Element {
  const s = state.value;
  const panel = useRef<HTMLElement>(null);
  const level = lineLevel(l);
  const parts = useMemo(() => groups(l), [l]);
  useEffect(() => {
    // On narrow screens the panel covers the list, so the focus has to be in it.
    if (matchMedia('(max-width: 1000px)').matches) panel.current?.focus();
  }, [l.id]);
  const size = byteLength(l.line);
  return (
    <aside class="details" ref={panel} tabIndex={-1} aria-label="Line" onKeyDown={(e) => { if (e.key === 'Escape') { e.stopPropagation(); onClose(); } }}>
      <header class="details-head">
        <span class={`level-tag level-${level}`}>{level}</span>
        <time class="details-time" title={`${l.ts} ns`}>{full(l.ts, s.tz)}</time>
        <span class="grow" />
        {onStep && <Button bare kind="quiet" icon="up" label="Line above (k)" onClick={() => onStep(-1)} />}
        {onStep && <Button bare kind="quiet" icon="chevron" label="Line below (j)" onClick={() => onStep(1)} />}
        <Button bare kind="quiet" icon="close" label="Close (Escape)" onClick={onClose} />
      </header>
      <div class="details-body">
        <Actions l={l} />
        {s.context && <ContextView key={l.id} l={l} query={query} />}
        <WholeLine line={l.line} />
        {size > CUT && <p class="muted small">{bytes(size)} in all</p>}
        {parts.map(([title, rows]) => (
          <section key={title} class="field-group">
            <h2 class="minor">{title}{rows.length > 20 && <span class="muted"> {plural(rows.length, 'field')}{rows.length >= MAX_FIELDS ? ', the rest is in the line' : ''}</span>}</h2>
            <table class="fields"><tbody>{rows.map((r) => <FieldRow key={r.source + r.name} r={r} />)}</tbody></table>
          </section>
        ))}
        <dl class="facts"><dt>Time in ns</dt><dd><code>{l.ts}</code></dd></dl>
      </div>
    </aside>
  );
}
