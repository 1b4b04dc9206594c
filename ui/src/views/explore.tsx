// Finding one's way without the language: services by volume, then their labels, fields and patterns.

import type { JSX } from 'preact';
import { volume, volumeRange } from '../api';
import { quote } from '../logql/quote';
import { Button } from '../parts/button';
import { Notice, Problem } from '../parts/notice';
import { Sparkline } from '../parts/sparkline';
import { TimePicker } from '../parts/time-picker';
import { useLoad } from '../parts/use-load';
import { go, linkTo, state } from '../route';
import { bytes, plural } from '../text/size';
import { visible } from '../text/pieces';
import { msToNs } from '../time/ns';
import { bucketSeconds, parseRange, type Range } from '../time/range';
import { FieldList, LabelList } from './explore-fields';
import { PatternList } from './explore-patterns';

const POINTS = 40;

export function exploreRange(): Range | null {
  const s = state.value;
  const r = parseRange(s.from, s.to, Date.now(), s.tz);
  return r.ok ? r.range : null;
}

export const serviceSelector = (name: string): string => `{service_name=${quote(name)}}`;

export function ExploreView(): JSX.Element {
  const s = state.value;
  return (
    <div class="view explore">
      <div class="toolbar">
        {s.sel && <Button bare icon="left" label="All services" onClick={() => go({ sel: '', tab: 'labels' })} />}
        <h1 class="view-title"><bdi>{s.sel ? visible(s.sel) : 'Services'}</bdi></h1>
        <TimePicker />
        <span class="grow" />
        {s.sel && <a class="button primary" href={linkTo({ view: 'search', q: serviceSelector(s.sel), line: '', sel: '', mode: 'lines' })}>Search its lines</a>}
      </div>
      <div class="scroll">{s.sel ? <Service name={s.sel} /> : <Services />}</div>
    </div>
  );
}

interface Row { name: string; bytes: number; points: number[] }

async function services(r: Range, signal: AbortSignal): Promise<Row[]> {
  const step = bucketSeconds(r, POINTS);
  const [total, over] = await Promise.all([
    volume('{service_name=~".+"}', 'service_name', r, 200, signal),
    volumeRange('{service_name=~".+"}', 'service_name', r, step, signal),
  ]);
  const start = Math.floor(Number(BigInt(r.from) / 1_000_000_000n) / step);
  const n = Math.ceil(Number((BigInt(r.to) - BigInt(r.from)) / 1_000_000_000n) / step) + 1;
  const points = new Map(over.map((o) => {
    const row = new Array<number>(n).fill(0);
    for (const p of o.samples) { const i = Math.floor(p.t / step) - start; if (i >= 0 && i < n) row[i] = Number(p.v); }
    return [o.labels.service_name ?? '', row];
  }));
  return total.map((v) => ({ name: v.labels.service_name ?? '', bytes: v.bytes, points: points.get(v.labels.service_name ?? '') ?? [] }));
}

function Services(): JSX.Element {
  const s = state.value;
  const list = useLoad((signal) => {
    const r = exploreRange();
    return r ? services(r, signal) : Promise.reject(new Error('The range of time is not clear.'));
  }, [s.from, s.to, s.tz, s.tenant]);
  if (list.error) return <Problem error={list.error} retry={list.reload} />;
  if (!list.data) return <div class="cards skeleton" aria-busy="true">{Array.from({ length: 6 }, (_, i) => <div class="card-row" key={i}>&nbsp;</div>)}</div>;
  if (list.data.length === 0) {
    return <Notice title="Nothing in this range"><p>No service has sent lines in this time.</p><Button icon="clock" label="Last week" onClick={() => go({ from: 'now-1w', to: 'now' })} /></Notice>;
  }
  const sum = list.data.reduce((n, r) => n + r.bytes, 0);
  return (
    <>
      <p class="muted strip">{plural(list.data.length, 'service')}, {bytes(sum)}</p>
      <ul class="cards">
        {list.data.map((r) => (
          <li key={r.name}>
            <a class="card-row" href={linkTo({ sel: r.name, tab: 'labels' })}>
              <span class="card-name"><bdi>{visible(r.name)}</bdi></span>
              <Sparkline values={r.points} />
              <span class="card-size">{bytes(r.bytes)}</span>
              <span class="share"><span style={{ width: `${Math.max(0.5, (r.bytes / sum) * 100)}%` }} /></span>
            </a>
          </li>))}
      </ul>
    </>
  );
}

const TABS = [['labels', 'Labels'], ['fields', 'Fields'], ['patterns', 'Patterns']] as const;

function Service({ name }: { name: string }): JSX.Element {
  const { tab } = state.value;
  const onKey = (e: KeyboardEvent) => {
    const i = TABS.findIndex(([t]) => t === tab);
    const to = e.key === 'ArrowRight' ? i + 1 : e.key === 'ArrowLeft' ? i - 1 : -1;
    if (to < 0 || to >= TABS.length) return;
    go({ tab: TABS[to]![0] }, true);
    (e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=tab]')[to]?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label="What to look at" onKeyDown={onKey}>
        {TABS.map(([t, text]) => (
          <button type="button" key={t} role="tab" id={`tab-${t}`} aria-selected={tab === t} aria-controls="tab-panel" tabIndex={tab === t ? 0 : -1} onClick={() => go({ tab: t }, true)}>{text}</button>))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
        {tab === 'labels' && <LabelList name={name} />}
        {tab === 'fields' && <FieldList name={name} />}
        {tab === 'patterns' && <PatternList name={name} />}
      </div>
    </>
  );
}

export const nowNs = (): string => msToNs(Date.now());
