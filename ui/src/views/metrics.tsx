// Series as a chart with a legend that tells and hides, or as a table of their last values.

import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { Chart } from '../search';
import type { Labels, Series } from '../data/types';
import { levelOf } from '../data/types';
import { dark } from '../preferences';
import { go, state } from '../route';
import { range } from '../search';
import { Notice } from '../parts/notice';
import { visible } from '../text/pieces';
import { number, plural, shown } from '../text/size';
import { formatDuration } from '../time/range';
import { offsetAt, seconds } from '../time/zone';

const MOST_LINES = 50;

export function seriesName(l: Labels): string {
  const pairs = Object.entries(l);
  if (pairs.length === 0) return 'value';
  if (pairs.length === 1) return visible(pairs[0]![1]);
  return pairs.map(([k, v]) => `${visible(k)}=${visible(v)}`).join(' ');
}

/** The values of labels alone, where there is little room. The colour leads to the names. */
const shortName = (l: Labels): string => Object.values(l).map(visible).join(' · ') || 'value';

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Colours of the chart resolved: a canvas knows no custom properties, and no light-dark(). */
function colour(name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const c = getComputedStyle(probe).color;
  probe.remove();
  return c || css(name);
}

function colourOf(s: Series, i: number): string {
  const level = s.labels.detected_level ?? s.labels.level;
  return level && Object.keys(s.labels).length === 1 ? `--fill-${levelOf(level)}` : `--series-${i % 8}`;
}

// Labels of the time axis by the width of their steps: `[step, main, , new day …]`, as uPlot wants them.
const CLOCK: uPlot.Axis.Values = [
  [86_400, '{MM}-{DD}', '\n{YYYY}', null, null, null, null, null, 1],
  [60, '{HH}:{mm}', '\n{YYYY}-{MM}-{DD}', null, '\n{MM}-{DD}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', '\n{YYYY}-{MM}-{DD}', null, '\n{MM}-{DD}', null, null, null, 1],
];

function Plot({ series, step, hidden }: { series: Series[]; step: number; hidden: ReadonlySet<number> }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const isDark = dark.value;
  const tz = state.value.tz;
  useEffect(() => {
    const el = host.current!;
    const times = [...new Set(series.flatMap((s) => s.samples.map((p) => p.t)))].sort((a, b) => a - b);
    const at = new Map(times.map((t, i) => [t, i]));
    const rows = series.map((s) => {
      const row: (number | null)[] = new Array(times.length).fill(null);
      for (const p of s.samples) { const v = Number(p.v); row[at.get(p.t)!] = Number.isFinite(v) ? v : null; }
      return row;
    });
    const [text, grid] = [colour('--text-muted'), colour('--border')];
    const font = `12px ${css('--sans') || 'sans-serif'}`;
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font };
    const r = range.value;
    const size = () => ({ width: el.clientWidth, height: Math.max(200, Math.min(360, Math.round(innerHeight * 0.42))) });
    const plot = new uPlot({
      ...size(),
      scales: { x: { time: true, range: r ? [Number(BigInt(r.from) / 1_000_000n) / 1000, Number(BigInt(r.to) / 1_000_000n) / 1000] : null! } },
      tzDate: (ts) => { const ms = ts * 1000; const d = new Date(ms); return new Date(ms + offsetAt(ms, tz) + d.getTimezoneOffset() * 60_000); },
      axes: [{ ...axis, values: CLOCK }, { ...axis, size: 64, values: (_u, v) => v.map((n) => number.format(n)) }],
      legend: { show: false },
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
      series: [{}, ...series.map((s, i) => ({ label: seriesName(s.labels), stroke: colour(colourOf(s, i)), width: 1.75, show: !hidden.has(i), points: { show: times.length < 3 }, spanGaps: false }))],
      hooks: {
        setCursor: [(u) => {
          const { idx, left = -1, top = 0 } = u.cursor;
          const t = idx === null || idx === undefined || left < 0 ? undefined : times[idx];
          if (t === undefined) { setPointed(null); return; }
          const frame = el.parentElement!.getBoundingClientRect();
          const x = u.over.getBoundingClientRect().left - frame.left + left;
          setPointed({ t, left: x, right: frame.width - x, value: u.posToVal(top, 'y') });
        }],
        setSelect: [(u) => {
          if (u.select.width < 4) return;
          const ns = (x: number) => String(BigInt(Math.round(u.posToVal(x, 'x') * 1000)) * 1_000_000n);
          go({ from: ns(u.select.left), to: ns(u.select.left + u.select.width) });
        }],
      },
    }, [times, ...rows] as uPlot.AlignedData, el);
    const watch = new ResizeObserver(() => plot.setSize(size()));
    watch.observe(el);
    return () => { watch.disconnect(); plot.destroy(); setPointed(null); };
  }, [series, step, hidden, isDark, tz]);
  return (
    <div class="chart">
      <div class="chart-space" ref={host} role="img" aria-label={`Chart of ${plural(series.length, 'series', 'series')}; the table below has the values`} />
      {pointed && <ChartTip series={series} hidden={hidden} pointed={pointed} />}
    </div>);
}

/** Where the pointer is: the time of the nearest step, the pixels to both sides of the chart, the value at its height. */
interface Pointed { t: number; left: number; right: number; value: number }

const TIP_ROWS = 10;
/** Pixels between the pointer and the values. */
const TIP_GAP = 12;

/** The values at the pointer, those nearest to it if there are many. */
function ChartTip({ series, hidden, pointed }: { series: Series[]; hidden: ReadonlySet<number>; pointed: Pointed }): JSX.Element {
  const { t, left, right, value } = pointed;
  const all = series.flatMap((s, i) => {
    const v = hidden.has(i) ? undefined : s.samples.find((p) => p.t === t)?.v;
    return v === undefined ? [] : [{ s, i, v, far: Math.abs(Number(v) - value) }];
  });
  const near = [...all].sort((a, b) => a.far - b.far).slice(0, TIP_ROWS);
  const nearest = near[0]?.i;
  const rows = near.sort((a, b) => Number(b.v) - Number(a.v));
  const ns = String(BigInt(Math.round(t * 1000)) * 1_000_000n);
  return (
    <div class="chart-tip" aria-hidden="true" style={{ [left > right ? 'right' : 'left']: `${Math.min(left, right) + TIP_GAP}px`, maxWidth: `${Math.min(480, Math.max(left, right) - 2 * TIP_GAP)}px` }}>
      <p class="muted">{seconds(ns, state.value.tz)}</p>
      <ul>
        {rows.map((r) => (
          <li key={r.i} class={r.i === nearest ? 'nearest' : ''}>
            <span class="swatch" style={{ backgroundColor: `var(${colourOf(r.s, r.i)})` }} />
            <bdi class="chart-tip-name">{shortName(r.s.labels)}</bdi><span class="num">{shown(r.v)}</span>
          </li>))}
      </ul>
      {all.length > rows.length && <p class="muted">and {all.length - rows.length} more</p>}
    </div>);
}

export function MetricsView({ chart }: { chart: Chart }): JSX.Element {
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  const [sort, setSort] = useState<{ by: 'last' | 'min' | 'max' | 'name'; down: boolean }>({ by: 'last', down: true });
  const drawn = useMemo(() => chart.series.slice(0, MOST_LINES), [chart]);
  useEffect(() => setHidden(new Set()), [chart]);
  const rows = useMemo(() => chart.series.map((s, i) => {
    const v = s.samples.map((p) => Number(p.v)).filter((n) => !Number.isNaN(n));
    return { s, i, name: seriesName(s.labels), last: s.samples[s.samples.length - 1]?.v, lastN: Number(s.samples[s.samples.length - 1]?.v), min: Math.min(...v), max: Math.max(...v) };
  }), [chart]);
  const ordered = [...rows].sort((a, b) => (sort.by === 'name' ? (a.name < b.name ? -1 : 1) : sort.by === 'last' ? a.lastN - b.lastN : a[sort.by] - b[sort.by]) * (sort.down ? -1 : 1));
  if (chart.series.length === 0) {
    return <Notice title="No values in this range"><p>The query ran, and no line in the range gave it a value.</p></Notice>;
  }
  const table = state.value.mode === 'table';
  const toggle = (i: number) => { const next = new Set(hidden); if (!next.delete(i)) next.add(i); setHidden(next); };
  const head = (by: typeof sort.by, name: string) => (
    <th scope="col" aria-sort={sort.by === by ? (sort.down ? 'descending' : 'ascending') : 'none'} class={by === 'name' ? '' : 'num'}>
      <button type="button" class="head-name" onClick={() => setSort({ by, down: sort.by === by ? !sort.down : true })}>{name}{sort.by === by ? (sort.down ? ' ↓' : ' ↑') : ''}</button>
    </th>);
  return (
    <div class="metrics" tabIndex={-1}>
      {!table && <Plot series={drawn} step={chart.step} hidden={hidden} />}
      <p class="muted strip">{plural(chart.series.length, 'series', 'series')}{chart.series.length > MOST_LINES && !table ? `, the first ${MOST_LINES} are drawn` : ''} · a step is {formatDuration(chart.step * 1000)}{chart.warnings.map((w) => <span key={w} class="field-error"> {w}</span>)}</p>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Series">
        <table class="data">
          <thead><tr>{!table && <th scope="col" class="narrow-cell"><span class="offscreen">Drawn</span></th>}{head('name', 'Series')}{head('last', 'Last')}{head('min', 'Min')}{head('max', 'Max')}</tr></thead>
          <tbody>
            {ordered.slice(0, 1000).map((r) => (
              <tr key={r.i}>
                {!table && <td>{r.i < MOST_LINES && <button type="button" class="swatch-button" aria-pressed={!hidden.has(r.i)} aria-label={`Draw ${r.name}`} onClick={() => toggle(r.i)}><span class="swatch" style={{ backgroundColor: hidden.has(r.i) ? 'transparent' : `var(${colourOf(r.s, r.i)})`, borderColor: `var(${colourOf(r.s, r.i)})` }} /></button>}</td>}
                <td class="mono"><bdi>{r.name}</bdi></td><td class="num" title={r.last}>{shown(r.last)}</td><td class="num">{shown(String(r.min))}</td><td class="num">{shown(String(r.max))}</td>
              </tr>))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
