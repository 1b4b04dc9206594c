// Labels and fields of a service, with their most frequent values. Values are asked for when a name
// is opened.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { detectedFields, detectedLabels, metricNow, volume, type Detected } from '../api';
import { addFieldFilter, addMatcher } from '../logql/edit';
import { Button } from '../parts/button';
import { Icon } from '../parts/icon';
import { Notice, Problem } from '../parts/notice';
import { useLoad } from '../parts/use-load';
import { go, state } from '../route';
import { visible } from '../text/pieces';
import { bytes, count, plural } from '../text/size';
import type { Range } from '../time/range';
import { exploreRange, serviceSelector } from './explore';

const OPEN_AT_FIRST = 3;
/** The most frequent of more values than these say little, as with ids. */
const TELLING = 100;

interface Value { value: string; share: number; text: string }

function Values({ load, onPick, inputs }: { load: (signal: AbortSignal) => Promise<Value[]>; onPick: (value: string, op: '=' | '!=') => void; inputs: unknown[] }): JSX.Element {
  const list = useLoad(load, inputs);
  if (list.error) return <p class="field-error">{list.error.message}</p>;
  if (!list.data) return <ul class="values" aria-busy="true"><li class="skeleton-row" /><li class="skeleton-row" /></ul>;
  if (list.data.length === 0) return <p class="muted">No values in this range.</p>;
  return (
    <ul class="values">
      {list.data.map((v) => (
        <li key={v.value}>
          <span class="value-bar" style={{ width: `${v.share * 100}%` }} />
          <bdi class="value-name">{visible(v.value) || '(empty)'}</bdi>
          <span class="value-count">{v.text}</span>
          <Button bare kind="quiet" icon="plus" label={`Search lines with ${visible(v.value)}`} onClick={() => onPick(v.value, '=')} />
          <Button bare kind="quiet" icon="minus" label={`Search lines without ${visible(v.value)}`} onClick={() => onPick(v.value, '!=')} />
        </li>))}
    </ul>
  );
}

function Item({ d, detail, children, open: first }: { d: Detected; detail: string; children: () => JSX.Element; open: boolean }): JSX.Element {
  const [open, setOpen] = useState(first);
  return (
    <li class="card">
      <button type="button" class="card-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'chevron' : 'right'} /><bdi class="card-name">{visible(d.label)}</bdi><span class="muted">{detail}</span>
      </button>
      {open && children()}
    </li>
  );
}

const top = <T,>(list: T[], n: (t: T) => number): ((t: T) => number) => {
  const max = Math.max(1, ...list.map(n));
  return (t) => n(t) / max;
};

export function LabelList({ name }: { name: string }): JSX.Element {
  const s = state.value;
  const inputs = [name, s.from, s.to, s.tz, s.tenant];
  const selector = serviceSelector(name);
  const list = useLoad((signal) => withRange((r) => detectedLabels(selector, r, signal)), inputs);
  if (list.error) return <Problem error={list.error} retry={list.reload} />;
  if (list.data?.length === 0) return <Notice title="No labels in this range"><p>The service has sent no lines in this time.</p></Notice>;
  return (
    <ul class="cards columns" aria-busy={!list.data}>
      {(list.data ?? []).map((d, i) => (
        <Item key={d.label} d={d} detail={plural(d.cardinality, 'value')} open={i < OPEN_AT_FIRST}>
          {() => <Values inputs={[...inputs, d.label]} onPick={(v, op) => pick(addMatcher(selector, d.label, op, v))}
            load={async (signal) => {
              const all = await withRange((r) => volume(selector, d.label, r, 10, signal)).catch((e: Error) => {
                throw /max number of series/.test(e.message) ? new Error('This label has too many values to rank them. Filter by another label first.') : e;
              });
              const share = top(all, (v) => v.bytes);
              return all.map((v) => ({ value: v.labels[d.label] ?? '', share: share(v), text: bytes(v.bytes) }));
            }} />}
        </Item>))}
    </ul>
  );
}

export function FieldList({ name }: { name: string }): JSX.Element {
  const s = state.value;
  const inputs = [name, s.from, s.to, s.tz, s.tenant];
  const selector = serviceSelector(name);
  const list = useLoad((signal) => withRange((r) => detectedFields(selector, r, signal)), inputs);
  if (list.error) return <Problem error={list.error} retry={list.reload} />;
  if (list.data?.length === 0) return <Notice title="No fields"><p>The newest lines are neither JSON nor logfmt, and have no metadata. Patterns may help.</p></Notice>;
  const telling = new Set((list.data ?? []).filter((d) => d.cardinality <= TELLING).slice(0, OPEN_AT_FIRST));
  return (
    <ul class="cards columns" aria-busy={!list.data}>
      {(list.data ?? []).map((d) => {
        const parser = d.parsers?.[0] ?? null;
        return (
          <Item key={d.label} d={d} detail={`${d.type ?? 'text'}, ${plural(d.cardinality, 'value')}${parser ? `, ${parser}` : ', metadata'}`} open={telling.has(d)}>
            {() => <Values inputs={[...inputs, d.label]} onPick={(v, op) => pick(addFieldFilter(selector, parser, d.label, op, v))}
              load={(signal) => withRange((r) => topValues(selector, parser, d.label, r, signal))} />}
          </Item>);
      })}
    </ul>
  );
}

async function topValues(selector: string, parser: string | null, label: string, r: Range, signal: AbortSignal): Promise<Value[]> {
  const seconds = Math.max(1, Math.ceil(Number((BigInt(r.to) - BigInt(r.from)) / 1_000_000n) / 1000));
  const stages = `${parser ? ` | ${parser}` : ''} | ${label}!="" | drop __error__, __error_details__`;
  const all = (await metricNow(`topk(10, sum by (${label}) (count_over_time(${selector}${stages} [${seconds}s])))`, r.to, signal))
    .map((x) => ({ value: x.labels[label] ?? '', n: Number(x.samples[0]?.v ?? 0) })).sort((a, b) => b.n - a.n);
  const share = top(all, (v) => v.n);
  return all.map((v) => ({ value: v.value, share: share(v), text: count(v.n) }));
}

function withRange<T>(f: (r: Range) => Promise<T>): Promise<T> {
  const r = exploreRange();
  return r ? f(r) : Promise.reject(new Error('The range of time is not clear.'));
}

function pick(q: string | null): void {
  if (q) go({ view: 'search', q, line: '', sel: '', mode: 'lines' });
}
