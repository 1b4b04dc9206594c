// One line in the list: level, time, text or columns. Drawing costs the same for long lines as for
// short ones: a line is cut in view, and the row says how long it is and where the match lies.

import type { JSX } from 'preact';
import { findMatches, type Finder } from '../logql/matches';
import { fieldsOf } from '../text/fields';
import { CUT } from '../text/pieces';
import { byteLength, bytes, count } from '../text/size';
import { wall } from '../time/zone';
import { LineText } from '../parts/line-text';
import { lineLevel, type Level, type Line } from '../data/types';

export const SHORT: Record<Level, string> = { critical: 'crit', error: 'error', warn: 'warn', info: 'info', debug: 'debug', trace: 'trace', unknown: '–' };

/** The value of a column, wherever in the line it comes from. */
export function columnValue(l: Line, name: string): string {
  return l.parsed[name] ?? l.meta[name] ?? l.stream[name] ?? fieldsOf(l.line).find((f) => f.name === name)?.value ?? '';
}

function Cut({ l, finder }: { l: Line; finder: Finder }): JSX.Element {
  const matches = findMatches(l.line, finder);
  if (l.line.length <= CUT) return <LineText line={l.line} matches={matches} />;
  const beyond = matches.find((m) => m.end > CUT);
  return (
    <>
      <span class="cut-note">{bytes(byteLength(l.line))}, cut{beyond ? ` · match at ${count(beyond.start)}` : ''} · open to show all</span>
      <LineText line={l.line} matches={matches} length={CUT} />
    </>
  );
}

interface Props { l: Line; finder: Finder; zone: string; cols: readonly string[]; day: boolean }

export function LogRow({ l, finder, zone, cols, day }: Props): JSX.Element {
  const w = wall(l.ts, zone);
  const level = lineLevel(l);
  return (
    <>
      <span class={`level-bar level-${level}`} />
      <time class="row-time">{day && <span class="row-date">{w.date.slice(5)} </span>}{w.time}<span class="row-ms">.{w.ms}</span></time>
      <span class={`row-level level-text-${level}`}>{SHORT[level]}</span>
      {cols.length === 0
        ? <span class="row-text"><Cut l={l} finder={finder} /></span>
        : <span class="row-cells">{cols.map((c) => <span class="cell" key={c}><LineText line={c === 'line' ? l.line : columnValue(l, c)} matches={[]} length={400} /></span>)}</span>}
    </>
  );
}
