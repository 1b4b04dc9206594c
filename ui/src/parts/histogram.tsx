// Lines by level over time. Dragging, or the arrows with shift, select a range of time; Enter goes there.

import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { bucketRange, type Histogram } from '../data/histogram';
import type { Level } from '../data/types';
import { formatDuration, type Range } from '../time/range';
import { seconds } from '../time/zone';
import { count, plural, short } from '../text/size';

interface Props { data: Histogram; busy: boolean; zone: string; onSelect: (r: Range) => void; onLevel: (l: Level) => void }

const HEIGHT = 100;

export function HistogramView({ data, busy, zone, onSelect, onLevel }: Props): JSX.Element {
  const svg = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const dragging = useRef(false);

  const bucketAt = (e: PointerEvent): number => {
    const box = svg.current!.getBoundingClientRect();
    return Math.max(0, Math.min(data.buckets - 1, Math.floor(((e.clientX - box.left) / box.width) * data.buckets)));
  };
  const select = (a: number, b: number) => {
    setDrag(null);
    onSelect(bucketRange(data, Math.min(a, b), Math.max(a, b)));
  };
  const onKey = (e: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[e.key];
    if (by !== undefined) {
      const from = cursor ?? (by > 0 ? -1 : data.buckets);
      const to = Math.max(0, Math.min(data.buckets - 1, from + by));
      setCursor(to);
      setDrag(e.shiftKey ? [drag?.[0] ?? Math.max(0, from), to] : null);
    } else if (e.key === 'Enter' && cursor !== null) select(drag?.[0] ?? cursor, cursor);
    else if (e.key === 'Escape' && (drag || cursor !== null)) { setDrag(null); setCursor(null); } else return;
    e.preventDefault();
  };
  const bars: JSX.Element[] = [];
  const top = data.max || 1;
  for (let i = 0; i < data.buckets; i++) {
    let y = HEIGHT;
    for (const level of data.levels) {
      const n = data.counts.get(level)![i]!;
      if (n === 0) continue;
      // A bucket with lines is never invisible.
      const h = Math.max(1.2, (n / top) * (HEIGHT - 2));
      y -= h;
      bars.push(<rect key={`${i}${level}`} class={`fill-${level}`} x={i + 0.06} width={0.88} y={Math.max(0, y)} height={h} />);
    }
  }
  const lit = drag ?? (cursor === null ? null : [cursor, cursor] as [number, number]);
  const sum = (i: number) => data.levels.reduce((n, l) => n + data.counts.get(l)![i]!, 0);
  const told = lit ? (() => {
    const [a, b] = [Math.min(...lit), Math.max(...lit)];
    const r = bucketRange(data, a, b);
    let n = 0;
    for (let i = a; i <= b; i++) n += sum(i);
    return `${seconds(r.from, zone)} – ${seconds(r.to, zone).slice(11)} · ${plural(n, 'line')}${a === b && n > 0 ? ` (${data.levels.map((l) => [l, data.counts.get(l)![a]!] as const).filter(([, k]) => k > 0).map(([l, k]) => `${l} ${count(k)}`).join(', ')})` : ''}`;
  })() : null;
  const end = bucketRange(data, 0, data.buckets - 1);
  const [left, right] = [seconds(end.from, zone), seconds(end.to, zone)];
  // Days stand at the ends only where they differ.
  const cut = left.slice(0, 10) === right.slice(0, 10) ? 11 : 5;
  return (
    <section class={`histogram ${busy ? 'busy' : ''}`} aria-label="Lines over time">
      <div class="histogram-head">
        <ul class="legend">
          {data.levels.map((l) => (
            <li key={l}>
              <button type="button" class="legend-item" onClick={() => onLevel(l)} title={`Show only ${l}`}>
                <span class={`swatch bg-${l}`} />{l} <span class="muted">{short(data.counts.get(l)!.reduce((a, b) => a + b, 0))}</span>
              </button>
            </li>
          ))}
        </ul>
        <span class="muted told" aria-live="polite">{told ?? (busy ? 'Counting…' : `${plural(data.total, 'line')} · a bar is ${formatDuration(data.step * 1000)}`)}</span>
      </div>
      <div class="histogram-plot">
        <svg ref={svg} viewBox={`0 0 ${data.buckets} ${HEIGHT}`} preserveAspectRatio="none" tabIndex={0} role="application"
          aria-roledescription="histogram" aria-label={`Histogram, ${data.buckets} bars. Arrows move, shift selects, Enter zooms.`}
          onKeyDown={onKey} onBlur={() => { setCursor(null); setDrag(null); }}
          onPointerDown={(e) => { if (e.button !== 0) return; svg.current!.setPointerCapture(e.pointerId); dragging.current = true; const b = bucketAt(e); setDrag([b, b]); }}
          onPointerMove={(e) => { const b = bucketAt(e); if (dragging.current && drag) setDrag([drag[0], b]); else setCursor(b); }}
          onPointerLeave={() => { if (!dragging.current) setCursor(null); }}
          onPointerCancel={() => { dragging.current = false; setDrag(null); }}
          onPointerUp={(e) => { if (dragging.current && drag) { dragging.current = false; setCursor(null); select(drag[0], bucketAt(e)); } }}>
          {lit && <rect class="lit" x={Math.min(...lit)} width={Math.abs(lit[1]! - lit[0]!) + 1} y={0} height={HEIGHT} />}
          {bars}
        </svg>
        <span class="axis-max" aria-hidden="true">{data.max > 0 ? short(data.max) : ''}</span>
      </div>
      <div class="axis" aria-hidden="true"><span>{left.slice(cut, 16)}</span><span>{right.slice(cut, 16)}</span></div>
    </section>
  );
}
