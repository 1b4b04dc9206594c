// A list that draws only the rows in sight. It is a listbox: one stop of the tab key, rows are reached
// with the arrows or j and k. Rows may have different heights; those are measured once drawn, and what
// the reader looks at stays in place when rows above it come, go or change.

import { Component, type JSX } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef } from 'preact/hooks';
import { Heights } from './heights';

export interface ListProps<T> {
  items: readonly T[];
  keyOf: (item: T) => number | string;
  /** Draws a row. As long as it is the same function, a row that was drawn is not drawn again. */
  row: (item: T) => JSX.Element;
  rowClass?: (item: T) => string;
  /** The height of a row, exact unless `measured`. */
  height: number;
  measured: boolean;
  /** How many items were put in front so far, and taken away from there. */
  prepended: number;
  dropped?: number;
  active: number;
  onActive: (index: number) => void;
  onOpen: (index: number) => void;
  /** The reader comes near the end of what is there. */
  onNearEnd?: () => void;
  /** How far the list is from its start and its end, in pixels. */
  onScroll?: (fromTop: number, fromEnd: number) => void;
  top?: JSX.Element | null;
  bottom?: JSX.Element | null;
  label: string;
  /** Keeps the end in sight while items come. */
  follow?: boolean;
  /** Something that, when it changes, makes all measured heights void. */
  layout: string;
}

const OVER = 8;
const PAD = 12;

interface ContentProps { item: unknown; row: (item: unknown) => JSX.Element }

/**
 * What a row shows: drawn once for an item, however often the list moves. Elements of earlier renders are not
 * kept for that: each of them knows the whole tree that it was part of, with all its items.
 */
class Content extends Component<ContentProps> {
  override shouldComponentUpdate(next: ContentProps): boolean {
    return next.item !== this.props.item || next.row !== this.props.row;
  }

  override render({ item, row }: ContentProps): JSX.Element { return row(item); }
}

export function VirtualList<T>(p: ListProps<T>): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const space = useRef<HTMLDivElement>(null);
  const heights = useRef<Heights>(new Heights(p.height));
  const seen = useRef({ prepended: p.prepended, dropped: p.dropped ?? 0, layout: p.layout });
  const shift = useRef(0);
  const frame = useRef(0);
  const [, redraw] = useReducer((n: number, _: void) => n + 1, 0);
  const h = heights.current;

  // The heights follow the items before anything is drawn from them.
  const s = seen.current;
  if (s.layout !== p.layout) {
    const at = box.current ? h.at(box.current.scrollTop) : 0;
    h.reset(p.height);
    shift.current = NaN;
    s.layout = p.layout;
    queueMicrotask(() => { if (box.current) { box.current.scrollTop = h.top(at); redraw(); } });
  }
  const dropped = (p.dropped ?? 0) - s.dropped;
  if (dropped > 0) {
    const k = Math.min(dropped, h.length);
    shift.current -= h.top(k);
    h.drop(k);
  }
  s.dropped = p.dropped ?? 0;
  const more = p.prepended - s.prepended;
  if (more !== 0) {
    if (more > 0 && more <= p.items.length) { h.prepend(more); shift.current += h.top(more); }
    s.prepended = p.prepended;
  }
  h.resize(p.items.length);

  const scrollTop = box.current?.scrollTop ?? 0;
  const view = box.current?.clientHeight ?? 600;
  const offset = space.current?.offsetTop ?? 0;
  const base = scrollTop - offset + (Number.isNaN(shift.current) ? 0 : shift.current);
  const [first, last] = h.window(Math.max(0, base), view, OVER);

  useLayoutEffect(() => {
    const el = box.current!;
    if (Number.isNaN(shift.current)) shift.current = 0;
    let by = shift.current;
    shift.current = 0;
    if (p.measured) {
      const anchor = h.at(Math.max(0, base));
      let changed = false;
      for (const row of space.current!.children as HTMLCollectionOf<HTMLElement>) {
        const i = Number(row.dataset.index);
        const d = h.set(i, row.offsetHeight);
        if (d !== 0) { changed = true; if (i < anchor) by += d; }
      }
      if (changed) redraw();
    }
    if (by !== 0) el.scrollTop += by;
    if (p.follow) el.scrollTop = el.scrollHeight;
    notify();
  });

  const notify = () => {
    const el = box.current;
    if (!el) return;
    const fromEnd = el.scrollHeight - el.scrollTop - el.clientHeight;
    p.onScroll?.(el.scrollTop, fromEnd);
    if (fromEnd < el.clientHeight * 1.5 && p.items.length > 0) p.onNearEnd?.();
  };

  useEffect(() => {
    const watch = new ResizeObserver(() => { if (p.measured) h.reset(p.height); redraw(); });
    watch.observe(box.current!);
    return () => { watch.disconnect(); cancelAnimationFrame(frame.current); };
  }, [p.measured, p.height]);

  const reveal = (i: number) => {
    const el = box.current!;
    const top = h.top(i) + (space.current?.offsetTop ?? 0);
    if (top < el.scrollTop + PAD) el.scrollTop = top - PAD;
    else if (top + h.height(i) > el.scrollTop + el.clientHeight - PAD) el.scrollTop = top + h.height(i) - el.clientHeight + PAD;
  };

  const move = (to: number) => {
    const i = Math.max(0, Math.min(p.items.length - 1, to));
    if (p.items.length === 0) return;
    p.onActive(i);
    reveal(i);
  };

  const onKey = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, Math.floor(view / p.height) - 1);
    const at = p.active < 0 ? h.at(scrollTop - offset) - 1 : p.active;
    const to = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: p.items.length - 1 }[e.key];
    if (to !== undefined) move(to);
    else if ((e.key === 'Enter' || e.key === 'e' || e.key === ' ') && p.active >= 0) p.onOpen(p.active);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const rows: JSX.Element[] = [];
  for (let i = first; i < last; i++) {
    const item = p.items[i]!;
    rows.push(
      <div key={p.keyOf(item)} id={`row-${p.keyOf(item)}`} data-index={i} role="option" aria-selected={i === p.active}
        aria-posinset={i + 1} aria-setsize={p.items.length}
        class={`row ${i === p.active ? 'active' : ''} ${p.rowClass?.(item) ?? ''}`} style={{ transform: `translateY(${h.top(i)}px)` }}
        onClick={() => { if (!getSelection()?.toString()) { p.onActive(i); p.onOpen(i); } }}>
        <Content item={item} row={p.row as (item: unknown) => JSX.Element} />
      </div>);
  }
  const active = p.items[p.active];
  return (
    <div class={`list ${p.measured ? 'wrapped' : ''}`} ref={box} tabIndex={-1}
      onScroll={() => {
        // Told at once: a reader who scrolls away from the end must not be pulled back by the next frame.
        notify();
        cancelAnimationFrame(frame.current);
        frame.current = requestAnimationFrame(() => redraw());
      }}>
      {p.top}
      <div class="list-space" ref={space} role="listbox" tabIndex={0} aria-label={p.label} onKeyDown={onKey}
        {...(active && p.active >= first && p.active < last ? { 'aria-activedescendant': `row-${p.keyOf(active)}` } : {})}
        style={{ height: `${h.total}px` }}>
        {rows}
      </div>
      {p.bottom}
    </div>
  );
}
