// Templates of a service's lines, how often they came, and searching with or without them.

import type { JSX } from 'preact';
import { patterns } from '../api';
import { levelOf } from '../data/types';
import { addStage, selectorOf } from '../logql/edit';
import { quote } from '../logql/quote';
import { split } from '../logql/split';
import { unquote } from '../logql/quote';
import { Button } from '../parts/button';
import { Notice, Problem } from '../parts/notice';
import { Sparkline } from '../parts/sparkline';
import { useLoad } from '../parts/use-load';
import { go, state } from '../route';
import { visible } from '../text/pieces';
import { count, plural } from '../text/size';
import { bucketSeconds } from '../time/range';
import { exploreRange, serviceSelector } from './explore';

const MOST = 200;
const POINTS = 40;

/** Patterns that the query leaves out already. */
function excluded(query: string): Set<string> {
  const out = new Set<string>();
  for (const s of split(query)?.stages ?? []) {
    if (s.kind === 'line' && s.tokens[0]?.text === '!>') for (const t of s.tokens) if (t.type === 'string') out.add(unquote(t.text) ?? '');
  }
  return out;
}

/** The query goes on collecting filters while it is about this service. */
const base = (name: string): string => {
  const { q } = state.value;
  const selector = serviceSelector(name);
  return selectorOf(q) === selector && split(q) ? q : selector;
};

export function PatternList({ name }: { name: string }): JSX.Element {
  const s = state.value;
  const list = useLoad(async (signal) => {
    const r = exploreRange();
    if (!r) throw new Error('The range of time is not clear.');
    const step = Math.max(10, Math.ceil(bucketSeconds(r, POINTS) / 10) * 10);
    const found = await patterns(serviceSelector(name), r, step, signal);
    const start = Math.floor(Number(BigInt(r.from) / 1_000_000_000n) / step);
    const n = Math.ceil(Number((BigInt(r.to) - BigInt(r.from)) / 1_000_000_000n) / step) + 1;
    return found.map((p) => {
      const points = new Array<number>(n).fill(0);
      let sum = 0;
      for (const [t, v] of p.samples) { sum += v; const i = Math.floor(t / step) - start; if (i >= 0 && i < n) points[i]! += v; }
      return { pattern: p.pattern, level: levelOf(p.level), points, sum };
    }).sort((a, b) => b.sum - a.sum);
  }, [name, s.from, s.to, s.tz, s.tenant]);
  if (list.error) return <Problem error={list.error} retry={list.reload} />;
  if (!list.data) return <div class="cards skeleton" aria-busy="true">{Array.from({ length: 6 }, (_, i) => <div class="card-row" key={i}>&nbsp;</div>)}</div>;
  if (list.data.length === 0) return <Notice title="No patterns"><p>There are too few lines in this range to find templates.</p></Notice>;
  const out = excluded(base(name));
  const shown = list.data.filter((p) => !out.has(p.pattern)).slice(0, MOST);
  const search = (op: string, pattern: string) => {
    const q = addStage(base(name), `${op} ${quote(pattern)}`);
    if (q) go({ view: 'search', q, line: '', mode: 'lines' });
  };
  return (
    <>
      <p class="muted strip">{plural(shown.length, 'pattern')}{list.data.length - shown.length > 0 ? `, ${list.data.length - shown.length} not shown` : ''}. <code>&lt;_&gt;</code> stands for what differs.</p>
      <ul class="cards patterns">
        {shown.map((p) => (
          <li class="pattern" key={p.pattern + p.level}>
            <span class={`level-bar level-${p.level}`} /><span class="pattern-count"><b>{count(p.sum)}</b> <span class={`level-text-${p.level}`}>{p.level === 'unknown' ? '' : p.level}</span></span>
            <Sparkline values={p.points} />
            <code class="pattern-text">{visible(p.pattern)}</code>
            <span class="pattern-actions">
              <Button kind="quiet" icon="plus" label="Search" onClick={() => search('|>', p.pattern)} />
              <Button kind="quiet" icon="minus" label="Exclude" onClick={() => search('!>', p.pattern)} />
            </span>
          </li>))}
      </ul>
    </>
  );
}
