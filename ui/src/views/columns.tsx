// The head of the table: order, sorting and removal of columns. The order is in the address.

import type { JSX } from 'preact';
import { signal } from '@preact/signals';
import type { Line } from '../data/types';
import { columnValue } from '../list/log-row';
import { Button } from '../parts/button';
import { Popover } from '../parts/popover';
import { go, state } from '../route';
import { visible } from '../text/pieces';

/** Sorting is of the lines that are loaded; null is the order of the search. */
export const sortBy = signal<{ column: string; down: boolean } | null>(null);

function toggle(column: string): void {
  const s = sortBy.value;
  sortBy.value = s?.column !== column ? { column, down: false } : s.down ? null : { column, down: true };
}

function Sorter({ column, name }: { column: string; name: string }): JSX.Element {
  const s = sortBy.value?.column === column ? sortBy.value : null;
  return (
    <button type="button" class="head-name" title="Sort the lines that are loaded" onClick={() => toggle(column)}
      aria-label={`${name}: ${s ? (s.down ? 'sorted downwards' : 'sorted upwards') : 'sort'}`}>
      <bdi>{name}</bdi>{s && <span aria-hidden="true">{s.down ? ' ↓' : ' ↑'}</span>}
    </button>
  );
}

/** Shares of the width by what the first lines hold: a status of three digits takes less room than a text. */
export function columnShares(lines: readonly Line[], cols: readonly string[]): string {
  return cols.map((c) => {
    // The name of a column and its two buttons are to be seen in any case.
    let most = c.length + 6;
    for (const l of lines.slice(0, 50)) most = Math.max(most, (c === 'line' ? l.line : columnValue(l, c)).length);
    return `minmax(0, ${Math.min(most, 80)}fr)`;
  }).join(' ');
}

export function ColumnHead({ cols, day }: { cols: readonly string[]; day: boolean }): JSX.Element {
  const move = (i: number, by: number) => {
    const next = [...cols];
    const [c] = next.splice(i, 1);
    next.splice(i + by, 0, c!);
    go({ cols: next }, true);
  };
  const drop = (i: number) => { const next = cols.filter((_, k) => k !== i); go({ cols: next, mode: next.length ? 'table' : 'lines' }, true); };
  return (
    <div class="column-head">
      <span class={`row-time ${day ? 'with-day' : ''}`}><Sorter column="time" name="Time" /></span>
      <span class="row-level" aria-hidden="true"><b>Level</b></span>
      <span class="row-cells">
        {cols.map((c, i) => (
          <span class="cell head" key={c}>
            <Sorter column={c} name={visible(c)} />
            <Popover label={`Column ${visible(c)}`} icon="chevron" align={i > cols.length / 2 ? 'end' : 'start'}>
              {(close) => (
                <div class="menu">
                  <Button kind="quiet" icon="left" label="Move left" disabled={i === 0} onClick={() => { move(i, -1); close(); }} />
                  <Button kind="quiet" icon="right" label="Move right" disabled={i === cols.length - 1} onClick={() => { move(i, 1); close(); }} />
                  <Button kind="quiet" icon="close" label="Remove" onClick={() => drop(i)} />
                </div>)}
            </Popover>
          </span>))}
      </span>
      <AddColumn />
    </div>
  );
}

function AddColumn(): JSX.Element {
  const s = state.value;
  return (
    <Popover label="Add a column" icon="plus" align="end" class="add-column">
      {(close) => (
        <form class="stack" onSubmit={(e) => {
          e.preventDefault();
          const name = String(new FormData(e.currentTarget as HTMLFormElement).get('name') ?? '').trim();
          if (name && !s.cols.includes(name)) go({ cols: [...s.cols, name] }, true);
          close();
        }}>
          <label>Label, metadata or field <input data-first type="text" name="name" autocomplete="off" spellcheck={false} placeholder="line" /></label>
          <button type="submit" class="button primary">Add column</button>
        </form>)}
    </Popover>
  );
}
